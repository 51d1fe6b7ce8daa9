package inference

import (
	"strings"
	"testing"
)

// TestLiteLLM asks the gateway for one plain try once it is known, and never uses an answer that took more.
func TestLiteLLM(t *testing.T) {
	const x = "exchange POST /v1/completions\n"
	script := x + "fail-test-if-header-present X-Litellm-Num-Retries\nheader x-litellm-attempted-retries: 0\n" + oneAnswer +
		x + "assert-request-header X-Litellm-Num-Retries: 0\nheader x-litellm-attempted-retries: 1\n" + oneAnswer +
		x + "header x-litellm-attempted-retries: 0\nheader x-litellm-attempted-fallbacks: 2\n" + oneAnswer +
		x + "header x-litellm-attempted-retries: None\n" + oneAnswer
	scripted(t, script, Options{Dialect: OpenAI, API: Completions, Model: "m"}, func(t *testing.T, c *Client, s *wireServer) {
		for i, bad := range []bool{false, true, true, false} {
			resp, err := c.Complete(t.Context(), Request{Prompt: words, MaxTokens: 1})
			if resp.Retried != bad || (err != nil) != bad {
				t.Errorf("answer %d: %+v, %v", i+1, resp, err)
			}
			if bad && failure(t, err).Class != GatewayError {
				t.Errorf("answer %d: %v", i+1, err)
			}
			if plain := strings.Contains(s.bodies[i], `"cache":{"no-cache":true}`); plain != (i > 0) {
				t.Errorf("request %d: %s", i+1, s.bodies[i])
			}
		}
	})
}

// TestLiteLLMShowsInTheList notices the gateway before the first leg.
func TestLiteLLMShowsInTheList(t *testing.T) {
	script := "exchange GET /v1/models\nstatus 200\nheader x-litellm-version: 1.99.0\nat 0 send text {\"data\":[{\"id\":\"m\",\"owned_by\":\"openai\"}]}\nat 0 end\n" +
		"exchange POST /v1/completions\nassert-request-header X-Litellm-Num-Retries: 0\n" + oneAnswer
	scripted(t, script, Options{Dialect: Auto}, func(t *testing.T, c *Client, _ *wireServer) {
		if _, err := c.Complete(t.Context(), Request{Prompt: words, MaxTokens: 1}); err != nil {
			t.Error(err)
		}
	})
}
