package inference

import "context"

// dialect is how one kind of server is spoken to. A new kind is a new type in a file of its own, and a line in dialects.
type dialect interface {
	name() Dialect
	// recognises says whether a list of models is of this kind of server; it may ask the server where the list is silent.
	recognises(context.Context, *Client, modelList) bool
	// apis are the endpoint families that AutoAPI tries in turn.
	apis() []API
	// leg is a request on one endpoint family.
	leg(api API, s session, r Request) (legRequest, error)
	// describe adds what the server says of itself. What it does not say stays unknown.
	describe(ctx context.Context, c *Client, list modelList, f *Facts)
	// takesIDs says whether prompts on that endpoint family may be lists of token ids.
	takesIDs(api API) bool
	// tokenize is the path and the body that ask for the ids of text; the path is "" where the server has no tokenizer.
	tokenize(s session, text string, special bool) (path string, body map[string]any)
}

// session is what every request to a server repeats.
type session struct {
	model   string
	replica string
}

// dialects are the kinds of servers that are told apart; the one that every server falls back to comes last.
func dialects() []dialect {
	return []dialect{sglang{}, vllm{}, llamaCpp{}, trtLLM{}, lmDeploy{}, ollama{}, openAI{}}
}

// dialectNamed is the dialect that the configuration names, nil for Auto.
func dialectNamed(name Dialect) dialect {
	for _, d := range dialects() {
		if d.name() == name {
			return d
		}
	}
	return nil
}

// openAILeg is what the OpenAI-compatible APIs of all servers have in common.
func openAILeg(api API, s session, r Request) legRequest {
	l := legRequest{path: "/v1/completions", open: `"prompt":`}
	if api == Chat {
		l.path, l.open, l.close = "/v1/chat/completions", `"messages":[{"role":"user","content":`, "}]"
	}
	if s.model != "" {
		l.fields = append(l.fields, must("model", s.model))
	}
	l.fields = append(l.fields,
		must("max_tokens", r.MaxTokens),
		may("temperature", 0),
		must("stream", true),
		field{parent: "stream_options", name: "include_usage", value: true, optional: true},
		may("ignore_eos", true),
	)
	return l
}

// continuousUsage asks for a token count in every chunk.
func continuousUsage() field {
	return field{parent: "stream_options", name: "continuous_usage_stats", value: true, optional: true}
}
