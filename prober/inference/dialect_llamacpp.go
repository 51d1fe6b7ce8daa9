package inference

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
)

// llamaCpp is llama.cpp's llama-server.
type llamaCpp struct{}

func (llamaCpp) name() Dialect { return LlamaCpp }

func (llamaCpp) recognises(_ context.Context, _ *Client, l modelList) bool {
	return l.owner() == "llamacpp" || len(l.Data) > 0 && l.Data[0].Meta.Context > 0
}

func (llamaCpp) apis() []API           { return []API{Completions, Chat} }
func (llamaCpp) takesIDs(api API) bool { return api == Completions }

func (llamaCpp) leg(api API, s session, r Request) (legRequest, error) {
	l := openAILeg(api, s, r)
	if s.replica != "" {
		slot, err := strconv.Atoi(s.replica)
		if err != nil {
			return l, fmt.Errorf("replica %.40q is no slot number", s.replica)
		}
		l.fields = append(l.fields, may("id_slot", slot))
	}
	return l, nil
}

func (llamaCpp) describe(ctx context.Context, c *Client, list modelList, f *Facts) {
	var props struct {
		Defaults struct {
			Context     int             `json:"n_ctx"`
			Speculative json.RawMessage `json:"speculative"`
		} `json:"default_generation_settings"`
		Slots int    `json:"total_slots"`
		Build string `json:"build_info"`
		Path  string `json:"model_path"`
		Type  string `json:"model_ftype"`
	}
	if c.getJSON(ctx, "/props", &props) == nil {
		f.ServerVersion, f.Replicas = props.Build, props.Slots
		f.ContextLimit = props.Defaults.Context // of one slot, which is what one request can use
		for name, value := range map[string]string{
			"version": props.Build, "model_path": props.Path, "model_ftype": props.Type, "total_slots": known(props.Slots),
			"n_ctx": known(props.Defaults.Context),
		} {
			f.Settings.put(name, value)
		}
	}
	if f.ContextLimit == 0 && len(list.Data) > 0 {
		f.ContextLimit = list.Data[0].Meta.Context
	}
	var slots []struct {
		Speculative json.RawMessage `json:"speculative"`
	}
	flag := props.Defaults.Speculative
	if len(flag) == 0 && c.getJSON(ctx, "/slots", &slots) == nil && len(slots) > 0 {
		flag = slots[0].Speculative
	}
	f.speculative(flag)
	f.Settings.put("speculative", string(flag))
	f.KVPoolTokens, f.PageSize = f.ContextLimit, 1
}

// speculative reads llama.cpp's flag. It tells no length of a draft.
func (f *Facts) speculative(flag json.RawMessage) {
	switch string(flag) {
	case "true":
		f.Speculation, f.BlockSize = "draft", 0
	case "false":
		f.Speculation, f.BlockSize = "none", 1
	}
}

func (llamaCpp) tokenize(_ session, text string, special bool) (string, map[string]any) {
	return "/tokenize", map[string]any{"content": text, "add_special": special}
}
