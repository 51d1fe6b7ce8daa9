package main

import (
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	password    = "hunter2/+?" // changes when it is escaped
	accessToken = "eyJhbGciOi.hunter3"
)

// shown are the forms in which a secret may get out.
func shown() []string {
	return []string{
		password, url.QueryEscape(password), url.PathEscape(password), url.UserPassword("u", password).String(), accessToken,
		base64.StdEncoding.EncodeToString([]byte("u:" + password)), base64.StdEncoding.EncodeToString([]byte("u:" + url.QueryEscape(password))),
	}
}

// echoing is a server, a proxy and a token endpoint in one that fails and says what it was sent, in the status line too.
func echoing(t *testing.T) string {
	t.Helper()
	return answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/token" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer"}`, accessToken)
			return
		}
		said := fmt.Sprintf("no: %s %v %s", r.RequestURI, r.Header, body[:min(len(body), 500)])
		if user, pass, ok := r.BasicAuth(); ok {
			said = fmt.Sprintf("no login %s:%s, no %s", user, pass, pass)
		}
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		line := strings.NewReplacer("\r", " ", "\n", " ").Replace(said)
		fmt.Fprintf(c, "HTTP/1.1 500 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", line[:min(len(line), 1000)], len(said), said)
	})
}

// telling is a server that fails, and says what it was sent wherever it tells of itself.
func telling(t *testing.T) string {
	t.Helper()
	return answering(t, func(w http.ResponseWriter, r *http.Request) {
		sent := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprintf(w, `{"data":[{"id":%[1]q,"root":%[1]q,"owned_by":"sglang"}]}`, sent)
		case "/server_info":
			fmt.Fprintf(w, `{"version":%[1]q,"attention_backend":%[1]q,"speculative_algorithm":%[1]q,"model_path":%[1]q}`, sent)
		default:
			http.Error(w, "no", http.StatusInternalServerError)
		}
	})
}

// TestSecrets looks for credentials of every kind on every page, in the log and in errors.
func TestSecrets(t *testing.T) {
	server, facts := echoing(t), telling(t)
	proxy := strings.Replace(server, "http://", "http://"+url.UserPassword("u", password).String()+"@", 1)
	ways := map[string]string{
		"bearer":      fmt.Sprintf(`http: {authorization: {credentials: '%s'}}`, password),
		"scheme":      fmt.Sprintf(`http: {authorization: {type: Api-Key, credentials: '%s'}}`, password),
		"facts":       fmt.Sprintf(`http: {authorization: {credentials: '%s'}}`, password),
		"file":        fmt.Sprintf(`http: {authorization: {credentials_file: '%s'}}`, file(t, password+"\n")),
		"basic":       fmt.Sprintf(`http: {basic_auth: {username: u, password: '%s'}}`, password),
		"header":      fmt.Sprintf(`http: {http_headers: {X-Key: {secrets: ['%s']}}}`, password),
		"value":       fmt.Sprintf(`http: {http_headers: {X-Key: {values: ['%s']}}}`, password),
		"params":      fmt.Sprintf(`http: {oauth2: {client_id: u, client_secret: b, token_url: '%s/token', endpoint_params: {assertion: '%s'}}}`, server, password),
		"token-url":   fmt.Sprintf(`http: {oauth2: {client_id: u, client_secret: b, token_url: '%s/token?key=%s'}}`, server, url.QueryEscape(password)),
		"oauth2":      fmt.Sprintf(`http: {oauth2: {client_id: u, client_secret: '%s', token_url: '%s/token'}}`, password, server),
		"oauth2-down": fmt.Sprintf(`http: {oauth2: {client_id: u, client_secret: '%s', token_url: '%s/refused', endpoint_params: {a: b}}}`, password, server),
		"proxy":       fmt.Sprintf(`http: {proxy_url: '%s'}`, proxy),
		"tunnel":      fmt.Sprintf(`http: {proxy_url: '%s', proxy_connect_header: {Proxy-Authorization: ['Basic %s']}}`, server, password),
		"metrics":     fmt.Sprintf(`metrics: {http: {authorization: {credentials: '%s'}}}`, password),
	}
	var targets strings.Builder
	for name, way := range ways {
		to := server
		switch name {
		case "tunnel":
			to = "https://127.0.0.1:1"
		case "facts":
			to = facts
		}
		fmt.Fprintf(&targets, "  - {name: %[1]s, server: %[1]s, url: '%[2]s', %[3]s}\n", name, to, way)
	}
	config := file(t, "ladder: [1k]\nintervals: 1s\nbudget: 100%\ntargets:\n"+targets.String())
	stored := t.TempDir()
	d := startDaemon(t, "--config.file="+config, "--web.enable-lifecycle", "--web.enable-pprof", "--log.level=debug", "--storage.path="+stored)
	for name := range ways {
		wait(t, "a run of "+name, func() bool { return d.runs(t, name) > 0 })
	}

	look := func(path, body string) {
		t.Helper()
		body = html.UnescapeString(body)
		for _, secret := range shown() {
			if i := strings.Index(body, secret); i >= 0 {
				t.Errorf("%s shows %s: …%s", path, secret, body[max(0, i-300):i+len(secret)])
			}
		}
	}
	get := func(path string) string {
		_, body := do(t, http.DefaultClient, http.MethodGet, d.url+path, nil)
		look(path, body)
		return body
	}
	for _, path := range []string{"/", "/metrics", "/runs", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2"} {
		get(path)
	}
	ids := regexp.MustCompile(`"id": "(\w+)"`).FindAllStringSubmatch(get("/runs?format=json"), -1)
	if len(ids) < len(ways) {
		t.Errorf("%d runs of %d targets", len(ids), len(ways))
	}
	for _, id := range ids {
		get("/runs/" + id[1])
		get("/runs/" + id[1] + "?format=json")
	}
	if body := get("/config"); strings.Count(body, "<secret>") < len(ways)-2 { // one has a file, and common/config writes xxxxx for that of a proxy's URL
		t.Errorf("the configuration does not show where secrets are:\n%s", body)
	}
	status, text := do(t, http.DefaultClient, http.MethodPost, d.url+"/-/reload", nil)
	if status != http.StatusOK || !strings.Contains(d.stderr.String(), fmt.Sprintf("targets_kept=%d", len(ways))) {
		t.Errorf("%d %s: reloading the same file touches targets:\n%s", status, text, d.stderr)
	}
	look("the log", d.stderr.String())
	d.stop(t)
	kept, err := os.ReadFile(filepath.Join(stored, "state"))
	if err != nil || !strings.Contains(string(kept), "model_path") {
		t.Errorf("the state holds no settings: %v", err)
	}
	look("the state", string(kept))
}
