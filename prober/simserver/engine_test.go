package simserver

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// series reads a page into sums over all labels but those asked for.
func (r *rig) series(names ...string) map[string]float64 {
	r.t.Helper()
	out := map[string]float64{}
	scan := bufio.NewScanner(strings.NewReader(r.get("/metrics").events[0]))
	for scan.Scan() {
		name, value, ok := strings.Cut(scan.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		value = value[strings.LastIndexByte(value, ' ')+1:]
		for _, want := range names {
			if metric, label, _ := strings.Cut(want, "|"); strings.HasPrefix(name, metric) && strings.Contains(name, label) &&
				(len(name) == len(metric) || name[len(metric)] == '{') {
				v, err := strconv.ParseFloat(value, 64)
				if err != nil {
					r.t.Fatalf("%q: %v", scan.Text(), err)
				}
				out[want] += v
			}
		}
	}
	for _, want := range names {
		if _, ok := out[want]; !ok {
			r.t.Errorf("no series %s", want)
		}
	}
	return out
}

// countedBy is what a shape's counters should read after these requests.
func countedBy(shape string, truths []TruthRequest) map[string]float64 {
	var prompts, cached, generated, steps, drafts, requests float64
	for _, q := range truths {
		requests++
		prompts += float64(q.PromptTokens)
		cached += float64(q.CachedTokens)
		generated += float64(q.CompletionTokens)
		for _, a := range q.Accepted {
			steps++
			drafts += float64(a - 1)
		}
	}
	return map[string]map[string]float64{
		"sglang": {
			"sglang:prompt_tokens_total": prompts, "sglang:generation_tokens_total": generated,
			"sglang:num_requests_total": requests, "sglang:num_aborted_requests_total": 0,
			"sglang:spec_verify_calls_total": steps, "sglang:cached_tokens_total": cached,
			`sglang:realtime_tokens_total|mode="decode"`:          steps + drafts,
			`sglang:realtime_tokens_total|mode="prefill_compute"`: prompts - cached,
			`sglang:realtime_tokens_total|mode="prefill_cache"`:   cached,
			"sglang:num_running_reqs":                             0, "sglang:num_queue_reqs": 0,
		},
		"vllm": {
			"vllm:prompt_tokens_total": prompts, "vllm:generation_tokens_total": generated,
			"vllm:prefix_cache_hits_total": cached, "vllm:spec_decode_num_drafts_total": steps,
			"vllm:spec_decode_num_accepted_tokens_total": drafts, "vllm:spec_decode_num_accepted_tokens_per_pos_total": drafts,
			"vllm:request_success_total": requests, "vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0,
		},
		"llamacpp": {
			"llamacpp:prompt_tokens_total": prompts - cached, "llamacpp:prompt_tokens_cached_total": cached,
			"llamacpp:tokens_predicted_total": generated, "llamacpp:spec_decode_num_drafts_total": steps,
			"llamacpp:spec_decode_num_accepted_tokens_total": drafts, "llamacpp:requests_processing": 0,
		},
	}[shape]
}

// What the server counts is what happened, in each shape's own way of counting.
func TestCountersEqualTruth(t *testing.T) {
	load := Background{Rate: 0.05, PromptTokens: [2]int{200, 3000}, OutputTokens: [2]int{1, 80}}
	for _, shape := range []string{"sglang", "vllm", "llamacpp"} {
		inBubble(t, Config{Shape: shape, Background: load, Profile: profile(t, "fast-8b")}, func(r *rig) {
			ids, path := prompt(2000, 1), "/v1/completions"
			for range 3 {
				a := r.post(path, object{"model": "qwen3-8b", "prompt": ids, "max_tokens": 40, "ignore_eos": true})
				if a.status != 200 {
					t.Fatalf("%s: %+v", shape, a)
				}
			}
			for { // until the background is between two requests
				synctest.Wait()
				if _, g := r.server.live().engine.observe(); g.running+g.waiting == 0 {
					break
				}
				time.Sleep(time.Second)
			}
			want := countedBy(shape, r.server.Truth())
			var names []string
			for name := range want {
				names = append(names, name)
			}
			for name, got := range r.series(names...) {
				if got != want[name] {
					t.Errorf("%s: %v, the truth is %v", name, got, want[name])
				}
			}
		})
	}
}

// Eight run, the ninth waits; whoever came first is served first.
func TestQueueIsFair(t *testing.T) {
	inBubble(t, Config{Shape: "sglang"}, func(r *rig) {
		done := make(chan struct{})
		for i := range 10 {
			go func() {
				time.Sleep(time.Duration(i+1) * time.Millisecond)
				r.post("/generate", native(prompt(1000, int32(i)), 500, false))
				done <- struct{}{}
			}()
		}
		time.Sleep(10 * time.Second)
		got := r.series("sglang:num_running_reqs", "sglang:num_queue_reqs")
		if got["sglang:num_running_reqs"] != 8 || got["sglang:num_queue_reqs"] != 2 {
			t.Errorf("%v", got)
		}
		for range 10 {
			<-done
		}
		truths := r.server.Truth()
		slices.SortFunc(truths, func(a, b TruthRequest) int { return int(1e6 * (a.Received - b.Received)) })
		if truths[8].QueueSeconds < 5 || truths[0].QueueSeconds != 0 {
			t.Errorf("queued %v and %v s", truths[0].QueueSeconds, truths[8].QueueSeconds)
		}
	})
}

// A client that goes away ends its request, in prefill, in decode and in the queue, and its seat is free again.
func TestCancelFreesTheSlot(t *testing.T) {
	for _, c := range []struct {
		shape, path string
		stream      bool
		after       time.Duration
	}{
		{"sglang", "/generate", true, 5 * time.Second},
		{"sglang", "/generate", true, 60 * time.Second},
		{"sglang", "/generate", false, 60 * time.Second},
		{"sglang", "/v1/completions", true, 5 * time.Second},
		{"vllm", "/v1/completions", true, 60 * time.Second},
		{"llamacpp", "/v1/completions", true, 60 * time.Second},
		{"openai", "/v1/chat/completions", false, 5 * time.Second},
	} {
		inBubble(t, Config{Shape: c.shape}, func(r *rig) {
			ctx, cancel := context.WithTimeout(context.Background(), c.after)
			defer cancel()
			ask := native(prompt(60_010, 1), 5000, c.stream)
			if c.path != "/generate" {
				ask = object{"model": "kimi-k2.6", "prompt": prompt(60_010, 1), "max_tokens": 5000, "ignore_eos": true, "stream": c.stream}
			}
			if c.shape == "openai" {
				delete(ask, "prompt")
				ask["messages"] = []object{{"role": "user", "content": strings.Repeat(" word", 60_000)}}
			}
			if a := r.postCtx(ctx, c.path, ask); a.err == nil {
				t.Errorf("%s: the answer came in spite of all: %+v", c.path, a)
			}
			time.Sleep(30 * time.Second) // the chunk or step under way ends first
			_, g := r.server.live().engine.observe()
			q := r.lastTruth()
			if g.running != 0 || !q.Aborted || q.CompletionTokens >= 5000 {
				t.Errorf("%s %v: %+v, aborted %v", c.path, c.after, g, q.Aborted)
			}
			if k := r.server.live().engine.cache; k.reserved != 0 {
				t.Errorf("%d tokens of the pool stay reserved", k.reserved)
			}
		})
	}
}

// The same seed gives the same run, another seed another one.
func TestSeedDecides(t *testing.T) {
	run := func(seed uint64) (out string) {
		inBubble(t, Config{Shape: "sglang", Seed: seed}, func(r *rig) {
			for i := range int32(3) {
				r.post("/generate", native(prompt(2000, i), 60, true))
			}
			for _, q := range r.server.Truth() {
				out += fmt.Sprint(q.PrefillSeconds, q.StepSeconds, q.Accepted)
			}
		})
		return out
	}
	if again := run(1); again != run(1) {
		t.Error("the same seed gave two runs")
	}
	if run(1) == run(2) {
		t.Error("two seeds gave the same run")
	}
}

// The ring forgets the oldest.
func TestTruthIsBounded(t *testing.T) {
	var r history
	for i := range truthKept + 10 {
		r.add(TruthRequest{PromptTokens: i})
	}
	all := r.all()
	if len(all) != truthKept || all[0].PromptTokens != 10 || all[truthKept-1].PromptTokens != truthKept+9 {
		t.Errorf("%d records from %d to %d", len(all), all[0].PromptTokens, all[len(all)-1].PromptTokens)
	}
}

// Clients that leave in the background are aborted and counted.
func TestBackgroundAborts(t *testing.T) {
	load := Background{Rate: 0.5, PromptTokens: [2]int{100, 500}, OutputTokens: [2]int{20, 60}, AbortShare: 0.5}
	inBubble(t, Config{Shape: "sglang", Profile: profile(t, "fast-8b"), Background: load}, func(r *rig) {
		time.Sleep(10 * time.Minute)
		c, _ := r.server.live().engine.observe()
		if n := c.requests + c.aborted; n < 200 || n > 400 {
			t.Errorf("%d requests in 600 s at 0.5 per second", n)
		}
		if share := float64(c.aborted) / float64(c.requests+c.aborted); share < 0.35 || share > 0.65 {
			t.Errorf("%v of them aborted", share)
		}
	})
}
