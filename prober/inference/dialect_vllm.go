package inference

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
)

// vllm is vLLM and what looks like it. Token ids in the answer are not asked for: the first chunk would echo the prompt's.
type vllm struct{}

func (vllm) name() Dialect { return VLLM }
func (vllm) recognises(_ context.Context, _ *Client, l modelList) bool {
	return l.owner() == "vllm"
}

func (vllm) apis() []API           { return []API{Completions, Chat} }
func (vllm) takesIDs(api API) bool { return api == Completions }

func (vllm) leg(api API, s session, r Request) (legRequest, error) {
	l := openAILeg(api, s, r)
	// A model's own generation defaults apply to whatever is not set.
	l.fields = append(l.fields, continuousUsage(), may("top_p", 1), may("repetition_penalty", 1))
	if r.Salt != "" {
		l.fields = append(l.fields, may("cache_salt", r.Salt))
	}
	if s.replica != "" {
		l.header = http.Header{"X-Data-Parallel-Rank": {s.replica}}
	}
	return l, nil
}

func (vllm) describe(ctx context.Context, c *Client, _ modelList, f *Facts) {
	f.ServerVersion = c.version(ctx, "/version")
	f.Settings.put("version", f.ServerVersion)
	f.Settings.put("max_model_len", known(f.ContextLimit))
	page, err := c.get(ctx, "/metrics")
	if err != nil || !bytes.Contains(page, []byte("\nvllm:")) {
		return
	}
	// The counters are there from the start, at 0, if and only if speculation is configured; not how much it drafts.
	f.Speculation, f.BlockSize = "none", 1
	if bytes.Contains(page, []byte("\nvllm:spec_decode_num_drafts")) {
		f.Speculation, f.BlockSize = "speculative", 0
	}
	f.Settings.put("speculation", f.Speculation)
	f.Started = started(page)
	for line := range strings.Lines(string(page)) {
		labels, ok := strings.CutPrefix(line, "vllm:cache_config_info{")
		if !ok {
			continue
		}
		f.Replicas++
		f.PageSize, _ = strconv.Atoi(labelValue(labels, "block_size"))
		f.KVPoolTokens = vllmPool(labels)
		f.PrefixCache = map[string]string{"True": "on", "true": "on", "False": "off", "false": "off"}[labelValue(labels, "enable_prefix_caching")]
		for _, name := range []string{"block_size", "cache_dtype", "enable_prefix_caching", "sliding_window", "cpu_offload_gb"} {
			f.Settings.put(name, labelValue(labels, name))
		}
	}
}

// vllmPool is the capacity of an engine's KV cache in tokens, by the labels of its configuration. Newer releases tell it. Blocks
// times their size is not it where the model has several kinds of layers, each with blocks of its own.
func vllmPool(labels string) int {
	number := func(name string) int {
		n, _ := strconv.Atoi(labelValue(labels, name)) // None is none
		return n
	}
	if tokens := number("kv_cache_size_tokens"); tokens > 0 {
		return tokens
	}
	if number("mamba_block_size") > 0 || number("sliding_window") > 0 {
		return 0
	}
	return number("num_gpu_blocks") * number("block_size")
}

func (vllm) tokenize(s session, text string, special bool) (string, map[string]any) {
	return "/tokenize", map[string]any{"model": s.model, "prompt": text, "add_special_tokens": special}
}

// started is when the process behind a page of metrics says that it was started, in Unix seconds; 0 where it does not tell, or
// tells of several.
func started(page []byte) float64 {
	var at float64
	for line := range bytes.Lines(page) {
		value, ok := bytes.CutPrefix(line, []byte("process_start_time_seconds "))
		if !ok {
			continue
		}
		seconds, err := strconv.ParseFloat(strings.TrimSpace(string(value)), 64)
		if err != nil || at > 0 {
			return 0
		}
		at = seconds
	}
	return at
}

// known is a number as a setting; "" for 0, which is not known.
func known(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// labelValue is the value of a label in the text form of a sample's labels, "" where it has none.
func labelValue(labels, name string) string {
	for {
		i := strings.Index(labels, name+`="`)
		if i < 0 {
			return ""
		}
		quote := i + len(name) + 1
		if i == 0 || labels[i-1] == ',' || labels[i-1] == '{' {
			value := labels[quote+1 : skipString([]byte(labels), quote)]
			return strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(strings.TrimSuffix(value, `"`))
		}
		labels = labels[quote+1:]
	}
}
