package prober

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/simserver"
)

// onServer runs a rung, or several, against a server of the given configuration whose answers pass through change.
func onServer(t *testing.T, c simserver.Config, target Target, change func(http.Handler) http.Handler, rungs ...Rung) (runs []Run, kinds []string) {
	t.Helper()
	target.Ladder = rungs
	withRunner(t, c, target, change, func(t *testing.T, runner *Runner) {
		for _, r := range rungs {
			runs = append(runs, runner.Run(t.Context(), r, func(p Progress) {
				if p.Ended {
					kinds = append(kinds, fmt.Sprintf("%s %d", p.Kind, p.MaxTokens))
				}
			}))
		}
	})
	return runs, kinds
}

// withRunner lets a runner loose on a simulated server that change, where set, stands before.
func withRunner(t *testing.T, c simserver.Config, target Target, change func(http.Handler) http.Handler, do func(*testing.T, *Runner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c.Seed = 3
		handler := Simulated(t, c).Handler()
		if change != nil {
			handler = change(handler)
		}
		piped := Piped(t, handler)
		target.Name, target.URL, target.Precision, target.Dial = piped.Name, piped.URL, piped.Precision, piped.Dial
		if target.Plan == "" {
			target.Plan = AutoPlan
		}
		do(t, RunnerOf(t, target, nil))
	})
}

// usage answers each completion with one chunk of text and the given usage.
func usage(text string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/completions") {
				next.ServeHTTP(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			time.Sleep(100 * time.Millisecond)
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, `data: {"choices":[{"index":0,"text":" a","finish_reason":"length"}]%s}`+"\n\ndata: [DONE]\n\n", text)
		})
	}
}

func TestCountsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		usage  string
		status Status
		reason Reason
	}{
		"no usage":         {"", Rejected, NoUsage},
		"far too few":      {`,"usage":{"prompt_tokens":22,"completion_tokens":1}`, Failed, Reason(inference.Truncated)},
		"cut to a half":    {`,"usage":{"prompt_tokens":2050,"completion_tokens":1}`, Failed, Reason(inference.Truncated)},
		"a third too many": {`,"usage":{"prompt_tokens":5500,"completion_tokens":1}`, Rejected, PromptMismatch},
		"no token":         {`,"usage":{"prompt_tokens":4096,"completion_tokens":0}`, Rejected, ShortOutput},
	} {
		t.Run(name, func(t *testing.T) {
			runs, _ := onServer(t, simserver.Config{Shape: "vllm"}, Target{Dialect: inference.VLLM, API: inference.Completions}, usage(c.usage), 4096)
			if r := runs[0]; r.Status != c.status || r.Reason != c.reason || r.Sample.Step != 0 || r.Sample.DecodeRate != 0 {
				t.Errorf("%s %s: %s, %+v", r.Status, r.Reason, r.Message, r.Sample)
			}
		})
	}
}

func TestARunBeginsWithARequestThatIsNotMeasured(t *testing.T) {
	_, kinds := onServer(t, simserver.Config{Shape: "sglang"}, Target{}, nil, 1024)
	if len(kinds) == 0 || kinds[0] != "pre-roll 16" {
		t.Errorf("sent %v", kinds)
	}
}

func TestServerThatHangsOnOneToken(t *testing.T) {
	runs, kinds := onServer(t, simserver.Config{Shape: "sglang", Faults: simserver.Faults{HangOnMaxTokens1: true}}, Target{}, nil, 1024, 2048)
	if runs[0].Reason != Reason(inference.Timeout) || runs[1].Status != Accepted {
		t.Errorf("%s %s, then %s %s: %s; sent %v", runs[0].Status, runs[0].Reason, runs[1].Status, runs[1].Reason, runs[1].Message, kinds)
	}
	if !slices.Contains(kinds, "warm 2") {
		t.Errorf("the short legs did not become 2: %v", kinds)
	}
}

func TestRungsBeyondTheLimitAreSkippedAndTheOthersGoOn(t *testing.T) {
	profile, _ := simserver.ProfileByName("")
	profile.ContextLimit, profile.PoolTokens = 8192, 8192
	runs, _ := onServer(t, simserver.Config{Shape: "vllm", Profile: profile}, Target{}, nil, 4096, 16384, 4096)
	if runs[0].Status != Accepted || runs[1].Reason != ExceedsContext || len(runs[1].Legs) > 0 || runs[2].Status != Accepted {
		t.Errorf("%s, %s %s, %s", runs[0].Status, runs[1].Status, runs[1].Reason, runs[2].Status)
	}
}

func TestServerThatTurnsOutToOfferChatOnly(t *testing.T) {
	chat := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/completions" {
				_, _ = io.Copy(io.Discard, r.Body)
				http.NotFound(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	runs, _ := onServer(t, simserver.Config{Shape: "vllm"}, Target{}, chat, 1024)
	if runs[0].Status != Accepted {
		t.Errorf("%s %s: %s", runs[0].Status, runs[0].Reason, runs[0].Message)
	}
}

func TestSourcesOfStepsThatContradictEachOther(t *testing.T) {
	one, steps := 1, 10
	short := Leg{Response: inference.Response{CompletionTokens: &one}}
	long := Leg{Response: inference.Response{
		Streamed: true, CompletionTokens: new(21), Spec: &inference.Spec{Steps: steps, Drafts: 10},
	}}
	for i := range 21 { // as the stream shows it, each step gave one token
		long.Response.Chunks = append(long.Response.Chunks, inference.Chunk{At: time.Duration(i+1) * 100 * time.Millisecond, Tokens: 1})
	}
	e := &execution{Runner: &Runner{}}
	if err := e.checkSources([]pairLegs{{short, long}}, "response"); reasonOf(err) != Inconsistent {
		t.Errorf("10 steps by the answer, 20 by the stream: %v", err)
	}
	long.Response.Spec = &inference.Spec{Steps: 20, Drafts: 0}
	if err := e.checkSources([]pairLegs{{short, long}}, "response"); err != nil {
		t.Error(err)
	}
}

func TestCanary(t *testing.T) {
	quiet := canary{ttft: 0.5, pace: 0.075}
	songs := []canary{quiet, {ttft: 0.51, pace: 0.07}, quiet, {ttft: 0.1, pace: 0.08}}
	for name, c := range map[string]struct {
		song canary
		free bool
	}{
		"as ever":                      {quiet, true},
		"slower steps":                 {canary{ttft: 0.5, pace: 0.12}, false},
		"a late first token":           {canary{ttft: 0.9, pace: 0.075}, false},
		"a millisecond is no evidence": {canary{ttft: 0.5, pace: 0.0779}, true},
	} {
		if strain := c.song.strained(append(songs, c.song)); (strain == "") != c.free {
			t.Errorf("%s: %q", name, strain)
		}
	}
}

// TestConfiguredLimit sends nothing beyond what the configuration says that a server can take, whether it tells a limit or not.
func TestConfiguredLimit(t *testing.T) {
	for _, shape := range []string{"vllm", "trtllm", "openai"} {
		runs, _ := onServer(t, simserver.Config{Shape: shape}, Target{ContextLimit: 8192}, nil, 1024, 16384, 1024)
		if runs[1].Reason != ExceedsContext || len(runs[1].Legs) > 0 || runs[0].Status == Skipped || runs[2].Status == Skipped {
			t.Errorf("%s: %s %s with %d legs, beside %s and %s", shape, runs[1].Status, runs[1].Reason, len(runs[1].Legs), runs[0].Status, runs[2].Status)
		}
	}
}
