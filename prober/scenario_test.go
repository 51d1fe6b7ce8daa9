package prober

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/prober/inference"
)

// scenario is one of testdata/cases: a rung and the answers to its two legs.
type scenario struct {
	rung Rung
	legs map[string]map[string]string
}

func readScenario(t *testing.T, name string) scenario {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "cases", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	s := scenario{legs: map[string]map[string]string{}}
	for line := range strings.Lines(string(text)) {
		head, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		leg, isLeg := strings.CutPrefix(head, "leg ")
		switch {
		case head == "rung":
			n, err := strconv.Atoi(strings.TrimSpace(rest))
			if err != nil {
				t.Fatal(err)
			}
			s.rung = Rung(n)
		case isLeg:
			s.legs[leg] = map[string]string{}
			for field := range strings.FieldsSeq(rest) {
				key, value, _ := strings.Cut(field, "=")
				s.legs[leg][key] = value
			}
		}
	}
	if s.rung == 0 {
		s.rung = Rung(s.number(t, "B", "prompt_tokens"))
	}
	return s
}

func (s scenario) number(t *testing.T, leg, key string) int {
	t.Helper()
	n, err := strconv.Atoi(s.legs[leg][key])
	if err != nil {
		t.Fatalf("leg %s: %s: %v", leg, key, err)
	}
	return n
}

func seconds(s string) time.Duration {
	d, err := time.ParseDuration(s + "s")
	if err != nil {
		panic(err)
	}
	return d
}

// scenarioServer answers like the scenario: the leg whose max_tokens is asked for, and a pre-roll at once.
type scenarioServer struct {
	scenario
	running atomic.Int64 // what its load says after the last leg
}

func (s *scenarioServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/v1/models" {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"probe-model","object":"model","owned_by":"organization"}]}`)
		return
	}
	if r.URL.Path != "/v1/chat/completions" {
		http.NotFound(w, r)
		return
	}
	var asked struct {
		MaxTokens int `json:"max_tokens"`
	}
	if err := json.Unmarshal(body, &asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, leg := range s.legs {
		if leg["max_tokens"] == strconv.Itoa(asked.MaxTokens) {
			s.answer(w, r, leg)
			return
		}
	}
	s.answer(w, r, map[string]string{
		"ttft": "0.1", "total": "0.2", "prompt_tokens": strconv.Itoa(min(preRollTokens, int(s.rung))),
		"completion_tokens": strconv.Itoa(asked.MaxTokens), "finish": "length",
	})
}

func (s *scenarioServer) answer(w http.ResponseWriter, r *http.Request, leg map[string]string) {
	if _, hang := leg["hang"]; hang {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := func(format string, args ...any) {
		_, _ = fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		w.(http.Flusher).Flush()
	}
	flush(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`)
	chunks, _ := strconv.Atoi(leg["completion_tokens"])
	if n, err := strconv.Atoi(leg["chunks"]); err == nil {
		chunks = n
	}
	first, total := seconds(leg["ttft"]), seconds(leg["total"])
	began := time.Now()
	for i := range chunks {
		due := first
		if chunks > 1 {
			due += (total - first) * time.Duration(i) / time.Duration(chunks-1)
		}
		time.Sleep(due - time.Since(began))
		flush(`{"choices":[{"index":0,"delta":{"content":" w"},"finish_reason":null}]}`)
	}
	time.Sleep(total - time.Since(began))
	details := "null"
	if cached, ok := leg["cached_tokens"]; ok {
		details = fmt.Sprintf(`{"cached_tokens":%s}`, cached)
	}
	flush(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, leg["finish"])
	flush(`{"choices":[],"usage":{"prompt_tokens":%s,"completion_tokens":%s,"prompt_tokens_details":%s}}`,
		leg["prompt_tokens"], leg["completion_tokens"], details)
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
	running, _ := strconv.Atoi(leg["running_after"])
	s.running.Store(int64(running))
}

// ReadLoad makes the scenario's gauges readable.
func (s *scenarioServer) ReadLoad(context.Context) (Load, error) {
	running, zero := int(s.running.Load()), 0
	return Load{At: time.Now(), Running: &running, Queued: &zero}, nil
}

// runScenario runs the scenario's rung once as a cold pair.
func runScenario(t *testing.T, name string) Run {
	t.Helper()
	var run Run
	synctest.Test(t, func(t *testing.T) {
		s := &scenarioServer{scenario: readScenario(t, name)}
		target := Piped(t, s)
		target.Dialect, target.API, target.Plan, target.Ladder = inference.OpenAI, inference.Chat, Pair, []Rung{s.rung}
		target.DecodeTokens.Default = s.number(t, "B", "max_tokens") - 1
		runner := RunnerOf(t, target, func(Target, inference.Facts) (LoadReader, error) { return s, nil })
		run = runner.Run(t.Context(), s.rung, nil)
	})
	return run
}

func TestPairScenarios(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  Status
		reason  Reason
		decode  float64 // tokens per second, 0 for absent
		prefill float64
		ttft    float64
	}{
		{"044-short-answer-stop", Rejected, ShortOutput, 0, 4096, 1},
		{"046-prompt-tokens-not-as-asked", Accepted, "", 20, 3913.8, 2.1},
		{"054-pair-reference-long-context", Accepted, "", 6.96, 1304.6, 46},
		{"055-pair-b-hits-prefix-cache", Rejected, CacheHit, 0, 2022.7, 4.05},
		{"057-pair-small-cached-prefix-ok", Accepted, "", 25, 2032, 4},
		{"058-pair-cold-model-load", Rejected, NonpositiveDelta, 0, 0, 0},
		{"060-pair-tiny-delta-absurd-speed", Rejected, Implausible, 0, 1030, 1},
		{"061-pair-clock-step", Accepted, "", 6.96, 1304.6, 46},
		{"063-pair-other-traffic", Rejected, Contended, 0, 0, 0},
		{"065-pair-idle-gpu-ramp", Rejected, Inconsistent, 0, 0, 0},
		{"066-pair-few-verify-steps", Accepted, "", 1.27, 619.4, 310},
		{"068-pair-leg-a-overshoots-budget", Accepted, "", 21.9, 2048, 4},
		{"095-max-tokens-1-hangs", Failed, Reason(inference.Timeout), 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := runScenario(t, c.name)
			if run.Status != c.status || run.Reason != c.reason {
				t.Fatalf("ended %s %q (%s), want %s %q", run.Status, run.Reason, run.Message, c.status, c.reason)
			}
			within := func(what string, got, want float64) {
				if d := got - want; d > 0.02*want || -d > 0.02*want {
					t.Errorf("%s: got %v, want %v", what, got, want)
				}
			}
			within("decode tokens per second", run.Sample.DecodeRate, c.decode)
			within("prefill tokens per second", run.Sample.Prefill, c.prefill)
			within("TTFT", run.Sample.TTFT, c.ttft)
			if step := run.Sample.Step; step != 0 && run.Sample.StepsSource != "chunks" {
				t.Errorf("a step time of %v s was exported though nothing proves what a step is", step)
			}
		})
	}
}
