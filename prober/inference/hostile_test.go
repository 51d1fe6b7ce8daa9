package inference

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/config"
)

func TestCount(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "7": 7, "7.0": 7, "1e3": 1000, "2147483647": mostCount,
		"-1": -1, "-1.0": -1, "7.5": -1, "2147483648": -1, "9223372036854775807": -1, "1e400": -1, "-1e300": -1, `"7"`: -1, "null": -1, "[]": -1,
	} {
		got := -1
		if n := count([]byte(text)); n != nil {
			got = *n
		}
		if got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// TestImpossibleSteps: counts that contradict each other beyond any block size are not told at all.
func TestImpossibleSteps(t *testing.T) {
	const answer = `data: {"text":"a","meta_info":{"prompt_tokens":9,"completion_tokens":65,"finish_reason":{"type":"length"},%s}}` + "\n\n"
	for counts, want := range map[string]*Spec{
		`"spec_verify_ct":20,"spec_num_correct_drafts":50`:                                                                                {Steps: 20, Drafts: 50, Source: "meta_info"},
		`"spec_verify_ct":65,"spec_num_correct_drafts":0`:                                                                                 {Steps: 65, Source: "meta_info"},
		`"spec_verify_ct":66,"spec_num_correct_drafts":0`:                                                                                 nil,
		`"spec_verify_ct":1000000000,"spec_num_correct_drafts":50`:                                                                        nil,
		`"spec_verify_ct":20,"spec_num_correct_drafts":1000000000`:                                                                        nil,
		`"spec_verify_ct":20,"spec_num_correct_drafts":9223372036854775807`:                                                               nil,
		`"spec_verify_ct":9223372036854775807,"spec_num_correct_drafts":9223372036854775807`:                                              nil,
		`"spec_verify_ct":-1,"spec_num_correct_drafts":5`:                                                                                 nil,
		`"spec_verify_ct":20,"spec_num_correct_drafts":50,"spec_accept_histogram":[-1,21]`:                                                {Steps: 20, Drafts: 50, Source: "meta_info"},
		`"spec_verify_ct":20,"spec_num_correct_drafts":50,"spec_accept_histogram":[9223372036854775807,9223372036854775807,22]`:           {Steps: 20, Drafts: 50, Source: "meta_info"},
		`"spec_verify_ct":20,"spec_num_correct_drafts":50,"spec_accept_histogram":[4611686018427387904,4611686018427387904,0,0,0,0,0,20]`: {Steps: 20, Drafts: 50, Source: "meta_info"},
	} {
		r, _ := readAnswer(t, strings.NewReader(fmt.Sprintf(answer, counts)), 65)
		if d := cmp.Diff(want, r.Spec); d != "" {
			t.Errorf("%s:\n%s", counts, d)
		}
	}
}

// TestEndlessAnswer: a server that never stops is cut off long before its deadline, and what it sends is not kept.
func TestEndlessAnswer(t *testing.T) {
	for name, event := range map[string]string{
		"increments":             `data: {"choices":[{"text":" a"}]}` + "\n\n",
		"unlike and with counts": `data: {"text":"aab","meta_info":{"completion_tokens":1}}` + "\n\n" + `data: {"text":"b","meta_info":{}}` + "\n\n",
	} {
		body := &countingReader{r: io.LimitReader(&repeated{text: event}, 1<<30)}
		r, failed := readAnswer(t, body, 65)
		if failed == nil || failed.Class != Protocol || !strings.Contains(failed.Message, errEndless.Error()) {
			t.Errorf("%s: %v", name, failed)
		}
		if len(r.Chunks) > 2*mostChunks || body.n > 64<<20 {
			t.Errorf("%s: %d chunks of %d bytes", name, len(r.Chunks), body.n)
		}
	}
}

// repeated reads as its text over and over.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = r.text[r.at]
		r.at = (r.at + 1) % len(r.text)
	}
	return len(p), nil
}

type countingReader struct {
	r io.Reader
	n int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

// TestUnbelievableFacts: what a server says of itself is not known where it cannot be.
func TestUnbelievableFacts(t *testing.T) {
	script := pages(map[string]string{
		"GET /v1/models":   `{"data":[{"id":""},{"id":"` + strings.Repeat("x", maxName+1) + `"},{"id":"m","owned_by":"sglang","max_model_len":-5}]}`,
		"GET /server_info": `{"version":"1\u001b[31m\u202e2","context_length":-7,"max_total_num_tokens":-9223372036854775808,"page_size":-1,"dp_size":99999999999,"max_req_input_len":-3,"stream_interval":-1,"speculative_algorithm":"X","speculative_ddtree_block_size":9223372036854775807}`,
	})
	scripted(t, script, Options{Dialect: SGLang}, func(t *testing.T, c *Client, _ *wireServer) {
		f, err := c.Identify(t.Context())
		want := Facts{Dialect: SGLang, API: Native, Models: []string{"m"}, Model: "m", ServerVersion: "1[31m2", Speculation: "X", TokenIDs: true}
		f.Settings = nil // has tests of its own
		if d := cmp.Diff(want, f); err != nil || d != "" {
			t.Errorf("%v\n%s", err, d)
		}
	})
}

// TestEchoedSecrets: a server that sends back what it was sent does not make the key show up, not even a part of it.
func TestEchoedSecrets(t *testing.T) {
	const key = "sk-secret-0123456789"
	echo := func(where string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent := r.Header.Get("Authorization")
			switch {
			case where == "models":
				fmt.Fprint(w, strings.Repeat("x", 38)+sent)
			case r.Method == http.MethodGet:
				fmt.Fprint(w, `{"data":[{"id":"m"}]}`)
			case where == "answer":
				fmt.Fprint(w, strings.Repeat("x", 38)+sent)
			case where == "finish":
				fmt.Fprintf(w, "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", sent)
			}
		})
	}
	for _, where := range []string{"models", "answer", "finish"} {
		server := httptest.NewServer(echo(where))
		c, err := New(Options{URL: server.URL, HTTP: config.HTTPClientConfig{Authorization: &config.Authorization{Type: "Bearer", Credentials: key}}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Complete(t.Context(), Request{Prompt: TextPrompt("hello"), MaxTokens: 1})
		if said := fmt.Sprint(err, r.FinishReason); strings.Contains(said, "sk-") || !strings.Contains(said, "<sec") {
			t.Errorf("%s: %s", where, said)
		}
		c.Close()
		server.Close()
	}
}

// TestPageBounds: pages that do not end are given up, and redirects that lead nowhere are told as they are.
func TestPageBounds(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.CopyN(w, neverEnding('['), 2*maxPage)
		}, "protocol: /v1/models answered more than 16 MiB: is this the API's base URL?"},
		"a loop": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/v1/models", http.StatusFound)
		}, "/v1/models, which is not followed: set that as the url"},
	} {
		server := httptest.NewServer(test.handler)
		c, err := New(Options{URL: server.URL, HTTP: config.HTTPClientConfig{FollowRedirects: true}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Identify(t.Context())
		if err == nil || !strings.HasSuffix(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
		server.Close()
	}
}

// TestCutAnywhere: a connection that ends after any byte of a good answer gives a failure, or the whole of what was said.
func TestCutAnywhere(t *testing.T) {
	const body = "data: {\"choices\":[{\"text\":\" a\"}]}\n\n" +
		"data: {\"choices\":[{\"text\":\" b\",\"finish_reason\":\"length\"}]}\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1024,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n"
	for name, answer := range map[string]string{
		"until the end": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + body,
		"of a length":   fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"chunked":       fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body),
	} {
		t.Run(name, func(t *testing.T) {
			whole := 0
			for n := range len(answer) + 1 {
				r, err := cutAt(t, answer, n)
				switch {
				case err != nil:
					failure(t, err)
				case value(r.PromptTokens) != 1024 && r.PromptTokens != nil || value(r.CompletionTokens) != 2 && r.CompletionTokens != nil || len(r.Chunks) != 2:
					t.Errorf("after %d bytes: %+v", n, r)
				default:
					whole++
				}
			}
			if whole == 0 || whole > len(answer)/2 {
				t.Errorf("%d of %d cut answers are taken", whole, len(answer))
			}
		})
	}
}

// cutAt sends one leg to a server that closes after n bytes of its answer.
func cutAt(t *testing.T, answer string, n int) (Response, error) {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer theirs.Close()
		if request, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
			_, _ = io.Copy(io.Discard, request.Body)
			_, _ = io.WriteString(theirs, answer[:n]) // fails where the client has heard enough
		}
	}()
	c, err := New(Options{URL: "http://cut", Dialect: OpenAI, Model: "m", API: Completions, Dial: func(context.Context, string, string) (net.Conn, error) { return ours, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := c.Complete(t.Context(), Request{Prompt: TextPrompt("hello"), MaxTokens: 2})
	_ = ours.Close()
	<-done
	return r, err
}
