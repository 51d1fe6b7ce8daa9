package servermetrics

import (
	"context"
	"errors"
	"strings"
	"time"
)

// trtllm reads the Prometheus page of TensorRT-LLM's trtllm-serve. It is not at /metrics: what that tells is taken away from
// whoever asks next, and is never asked for unless it is configured as the page; then once.
type trtllm struct {
	page  *endpoint
	other *endpoint // in its place when it turns out to be no page of Prometheus
	life  pulse
}

// stillGauges is how long nothing on a page may move before the requests that it shows as running are not believed: the gauges
// are those of the latest iteration, and without requests there is none.
const stillGauges = 20 * time.Second

func trtllmNames() map[string]bool {
	return names(
		"num_requests_running", "num_requests_waiting", "kv_cache_utilization", "iteration_latency_seconds",
		"kv_cache_max_blocks", "kv_cache_free_blocks", "kv_cache_tokens_per_block",
		"prompt_tokens", "prompt_cached_tokens", "generation_tokens", "request_success",
		"spec_decode_drafted_tokens", "spec_decode_accepted_tokens",
	)
}

func (t *trtllm) read(ctx context.Context) (reading, error) {
	p, err := t.fetch(ctx)
	if err != nil && !notOffered(err) {
		return reading{}, err
	}
	r := fromTRTLLM(p)
	r.missing, r.odd = err, p.odd
	t.life.look(alive(p, trtllmNames()))
	believe(&r, t.life)
	return r, nil
}

// fetch reads the page, of which early releases named the metrics without a prefix.
func (t *trtllm) fetch(ctx context.Context) (page, error) {
	p, err := t.page.page(ctx, "trtllm", trtllmNames())
	if errors.Is(err, errNotPrometheus) && t.other.url != t.page.url {
		t.page = t.other
		p, err = t.page.page(ctx, "trtllm", trtllmNames())
	}
	if err == nil && len(p.samples) == 0 && len(p.broken) == 0 {
		return t.page.page(ctx, "", names("request_success"))
	}
	return p, err
}

// fromTRTLLM maps the page. Counters move when a request finishes. The passes with a draft are the tokens drafted at the first
// position. Blocks that only cached prefixes hold count as free (freeNumBlocks of TensorRT-LLM's block manager). Counters are
// not among what certifies runs: whether they agree with what the answers claim, to the token, nobody has seen.
func fromTRTLLM(p page) reading {
	var r reading
	r.load.Running, r.load.Queued = p.gauge("num_requests_running"), p.gauge("num_requests_waiting")
	r.counts[promptTokens] = p.parts("prompt_tokens")
	r.counts[cachedTokens] = p.parts("prompt_cached_tokens")
	r.counts[generatedTokens] = p.parts("generation_tokens")
	r.counts[finishedRequests] = p.parts("request_success")
	r.counts[verifySteps] = p.parts("spec_decode_drafted_tokens", "token_position", "0")
	if r.counts[verifySteps] != nil {
		r.counts[acceptedDrafts] = p.parts("spec_decode_accepted_tokens")
	}
	r.kvUsed = p.most("kv_cache_utilization")
	size, blocks, free := p.parts("kv_cache_tokens_per_block"), p.parts("kv_cache_max_blocks"), p.parts("kv_cache_free_blocks")
	var kv pool
	for key := range blocks {
		kv.replica(product(size.at(key), blocks.at(key)), product(size.at(key), free.at(key)))
	}
	r.load.PoolTokens, r.load.PoolFree = kv.capacity, kv.free
	return r
}

func product(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return finite(*a * *b)
}

// alive are all values of a page.
func alive(p page, wanted map[string]bool) parts {
	all := parts{}
	for name := range wanted {
		for key, v := range p.parts(name) {
			all[name+key] = v
		}
	}
	return all
}

// believe leaves out requests that are said to be there on a page on which nothing has moved for long.
func believe(r *reading, life pulse) {
	for _, b := range life {
		if time.Since(b.since) <= stillGauges {
			return
		}
	}
	for _, n := range []**int{&r.load.Running, &r.load.Queued} {
		if *n != nil && **n > 0 {
			*n = nil
		}
	}
	if r.load.Running == nil {
		r.kvUsed, r.load.PoolFree = nil, nil
	}
}

// prometheusPath is where the page is beside a path that ends in /metrics; "" where it is there already, or not known.
func prometheusPath(url string) string {
	base, ok := strings.CutSuffix(url, "/metrics")
	if !ok || strings.HasSuffix(base, "/prometheus") {
		return ""
	}
	return base + "/prometheus/metrics"
}
