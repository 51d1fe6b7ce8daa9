package inference

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/config"
)

// credentials are ways to send a secret that needs escapes everywhere, with the parts of it that must not show.
func credentials(t *testing.T) map[string]config.HTTPClientConfig {
	t.Helper()
	const secret = `CLIENT"K/E\Y-777`
	kept := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(kept, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]config.HTTPClientConfig{
		"bearer":        {Authorization: &config.Authorization{Type: "Bearer", Credentials: secret}},
		"file":          {Authorization: &config.Authorization{Type: "Bearer", CredentialsFile: kept}},
		"basic":         {BasicAuth: &config.BasicAuth{Username: "joe", Password: secret}},
		"password file": {BasicAuth: &config.BasicAuth{Username: "joe", PasswordFile: kept}},
		"header":        {HTTPHeaders: &config.Headers{Headers: map[string]config.Header{"X-Key": {Secrets: []config.Secret{secret}}}}},
	}
}

// sent is what a request says of who sends it, as a server that knows all encodings understands it.
func sent(r *http.Request) string {
	scheme, said, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if login, err := base64.StdEncoding.DecodeString(said); err == nil && scheme == "Basic" {
		said += " is " + string(login)
	}
	return said + r.Header.Get("X-Key")
}

// TestSecretsInFacts: servers put what they were sent into everything that they tell about themselves.
func TestSecretsInFacts(t *testing.T) {
	answer := func(w http.ResponseWriter, v any) {
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	type object = map[string]any
	owned := func(owner string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			key := "it is " + sent(r)
			switch r.URL.Path {
			case "/v1/models":
				answer(w, object{"data": []object{{"id": key, "root": key, "owned_by": owner, "max_model_len": 4096}, {"id": "x" + key}}})
			case "/server_info":
				state := object{}
				for _, name := range sglangSettings() {
					state[name] = key
				}
				delete(state, "page_size")
				state["model_path"] = strings.Repeat("x", maxMessage-20) + key
				answer(w, object{"version": key, "speculative_algorithm": key, "attention_backend": key, "internal_states": []object{state}})
			case "/metrics":
				fmt.Fprintf(w, "\nvllm:cache_config_info{cache_dtype=\"%s\"} 1\n", strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(key))
			case "/model_info":
				answer(w, object{"weight_version": key})
			case "/props":
				answer(w, object{"build_info": key, "model_path": key, "model_ftype": key})
			case "/version", "/api/version":
				answer(w, object{"version": key})
			case "/api/tags":
				answer(w, object{"models": []object{{"name": key, "digest": key}}})
			default:
				http.NotFound(w, r)
			}
		}
	}
	for _, owner := range []string{"sglang", "vllm", "llamacpp", "library", "tensorrt_llm", "me"} {
		for name, way := range credentials(t) {
			server := httptest.NewServer(owned(owner))
			c, err := New(Options{URL: server.URL, HTTP: way})
			if err != nil {
				t.Fatal(err)
			}
			f, err := c.Identify(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			again, err := c.Glance(t.Context())
			if said := fmt.Sprintf("%#v %#v", f, again); err != nil || strings.Contains(said, "CLIE") || strings.Contains(said, "777") {
				t.Errorf("%s, %s: %v %s", owner, name, err, said)
			}
			if f.Model == "" || !strings.HasPrefix(c.model, "it is ") || strings.Contains(c.model, "<secret>") {
				t.Errorf("%s, %s: requests would name the model %q", owner, name, c.model)
			}
			c.Close()
			server.Close()
		}
	}
}

// TestSecretsInFailures: in every form in which a server sends back what it was sent.
func TestSecretsInFailures(t *testing.T) {
	quoted := func(s string) string {
		b, _ := json.Marshal(s)
		return string(b)
	}
	within := func(s, what string) string {
		at := strings.Index(s, "CLIE") + len("CLIE")
		return s[:at] + what + s[at:]
	}
	models := func(id string) string { return `{"data":[{"id":` + quoted(id) + `}]}` }
	for name, test := range map[string]struct {
		status int
		body   func(key string) string
	}{
		"a message":       {401, func(key string) string { return `{"error":{"message":` + quoted("bad login "+key) + `}}` }},
		"escaped":         {401, func(key string) string { return `{"complaint":` + quoted(key) + `}` }},
		"escaped twice":   {401, func(key string) string { return `{"complaint":` + quoted(quoted(key)) + `}` }},
		"escaped in text": {401, func(key string) string { return `{"message":` + quoted(quoted(key)) + `}` }},
		"no UTF-8":        {401, func(key string) string { return "bad key Bearer " + within(key, "\xff") }},
		"no UTF-8 in JSON": {401, func(key string) string {
			return `{"message":` + strings.ReplaceAll(quoted(within(key, "@")), "@", "\xff") + `}`
		}},
		"control characters": {401, func(key string) string { return "bad key " + within(key, "\x00\x1b\u200b\u202e") }},
		"no JSON":            {200, func(key string) string { return strings.Repeat("x", 44) + within(key, "\xff") }},
		"an unknown model":   {200, models},
		"a long model":       {200, func(key string) string { return models(strings.Repeat("x", 144) + key) }},
	} {
		for way, c := range credentials(t) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(test.status)
				fmt.Fprint(w, test.body(sent(r)))
			}))
			client, err := New(Options{URL: server.URL, Model: "other", HTTP: c})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Identify(t.Context())
			if said := fmt.Sprint(err); err == nil || strings.Contains(said, "CLIE") || strings.Contains(said, "777") || !strings.Contains(said, "<sec") {
				t.Errorf("%s, %s: %s", name, way, said)
			}
			client.Close()
			server.Close()
		}
	}
}

// TestSecretsAreBounded: tokens come and go, and the latest are known, beside those of the configuration.
func TestSecretsAreBounded(t *testing.T) {
	s := newSecrets([]string{"configured"})
	for i := range 10 * mostSecrets {
		s.see([]string{fmt.Sprintf("Bearer token-%04d", i)})
	}
	if len(s.sent) != mostSecrets {
		t.Errorf("%d are kept", len(s.sent))
	}
	if got := s.hide("configured token-0639 token-0638 x"); got != "<secret> <secret> <secret> x" {
		t.Error(got)
	}
}
