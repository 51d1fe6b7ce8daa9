package inference

import (
	"bytes"
	"compress/flate"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/config"
)

const (
	oneToken   = `send text data: {"choices":[{"text":"a","delta":{"content":"a"},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n`
	oneAnswer  = "status 200\nat 0 " + oneToken + "\nat 0 end\n"
	refusalTop = "status 400\nat 0 send text "
)

// scripted runs a test in a bubble against a scripted server.
func scripted(t *testing.T, script string, o Options, test func(t *testing.T, c *Client, s *wireServer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := parseScript(t, script, nil)
		defer s.sessions.Wait()
		o.URL, o.Dial = "http://pipe.test", s.dial
		c, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		test(t, c, s)
	})
}

// failure is the *Error inside err.
func failure(t *testing.T, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *Error", err)
	}
	return e
}

var ids, words = IDPrompt("1", "300,163583"), TextPrompt("a ", "\"b\"\n")

// requests are legs, and the bodies that they become.
var requests = map[string]struct {
	dialect Dialect
	api     API
	replica string
	r       Request
	path    string
	want    string
}{
	"sglang native": {
		SGLang, Native, "3",
		Request{Prompt: ids, MaxTokens: 17, Salt: "s"},
		"/generate",
		`{"sampling_params":{"max_new_tokens":17,"temperature":0,"ignore_eos":true},"stream":true,"extra_key":"s","routed_dp_rank":3,"input_ids":[1,300,163583]}`,
	},
	"sglang native text": {
		SGLang, Native, "",
		Request{Prompt: words, MaxTokens: 1},
		"/generate",
		`{"sampling_params":{"max_new_tokens":1,"temperature":0,"ignore_eos":true},"stream":true,"text":"a \"b\"\n"}`,
	},
	"sglang completions": {
		SGLang, Completions, "",
		Request{Prompt: ids, MaxTokens: 17, Salt: "s"},
		"/v1/completions",
		`{"model":"m","max_tokens":17,"temperature":0,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"ignore_eos":true,"return_spec_tokens_details":true,"cache_salt":"s","prompt":[1,300,163583]}`,
	},
	"vllm completions": {
		VLLM, Completions, "1",
		Request{Prompt: ids, MaxTokens: 17, Salt: "s"},
		"/v1/completions",
		`{"model":"m","max_tokens":17,"temperature":0,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"ignore_eos":true,"top_p":1,"repetition_penalty":1,"cache_salt":"s","prompt":[1,300,163583]}`,
	},
	"vllm chat": {
		VLLM, Chat, "",
		Request{Prompt: words, MaxTokens: 17},
		"/v1/chat/completions",
		`{"model":"m","max_tokens":17,"temperature":0,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"ignore_eos":true,"top_p":1,"repetition_penalty":1,"messages":[{"role":"user","content":"a \"b\"\n"}]}`,
	},
	"llama.cpp": {
		LlamaCpp, Completions, "2",
		Request{Prompt: ids, MaxTokens: 17, Salt: "s"},
		"/v1/completions",
		`{"model":"m","max_tokens":17,"temperature":0,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"id_slot":2,"prompt":[1,300,163583]}`,
	},
	"trtllm": {
		TRTLLM, Completions, "",
		Request{Prompt: ids, MaxTokens: 17, Salt: "s"},
		"/v1/completions",
		`{"model":"m","max_tokens":17,"temperature":0,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"ignore_eos":true,"prompt":[1,300,163583]}`,
	},
	"trtllm chat": {
		TRTLLM, Chat, "",
		Request{Prompt: words, MaxTokens: 17, Salt: "s"},
		"/v1/chat/completions",
		`{"model":"m","max_tokens":17,"temperature":0,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"ignore_eos":true,"cache_salt":"s","messages":[{"role":"user","content":"a \"b\"\n"}]}`,
	},
	"lmdeploy": {
		LMDeploy, Native, "",
		Request{Prompt: ids, MaxTokens: 17, Salt: "s"},
		"/generate",
		`{"max_tokens":17,"temperature":0,"top_k":1,"ignore_eos":true,"stream":true,"input_ids":[1,300,163583]}`,
	},
	"lmdeploy completions": {
		LMDeploy, Completions, "",
		Request{Prompt: words, MaxTokens: 17},
		"/v1/completions",
		`{"model":"m","max_tokens":17,"temperature":0,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"top_k":1,"prompt":"a \"b\"\n"}`,
	},
	"lmdeploy native text": {
		LMDeploy, Native, "",
		Request{Prompt: words, MaxTokens: 1},
		"/generate",
		`{"max_tokens":1,"temperature":0,"top_k":1,"ignore_eos":true,"stream":true,"prompt":"a \"b\"\n"}`,
	},
	"ollama": {
		Ollama, Completions, "",
		Request{Prompt: words, MaxTokens: 17, Salt: "s"},
		"/v1/completions",
		`{"model":"m","max_tokens":17,"temperature":0,"stream":true,"stream_options":{"include_usage":true},"prompt":"a \"b\"\n"}`,
	},
	"openai": {
		OpenAI, Completions, "",
		Request{Prompt: words, MaxTokens: 17, Salt: "s"},
		"/v1/completions",
		`{"model":"m","max_tokens":17,"temperature":0,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"prompt":"a \"b\"\n"}`,
	},
}

// TestRequests holds the body and the header that each dialect sends against what its server understands.
func TestRequests(t *testing.T) {
	for name, test := range requests {
		t.Run(name, func(t *testing.T) {
			script := "exchange POST " + test.path + "\nassert-request-header Accept-Encoding: identity\nassert-request-header Content-Type: application/json\n"
			if test.replica != "" && test.dialect != LlamaCpp {
				script += "assert-request-header X-Data-Parallel-Rank: " + test.replica + "\n"
			}
			o := Options{Dialect: test.dialect, API: test.api, Model: "m", Replica: test.replica}
			scripted(t, script+oneAnswer, o, func(t *testing.T, c *Client, s *wireServer) {
				resp, err := c.Complete(t.Context(), test.r)
				if err != nil || resp.Text != "aa" {
					t.Fatalf("%+v, %v", resp, err)
				}
				var got, want map[string]any
				if err := json.Unmarshal([]byte(s.bodies[0]), &got); err != nil {
					t.Fatalf("%s: %v", s.bodies[0], err)
				}
				if rid, _ := got["rid"].(string); test.dialect == SGLang && test.api == Native && len(rid) != 32 {
					t.Errorf("rid %q", rid)
				}
				delete(got, "rid")
				if err := json.Unmarshal([]byte(test.want), &want); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("body (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestRefusals drops or renames the one field that a server complains about, and remembers it.
func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		gone   string // no longer in the second body
		kept   string // still there
		fails  bool
	}{
		"an unknown field":           {answer: `{"error":{"message":"Unknown field: cache_salt","code":400}}`, gone: "cache_salt", kept: "ignore_eos"},
		"by param":                   {answer: `{"error":{"message":"Unrecognized request argument supplied","param":"ignore_eos"}}`, gone: "ignore_eos", kept: "cache_salt"},
		"a member in pydantic's way": {answer: `{"message":"[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options', 'continuous_usage_stats'), 'input': True}]","code":400}`, gone: "continuous_usage_stats", kept: "include_usage"},
		"a member with a dot":        {answer: `{"error":"stream_options.continuous_usage_stats is not supported"}`, gone: "continuous_usage_stats", kept: "include_usage"},
		"the object of members":      {answer: `{"message":"[{'loc': ('body', 'stream_options'), 'input': {'include_usage': True, 'continuous_usage_stats': True}}]"}`, gone: "stream_options", kept: "ignore_eos"},
		"max_tokens by its new name": {answer: `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","param":"max_tokens"}}`, gone: `"max_tokens"`, kept: `"max_completion_tokens":17`},
		"too long is no refusal":     {answer: `{"error":"Requested token count exceeds the model's maximum context length of 131072 tokens. Lower max_tokens or temperature."}`, fails: true},
		"nor is a required field":    {answer: `{"error":"model: field required, prompt too odd"}`, fails: true},
		"nor a word inside another":  {answer: `{"error":"xignore_eosx is odd"}`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			const x = "exchange POST /v1/completions\n"
			o := Options{Dialect: VLLM, API: Completions, Model: "m"}
			scripted(t, x+refusalTop+test.answer+"\nat 0 end\n"+x+oneAnswer, o, func(t *testing.T, c *Client, s *wireServer) {
				r := Request{Prompt: TextPrompt("p"), MaxTokens: 17, Salt: "s"}
				_, err := c.Complete(t.Context(), r)
				if (err != nil) != test.fails {
					t.Fatalf("%v", err)
				}
				if test.fails {
					if len(s.bodies) != 1 {
						t.Errorf("%d requests", len(s.bodies))
					}
					return
				}
				if _, err := c.Complete(t.Context(), r); err != nil || len(s.bodies) != 3 {
					t.Fatalf("the next leg: %v, %d requests", err, len(s.bodies))
				}
				for _, body := range s.bodies[1:] {
					if strings.Contains(body, test.gone) || !strings.Contains(body, test.kept) || !json.Valid([]byte(body)) {
						t.Errorf("body %s", body)
					}
				}
			})
		})
	}
}

// TestRefusalsEnd proves that a server that refuses everything is not asked for ever.
func TestRefusalsEnd(t *testing.T) {
	const script = "exchange POST /v1/completions\nstatus 400\nat 0 send text {\"error\":\"stream_options include_usage continuous_usage_stats ignore_eos temperature top_p repetition_penalty cache_salt stream max_tokens max_completion_tokens model\"}\nat 0 end\n"
	scripted(t, script, Options{Dialect: VLLM, API: Completions, Model: "m"}, func(t *testing.T, c *Client, s *wireServer) {
		_, err := c.Complete(t.Context(), Request{Prompt: TextPrompt("p"), MaxTokens: 17, Salt: "s"})
		if failure(t, err).Class != BadRequest || len(s.bodies) > 9 {
			t.Errorf("%v after %d requests", err, len(s.bodies))
		}
	})
}

// TestIDsWhereTextIsWanted proves that no list of ids goes where it would be taken for something else.
func TestIDsWhereTextIsWanted(t *testing.T) {
	for _, o := range []Options{{Dialect: LMDeploy, API: Completions}, {Dialect: Ollama, API: Completions}, {Dialect: TRTLLM, API: Chat}} {
		o.Model = "m"
		scripted(t, "", o, func(t *testing.T, c *Client, s *wireServer) {
			_, err := c.Complete(t.Context(), Request{Prompt: ids, MaxTokens: 1})
			if e := failure(t, err); e.Class != BadRequest || !strings.Contains(e.Message, "takes text only") || s.dials != 0 {
				t.Errorf("%s: %v after %d connections", o.Dialect, err, s.dials)
			}
		})
	}
}

// TestChatOnly goes over to chat where a server of any kind has nothing else.
func TestChatOnly(t *testing.T) {
	for _, dialect := range []Dialect{VLLM, TRTLLM, LMDeploy, Ollama, OpenAI} {
		const gone = "\nstatus 404\nat 0 send text {\"detail\":\"Not Found\"}\nat 0 end\n"
		script := "exchange POST /generate" + gone + "exchange POST /v1/completions" + gone + "exchange POST /v1/chat/completions\n" + oneAnswer
		scripted(t, script, Options{Dialect: dialect, Model: "m"}, func(t *testing.T, c *Client, _ *wireServer) {
			if resp, err := c.Complete(t.Context(), Request{Prompt: words, MaxTokens: 1}); err != nil || resp.Text != "aa" {
				t.Errorf("%s: %+v, %v", dialect, resp, err)
			}
		})
	}
}

// TestStickyKey sends it where a dialect has no rank or slot to pin, to the server's own API too.
func TestStickyKey(t *testing.T) {
	for dialect, path := range map[Dialect]string{TRTLLM: "/v1/completions", LMDeploy: "/generate", Ollama: "/v1/completions", OpenAI: "/v1/completions"} {
		script := "exchange POST " + path + "\nassert-request-header X-Session-Id: a\n" + oneAnswer
		scripted(t, script, Options{Dialect: dialect, Model: "m", Replica: "a"}, func(t *testing.T, c *Client, _ *wireServer) {
			if _, err := c.Complete(t.Context(), Request{Prompt: words, MaxTokens: 1}); err != nil {
				t.Errorf("%s: %v", dialect, err)
			}
		})
	}
}

func TestFallBack(t *testing.T) {
	const script = "exchange POST /v1/completions\nstatus 404\nat 0 send text {\"detail\":\"Not Found\"}\nat 0 end\nexchange POST /v1/chat/completions\n" + oneAnswer
	scripted(t, script, Options{Dialect: OpenAI, API: AutoAPI, Model: "m"}, func(t *testing.T, c *Client, s *wireServer) {
		for range 2 {
			if _, err := c.Complete(t.Context(), Request{Prompt: TextPrompt("p"), MaxTokens: 17}); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.bodies) != 3 {
			t.Errorf("%d requests: the fallback is not remembered", len(s.bodies))
		}
	})
	scripted(t, script, Options{Dialect: OpenAI, API: Completions, Model: "m"}, func(t *testing.T, c *Client, s *wireServer) {
		_, err := c.Complete(t.Context(), Request{Prompt: TextPrompt("p"), MaxTokens: 17})
		if e := failure(t, err); e.Class != Protocol || e.Status != 404 || !strings.Contains(e.Message, "base URL") {
			t.Errorf("a configured api falls back: %v", err)
		}
	})
}

func TestHTTP2(t *testing.T) {
	for script, want := range map[string]Class{
		"at 0.5 " + oneToken + "\nat 0.7 end\n":             "",
		"at 0.5 " + oneToken[:60] + "\nat 0.7 rst_stream\n": ConnReset,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := parseScript(t, "protocol h2\nexchange POST /v1/chat/completions\nstatus 200\n"+script, nil)
			defer s.sessions.Wait()
			c := caseClient(t, s)
			defer c.Close()
			got := once(t, c, s, Request{Prompt: TextPrompt(strings.Repeat("p", 10_000)), MaxTokens: 17})
			if class(got.err) != want || want == "" && got.resp.TTFT != 500*time.Millisecond {
				t.Errorf("%+v, %v", got.resp, got.err)
			}
		})
	}
}

// TestLinger: a server that leaves the connection open after [DONE] does not hold the leg up.
func TestLinger(t *testing.T) {
	script := "exchange POST /v1/completions\nstatus 200\nat 1 " + oneToken + "\nat 1 hang\n"
	scripted(t, script, Options{Dialect: OpenAI, API: Completions, Model: "m"}, func(t *testing.T, c *Client, _ *wireServer) {
		r, err := c.Complete(t.Context(), Request{Prompt: TextPrompt("p"), MaxTokens: 17})
		if err != nil || r.TTFT != time.Second || r.Total != time.Second {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestCancel: cancelling ends the request on the wire at once.
func TestCancel(t *testing.T) {
	script := "exchange POST /v1/completions\nstatus 200\nat 0 hang\n"
	scripted(t, script, Options{Dialect: OpenAI, API: Completions, Model: "m"}, func(t *testing.T, c *Client, s *wireServer) {
		ctx, cancel := context.WithCancel(t.Context())
		defer time.AfterFunc(3*time.Second, cancel).Stop()
		began := time.Now()
		_, err := c.Complete(ctx, Request{Prompt: TextPrompt("p"), MaxTokens: 17})
		synctest.Wait()
		if e := failure(t, err); e.Class != Aborted || !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if len(s.left) != 1 || s.left[0].Sub(began) != 3*time.Second {
			t.Errorf("the server saw us leave at %v", s.left)
		}
	})
}

func TestProgressAndConnect(t *testing.T) {
	script := "exchange POST /v1/completions\nstatus 200\n"
	for _, at := range []string{"1", "2", "3"} {
		script += "at " + at + ` send text data: {"choices":[{"text":"a"}]}\n\ndata: {"choices":[{"text":"b"}]}\n\n` + "\n"
	}
	script += "at 4 " + oneToken + "\nat 5 end\n"
	var s *wireServer
	slow := func(ctx context.Context, network, address string) (net.Conn, error) {
		time.Sleep(7 * time.Second)
		return s.dial(ctx, network, address)
	}
	synctest.Test(t, func(t *testing.T) {
		s = parseScript(t, script, nil)
		defer s.sessions.Wait()
		c, err := New(Options{URL: "http://pipe.test", Dialect: OpenAI, API: Completions, Model: "m", Dial: slow})
		if err != nil {
			t.Fatal(err)
		}
		var seen []int
		r, err := c.Complete(t.Context(), Request{Prompt: TextPrompt("p"), MaxTokens: 17, Progress: func(n int) { seen = append(seen, n) }})
		if err != nil || !cmp.Equal(seen, []int{2, 4, 6, 7}) || r.Reads != 4 {
			t.Errorf("progress %v, %d reads, %v", seen, r.Reads, err)
		}
		if r.Connect != 7*time.Second || r.TTFT != time.Second || r.LastToken != 4*time.Second || r.Total != 5*time.Second || r.Headers != 0 {
			t.Errorf("%+v", r)
		}
	})
}

func TestDeflate(t *testing.T) {
	const body = "data: [DONE]\n\n"
	var inZlib, bare bytes.Buffer
	z := zlib.NewWriter(&inZlib)
	f, err := flate.NewWriter(&bare, 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{z, f} {
		io.WriteString(w, body)
		w.Close()
	}
	for name, packed := range map[string]io.Reader{"zlib": &inZlib, "bare": &bare} {
		r, encoded, err := decoded(packed, "Deflate")
		if err != nil || !encoded {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(r); string(b) != body {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if _, encoded, err := decoded(strings.NewReader(""), "br"); err == nil || !encoded {
		t.Error("br is understood")
	}
}

// otherListener answers a connection in a protocol that is not HTTP, and gives its address.
func otherListener(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 1))
			io.WriteString(conn, "SSH-2.0-OpenSSH_9.6\r\n")
			io.Copy(io.Discard, conn)
			conn.Close()
		}
	}()
	return l.Addr().String()
}

// TestTransportErrors tells the ways of not getting through apart, on real sockets.
func TestTransportErrors(t *testing.T) {
	page := func(status int, body string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			io.WriteString(w, body)
		})
	}
	plain := httptest.NewServer(page(200, "{}"))
	defer plain.Close()
	secure := httptest.NewUnstartedServer(page(200, "{}"))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	noHTTP := otherListener(t)
	html := httptest.NewServer(page(200, "<!DOCTYPE html><title>Hello</title>"))
	defer html.Close()
	elsewhere := httptest.NewServer(http.RedirectHandler("http://127.0.0.2:1/v1/models", http.StatusFound))
	defer elsewhere.Close()
	auth := httptest.NewServer(page(401, `{"error":"Unauthorized: Bearer sk-12345678 is wrong"}`))
	defer auth.Close()
	loading := httptest.NewServer(page(503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`))
	defer loading.Close()
	for name, test := range map[string]struct {
		url   string
		class Class
		says  string
	}{
		"nothing listens":       {closed.URL, Connect, "connection refused"},
		"not HTTP":              {"http://" + noHTTP, Protocol, "not HTTP"},
		"TLS to a plain port":   {strings.Replace(plain.URL, "http:", "https:", 1), TLS, "use an http:// URL"},
		"plain to a TLS port":   {strings.Replace(secure.URL, "https:", "http:", 1), TLS, "use an https:// URL"},
		"unknown authority":     {secure.URL, TLS, "certificate"},
		"HTML":                  {html.URL, Protocol, "HTML, not JSON: is this the API's base URL?"},
		"a redirect":            {elsewhere.URL, Protocol, "redirects to http://127.0.0.2:1/v1/models"},
		"credentials":           {auth.URL, Auth, "wants credentials"},
		"a model that is loads": {loading.URL, Loading, "Loading model"},
		"no such host":          {"http://longctx.invalid", Connect, "no connection"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.DefaultHTTPClientConfig
			cfg.Authorization = &config.Authorization{Credentials: "sk-12345678"}
			c, err := New(Options{URL: test.url, HTTP: cfg})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = c.Identify(t.Context())
			e := failure(t, err)
			if e.Class != test.class || !strings.Contains(e.Message, test.says) || strings.Contains(e.Message, "12345678") {
				t.Errorf("%v, want %s %q", err, test.class, test.says)
			}
		})
	}
}

func TestNew(t *testing.T) {
	for url, says := range map[string]string{
		"http://user:hunter2@host:1": "must not hold credentials",
		"host:30000":                 "must begin with http",
		"ftp://host":                 "must begin with http",
		"http://":                    "name a host",
		"http://h/?key=hunter2":      "must not have a query",
		"http://h:bad:port/hunter2":  "cannot be parsed",
	} {
		if _, err := New(Options{URL: url}); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, o := range []Options{{Dialect: "x"}, {API: "x"}, {Dialect: VLLM, API: Native}, {HTTP: config.HTTPClientConfig{BearerToken: "a", BearerTokenFile: "b"}}} {
		o.URL = "http://h"
		if _, err := New(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	for _, url := range []string{"http://h/p", "http://h/p/", "http://h/p/v1", "http://h/p/v1/"} {
		if c, err := New(Options{URL: url}); err != nil || c.base != "http://h/p" {
			t.Errorf("%s: %v", url, err)
		}
	}
}
