package prober_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/simserver"
)

const sameKey = "sk-never-show-this-secret" // of every simulated SGLang

// life is a server whose process can be replaced, stopped, and made to say something else of itself.
type life struct {
	t     *testing.T
	shape string
	down  atomic.Bool
	sim   *simserver.Server
	edits map[string]any // of /server_info

	listener *simserver.PipeListener
	log      bytes.Buffer
	lived    []*simserver.Server
}

// start replaces the process.
func (l *life) start(faults simserver.Faults) {
	profile, err := simserver.ProfileByName("fast-8b")
	if err != nil {
		l.t.Fatal(err)
	}
	sim, err := simserver.New(simserver.Config{
		Shape: l.shape, Profile: profile, Seed: uint64(len(l.lived)) + 1, Faults: faults, Options: simserver.Options{CacheReport: true, SpecMetrics: true},
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.sim, l.lived = sim, append(l.lived, sim)
}

func (l *life) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/server_info" || len(l.edits) == 0 {
		l.sim.Handler().ServeHTTP(w, r)
		return
	}
	answer := httptest.NewRecorder()
	l.sim.Handler().ServeHTTP(answer, r)
	var info map[string]any
	if err := json.Unmarshal(answer.Body.Bytes(), &info); err != nil {
		l.t.Error(err)
	}
	objects := []map[string]any{info}
	if states, ok := info["internal_states"].([]any); ok {
		for _, state := range states {
			objects = append(objects, state.(map[string]any))
		}
	}
	for _, object := range objects {
		maps.Copy(object, l.edits)
	}
	_ = json.NewEncoder(w).Encode(info)
}

func (l *life) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if l.down.Load() {
		return nil, errors.New("connection refused")
	}
	return l.listener.Dial(ctx, network, address)
}

func (l *life) runner() *prober.Runner {
	r, err := prober.NewRunner(prober.Target{
		Name: "t", URL: "http://server.invalid", Dialect: inference.Auto, API: inference.AutoAPI, Plan: prober.AutoPlan,
		Ladder: []prober.Rung{1024, 4096}, Precision: 0.03, Dial: l.dial,
	}, servermetrics.New, log.NewLogfmtLogger(&l.log))
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// run runs a rung, five minutes after the one before, and checks how it ends.
func (l *life) run(r *prober.Runner, want prober.Status, reason prober.Reason) prober.Run {
	l.t.Helper()
	time.Sleep(5 * time.Minute)
	run := r.Run(l.t.Context(), 4096, nil)
	if run.Status != want || run.Reason != reason {
		l.t.Errorf("%s %s (%s), want %s %s", run.Status, run.Reason, run.Message, want, reason)
	}
	return run
}

// living calls f with a server of a shape that lives, in a bubble.
func living(t *testing.T, shape string, f func(*testing.T, *life)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &life{t: t, shape: shape, edits: map[string]any{}, listener: simserver.NewPipeListener()}
		l.start(simserver.Faults{})
		server := &http.Server{Handler: l}
		go func() { _ = server.Serve(l.listener) }()
		f(t, l)
		_ = server.Close()
		_ = l.listener.Close()
		for _, sim := range l.lived {
			sim.Close()
		}
		synctest.Wait()
		if strings.Contains(l.log.String(), sameKey) {
			t.Errorf("the log shows a key:\n%s", &l.log)
		}
	})
}

func TestDeploySeenBeforeTheNextSample(t *testing.T) {
	living(t, "sglang", func(t *testing.T, l *life) {
		r := l.runner()
		defer r.Close()
		first := l.run(r, prober.Accepted, "")
		if first.Deploy == "" || first.Deploy != r.Deploy().ID {
			t.Errorf("deploy %q, %+v", first.Deploy, r.Deploy())
		}
		since := r.Deploy().Since
		// What changes by itself is no deploy.
		l.edits = map[string]any{"random_seed": 7, "port": 1, "nccl_port": 2, "uptime": 17.5, "pid": 5, "api_key": "another", "max_total_num_tokens": 218_000}
		if run := l.run(r, prober.Accepted, ""); run.Deploy != first.Deploy || !r.Deploy().Since.Equal(since) {
			t.Errorf("deploy %s after %s", run.Deploy, first.Deploy)
		}
		// The process is replaced; it starts slowly, and decodes with another backend.
		l.edits = map[string]any{"attention_backend": "fa3"}
		l.start(simserver.Faults{WarmupSlow: 4})
		rejected := l.run(r, prober.Rejected, prober.ColdStart)
		if rejected.Deploy == first.Deploy || !r.Deploy().Since.After(since) || r.Facts().Attention != "fa3" {
			t.Errorf("%s runs since %v", rejected.Deploy, r.Deploy().Since)
		}
		for _, said := range []string{`msg="the server runs something else"`, `changed="attention_backend: triton -> fa3"`, "previous_deploy=" + first.Deploy, " deploy=" + rejected.Deploy} {
			if strings.Count(l.log.String(), said) != 1 {
				t.Errorf("%q is not said once in\n%s", said, &l.log)
			}
		}
		l.run(r, prober.Rejected, prober.ColdStart) // the first was slow, this is not
		second := l.run(r, prober.Accepted, "")
		if second.Deploy != rejected.Deploy || second.Sample.Step > 1.05*first.Sample.Step {
			t.Errorf("step %v after %v", second.Sample.Step, first.Sample.Step)
		}
	})
}

func TestRestartSeen(t *testing.T) {
	for _, shape := range []string{"sglang", "vllm", "llamacpp"} {
		t.Run(shape, func(t *testing.T) {
			living(t, shape, func(t *testing.T, l *life) {
				r := l.runner()
				defer r.Close()
				before := l.run(r, prober.Accepted, "")
				l.start(simserver.Faults{}) // between two runs, without a word
				l.run(r, prober.Rejected, prober.ColdStart)
				if after := l.run(r, prober.Accepted, ""); after.Deploy != before.Deploy {
					t.Error("a restart counts as another deploy")
				}
				if !strings.Contains(l.log.String(), "started anew") || strings.Contains(l.log.String(), `msg="the server runs something else"`) {
					t.Errorf("the log says\n%s", &l.log)
				}
				// The way to it fails for a while: its counters show that it lived on.
				l.down.Store(true)
				l.run(r, prober.Failed, prober.Reason(inference.Connect))
				l.down.Store(false)
				l.run(r, prober.Accepted, "")
			})
		})
	}
	t.Run("openai, which tells nothing", func(t *testing.T) {
		living(t, "openai", func(t *testing.T, l *life) {
			r := l.runner()
			defer r.Close()
			l.run(r, prober.Accepted, "")
			l.down.Store(true)
			l.run(r, prober.Failed, prober.Reason(inference.Connect))
			l.down.Store(false)
			l.start(simserver.Faults{})
			l.run(r, prober.Rejected, prober.ColdStart)
			l.run(r, prober.Accepted, "")
		})
	})
}

// TestRunnerState restarts the exporter rather than the server.
func TestRunnerState(t *testing.T) {
	living(t, "sglang", func(t *testing.T, l *life) {
		next := func(r *prober.Runner) *prober.Runner {
			t.Helper()
			text, err := json.Marshal(r.State())
			if err != nil || bytes.Contains(text, []byte(sameKey)) {
				t.Fatalf("%v %s", err, text)
			}
			s := r.State()
			if err := json.Unmarshal(text, &s); err != nil {
				t.Fatal(err)
			}
			r.Close()
			successor := l.runner()
			successor.Restore(s)
			return successor
		}
		r := l.runner()
		first := l.run(r, prober.Accepted, "")
		since := r.Deploy().Since
		r = next(r)
		if again := l.run(r, prober.Accepted, ""); again.Deploy != first.Deploy || !r.Deploy().Since.Equal(since) {
			t.Error("the same deploy is taken for a new one")
		}
		r = next(r)
		l.start(simserver.Faults{}) // the server is restarted while the exporter is away
		l.run(r, prober.Rejected, prober.ColdStart)
		r = next(r) // which remembers what the short prompt took
		l.run(r, prober.Accepted, "")
		r = next(r)
		l.edits = map[string]any{"tp_size": 4}
		if run := l.run(r, prober.Rejected, prober.ColdStart); run.Deploy == first.Deploy {
			t.Error("a deploy while the exporter was away is not seen")
		}
		r = next(r)
		l.run(r, prober.Accepted, "")
		r.Close()
	})
}
