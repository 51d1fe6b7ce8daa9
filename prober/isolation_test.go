package prober_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/simserver"
)

// surroundings are a server and what it lets be seen of its load.
type surroundings struct {
	name   string
	shape  string
	faults simserver.Faults
	see    func(prober.LoadReader) prober.LoadReader // nil for all that the server tells
	proves bool                                      // whether quiet runs must be proved
}

func allSurroundings() []surroundings {
	return []surroundings{
		{name: "sglang", shape: "sglang", proves: true},
		{name: "sglang, stale gauges", shape: "sglang", faults: simserver.Faults{StaleGauges: true}, proves: true},
		{name: "sglang, counts at the end", shape: "sglang", proves: true, see: seeing(func(l *prober.Load) {
			l.ForwardTokens, l.ComputedTokens, l.SeesBroken = nil, nil, l.AbortedRequests != nil
		})},
		{name: "sglang, counts late", shape: "sglang", proves: true, see: func(r prober.LoadReader) prober.LoadReader {
			return lateReader{r}
		}},
		{name: "vllm", shape: "vllm", proves: true},
		{name: "vllm, aborts uncounted", shape: "vllm", proves: true, see: seeing(func(l *prober.Load) {
			if l.FinishedRequests != nil && l.AbortedRequests != nil {
				*l.FinishedRequests -= *l.AbortedRequests
				*l.AbortedRequests = 0
			}
		})},
		{name: "vllm, no prefix cache, aborts uncounted", shape: "vllm", see: seeing(func(l *prober.Load) {
			l.ScheduledTokens = nil
			*l.FinishedRequests -= *l.AbortedRequests
			*l.AbortedRequests = 0
		})},
		{name: "llamacpp", shape: "llamacpp"},
	}
}

// changedReader shows another view of a server's load.
type changedReader struct {
	prober.LoadReader
	change func(*prober.Load)
}

func seeing(change func(*prober.Load)) func(prober.LoadReader) prober.LoadReader {
	return func(r prober.LoadReader) prober.LoadReader { return changedReader{r, change} }
}

func (r changedReader) ReadLoad(ctx context.Context) (prober.Load, error) {
	l, err := r.LoadReader.ReadLoad(ctx)
	if err == nil {
		r.change(&l)
	}
	return l, err
}

// lateReader shows gauges as they are beside counters as they were a second ago.
type lateReader struct{ prober.LoadReader }

func (r lateReader) ReadLoad(ctx context.Context) (prober.Load, error) {
	late, err := r.LoadReader.ReadLoad(ctx)
	if err != nil {
		return late, err
	}
	time.Sleep(time.Second)
	now, err := r.LoadReader.ReadLoad(ctx)
	late.At, late.Running, late.Queued = now.At, now.Running, now.Queued
	return late, err
}

// visitor is a client that comes to the server while a run begins, and stays for the whole of it or leaves in the middle.
type visitor struct {
	client *http.Client
	shape  string
	mu     sync.Mutex
	stays  []span
}

// span is a stretch of time.
type span struct{ from, to time.Time }

func (s span) meets(o span) bool { return s.from.Before(o.to) && o.from.Before(s.to) }

// stay is from a request's reception to its end.
func stay(r simserver.TruthRequest, started time.Time) span {
	from := started.Add(time.Duration(r.Received * float64(time.Second)))
	return span{from, from.Add(time.Duration(r.TotalSeconds * float64(time.Second)))}
}

func (v *visitor) come(ctx context.Context, promptTokens, maxTokens int, stay time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, stay)
	defer cancel()
	ids := make([]int, promptTokens)
	for i := range ids {
		ids[i] = 3000 + (i*7+promptTokens+maxTokens)%1000
	}
	path, fields := "/v1/completions", map[string]any{"prompt": ids, "max_tokens": maxTokens, "stream": true, "ignore_eos": true}
	body, _ := json.Marshal(fields)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server.invalid"+path, bytes.NewReader(body))
	if err != nil {
		return
	}
	request.Header.Set("Content-Type", "application/json")
	from := time.Now()
	if answer, err := v.client.Do(request); err == nil {
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stays = append(v.stays, span{from, time.Now()})
}

// graded counts runs by truth and grade.
type graded struct {
	contended, contendedProved, rejected int
	quiet, quietProved, quietAccepted    int
}

func (g *graded) add(o graded) {
	g.contended += o.contended
	g.contendedProved += o.contendedProved
	g.rejected += o.rejected
	g.quiet += o.quiet
	g.quietProved += o.quietProved
	g.quietAccepted += o.quietAccepted
}

func (g graded) row(name string) string {
	share := func(n, of int) string {
		if of == 0 {
			return "-"
		}
		return fmt.Sprintf("%d (%.0f %%)", n, 100*float64(n)/float64(of))
	}
	return fmt.Sprintf("%-41s | %9d | %6d | %14s | %5d | %13s | %13s\n", name, g.contended, g.contendedProved, share(g.rejected, g.contended),
		g.quiet, share(g.quietProved, g.quiet), share(g.quietAccepted, g.quiet))
}

// TestIsolationCertificate holds the certificate against servers with other people's requests: some come and go, some are broken off in
// prefill or decode, some span the whole run. Not one of the runs that they met may be proved.
func TestIsolationCertificate(t *testing.T) {
	rates := []float64{0.002, 0.005, 0.01, 0.02, 0.05}
	runs := 24
	if testing.Short() {
		rates, runs = []float64{0.01, 0.05}, 8
	}
	byRate, byServer, all := map[float64]*graded{}, map[string]*graded{}, graded{}
	for _, s := range allSurroundings() {
		byServer[s.name] = &graded{}
		for i, rate := range rates {
			if !s.proves && i > 0 && i < len(rates)-1 {
				continue
			}
			t.Run(fmt.Sprintf("%s/%v", s.name, rate), func(t *testing.T) {
				g := isolationRuns(t, s, rate, runs, uint64(i+1))
				byServer[s.name].add(g)
				if !s.proves {
					if g.quietProved+g.contendedProved > 0 {
						t.Errorf("%d runs proved of a server that cannot prove", g.quietProved+g.contendedProved)
					}
					return
				}
				if byRate[rate] == nil {
					byRate[rate] = &graded{}
				}
				byRate[rate].add(g)
				all.add(g)
			})
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-41s | %9s | %6s | %14s | %5s | %13s | %13s\n", "requests of others per second", "contended", "proved", "rejected", "quiet", "proved", "accepted")
	for _, rate := range rates {
		table.WriteString(byRate[rate].row(fmt.Sprint(rate)))
	}
	table.WriteString(all.row("all"))
	for _, s := range allSurroundings() {
		table.WriteString(byServer[s.name].row(s.name))
	}
	t.Logf("\n%s", table.String())
	if !testing.Short() && all.contended < 200 {
		t.Errorf("%d contended runs are too few to judge by", all.contended)
	}
	least := 0.95
	if testing.Short() { // few runs, half of them at the highest rate
		least = 0.85
	}
	if float64(all.quietProved) < least*float64(all.quiet) {
		t.Errorf("%d of %d quiet runs were proved", all.quietProved, all.quiet)
	}
}

// isolationRuns measures one rung again and again among others.
func isolationRuns(t *testing.T, s surroundings, rate float64, runs int, seed uint64) (g graded) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		sim, target := simulated(t, simserver.Config{
			Shape: s.shape, Profile: profile(t, "fast-8b"), Seed: seed, Options: simserver.Options{CacheReport: true, SpecMetrics: true}, Faults: s.faults,
			Background: simserver.Background{Rate: rate, PromptTokens: [2]int{500, 60000}, OutputTokens: [2]int{5, 2000}, AbortShare: 0.3},
		})
		v := &visitor{client: prober.ClientOf(target), shape: s.shape}
		target.Ladder, target.AllowEviction = []prober.Rung{4096}, true
		runner := prober.RunnerOf(t, target, func(target prober.Target, f inference.Facts) (prober.LoadReader, error) {
			r, err := servermetrics.New(target, f)
			if r == nil || s.see == nil {
				return r, err
			}
			return s.see(r), err
		})
		rng := rand.New(rand.NewPCG(seed, 3))
		var visits sync.WaitGroup
		type judged struct {
			run  prober.Run
			legs span
		}
		var done []judged
		for range runs {
			var legs span
			visit := rng.Float64()
			run := runner.Run(t.Context(), 4096, func(p prober.Progress) {
				if p.Kind == "pre-roll" {
					return
				}
				if legs.from.IsZero() {
					legs.from = p.Started
					switch {
					case visit < 0.1: // spans the run
						visits.Go(func() { v.come(t.Context(), 2000, 8000, 4*time.Minute) })
					case visit < 0.2: // is broken off in prefill
						visits.Go(func() { v.come(t.Context(), 90000, 10, 700*time.Millisecond) })
					case visit < 0.3: // is broken off while it decodes
						visits.Go(func() { v.come(t.Context(), 1000, 5000, 2*time.Second) })
					}
				}
				legs.to = time.Now()
			})
			if !legs.from.IsZero() {
				done = append(done, judged{run, legs})
			}
			time.Sleep(20 * time.Second)
		}
		visits.Wait()
		time.Sleep(10 * time.Minute)
		others := v.stays
		for _, r := range sim.Truth() {
			if r.Background {
				others = append(others, stay(r, started))
			}
		}
		for _, d := range done {
			contended := false
			for _, o := range others {
				contended = contended || o.meets(d.legs)
			}
			g.count(t, d.run, contended)
		}
	})
	return g
}

func (g *graded) count(t *testing.T, run prober.Run, contended bool) {
	proved := run.Sample.Isolation == prober.Proved
	switch {
	case contended:
		g.contended++
		if run.Status == prober.Rejected {
			g.rejected++
		}
		if proved {
			g.contendedProved++
			t.Errorf("a contended run was proved (%s %s %s)", run.Status, run.Reason, run.Message)
		}
		if (run.Reason == prober.Contended) != (run.Contended != nil) && len(run.Legs) > 1 {
			t.Errorf("%s %s: felt %+v", run.Status, run.Reason, run.Contended)
		}
	default:
		g.quiet++
		if proved {
			g.quietProved++
		} else {
			t.Logf("quiet, but %s: %s %s %s", run.Sample.Isolation, run.Status, run.Reason, run.Message)
		}
		if run.Status == prober.Accepted {
			g.quietAccepted++
		}
	}
}
