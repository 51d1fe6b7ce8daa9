package prober_test

import (
	"context"
	"math"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/simserver"
)

// bench is a clean simulated SGLang server with a runner.
type bench struct {
	sim    *simserver.Server
	client *http.Client
	runner *prober.Runner
}

// onBench calls do with a server whose load is seen through see.
func onBench(t *testing.T, see func(prober.LoadReader) prober.LoadReader, do func(t *testing.T, b bench)) {
	synctest.Test(t, func(t *testing.T) {
		sim, target := simulated(t, simserver.Config{Shape: "sglang", Profile: profile(t, "fast-8b"), Seed: 1})
		target.Ladder, target.AllowEviction = []prober.Rung{4096}, true
		do(t, bench{sim, prober.ClientOf(target), prober.RunnerOf(t, target, func(target prober.Target, f inference.Facts) (prober.LoadReader, error) {
			r, err := servermetrics.New(target, f)
			if err != nil || see == nil {
				return r, err
			}
			return see(r), nil
		})})
	})
}

// restartingReader shows counters that begin anew, or, where it flaps, those of two replicas by turns.
type restartingReader struct {
	prober.LoadReader
	mu       sync.Mutex
	restart  bool
	flap     bool
	readings int
	base     *prober.Load
}

func (r *restartingReader) ReadLoad(ctx context.Context) (prober.Load, error) {
	l, err := r.LoadReader.ReadLoad(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.readings++; err != nil || !r.restart || r.flap && r.readings%2 == 0 {
		return l, err
	}
	if r.base == nil {
		base := l
		r.base = &base
	}
	less := func(now, before *float64) *float64 {
		if now == nil || before == nil {
			return now
		}
		v := *now - *before
		return &v
	}
	l.PromptTokens, l.ComputedTokens = less(l.PromptTokens, r.base.PromptTokens), less(l.ComputedTokens, r.base.ComputedTokens)
	l.GeneratedTokens, l.ForwardTokens = less(l.GeneratedTokens, r.base.GeneratedTokens), less(l.ForwardTokens, r.base.ForwardTokens)
	l.Steps, l.FinishedRequests = less(l.Steps, r.base.Steps), less(l.FinishedRequests, r.base.FinishedRequests)
	return l, nil
}

// TestRestartWithinRun: a run within which the server began anew is no measurement, and counters that two replicas show by turns
// are no restart.
func TestRestartWithinRun(t *testing.T) {
	for name, c := range map[string]struct {
		flap      bool
		status    prober.Status
		reason    prober.Reason
		isolation prober.Isolation
	}{
		"restart":          {false, prober.Rejected, prober.ColdStart, prober.NotKnown},
		"replicas by turn": {true, prober.Accepted, "", prober.NotKnown},
	} {
		t.Run(name, func(t *testing.T) {
			reader := &restartingReader{flap: c.flap}
			onBench(t, func(r prober.LoadReader) prober.LoadReader { reader.LoadReader = r; return reader }, func(t *testing.T, b bench) {
				if run := b.runner.Run(t.Context(), 4096, nil); run.Sample.Isolation != prober.Proved {
					t.Fatalf("before: %s %s %s, %s", run.Status, run.Reason, run.Message, run.Sample.Isolation)
				}
				time.Sleep(time.Minute)
				run := b.runner.Run(t.Context(), 4096, func(p prober.Progress) {
					reader.mu.Lock()
					defer reader.mu.Unlock()
					reader.restart = p.Kind == "warm"
				})
				if run.Status != c.status || run.Reason != c.reason || run.Sample.Isolation != c.isolation {
					t.Errorf("%s %s %s (%s)", run.Status, run.Reason, run.Sample.Isolation, run.Message)
				}
			})
		})
	}
}

// TestContendedRunTellsWhatItFelt: beside somebody who leaves too soon for the run to make way, TTFT and step are those that our
// legs had.
func TestContendedRunTellsWhatItFelt(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b bench) {
		alone := b.runner.Run(t.Context(), 4096, nil)
		if alone.Status != prober.Accepted || alone.Contended != nil {
			t.Fatalf("alone: %s %s %s, %+v", alone.Status, alone.Reason, alone.Message, alone.Contended)
		}
		time.Sleep(time.Minute)
		v := &visitor{client: b.client}
		ctx, leave := context.WithCancel(t.Context())
		var visit sync.WaitGroup
		var come sync.Once
		var sent []string
		before := len(b.sim.Truth())
		run := b.runner.Run(t.Context(), 4096, func(p prober.Progress) {
			come.Do(func() { visit.Go(func() { v.come(ctx, 3000, 5000, 1200*time.Millisecond) }) })
			if p.Ended {
				sent = append(sent, p.Kind)
			}
		})
		if run.Reason != prober.Contended || run.Contended == nil || run.Sample.Step != 0 {
			t.Fatalf("%s %s %s: felt %+v, step %v", run.Status, run.Reason, run.Message, run.Contended, run.Sample.Step)
		}
		legs := legTruth(b.sim.Truth()[before:], sent)
		leave()
		visit.Wait()
		ttft, step := feltTruth(run, legs)
		felt := *run.Contended
		if math.Abs(felt.TTFT/ttft-1) > 0.02 || step > 0 && math.Abs(felt.Step/step-1) > 0.02 {
			t.Errorf("felt %+v, true are TTFT %.4f and step %.4f", felt, ttft, step)
		}
	})
}

// feltTruth is the mean time to the first token of cold legs, and the mean step of long ones.
func feltTruth(run prober.Run, legs []simserver.TruthRequest) (ttft, step float64) {
	colds, steps := 0, 0
	for i, r := range legs {
		if run.Legs[i].Kind == "cold" {
			ttft += r.QueueSeconds + r.PrefillSeconds
			colds++
		}
		if run.Legs[i].MaxTokens > 1 {
			for _, s := range r.StepSeconds {
				step += s
				steps++
			}
		}
	}
	return ttft / float64(colds), step / math.Max(1, float64(steps))
}
