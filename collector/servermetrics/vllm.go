package servermetrics

import (
	"context"
	"strconv"
)

// vllm reads vLLM's page of metrics.
type vllm struct{ page *endpoint }

func vllmNames() map[string]bool {
	return names(
		"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "gpu_cache_usage_perc", "cache_config_info",
		"prompt_tokens", "prompt_tokens_by_source", "prompt_tokens_cached", "prefix_cache_hits", "gpu_prefix_cache_hits",
		"generation_tokens", "generation_tokens_created", "prefix_cache_queries", "gpu_prefix_cache_queries", "spec_decode_num_drafts", "spec_decode_num_accepted_tokens", "request_success",
	)
}

func (v *vllm) read(ctx context.Context) (reading, error) {
	p, err := v.page.page(ctx, "vllm", vllmNames())
	if err != nil && !notOffered(err) {
		return reading{}, err
	}
	r := fromVLLM(p)
	r.missing, r.odd = err, p.odd
	return r, nil
}

// fromVLLM maps vLLM's page. Drafts count verify passes that had a draft, so that steps without one (n-gram misses) are not
// among Steps. prompt_tokens_total has meant every prompt token and, in releases around pull request 33290, those that were
// computed; the counter by source, which came with that change, is clear in both, and is preferred where it stands.
func fromVLLM(p page) reading {
	var r reading
	l := &r.load
	l.Running, l.Queued = p.gauge("num_requests_running"), p.gauge("num_requests_waiting")
	r.counts[promptTokens] = p.parts("prompt_tokens_by_source")
	r.counts[cachedTokens] = p.parts("prompt_tokens_cached")
	bySource := p.broken["prompt_tokens_by_source"] || r.counts[promptTokens] != nil
	if bySource {
		r.counts[cachedTokens] = cachedBySource(p)
	} else {
		r.counts[promptTokens] = p.parts("prompt_tokens")
		for _, name := range []string{"prefix_cache_hits", "gpu_prefix_cache_hits"} {
			if r.counts[cachedTokens] == nil {
				r.counts[cachedTokens] = p.parts(name)
			}
		}
	}
	r.counts[generatedTokens] = p.parts("generation_tokens")
	r.counts[verifySteps] = p.parts("spec_decode_num_drafts")
	r.counts[acceptedDrafts] = p.parts("spec_decode_num_accepted_tokens")
	r.counts[finishedRequests] = p.parts("request_success")
	r.counts[abortedRequests] = p.parts("request_success", "finished_reason", "abort")

	l.PromptTokens = r.counts[promptTokens].sum()
	l.ComputedTokens = p.sum("prompt_tokens_by_source", "source", "local_compute")
	l.GeneratedTokens = r.counts[generatedTokens].sum()
	l.Steps, l.CorrectDrafts = r.counts[verifySteps].sum(), r.counts[acceptedDrafts].sum()
	// Aborts stay at 0 on releases that leave them out (issue 31503 of vLLM); prompts show as soon as they are scheduled.
	l.FinishedRequests, l.AbortedRequests = r.counts[finishedRequests].sum(), r.counts[abortedRequests].sum()
	l.ScheduledTokens, l.Since = p.sum("prefix_cache_queries"), p.latest("generation_tokens_created")
	if l.ScheduledTokens == nil {
		l.ScheduledTokens = p.sum("gpu_prefix_cache_queries")
	}

	r.kvUsed = p.most("kv_cache_usage_perc")
	if r.kvUsed == nil && !p.has("kv_cache_usage_perc") {
		r.kvUsed = p.most("gpu_cache_usage_perc")
	}
	l.PoolTokens = vllmPool(p)
	// Blocks that only cached prefixes hold count as free (get_usage of vLLM's block pool).
	if r.kvUsed != nil && l.PoolTokens != nil {
		free := (1 - *r.kvUsed) * *l.PoolTokens
		l.PoolFree = &free
	}
	return r
}

// cachedBySource are the prompt tokens of every source but computing.
func cachedBySource(p page) parts {
	cached := p.parts("prompt_tokens_by_source")
	computed := p.parts("prompt_tokens_by_source", "source", "local_compute")
	if cached == nil || computed == nil {
		return nil
	}
	rest := parts{}
	for _, s := range p.samples["prompt_tokens_by_source"] {
		if s.labels["source"] != "local_compute" {
			rest[seriesKey("", s.labels, repeats)] = s.value
		}
	}
	return rest
}

// vllmPool is the capacity of the smallest engine. Newer releases tell it in tokens. Of a model with several kinds of layers,
// whose blocks are not tokens of all of them, blocks times their size says nothing.
func vllmPool(p page) *float64 {
	var kv pool
	for _, s := range p.samples["cache_config_info"] {
		tokens := labelNumber(s.labels["kv_cache_size_tokens"])
		mixed := labelNumber(s.labels["mamba_block_size"]) != nil || labelNumber(s.labels["sliding_window"]) != nil
		if blocks, size := labelNumber(s.labels["num_gpu_blocks"]), labelNumber(s.labels["block_size"]); tokens == nil && !mixed && blocks != nil && size != nil {
			product := *blocks * *size
			tokens = &product
		}
		if tokens == nil {
			return nil
		}
		kv.replica(tokens, nil)
	}
	return kv.capacity
}

// labelNumber reads a label's value that is a whole number above 0; nil where it is none, such as None.
func labelNumber(value string) *float64 {
	n, err := strconv.ParseInt(value, 10, 48)
	if err != nil || n <= 0 {
		return nil
	}
	v := float64(n)
	return &v
}
