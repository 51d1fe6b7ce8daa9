package inference

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// ollama is Ollama. It takes text only, cannot be told to go on after the end of a text, and cuts what is too long without
// a word: the count of prompt tokens shows that.
type ollama struct{}

func (ollama) name() Dialect { return Ollama }

// recognises asks where the list does not say: models that do not come from Ollama's own library are owned by anybody.
func (ollama) recognises(ctx context.Context, c *Client, l modelList) bool {
	return l.owner() == "library" || c.version(ctx, "/api/version") != ""
}

func (ollama) apis() []API       { return []API{Completions, Chat} }
func (ollama) takesIDs(API) bool { return false }

func (ollama) leg(api API, s session, r Request) (legRequest, error) {
	l := openAILeg(api, s, r)
	l.stick(s.replica)
	l.fields = slices.DeleteFunc(l.fields, func(f field) bool { return f.name == "ignore_eos" })
	return l, nil
}

// describe reads the context length that the model runs with, or where it is not loaded yet, the one that it would be
// loaded with at most.
func (ollama) describe(ctx context.Context, c *Client, _ modelList, f *Facts) {
	f.ServerVersion = c.version(ctx, "/api/version")
	f.Settings.put("version", f.ServerVersion)
	var pulled struct {
		Models []struct {
			Name   string `json:"name"`
			Digest string `json:"digest"`
		} `json:"models"`
	}
	if c.getJSON(ctx, "/api/tags", &pulled) == nil {
		for _, m := range pulled.Models {
			if m.Name == f.Model {
				f.Settings.put("digest", m.Digest)
			}
		}
	}
	var loaded struct {
		Models []struct {
			Name    string `json:"name"`
			Model   string `json:"model"`
			Context int    `json:"context_length"`
		} `json:"models"`
	}
	if c.getJSON(ctx, "/api/ps", &loaded) == nil {
		for _, m := range loaded.Models {
			if m.Name == f.Model || m.Model == f.Model {
				f.ContextLimit = m.Context
			}
		}
	}
	if f.ContextLimit == 0 {
		f.ContextLimit = ollamaContext(ctx, c, f.Model)
	}
}

// ollamaContext is the context length that a model is configured with, or else the one that it was trained for.
func ollamaContext(ctx context.Context, c *Client, model string) int {
	body, err := json.Marshal(map[string]string{"model": model})
	if err != nil {
		return 0
	}
	page, err := c.post(ctx, "/api/show", body)
	if err != nil {
		return 0
	}
	var shown struct {
		Parameters string                     `json:"parameters"` // a line each
		Info       map[string]json.RawMessage `json:"model_info"`
	}
	if json.Unmarshal(page, &shown) != nil {
		return 0
	}
	for line := range strings.Lines(shown.Parameters) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "num_ctx" {
			if n, err := strconv.Atoi(words[1]); err == nil {
				return n
			}
		}
	}
	for key, v := range shown.Info {
		if strings.HasSuffix(key, ".context_length") {
			return value(count(v))
		}
	}
	return 0
}

func (ollama) tokenize(session, string, bool) (string, map[string]any) { return "", nil }
