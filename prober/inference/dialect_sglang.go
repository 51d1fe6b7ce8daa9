package inference

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// sglang is SGLang. Its own API tells most: counts in every chunk, cached tokens and speculation facts without any flag.
type sglang struct{}

func (sglang) name() Dialect { return SGLang }
func (sglang) recognises(_ context.Context, _ *Client, l modelList) bool {
	return l.owner() == "sglang"
}

func (sglang) apis() []API           { return []API{Native, Completions, Chat} }
func (sglang) takesIDs(api API) bool { return api != Chat }

func (d sglang) leg(api API, s session, r Request) (legRequest, error) {
	if api == Native {
		return d.native(s, r), nil
	}
	l := openAILeg(api, s, r)
	l.fields = append(l.fields, continuousUsage(), may("return_spec_tokens_details", true))
	if api == Chat { // refused where it is streamed
		l.fields = append(l.fields, field{name: "return_meta_info", value: true, optional: true, whole: true})
	}
	if r.Salt != "" {
		l.fields = append(l.fields, may("cache_salt", r.Salt))
	}
	l.pin(s.replica)
	return l, nil
}

func (sglang) native(s session, r Request) legRequest {
	sampling := func(name string, value any) field {
		return field{parent: "sampling_params", name: name, value: value, optional: name != "max_new_tokens"}
	}
	l := legRequest{path: "/generate", open: `"input_ids":`, fields: []field{
		sampling("max_new_tokens", r.MaxTokens), sampling("temperature", 0), sampling("ignore_eos", true),
		must("stream", true),
		may("rid", requestID()),
	}}
	if r.Prompt.text {
		l.open = `"text":`
	}
	if r.Salt != "" {
		l.fields = append(l.fields, may("extra_key", r.Salt))
	}
	l.pin(s.replica)
	return l
}

// pin sends a request to one data-parallel rank: by the header, and for builds before it by the body.
func (l *legRequest) pin(replica string) {
	if replica == "" {
		return
	}
	l.header = http.Header{"X-Data-Parallel-Rank": {replica}}
	if rank, err := strconv.Atoi(replica); err == nil {
		l.fields = append(l.fields, may("routed_dp_rank", rank))
	}
}

// requestID is of full length, since the server aborts requests by prefix.
func requestID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// serverArgs are the settings that are read of a running server. Its answer holds API keys: nothing else may be decoded.
type serverArgs struct {
	Version        string       `json:"version"`
	Context        int          `json:"context_length"`
	Pool           int          `json:"max_total_num_tokens"`
	MaxInput       int          `json:"max_req_input_len"`
	PageSize       int          `json:"page_size"`
	NoRadixCache   *bool        `json:"disable_radix_cache"`
	StreamInterval int          `json:"stream_interval"`
	Replicas       int          `json:"dp_size"`
	Algorithm      *string      `json:"speculative_algorithm"`
	DraftTokens    int          `json:"speculative_num_draft_tokens"`
	DraftSteps     int          `json:"speculative_num_steps"`
	FlashBlock     int          `json:"speculative_dflash_block_size"`
	FlashTree      bool         `json:"speculative_dflash_tree_verify"`
	FlashWidth     int          `json:"speculative_dflash_tree_width"`
	TreeBlock      int          `json:"speculative_ddtree_block_size"`
	States         []serverArgs `json:"internal_states"`
}

func (sglang) describe(ctx context.Context, c *Client, _ modelList, f *Facts) {
	page, err := c.get(ctx, "/server_info")
	if err != nil {
		page, err = c.get(ctx, "/get_server_info")
	}
	if err != nil {
		return
	}
	var args serverArgs
	if json.Unmarshal(page, &args) != nil && args.Version == "" {
		return
	}
	f.Settings.pick(page, sglangSettings())
	if len(args.States) > 0 {
		// The scheduler's copy holds what the settings came out as; it leaves out what is not its own.
		effective := args
		_ = json.Unmarshal(firstState(page), &effective)
		args = effective
		came := Settings{}
		came.pick(firstState(page), sglangSettings())
		for name, value := range came {
			if value != notSet {
				f.Settings[name] = value
			}
		}
	}
	args.describe(f)
	f.Attention = attention(f.Settings)
	if page, err := c.get(ctx, "/model_info"); err == nil {
		f.Settings.pick(page, []string{"weight_version"}) // weights may be exchanged without a restart
	}
}

// sglangSettings are the arguments that decide what is run and how fast.
func sglangSettings() []string {
	return []string{
		"version", "model_path", "tokenizer_path", "revision", "served_model_name", "load_format", "quantization", "dtype", "kv_cache_dtype",
		"context_length", "page_size", "chunked_prefill_size", "max_prefill_tokens", "enable_mixed_chunk", "stream_interval",
		"tp_size", "pp_size", "dp_size", "ep_size", "enable_dp_attention", "disaggregation_mode",
		"attention_backend", "prefill_attention_backend", "decode_attention_backend", "sampling_backend", "mm_attention_backend",
		"moe_runner_backend", "moe_a2a_backend", "fp8_gemm_runner_backend", "enable_torch_compile", "disable_cuda_graph", "cuda_graph_max_bs",
		"triton_attention_num_kv_splits", "num_continuous_decode_steps", "disable_overlap_schedule", "schedule_policy",
		"disable_radix_cache", "enable_hierarchical_cache", "hicache_storage_backend",
		"speculative_algorithm", "speculative_draft_model_path", "speculative_draft_model_revision", "speculative_num_steps",
		"speculative_eagle_topk", "speculative_num_draft_tokens", "speculative_attention_mode", "speculative_draft_attention_backend",
		"speculative_dflash_block_size", "speculative_dflash_enable_ddtree", "speculative_ddtree_block_size", "speculative_ddtree_budget",
		"speculative_draft_window_size",
	}
}

// attention is the backend that decodes.
func attention(s Settings) string {
	for _, name := range []string{"decode_attention_backend", "attention_backend"} {
		if backend := s[name]; backend != "" && backend != notSet {
			return backend
		}
	}
	return ""
}

// firstState is the first element of internal_states.
func firstState(page []byte) []byte {
	var info struct {
		States []json.RawMessage `json:"internal_states"`
	}
	if json.Unmarshal(page, &info) != nil || len(info.States) == 0 {
		return []byte("{}")
	}
	return info.States[0]
}

func (a serverArgs) describe(f *Facts) {
	f.ServerVersion, f.KVPoolTokens, f.PageSize = a.Version, a.Pool, a.PageSize
	f.Replicas, f.StreamEvery = a.Replicas, a.StreamInterval
	if f.ContextLimit == 0 {
		f.ContextLimit = a.Context
	}
	if a.MaxInput > 1 {
		f.MaxPrompt = a.MaxInput - 1 // a prompt of max_req_input_len is refused
	}
	if a.NoRadixCache != nil {
		f.PrefixCache = map[bool]string{true: "off", false: "on"}[*a.NoRadixCache]
	}
	if a.Algorithm == nil || *a.Algorithm == "" || strings.EqualFold(*a.Algorithm, "none") {
		f.Speculation, f.BlockSize = "none", 1
		return
	}
	f.Speculation, f.BlockSize = *a.Algorithm, a.blockSize()
}

// blockSize is the largest number of tokens that one pass commits. The number of draft tokens is the block size of block
// drafters, but the number of nodes where drafts form a tree.
func (a serverArgs) blockSize() int {
	for _, n := range []int{a.TreeBlock, a.FlashBlock} {
		if n > 0 {
			return n
		}
	}
	algorithm := strings.ToUpper(*a.Algorithm)
	if a.DraftSteps > 0 && (strings.HasPrefix(algorithm, "EAGLE") || algorithm == "NEXTN" || algorithm == "STANDALONE") {
		return a.DraftSteps + 1
	}
	if a.FlashTree || a.FlashWidth > 1 {
		return 0 // the number of draft tokens is that of the tree's nodes
	}
	return a.DraftTokens
}

func (sglang) tokenize(_ session, text string, special bool) (string, map[string]any) {
	return "/tokenize", map[string]any{"prompt": text, "add_special_tokens": special}
}
