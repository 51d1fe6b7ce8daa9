package inference

import (
	"bytes"
	"context"
	"strconv"
)

// lmDeploy is LMDeploy. Its completions take a list of ids for a list of prompts; its own API takes ids as they are. It
// tells no limit.
type lmDeploy struct{}

func (lmDeploy) name() Dialect { return LMDeploy }

func (lmDeploy) recognises(_ context.Context, _ *Client, l modelList) bool {
	return l.owner() == "lmdeploy"
}

func (lmDeploy) apis() []API           { return []API{Native, Completions, Chat} }
func (lmDeploy) takesIDs(api API) bool { return api == Native }

func (lmDeploy) leg(api API, s session, r Request) (legRequest, error) {
	if api != Native {
		l := openAILeg(api, s, r)
		l.stick(s.replica)
		l.fields = append(l.fields, may("top_k", 1))
		return l, nil
	}
	l := legRequest{path: "/generate", open: `"input_ids":`, fields: []field{
		must("max_tokens", r.MaxTokens), may("temperature", 0), may("top_k", 1), may("ignore_eos", true), must("stream", true),
	}}
	if r.Prompt.text {
		l.open = `"prompt":`
	}
	l.stick(s.replica)
	return l, nil
}

// describe knows of speculation once there was some: the counters may be there without.
func (lmDeploy) describe(ctx context.Context, c *Client, _ modelList, f *Facts) {
	page, err := c.get(ctx, "/metrics")
	if err != nil {
		return
	}
	f.Started = started(page)
	for line := range bytes.Lines(page) {
		if !bytes.HasPrefix(line, []byte("lmdeploy:spec_decode_num_drafts_total")) {
			continue
		}
		fields := bytes.Fields(line)
		if n, err := strconv.ParseFloat(string(fields[len(fields)-1]), 64); err == nil && n > 0 {
			f.Speculation = "speculative"
		}
	}
}

func (lmDeploy) tokenize(_ session, text string, special bool) (string, map[string]any) {
	return "/v1/encode", map[string]any{"input": text, "add_bos": special}
}
