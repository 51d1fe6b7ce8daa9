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
	if len(args.States) > 0 {
		// The scheduler's copy holds what the settings came out as; it leaves out what is not its own.
		effective := args
		_ = json.Unmarshal(firstState(page), &effective)
		args = effective
	}
	args.describe(f)
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
// drafters, but the number of nodes where drafts form a tree of a given depth.
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
	return a.DraftTokens
}

func (sglang) tokenize(_ session, text string, special bool) (string, map[string]any) {
	return "/tokenize", map[string]any{"prompt": text, "add_special_tokens": special}
}
