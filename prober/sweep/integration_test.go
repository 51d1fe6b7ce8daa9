package sweep_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/simserver"
	"longctx_exporter/prober/sweep"
)

// result is the JSON of a sweep as a stranger reads it.
type result struct {
	Target struct {
		Dialect, Model string
		Speculation    string
		ContextLimit   int `json:"context_limit"`
	}
	Rungs []struct {
		Context                   int
		Status, Reason, Isolation string
		Plan                      string
		PromptTokens              int     `json:"prompt_tokens"`
		Step                      float64 `json:"step_seconds"`
		Prefill                   float64 `json:"prefill_tokens_per_second"`
		AcceptLength              float64 `json:"accept_length"`
		Rate                      float64 `json:"decode_tokens_per_second"`
		Legs                      []struct{}
	}
	Fit *struct {
		Intercept float64 `json:"intercept_seconds"`
		Slope     float64 `json:"slope_seconds_per_token"`
		Rungs     int
	}
}

// against runs a sweep beside a simulated server in virtual time.
func against(t *testing.T, c simserver.Config, o sweep.Options, cancelAfter time.Duration) (code int, stdout, stderr string, truth []simserver.TruthRequest) {
	t.Helper()
	sim, err := simserver.New(c)
	if err != nil {
		t.Fatal(err)
	}
	listener := simserver.NewPipeListener()
	server := &http.Server{Handler: sim.Handler()}
	go func() { _ = server.Serve(listener) }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if cancelAfter > 0 {
		defer time.AfterFunc(cancelAfter, cancel).Stop()
	}
	var out, notes bytes.Buffer
	o.Stdout, o.Stderr = &out, &notes
	o.Target.URL, o.Target.Dial = "http://server.invalid", listener.Dial
	o.Target.Dialect, o.Target.API, o.Target.Plan, o.Target.Precision = inference.Auto, inference.AutoAPI, prober.AutoPlan, 0.03
	o.LoadReader = servermetrics.New
	code = sweep.Run(ctx, o)
	time.Sleep(time.Minute) // an abandoned request ends with the chunk of prefill that is going on
	truth = sim.Truth()
	_ = server.Close()
	_ = listener.Close()
	sim.Close()
	synctest.Wait()
	return code, out.String(), notes.String(), truth
}

// trueStep is the mean of the verify passes of the long warm legs, trueAccept what they committed, truePrefill the rate of
// the cold ones.
func trueValues(truth []simserver.TruthRequest, context int) (step, accept, prefill float64) {
	var seconds, passes, tokens, computed, prefilling float64
	for _, r := range truth {
		switch {
		case r.PromptTokens != context:
		case r.CachedTokens > 0 && r.CompletionTokens > 1:
			for i, s := range r.StepSeconds {
				seconds, passes, tokens = seconds+s, passes+1, tokens+float64(r.Accepted[i])
			}
		case r.CachedTokens == 0 && r.CompletionTokens == 1:
			computed, prefilling = computed+float64(r.RecomputedTokens), prefilling+r.PrefillSeconds
		}
	}
	return seconds / passes, tokens / passes, computed / prefilling
}

func within(t *testing.T, what string, got, want float64) {
	t.Helper()
	off := got/want - 1
	t.Logf("%s: %.6g, truth %.6g, %+.2f %%", what, got, want, 100*off)
	if math.IsNaN(off) || math.Abs(off) > 0.02 {
		t.Errorf("%s is %.6g, the truth is %.6g", what, got, want)
	}
}

func TestSweepAgreesWithTheTruth(t *testing.T) {
	for _, shape := range []string{"sglang", "vllm"} {
		t.Run(shape, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				profile, err := simserver.ProfileByName("kimi-k2.6-ddtree")
				if err != nil {
					t.Fatal(err)
				}
				ladder := []prober.Rung{1024, 4096, 16384}
				code, stdout, stderr, truth := against(t, simserver.Config{
					Shape: shape, Profile: profile, Seed: 7, Options: simserver.Options{CacheReport: true, SpecMetrics: true},
				}, sweep.Options{Target: prober.Target{Name: "sim", Ladder: ladder}, Output: "json"}, 0)
				if code != 0 || stderr != "" {
					t.Fatalf("exit %d, stderr %q, stdout %s", code, stderr, stdout)
				}
				var got result
				if err := json.Unmarshal([]byte(stdout), &got); err != nil {
					t.Fatal(err)
				}
				if got.Target.Dialect != shape || got.Target.Model != profile.Model || got.Target.ContextLimit != profile.ContextLimit {
					t.Errorf("target %+v", got.Target)
				}
				if len(got.Rungs) != len(ladder) || got.Fit == nil || got.Fit.Rungs != len(ladder) {
					t.Fatalf("%d rungs, fit %+v", len(got.Rungs), got.Fit)
				}
				for i, r := range got.Rungs {
					if r.Context != int(ladder[i]) || r.PromptTokens != r.Context || r.Status != "accepted" || r.Reason != "" || len(r.Legs) < 3 {
						t.Errorf("rung %+v", r)
					}
					name := ladder[i].String()
					step, accept, prefill := trueValues(truth, r.Context)
					within(t, name+" step", r.Step, step)
					within(t, name+" accept length", r.AcceptLength, accept)
					within(t, name+" prefill", r.Prefill, prefill)
					within(t, name+" decode rate", r.Rate, accept/step)
				}
				last := ladder[len(ladder)-1]
				step, _, _ := trueValues(truth, int(last))
				within(t, "fit at "+last.String(), got.Fit.Intercept+got.Fit.Slope*float64(last), step)
			})
		})
	}
}

func TestInterruptEndsTheRequestOnTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// 64k take about 50 s to prefill.
		code, stdout, _, truth := against(t, simserver.Config{Shape: "sglang"}, sweep.Options{
			Target: prober.Target{Name: "sim", Ladder: []prober.Rung{65536, 131072}}, Output: "table",
		}, 20*time.Second)
		if code != 2 {
			t.Errorf("exit %d", code)
		}
		if !strings.Contains(stdout, "64k: rejected, interrupted: ") || !strings.Contains(stdout, "128k: skipped, shutting_down: ") {
			t.Errorf("stdout:\n%s", stdout)
		}
		if last := truth[len(truth)-1]; !last.Aborted || last.PromptTokens != 65536 || last.TotalSeconds > 30 {
			t.Errorf("the server's last request is %+v", last)
		}
	})
}

func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := simserver.NewPipeListener()
		_ = listener.Close()
		var stdout, stderr bytes.Buffer
		code := sweep.Run(t.Context(), sweep.Options{
			Target: prober.Target{Name: "sim", URL: "http://server.invalid", Ladder: []prober.Rung{1024}, Dial: listener.Dial},
			Stdout: &stdout, Stderr: &stderr,
		})
		if code != 1 || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), "identifying the server at http://server.invalid: connect: ") {
			t.Errorf("exit %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
		}
	})
}

func TestKeyIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		code, stdout, stderr, _ := against(t, simserver.Config{Shape: "sglang", APIKey: "secret"}, sweep.Options{
			Target: prober.Target{Name: "sim", Ladder: []prober.Rung{1024, 4096}}, Output: "json",
		}, 0)
		if code != 1 || !strings.Contains(stderr, "auth: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
		}
	})
}
