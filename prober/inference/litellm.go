package inference

import (
	"net/http"
	"strconv"
	"strings"
)

// LiteLLM is a gateway that may answer from a cache of its own, and that sends a request again, or to another model, and
// tells so in headers only.

// notice remembers that LiteLLM stands in front of the server, as the header of any answer shows.
func (c *Client) notice(h http.Header) {
	for key := range h {
		if strings.HasPrefix(key, "X-Litellm-") {
			c.mu.Lock()
			c.liteLLM = true
			c.mu.Unlock()
			return
		}
	}
}

// plain asks LiteLLM, where it is known to be there, to send a leg once and not to answer it from its cache.
func (c *Client) plain(l legRequest) legRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.liteLLM {
		return l
	}
	if l.header == nil {
		l.header = http.Header{}
	}
	l.header.Set("X-Litellm-Num-Retries", "0")
	l.fields = append(l.fields, field{parent: "cache", name: "no-cache", value: true, optional: true})
	return l
}

// retried says whether LiteLLM tried more than once before it had this answer.
func retried(h http.Header) bool {
	for _, name := range []string{"X-Litellm-Attempted-Retries", "X-Litellm-Attempted-Fallbacks"} {
		if n, err := strconv.Atoi(h.Get(name)); err == nil && n > 0 {
			return true
		}
	}
	return false
}
