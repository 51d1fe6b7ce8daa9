package simserver

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"
)

// want fails where a condition does not hold.
func want(t *testing.T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

func cachedTold(t *testing.T, a answer) any {
	return dig(t, a.json(t, -2), "meta_info", "cached_tokens")
}

func TestCacheFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults Faults
		check  func(t *testing.T, cold, warm TruthRequest, told any)
	}{
		{"clean", Faults{}, func(t *testing.T, _, warm TruthRequest, told any) {
			want(t, warm.CachedTokens == 9999 && told == 9999.0, "%d cached, told %v", warm.CachedTokens, told)
		}},
		{"HideCached", Faults{HideCached: true}, func(t *testing.T, _, warm TruthRequest, told any) {
			want(t, warm.CachedTokens == 9999 && told == nil, "%d cached, told %v", warm.CachedTokens, told)
		}},
		{"ZeroCached", Faults{ZeroCached: true}, func(t *testing.T, _, warm TruthRequest, told any) {
			want(t, warm.CachedTokens == 9999 && told == 0.0, "%d cached, told %v", warm.CachedTokens, told)
		}},
		{"NoPrefixCache", Faults{NoPrefixCache: true}, func(t *testing.T, cold, warm TruthRequest, told any) {
			want(t, warm.CachedTokens == 0 && told == 0.0, "%d cached, told %v", warm.CachedTokens, told)
			near(t, "warm", warm.PrefillSeconds, cold.PrefillSeconds, 0.09)
		}},
		{"CacheHitCold", Faults{CacheHitCold: 1}, func(t *testing.T, cold, _ TruthRequest, _ any) {
			want(t, cold.CachedTokens >= 3000 && cold.CachedTokens <= 9000, "%d cached on a cold prompt", cold.CachedTokens)
		}},
		{"PartialEvict", Faults{PartialEvict: 1}, func(t *testing.T, cold, warm TruthRequest, _ any) {
			want(t, cold.CachedTokens == 0 && warm.CachedTokens > 1900 && warm.CachedTokens < 9100, "%d left", warm.CachedTokens)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, Config{Shape: "sglang", Faults: c.faults}, func(r *rig) {
				r.post("/generate", native(prompt(10_000, 1), 1, true))
				cold := r.lastTruth()
				a := r.post("/generate", native(prompt(10_000, 1), 1, true))
				c.check(t, cold, r.lastTruth(), cachedTold(t, a))
			})
		})
	}
}

// gaps are the times between events that come apart.
func bursts(a answer) int {
	n := 1
	for i := 1; i < len(a.at); i++ {
		if a.at[i].Sub(a.at[i-1]) > time.Millisecond {
			n++
		}
	}
	return n
}

func TestStreamFaults(t *testing.T) {
	clean := 0
	for _, c := range []struct {
		name   string
		faults Faults
		check  func(t *testing.T, a answer, q TruthRequest)
	}{
		{"clean", Faults{}, func(t *testing.T, a answer, q TruthRequest) {
			clean = bursts(a)
			want(t, clean == len(q.Accepted)+1 && len(a.events) == len(q.Accepted)+3, "%d bursts, %d steps", clean, len(q.Accepted))
		}},
		{"BufferProxy", Faults{BufferProxy: true}, func(t *testing.T, a answer, q TruthRequest) {
			want(t, bursts(a) == 1 && len(a.events) == len(q.Accepted)+3, "%d bursts", bursts(a))
		}},
		{"BufferBytes", Faults{BufferBytes: 16384}, func(t *testing.T, a answer, q TruthRequest) {
			want(t, bursts(a) > 1 && bursts(a) < clean/2, "%d bursts of %d", bursts(a), clean)
		}},
		{"MergeChunks", Faults{MergeChunks: 0.5}, func(t *testing.T, a answer, q TruthRequest) {
			n := len(a.events) - 3
			want(t, n < len(q.Accepted)*3/4 && n > len(q.Accepted)/4, "%d chunks of %d steps", n, len(q.Accepted))
		}},
		{"ErrorMidStream", Faults{ErrorMidStream: 1}, func(t *testing.T, a answer, q TruthRequest) {
			text := strings.Join(a.events, "\n")
			want(t, a.status == 200 && strings.Contains(text, `{"error":`) && !strings.Contains(text, `"length"`), "%s", text)
		}},
		{"ResetMidStream", Faults{ResetMidStream: 1}, func(t *testing.T, a answer, q TruthRequest) {
			want(t, a.err != nil, "the stream ended well: %v", a.events)
		}},
		{"NoUsage", Faults{NoUsage: true}, func(t *testing.T, a answer, q TruthRequest) {
			want(t, !strings.Contains(strings.Join(a.events, ""), "prompt_tokens"), "usage is told")
		}},
		{"EarlyStop", Faults{EarlyStop: 1}, func(t *testing.T, a answer, q TruthRequest) {
			want(t, q.FinishReason == "stop" && q.CompletionTokens < 400, "%d tokens, %s", q.CompletionTokens, q.FinishReason)
		}},
		{"ClampMaxTokens", Faults{ClampMaxTokens: 10}, func(t *testing.T, a answer, q TruthRequest) {
			want(t, q.FinishReason == "length" && q.CompletionTokens == 10, "%d tokens", q.CompletionTokens)
		}},
		{"OvershootBudget", Faults{OvershootBudget: true, Degenerate: true}, func(t *testing.T, a answer, q TruthRequest) {
			want(t, q.CompletionTokens == 401, "%d tokens, blocks of 16 after the first", q.CompletionTokens)
		}},
		{"Degenerate", Faults{Degenerate: true}, func(t *testing.T, a answer, q TruthRequest) {
			want(t, len(q.Accepted) == 25, "%d steps", len(q.Accepted))
		}},
	} {
		t.Run(c.name, func(t *testing.T) { streamFault(t, c.faults, c.check) })
	}
}

func TestModelFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults Faults
		check  func(t *testing.T, a answer, q TruthRequest)
	}{
		{"TruncatePrompt", Faults{TruncatePrompt: 2000}, func(t *testing.T, a answer, q TruthRequest) {
			got := dig(t, a.json(t, -2), "usage", "prompt_tokens")
			want(t, q.PromptTokens == 1500 && got == 1500.0, "%d tokens, told %v", q.PromptTokens, got)
		}},
		{"WarmupSlow", Faults{WarmupSlow: 1}, func(t *testing.T, a answer, q TruthRequest) {
			p := profile(t, "")
			near(t, "prefill", q.PrefillSeconds, 3*p.PrefillSeconds(3000), 0.05)
			near(t, "step", q.StepSeconds[5], 3*p.StepSeconds(3020), 0.21)
		}},
	} {
		t.Run(c.name, func(t *testing.T) { streamFault(t, c.faults, c.check) })
	}
}

// streamFault streams one answer from a faulty server.
func streamFault(t *testing.T, faults Faults, check func(t *testing.T, a answer, q TruthRequest)) {
	t.Helper()
	inBubble(t, Config{Shape: "vllm", Faults: faults}, func(r *rig) {
		a := r.completion(object{
			"stream": true, "stream_options": object{"include_usage": true, "continuous_usage_stats": true}, "max_tokens": 400,
		})
		time.Sleep(time.Minute) // what was cut off is aborted
		check(t, a, r.lastTruth())
	})
}

func TestRoleChunkEarly(t *testing.T) {
	for _, shape := range []string{"sglang", "vllm", "llamacpp", "openai"} {
		inBubble(t, Config{Shape: shape, Faults: Faults{RoleChunkEarly: true}}, func(r *rig) {
			start := time.Now()
			a := r.post("/v1/chat/completions", object{
				"model": "kimi-k2.6", "stream": true, "max_tokens": 3, "messages": []object{{"role": "user", "content": strings.Repeat(" word", 9000)}},
			})
			want(t, a.at[0].Equal(start) && a.at[1].Sub(start) > 4*time.Second, "%s: %v, %v", shape, a.at[0].Sub(start), a.at[1].Sub(start))
			want(t, strings.Contains(a.events[0], `"assistant"`) && !strings.Contains(a.events[1], `"assistant"`), "%s: %v", shape, a.events[:2])
		})
	}
}

func TestRefusingFaults(t *testing.T) {
	inBubble(t, Config{Shape: "vllm", Faults: Faults{RejectField: "ignore_eos"}}, func(r *rig) {
		a := r.completion(nil)
		want(t, a.status == 400 && strings.Contains(a.events[0], "extra_forbidden") && strings.Contains(a.events[0], "ignore_eos"), "%+v", a)
		a = r.post("/v1/completions", object{"prompt": prompt(100, 1), "max_tokens": 2})
		want(t, a.status == 200, "without the field: %d", a.status)
	})
	inBubble(t, Config{Shape: "sglang", Faults: Faults{Status: 502, StatusBody: "<html>502 Bad Gateway</html>", StatusEvery: 2}}, func(r *rig) {
		first, second := r.completion(nil), r.completion(nil)
		want(t, first.status == 200 && second.status == 502 && strings.HasPrefix(second.events[0], "<html>"), "%d, %d", first.status, second.status)
	})
	inBubble(t, Config{Shape: "llamacpp", Faults: Faults{Loading: time.Minute}}, func(r *rig) {
		a := r.get("/v1/models")
		want(t, a.status == 503 && a.events[0] == `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, "%+v", a)
		time.Sleep(time.Minute)
		want(t, r.get("/v1/models").status == 200, "the model never loads")
	})
	inBubble(t, Config{Shape: "sglang", Faults: Faults{HangOnMaxTokens1: true}}, func(r *rig) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		a := r.postCtx(ctx, "/v1/completions", object{"prompt": prompt(100, 1), "max_tokens": 1})
		want(t, a.err != nil, "an answer came: %+v", a)
		want(t, r.post("/v1/completions", object{"prompt": prompt(100, 1), "max_tokens": 2}).status == 200, "two tokens hang, too")
	})
}

// Gauges that nobody refreshes still show the request that has ended, until the server has rested.
func TestStaleGauges(t *testing.T) {
	inBubble(t, Config{Shape: "sglang", Faults: Faults{StaleGauges: true}}, func(r *rig) {
		r.post("/generate", native(prompt(1000, 1), 10, false))
		running := func() float64 { return r.series("sglang:num_running_reqs")["sglang:num_running_reqs"] }
		want(t, running() == 1, "the gauge is fresh")
		time.Sleep(31 * time.Second)
		want(t, running() == 0, "the gauge stays stale at rest")
	})
}

// With stream_interval the chunks come irregularly, as the real condition makes them.
func TestStreamInterval(t *testing.T) {
	inBubble(t, Config{Shape: "sglang", Options: Options{StreamInterval: 8}}, func(r *rig) {
		a := r.post("/generate", native(prompt(1000, 1), 200, true))
		want(t, len(a.events)-2 < len(r.lastTruth().Accepted)/2, "%d events of %d steps", len(a.events), len(r.lastTruth().Accepted))
	})
}

func TestBadConfigurations(t *testing.T) {
	ok := profile(t, "")
	for name, c := range map[string]Config{
		"shape":       {Shape: "tgi"},
		"scale":       {Shape: "vllm", TimeScale: -1},
		"probability": {Shape: "vllm", Faults: Faults{MergeChunks: 1.5}},
		"status":      {Shape: "vllm", Faults: Faults{Status: 1}},
		"rate":        {Shape: "vllm", Background: Background{Rate: -1}},
		"range":       {Shape: "vllm", Background: Background{Rate: 1, PromptTokens: [2]int{5, 1}}},
		"too long":    {Shape: "vllm", Background: Background{Rate: 1, PromptTokens: [2]int{1, 300_000}, OutputTokens: [2]int{1, 1}}},
		"script":      {Shape: "vllm", Faults: Faults{Script: Script{Wire: "status 200"}}},
		"law":         {Shape: "vllm", Profile: func() Profile { p := ok; p.AcceptLong = []float64{1}; return p }()},
	} {
		if s, err := New(c); err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := ProfileByName("gpt"); err == nil {
		t.Error("a profile of any name")
	}
}

func TestScriptReplays(t *testing.T) {
	script := Script{
		Bodies: map[string]string{"sse": "data: 1\n\ndata: 2\n\ndata: @@PAD:5@@\n\n", "json": `{"a":1}`},
		Wire: `# a comment
exchange POST /v1/completions
assert-request-header Content-Type: application/json
assert-request-header Accept: nothing
status 200
header Content-Type: text/event-stream
at 1.5 send lines 1-2
at 2.5 send bytes 9-18
at 4 send lines 5-6
at 4 end
exchange POST /v1/completions
at 60 end-without-response
exchange POST /v1/completions
status 500
header Content-Type: application/json
at 0.5 send file json
at 0.5 end
exchange POST /generate
status 200
header Content-Type: text/event-stream
at 0 send all
at 3 reset
close-idle-on-next-write
exchange GET /health
status 204
at 0 end
`,
	}
	inBubble(t, Config{Shape: "sglang", Faults: Faults{Script: script}}, func(r *rig) {
		start := time.Now()
		a := r.completion(nil)
		want(t, strings.Join(a.events, ",") == "1,2,xxxxx", "%v", a.events)
		for i, at := range []time.Duration{1500, 2500, 4000} {
			want(t, a.at[i].Sub(start) == at*time.Millisecond, "event %d after %v", i, a.at[i].Sub(start))
		}
		start = time.Now()
		a = r.completion(nil)
		want(t, a.err != nil && time.Since(start) == time.Minute, "%v after %v", a.err, time.Since(start))
		a = r.completion(nil)
		want(t, a.status == 500 && a.events[0] == `{"a":1}`, "%+v", a)
		a = r.completion(nil)
		want(t, a.status == 200 && a.err == nil, "the real server answers when the script is used up: %+v", a)
		a = r.post("/generate", object{})
		want(t, a.err != nil && len(a.events) == 3, "%+v", a)
		want(t, r.get("/health").status == http.StatusNoContent, "a fresh connection finds the script's answer")
		f := r.server.live().script.Failures()
		want(t, len(f) == 1 && strings.Contains(f[0], "Accept"), "%v", f)
	})
}

func TestBadScripts(t *testing.T) {
	for _, wire := range []string{
		"exchange POST", "status 200", "exchange GET /\nstatus x", "exchange GET /\nat x end", "exchange GET /\nat 1 fly",
		"exchange GET /\nat 1 send all", "exchange GET /\nat 1 send file txt", "exchange GET /\nencode br", "exchange GET /\nfoo",
	} {
		if _, err := NewPlayer(Script{Wire: wire}); err == nil {
			t.Errorf("%q is taken", wire)
		}
	}
	for _, wire := range []string{"at 1 send lines 0-1", "at 1 send lines 1-9", "at 1 send bytes 0-99", "at 1 send bytes 3", "at 1 send what 1-2"} {
		if _, err := NewPlayer(Script{Wire: "exchange GET /\n" + wire, Bodies: map[string]string{"txt": "a\n"}}); err == nil {
			t.Errorf("%q is taken", wire)
		}
	}
}
