package inference

import (
	"context"
	"net/http"
)

// openAI is any server with an OpenAI-compatible API, gateways included. It gets standard fields, ignore_eos, and prompts
// of text only: some take a list of ids for a list of prompts.
type openAI struct{}

func (openAI) name() Dialect                                       { return OpenAI }
func (openAI) recognises(context.Context, *Client, modelList) bool { return true }
func (openAI) apis() []API                                         { return []API{Completions, Chat} }
func (openAI) takesIDs(API) bool                                   { return false }

func (openAI) leg(api API, s session, r Request) (legRequest, error) {
	l := openAILeg(api, s, r)
	l.stick(s.replica)
	return l, nil
}

// stick asks whatever balances the load to send all legs to one replica.
func (l *legRequest) stick(key string) {
	if key != "" {
		l.header = http.Header{"X-Session-Id": {key}}
	}
}

func (openAI) describe(context.Context, *Client, modelList, *Facts) {}

func (openAI) tokenize(session, string, bool) (string, map[string]any) { return "", nil }
