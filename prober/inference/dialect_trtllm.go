package inference

import "context"

// trtLLM is TensorRT-LLM's trtllm-serve. It refuses every field that it does not know, tells no limit at all, and has pages
// that are emptied by whoever reads them: those are never read.
type trtLLM struct{}

func (trtLLM) name() Dialect { return TRTLLM }

func (trtLLM) recognises(_ context.Context, _ *Client, l modelList) bool {
	return l.owner() == "tensorrt_llm"
}

func (trtLLM) apis() []API           { return []API{Completions, Chat} }
func (trtLLM) takesIDs(api API) bool { return api == Completions }

func (trtLLM) leg(api API, s session, r Request) (legRequest, error) {
	l := openAILeg(api, s, r)
	l.stick(s.replica)
	l.fields = append(l.fields, continuousUsage())
	if api == Chat && r.Salt != "" { // completions have no such field
		l.fields = append(l.fields, may("cache_salt", r.Salt))
	}
	return l, nil
}

func (trtLLM) describe(ctx context.Context, c *Client, _ modelList, f *Facts) {
	f.ServerVersion = c.version(ctx, "/version")
	f.Settings.put("version", f.ServerVersion)
}

// tokenize has no say in special tokens.
func (trtLLM) tokenize(_ session, text string, _ bool) (string, map[string]any) {
	return "/_internal/tokenize", map[string]any{"prompt": text}
}
