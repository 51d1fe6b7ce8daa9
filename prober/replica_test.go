package prober_test

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/simserver"
)

// replicas are engines behind one URL, of which the second is slower.
type replicas struct {
	shape  string
	api    inference.API
	routed bool // servers behind a router that takes turns, also over pages of metrics; else ranks of one server
	whole  bool // answers come in one piece
	decode int  // tokens; 0 is auto
}

const replicaRung prober.Rung = 8192

func replicaCases() (all []replicas) {
	for _, r := range []replicas{
		{shape: "sglang", api: inference.Native},
		{shape: "sglang", api: inference.Completions},
		{shape: "vllm", api: inference.Completions},
		{shape: "openai", api: inference.Completions, routed: true},
	} {
		for _, r.whole = range []bool{false, true} {
			for _, r.decode = range []int{0, 128} {
				if all = append(all, r); !r.routed {
					routed := r
					routed.routed = true
					all = append(all, routed)
				}
			}
		}
	}
	return all
}

func (r replicas) String() string {
	behind := "ranks"
	if r.routed {
		behind = "router"
	}
	answers := "streams"
	if r.whole {
		answers = "whole"
	}
	return fmt.Sprintf("%s %s %s %s %d", r.shape, r.api, behind, answers, r.decode)
}

// TestReplicas wants a pinned target to measure the replica that it names, and one that is not pinned to tell no number that is
// true of none.
func TestReplicas(t *testing.T) {
	for _, r := range replicaCases() {
		t.Run(r.String(), func(t *testing.T) {
			r.judgeFree(t, r.measure(t, ""))
			r.judgePinned(t, r.measure(t, "1"))
		})
	}
}

// A rank that is not there is not taken for another.
func TestReplicaThatIsNotThere(t *testing.T) {
	for _, m := range (replicas{shape: "sglang", api: inference.Native}).measure(t, "7") {
		if m.run.Status != prober.Rejected || m.run.Reason != prober.ReplicaMismatch || !strings.Contains(m.run.Message, "`replica` pins 7") {
			t.Errorf("%s", m)
		}
		if s := m.run.Sample; s.Prefill != 0 || s.TTFT != 0 || s.Step != 0 {
			t.Errorf("it keeps %+v", s)
		}
	}
}

// judgeFree allows any replica's numbers, and one wrong number in a place where nothing could tell: neither counters nor streams,
// and two requests alone. Its grade says so.
func (r replicas) judgeFree(t *testing.T, runs []measured) {
	t.Helper()
	for _, m := range runs {
		s := m.run.Sample
		if m.nearest(0, 1, 2) <= 0.05 {
			continue
		}
		if blind := r.shape == "openai" && r.whole && r.decode > 0; blind && s.Isolation == prober.NotKnown {
			t.Logf("unseen: %s", m)
			continue
		}
		t.Errorf("the numbers are true of no replica: %s", m)
	}
}

// judgePinned wants the numbers of rank 1. A router's page of metrics may be that of another replica and show its history.
func (r replicas) judgePinned(t *testing.T, runs []measured) {
	t.Helper()
	for _, m := range runs {
		foreign := r.routed && m.run.Reason == prober.Contended
		if m.run.Status != prober.Accepted && !foreign {
			t.Errorf("pinned, but not measured: %s", m)
		}
		for _, l := range m.legs {
			if l.Rank != 1 {
				t.Fatalf("a leg went elsewhere: %s", m)
			}
		}
		if m.nearest(1) > 0.05 {
			t.Errorf("the numbers are not those of rank 1: %s", m)
		}
	}
}

// measured is a run beside what every replica served of it.
type measured struct {
	run  prober.Run
	legs []simserver.TruthRequest
}

// measure runs the rung three times.
func (r replicas) measure(t *testing.T, pin string) (all []measured) {
	synctest.Test(t, func(t *testing.T) {
		sims, handler := r.serve(t)
		target := prober.Piped(t, handler)
		if r.decode > 0 {
			target.Plan = prober.Pair // two requests alone
		}
		target.API, target.Replica, target.Ladder, target.AllowEviction = r.api, pin, []prober.Rung{replicaRung}, true
		target.DecodeTokens.Default = r.decode
		runner := prober.RunnerOf(t, target, servermetrics.New)
		for range 3 {
			var sent []string
			began := served(sims)
			run := runner.Run(t.Context(), replicaRung, func(p prober.Progress) {
				if p.Ended {
					sent = append(sent, p.Kind)
				}
			})
			time.Sleep(time.Minute)
			all = append(all, measured{run, legTruth(served(sims)[len(began):], sent)})
		}
	})
	return all
}

func (r replicas) serve(t *testing.T) ([]*simserver.Server, http.Handler) {
	t.Helper()
	start := func(seed uint64, ranks simserver.Ranks) *simserver.Server {
		return prober.Simulated(t, simserver.Config{
			Shape: r.shape, Profile: profile(t, "dense-nospec"), Seed: seed, Ranks: ranks,
			Options: simserver.Options{CacheReport: true, SpecMetrics: true}, Faults: simserver.Faults{BufferProxy: r.whole},
		})
	}
	slower := simserver.Change{StepBase: 1.5, StepSlope: 1.5, Prefill: 1.3}
	if !r.routed {
		ranks := simserver.Ranks{DP: 3, TP: 6, Speeds: []simserver.Change{{}, slower}}
		if r.decode > 0 {
			ranks.DP = 2 // turns put both legs of a pair on different ranks
		}
		s := start(1, ranks)
		return []*simserver.Server{s}, s.Handler()
	}
	sims := []*simserver.Server{start(1, simserver.Ranks{}), start(2, simserver.Ranks{Speeds: []simserver.Change{slower}})}
	return sims, &router{handlers: []http.Handler{sims[0].Handler(), sims[1].Handler()}}
}

// router sends requests to servers in turns, but those with a key to the server that the key names.
type router struct {
	handlers []http.Handler
	turn     atomic.Uint64
}

func (r *router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	key := req.Header.Get("X-Session-Id") + req.Header.Get("X-Data-Parallel-Rank")
	n := int(r.turn.Add(1)-1) % len(r.handlers)
	if key != "" {
		n = int(key[0]-'0') % len(r.handlers)
	}
	r.handlers[n].ServeHTTP(w, req)
}

// served are the requests of all servers in the order of their coming, those of the second one as of rank 1.
func served(sims []*simserver.Server) (all []simserver.TruthRequest) {
	for n, s := range sims {
		for _, r := range s.Truth() {
			r.Rank += n
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b simserver.TruthRequest) int {
		if a.Received < b.Received {
			return -1
		}
		return 1
	})
	return all
}

func (m measured) String() string {
	var legs strings.Builder
	for i, l := range m.run.Legs {
		fmt.Fprintf(&legs, " %s(%d)@%d", l.Kind, l.MaxTokens, m.legs[i].Rank)
	}
	return fmt.Sprintf("%s %s, isolation %s, plan %s, method %s, legs%s, %.0f %% off; %s", m.run.Status, m.run.Reason, m.run.Sample.Isolation,
		m.run.Plan, m.run.Sample.Method, legs.String(), 100*m.nearest(0, 1, 2), m.run.Message)
}

// nearest is how far the numbers of a run are from those of the nearest of some ranks.
func (m measured) nearest(ranks ...int) float64 {
	off := math.Inf(1)
	for _, rank := range ranks {
		off = min(off, m.off(rank))
	}
	return off
}

// off is the largest relative error of the numbers of a run, taken as those of one replica.
// Errors are infinite where the replica served nothing that they could be taken from.
func (m measured) off(rank int) float64 {
	var tokens, prefill, steps, decoding, decoded float64
	for i, l := range m.legs {
		switch {
		case l.Rank != rank || i >= len(m.run.Legs):
		case m.run.Legs[i].MaxTokens > 2:
			for _, s := range l.StepSeconds {
				decoding += s
				steps++
			}
			decoded += float64(l.CompletionTokens - 1)
			fallthrough
		case m.run.Legs[i].Kind == "cold":
			tokens += float64(l.RecomputedTokens)
			prefill += l.PrefillSeconds
		}
	}
	s, worst := m.run.Sample, 0.0
	for _, v := range []struct{ told, of, by float64 }{{s.Prefill, tokens, prefill}, {s.Step, decoding, steps}, {s.DecodeRate, decoded, decoding}} {
		switch {
		case v.told == 0:
		case v.by == 0:
			return math.Inf(1)
		default:
			worst = max(worst, math.Abs(v.told*v.by/v.of-1))
		}
	}
	return worst
}
