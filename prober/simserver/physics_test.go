package simserver

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"
)

// The default profile reproduces the system it is named after.
func TestCalibration(t *testing.T) {
	kimi, fast := profile(t, ""), profile(t, "fast-8b")
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"prefill of 60,010 tokens", kimi.PrefillSeconds(60_010), 46},
		{"prefill of 196,608 tokens", kimi.PrefillSeconds(196_608), 260},
		{"step at 5.5k", kimi.StepSeconds(5_630), 0.144},
		{"step at 192k", kimi.StepSeconds(196_608), 3.0},
		{"short acceptance", kimi.AcceptMean(0), 3.9},
		{"long acceptance", kimi.AcceptMean(196_608), 2.2},
		{"fast step", fast.StepSeconds(0), 0.012},
		{"fast step at 192k", fast.StepSeconds(196_608), 0.030},
		{"fast prefill at 192k", fast.PrefillSeconds(196_608), 28},
	} {
		near(t, c.what, c.got, c.want, 0.005)
	}
}

func TestPrefillTakesItsTime(t *testing.T) {
	for _, scale := range []float64{1, 100} {
		inBubble(t, Config{Shape: "sglang", TimeScale: scale}, func(r *rig) {
			start := time.Now()
			a := r.post("/generate", native(prompt(60_010, 1), 1, true))
			if a.err != nil || len(a.events) != 2 {
				t.Fatalf("%+v", a)
			}
			near(t, "time to first token", a.at[0].Sub(start).Seconds(), 46/scale, 0.04)
			truth := r.lastTruth()
			near(t, "truth", truth.PrefillSeconds, a.at[0].Sub(start).Seconds(), 1e-6)
			if truth.PromptTokens != 60_010 || truth.RecomputedTokens != 60_010 || len(truth.StepSeconds) != 0 {
				t.Errorf("%+v", truth)
			}
		})
	}
}

// Steps take a + b·L, the first half as long again, and the client's watch agrees with the truth.
func TestStepsTakeTheirTime(t *testing.T) {
	p := profile(t, "")
	inBubble(t, Config{Shape: "sglang", Seed: 7}, func(r *rig) {
		a := r.post("/generate", native(prompt(5_500, 1), 400, true))
		truth := r.lastTruth()
		if len(a.at) != len(truth.StepSeconds)+2 { // the first token, steps, [DONE]
			t.Fatalf("%d events for %d steps", len(a.at), len(truth.StepSeconds))
		}
		length, sum, expected := 5_501, 0.0, 0.0
		for i, s := range truth.StepSeconds {
			near(t, "gap", a.at[i+1].Sub(a.at[i]).Seconds(), s, 1e-6)
			want := p.StepSeconds(length)
			if i == 0 {
				want *= 1.5
			}
			near(t, "step", s, want, 0.21)
			sum, expected = sum+s, expected+want
			length += truth.Accepted[i]
		}
		near(t, "all steps", sum, expected, 3*0.05/math.Sqrt(float64(len(truth.StepSeconds))))
	})
}

// Over many steps the mean lies within three standard errors of the law, and the histogram fits it.
func TestAcceptanceFollowsItsLaw(t *testing.T) {
	p := profile(t, "")
	p.AcceptRange = 0 // one law at every length
	inBubble(t, Config{Shape: "sglang", Profile: p, Seed: 3}, func(r *rig) {
		counts, n := make([]float64, p.BlockSize()), 0.0
		for i := range int32(4) {
			r.post("/generate", native(prompt(1000, i), 8000, false))
			for _, a := range r.lastTruth().Accepted {
				counts[a-1]++
				n++
			}
		}
		law, chi, mean, square := p.AcceptLaw(1000), 0.0, 0.0, 0.0
		for i, w := range law {
			chi += (counts[i] - n*w) * (counts[i] - n*w) / (n * w)
			mean += float64(i+1) * counts[i] / n
			square += float64((i+1)*(i+1)) * w
		}
		if n < 5000 || chi > 37.7 { // 0.1 % of 15 degrees of freedom
			t.Errorf("chi square %v over %v steps: %v", chi, n, counts)
		}
		want := p.AcceptMean(1000)
		if e := 3 * math.Sqrt((square-want*want)/n); math.Abs(mean-want) > e {
			t.Errorf("mean %v, want %v within %v", mean, want, e)
		}
	})
}

func TestDenseCommitsOneToken(t *testing.T) {
	inBubble(t, Config{Shape: "sglang", Profile: profile(t, "dense-nospec")}, func(r *rig) {
		a := r.post("/generate", native(prompt(2000, 1), 21, true))
		truth := r.lastTruth()
		if len(truth.StepSeconds) != 20 || truth.CompletionTokens != 21 || len(a.events) != 22 {
			t.Errorf("%d steps, %d tokens, %d events", len(truth.StepSeconds), truth.CompletionTokens, len(a.events))
		}
		if meta := a.json(t, -2)["meta_info"].(map[string]any); meta["spec_verify_ct"] != nil {
			t.Errorf("speculation is told where there is none: %v", meta)
		}
	})
}

// Two requests that run together slow each other down, and a long prefill delays another's steps.
func TestContentionSlows(t *testing.T) {
	p := noiseless(profile(t, ""))
	inBubble(t, Config{Shape: "sglang", Profile: p}, func(r *rig) {
		done := make(chan answer)
		go func() { done <- r.post("/generate", native(prompt(20_000, 1), 200, true)) }()
		time.Sleep(20 * time.Second)
		go func() { done <- r.post("/generate", native(prompt(40_000, 2), 50, true)) }()
		<-done
		<-done
		truths := r.server.Truth()
		slices.SortFunc(truths, func(a, b TruthRequest) int { return cmp.Compare(a.Received, b.Received) })
		alone, together := p.StepSeconds(20_100), p.StepSeconds(60_100)
		slow := 0
		for _, s := range truths[0].StepSeconds {
			if s > (alone+together)/2 {
				slow++
			}
		}
		if slow < 5 {
			t.Errorf("only %d steps felt the other request: %v", slow, truths[0].StepSeconds)
		}
		if q := truths[1].PrefillSeconds; q < p.PrefillSeconds(40_000)*1.02 {
			t.Errorf("a prefill beside another's steps took %v s, alone it takes %v", q, p.PrefillSeconds(40_000))
		}
	})
}

// Drift makes steps grow with the age of the server, and slow modes take whole requests.
func TestDriftAndSlowModes(t *testing.T) {
	drifting, slow := noiseless(profile(t, "")), noiseless(profile(t, ""))
	drifting.DriftPerHour = 0.2
	slow.SlowShare, slow.SlowFactor = 0.5, 2
	mean := func(q TruthRequest) float64 {
		sum := 0.0
		for _, s := range q.StepSeconds {
			sum += s
		}
		return sum / float64(len(q.StepSeconds))
	}
	inBubble(t, Config{Shape: "sglang", Profile: drifting}, func(r *rig) {
		r.post("/generate", native(prompt(2000, 1), 60, false))
		fresh := mean(r.lastTruth())
		time.Sleep(5 * time.Hour)
		r.post("/generate", native(prompt(2000, 2), 60, false))
		near(t, "drift over five hours", mean(r.lastTruth())/fresh, 2, 0.02)
	})
	inBubble(t, Config{Shape: "sglang", Profile: slow}, func(r *rig) {
		modes := map[bool]int{}
		for i := range int32(40) {
			r.post("/generate", native(prompt(2000, i), 10, false))
			modes[mean(r.lastTruth()) > 1.5*slow.StepSeconds(2000)]++
		}
		if modes[true] < 10 || modes[false] < 10 {
			t.Errorf("slow %d, fast %d", modes[true], modes[false])
		}
	})
}
