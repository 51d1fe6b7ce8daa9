package inference

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pages scripts a server that answers each path with one page.
func pages(m map[string]string) string {
	var b strings.Builder
	for path, page := range m {
		b.WriteString("exchange " + path + "\nstatus 200\nat 0 send text " + strings.ReplaceAll(page, "\n", `\n`) + "\nat 0 end\n")
	}
	return b.String()
}

const vllmModels = `{"object":"list","data":[{"id":"base","root":"/models/base","owned_by":"vllm","max_model_len":131072},{"id":"lora","parent":"base","owned_by":"vllm","max_model_len":null}]}`

// servers are what servers tell of themselves, and what is to be made of it.
var servers = map[string]struct {
	o     Options
	pages map[string]string
	want  Facts
	fail  Class
	says  string
}{
	"sglang": {
		pages: map[string]string{
			"GET /v1/models":   `{"data":[{"id":"kimi","root":"kimi","owned_by":"sglang","max_model_len":200000}]}`,
			"GET /server_info": `{"api_key":"hunter2","version":"0.5.18","served_model_name":"kimi","context_length":null,"max_total_num_tokens":218484,"max_req_input_len":199994,"page_size":1,"disable_radix_cache":false,"stream_interval":1,"dp_size":2,"speculative_algorithm":"DDTREE","speculative_num_draft_tokens":null,"internal_states":[{"speculative_num_draft_tokens":16,"speculative_ddtree_budget":64,"admin_api_key":"hunter2","page_size":64}]}`,
			"POST /tokenize":   `{"tokens":[9707],"count":1,"max_model_len":1000000000000000019884624838656}`,
		},
		want: Facts{
			Dialect: SGLang, API: Native, ServerVersion: "0.5.18", Models: []string{"kimi"}, Model: "kimi", ContextLimit: 200000, MaxPrompt: 199993, KVPoolTokens: 218484,
			PageSize: 64, Speculation: "DDTREE", BlockSize: 16, Replicas: 2, StreamEvery: 1, PrefixCache: "on", TokenIDs: true, Tokenizer: true,
		},
	},
	"sglang of old, without speculation, chat by configuration": {
		o: Options{API: Chat},
		pages: map[string]string{
			"GET /v1/models":       `{"data":[{"id":"m","owned_by":"sglang"}]}`,
			"GET /get_server_info": `{"version":"0.4.6","context_length":32768,"max_total_num_tokens":1000,"disable_radix_cache":true,"speculative_algorithm":null}`,
		},
		want: Facts{Dialect: SGLang, API: Chat, ServerVersion: "0.4.6", Models: []string{"m"}, Model: "m", ContextLimit: 32768, KVPoolTokens: 1000, Speculation: "none", BlockSize: 1, PrefixCache: "off"},
	},
	"sglang that hides its settings": {
		pages: map[string]string{"GET /v1/models": `{"data":[{"id":"m","owned_by":"sglang","max_model_len":1000}]}`},
		want:  Facts{Dialect: SGLang, API: Native, Models: []string{"m"}, Model: "m", ContextLimit: 1000, TokenIDs: true},
	},
	"vllm": {
		o: Options{Model: "lora"},
		pages: map[string]string{
			"GET /v1/models": vllmModels, "GET /version": `{"version":"0.32.0"}`, "POST /tokenize": `{"count":1,"max_model_len":131072,"tokens":[9707]}`,
			"GET /metrics": "# HELP vllm:x y\nvllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",engine=\"0\",num_gpu_blocks=\"1000\"} 1.0\nvllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"True\",engine=\"1\",num_gpu_blocks=\"1000\"} 1.0\nvllm:spec_decode_num_drafts_total{engine=\"0\"} 0.0\n",
		},
		want: Facts{
			Dialect: VLLM, API: Completions, ServerVersion: "0.32.0", Models: []string{"base", "lora"}, Model: "lora", KVPoolTokens: 16000, PageSize: 16,
			Speculation: "speculative", Replicas: 2, PrefixCache: "on", TokenIDs: true, Tokenizer: true, ContextLimit: 131072,
		},
	},
	"vllm without speculation": {
		pages: map[string]string{"GET /v1/models": vllmModels, "GET /metrics": "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 0.0\n"},
		want:  Facts{Dialect: VLLM, API: Completions, Models: []string{"base", "lora"}, Model: "base", ContextLimit: 131072, Speculation: "none", BlockSize: 1, TokenIDs: true},
	},
	"vllm with several kinds of layers": {
		pages: map[string]string{"GET /v1/models": vllmModels, "GET /metrics": "# HELP vllm:x y\nvllm:cache_config_info{block_size=\"8\",mamba_block_size=\"528\",num_gpu_blocks=\"320\",sliding_window=\"None\"} 1.0\n"},
		want:  Facts{Dialect: VLLM, API: Completions, Models: []string{"base", "lora"}, Model: "base", ContextLimit: 131072, PageSize: 8, Speculation: "none", BlockSize: 1, Replicas: 1, TokenIDs: true},
	},
	"vllm that tells its capacity in tokens": {
		pages: map[string]string{"GET /v1/models": vllmModels, "GET /metrics": "# HELP vllm:x y\nvllm:cache_config_info{block_size=\"8\",kv_cache_size_tokens=\"463459\",mamba_block_size=\"528\",num_gpu_blocks=\"320\"} 1.0\n"},
		want:  Facts{Dialect: VLLM, API: Completions, Models: []string{"base", "lora"}, Model: "base", ContextLimit: 131072, KVPoolTokens: 463459, PageSize: 8, Speculation: "none", BlockSize: 1, Replicas: 1, TokenIDs: true},
	},
	"the root of a model is a name for it": {
		o:     Options{Model: "/models/base"},
		pages: map[string]string{"GET /v1/models": vllmModels},
		want:  Facts{Dialect: VLLM, API: Completions, Models: []string{"base", "lora"}, Model: "base", ContextLimit: 131072, TokenIDs: true},
	},
	"llama.cpp": {
		pages: map[string]string{
			"GET /v1/models": `{"data":[{"id":"tiny.gguf","owned_by":"llamacpp","meta":{"n_ctx":131072,"n_ctx_train":262144}}]}`,
			"GET /props":     `{"default_generation_settings":{"n_ctx":65536},"total_slots":2,"build_info":"b10587-3f545becc"}`,
			"GET /slots":     `[{"id":0,"n_ctx":65536,"speculative":false}]`,
			"POST /tokenize": `{"tokens":[15043]}`,
		},
		want: Facts{
			Dialect: LlamaCpp, API: Completions, ServerVersion: "b10587-3f545becc", Models: []string{"tiny.gguf"}, Model: "tiny.gguf", ContextLimit: 65536, KVPoolTokens: 65536,
			PageSize: 1, Speculation: "none", BlockSize: 1, Replicas: 2, TokenIDs: true, Tokenizer: true,
		},
	},
	"trtllm, of which no limit is known": {
		pages: map[string]string{
			"GET /v1/models":           `{"object":"list","data":[{"id":"llama","object":"model","owned_by":"tensorrt_llm"}]}`,
			"GET /version":             `{"version":"1.2.0"}`,
			"POST /_internal/tokenize": `{"count":2,"tokens":[1,9707]}`,
		},
		want: Facts{Dialect: TRTLLM, API: Completions, ServerVersion: "1.2.0", Models: []string{"llama"}, Model: "llama", TokenIDs: true, Tokenizer: true},
	},
	"lmdeploy that has speculated": {
		pages: map[string]string{
			"GET /v1/models":  `{"data":[{"id":"internlm","root":"internlm","owned_by":"lmdeploy","parent":null}]}`,
			"GET /metrics":    "# HELP lmdeploy:spec_decode_num_drafts_total x\nlmdeploy:spec_decode_num_drafts_total{model_name=\"a b\",engine=\"0\"} 12.0\n",
			"POST /v1/encode": `{"input_ids":[9707],"length":1}`,
		},
		want: Facts{Dialect: LMDeploy, API: Native, Models: []string{"internlm"}, Model: "internlm", Speculation: "speculative", TokenIDs: true, Tokenizer: true},
	},
	"lmdeploy whose counters stand at 0": {
		pages: map[string]string{
			"GET /v1/models": `{"data":[{"id":"internlm","owned_by":"lmdeploy"}]}`,
			"GET /metrics":   "lmdeploy:spec_decode_num_drafts_total{engine=\"0\"} 0.0\n",
		},
		want: Facts{Dialect: LMDeploy, API: Native, Models: []string{"internlm"}, Model: "internlm", TokenIDs: true},
	},
	"ollama with its model loaded": {
		o: Options{Model: "qwen3:8b"},
		pages: map[string]string{
			"GET /v1/models":   `{"object":"list","data":[{"id":"llama3:latest","object":"model","owned_by":"library"},{"id":"qwen3:8b","owned_by":"library"}]}`,
			"GET /api/version": `{"version":"0.30.1"}`,
			"GET /api/ps":      `{"models":[{"name":"llama3:latest","model":"llama3:latest","context_length":4096},{"name":"qwen3:8b","model":"qwen3:8b","context_length":40960}]}`,
		},
		want: Facts{Dialect: Ollama, API: Completions, ServerVersion: "0.30.1", Models: []string{"llama3:latest", "qwen3:8b"}, Model: "qwen3:8b", ContextLimit: 40960},
	},
	"ollama, not loaded, by its version": {
		pages: map[string]string{
			"GET /v1/models":   `{"data":[{"id":"hf.co/someone/m:Q4","owned_by":"someone"}]}`,
			"GET /api/version": `{"version":"0.30.1"}`,
			"GET /api/ps":      `{"models":[]}`,
			"POST /api/show":   `{"parameters":"num_keep 4","model_info":{"qwen3.block_count":36,"qwen3.context_length":131072}}`,
		},
		want: Facts{Dialect: Ollama, API: Completions, ServerVersion: "0.30.1", Models: []string{"hf.co/someone/m:Q4"}, Model: "hf.co/someone/m:Q4", ContextLimit: 131072},
	},
	"ollama, configured to less": {
		o: Options{Dialect: Ollama},
		pages: map[string]string{
			"GET /v1/models": `{"data":[{"id":"m","owned_by":"library"}]}`,
			"POST /api/show": `{"parameters":"num_ctx                        8192","model_info":{"qwen3.context_length":131072}}`,
		},
		want: Facts{Dialect: Ollama, API: Completions, Models: []string{"m"}, Model: "m", ContextLimit: 8192},
	},
	"anything else": {
		pages: map[string]string{"GET /v1/models": `{"data":[{"id":"gpt","owned_by":"openai"}]}`},
		want:  Facts{Dialect: OpenAI, API: Completions, Models: []string{"gpt"}, Model: "gpt"},
	},
	"no list, but all configured": {
		o:    Options{Dialect: OpenAI, Model: "m"},
		want: Facts{Dialect: OpenAI, API: Completions, Models: []string{"m"}, Model: "m"},
	},
	"no list": {fail: Protocol, says: "/v1/models answered HTTP 404, is this the API's base URL?"},
	"an unknown model": {
		o: Options{Model: "x"}, pages: map[string]string{"GET /v1/models": vllmModels},
		fail: ModelNotFound, says: `model "x" is not served here; served: base, lora`,
	},
	"an empty list":  {pages: map[string]string{"GET /v1/models": `{"data":[]}`}, fail: ModelNotFound, says: "lists no model"},
	"no JSON at all": {pages: map[string]string{"GET /v1/models": "ok"}, fail: Protocol, says: "neither JSON nor an event stream"},
}

func TestIdentify(t *testing.T) {
	for name, test := range servers {
		t.Run(name, func(t *testing.T) {
			if test.o.Dialect == "" {
				test.o.Dialect = Auto
			}
			scripted(t, pages(test.pages), test.o, func(t *testing.T, c *Client, _ *wireServer) {
				f, err := c.Identify(t.Context())
				if test.fail != "" {
					if e := failure(t, err); e.Class != test.fail || !strings.Contains(e.Message, test.says) {
						t.Errorf("%v, want %s %q", err, test.fail, test.says)
					}
					return
				}
				f.Settings = nil // has tests of its own
				if diff := cmp.Diff(test.want, f); err != nil || diff != "" {
					t.Errorf("%v, facts (-want +got):\n%s", err, diff)
				}
			})
		})
	}
}

func TestBlockSize(t *testing.T) {
	eagle, flash := "EAGLE3", "DFLASH"
	for _, test := range []struct {
		args serverArgs
		want int
	}{
		{serverArgs{Algorithm: &eagle, DraftTokens: 64, DraftSteps: 5}, 6},
		{serverArgs{Algorithm: &eagle, DraftTokens: 4}, 4},
		{serverArgs{Algorithm: &flash, DraftTokens: 16, DraftSteps: 1}, 16},
		{serverArgs{Algorithm: &flash, DraftTokens: 128, FlashBlock: 16}, 16},
		{serverArgs{Algorithm: &flash, DraftTokens: 128, FlashWidth: 4}, 0},
		{serverArgs{Algorithm: &flash, DraftTokens: 128, FlashTree: true, FlashBlock: 8}, 8},
	} {
		if got := test.args.blockSize(); got != test.want {
			t.Errorf("%+v: %d, want %d", test.args, got, test.want)
		}
	}
}

// TestIdentifyPatience: a page that hangs is given up, and what it would have told stays unknown.
func TestIdentifyPatience(t *testing.T) {
	script := pages(map[string]string{"GET /v1/models": `{"data":[{"id":"m","owned_by":"sglang","max_model_len":1000}]}`}) +
		"exchange GET /server_info\nat 0 hang\nexchange GET /get_server_info\nat 0 hang\n"
	scripted(t, script, Options{Dialect: Auto}, func(t *testing.T, c *Client, s *wireServer) {
		began := time.Now()
		f, err := c.Identify(t.Context())
		synctest.Wait()
		if err != nil || f.Model != "m" || time.Since(began) != 2*patience || len(s.left) != 2 {
			t.Errorf("%+v, %v after %v", f, err, time.Since(began))
		}
	})
}

func TestTokenize(t *testing.T) {
	const models = `{"data":[{"id":"m","owned_by":"llamacpp","meta":{"n_ctx":1}}]}`
	for name, test := range map[string]struct {
		answers []string // to the text, then to a short text without and with special tokens
		ids     []int32
		bos     int32
		says    string
	}{
		"bos":         {[]string{`{"tokens":[5,6,7]}`, `{"tokens":[5,6]}`, `{"tokens":[1,5,6]}`}, []int32{5, 6, 7}, 1, ""},
		"bos and eos": {[]string{`{"tokens":[5]}`, `{"tokens":[5,6]}`, `{"tokens":[1,5,6,2]}`}, []int32{5}, 1, ""},
		"eos only":    {[]string{`{"tokens":[5]}`, `{"tokens":[5,6]}`, `{"tokens":[5,6,2]}`}, []int32{5}, -1, ""},
		"neither":     {[]string{`{"tokens":[5]}`, `{"tokens":[5,6]}`, `{"tokens":[5,6]}`}, []int32{5}, -1, ""},
		"hashes":      {[]string{`{"tokens":[3801292497]}`}, nil, 0, "3801292497, which no vocabulary has"},
		"no list":     {[]string{`{"count":3}`}, nil, 0, "no list of token ids"},
	} {
		t.Run(name, func(t *testing.T) {
			script := pages(map[string]string{"GET /v1/models": models})
			for _, a := range test.answers {
				script += pages(map[string]string{"POST /tokenize": a})
			}
			scripted(t, script, Options{Dialect: LlamaCpp, Model: "m"}, func(t *testing.T, c *Client, _ *wireServer) {
				ids, bos, err := c.Tokenize(t.Context(), "some text")
				if test.says != "" {
					if e := failure(t, err); e.Class != Protocol || !strings.Contains(e.Message, test.says) {
						t.Errorf("%v", err)
					}
					return
				}
				if err != nil || bos != test.bos || !cmp.Equal(ids, test.ids) {
					t.Errorf("%v, %d, %v", ids, bos, err)
				}
			})
		})
	}
}

// TestTokenizeWithoutAChoice finds the id that a tokenizer puts before every text.
func TestTokenizeWithoutAChoice(t *testing.T) {
	for name, test := range map[string]struct {
		last string // answer to a text that begins otherwise
		bos  int32
	}{
		"before every text": {`{"tokens":[1,8,9]}`, 1},
		"before none":       {`{"tokens":[8,9]}`, -1},
	} {
		t.Run(name, func(t *testing.T) {
			script := ""
			for _, a := range []string{`{"tokens":[1,5,6,7]}`, `{"tokens":[1,5,6]}`, test.last} {
				script += pages(map[string]string{"POST /_internal/tokenize": a})
			}
			scripted(t, script, Options{Dialect: TRTLLM, Model: "m"}, func(t *testing.T, c *Client, s *wireServer) {
				ids, bos, err := c.Tokenize(t.Context(), "some text")
				if err != nil || bos != test.bos || len(ids) != 4 || strings.Contains(s.bodies[0], "special") {
					t.Errorf("%v, %d, %v after %s", ids, bos, err, s.bodies)
				}
			})
		})
	}
}

func TestClassify(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		class  Class
		limit  int
	}{
		{400, `{"error":{"message":"This model's maximum context length is 131072 tokens. However, you requested 65 output tokens and your prompt contains at least 131072 input tokens, for a total of at least 131137 tokens.","type":"BadRequestError","param":"input_tokens","code":400}}`, ContextOverflow, 131072},
		{400, `{"message":"Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 131137 tokens"}`, ContextOverflow, 131072},
		{400, `{"object":"error","message":"Input length (9000) must be smaller than the model context length (8192)."}`, ContextOverflow, 8192},
		{400, `{"object":"error","message":"The sum of prompt length (72417.0), query length (0) should not exceed max_num_tokens (69632)"}`, ContextOverflow, 69632},
		{400, "{\"message\":\"`default_max_tokens` (-152) must be greater than 0, `default_max_tokens` (-152) = max_seq_len (8192) - x\"}", ContextOverflow, 8192},
		{400, `{"object":"error","message":"The sum of prompt length (4000), query length (0), max_tokens (2048) should not exceed max_seq_len (4096)","type":"BadRequestError","param":null,"code":400}`, ContextOverflow, 4096},
		{503, `{"error":{"message":"server busy, please try again.  maximum pending requests exceeded","type":"api_error","param":null,"code":null}}`, Overloaded, 0},
		{404, `{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`, ModelNotFound, 0},
		{503, `{"object":"error","message":"The server is sleeping.","type":"unavailable","code":503,"param":null}`, Loading, 0},
		{429, `{"error":{"message":"litellm.RateLimitError: slow down","type":"throttling_error","param":null,"code":"429"}}`, RateLimited, 0},
		{400, `{"error":{"message":"too long","type":"exceed_context_size_error","n_prompt_tokens":66000,"n_ctx":65536}}`, ContextOverflow, 65536},
		{400, `{"error":{"message":"x","code":"context_length_exceeded"}}`, ContextOverflow, 0},
		{400, `{"message":"maximum context length is 99999999999999999999 tokens"}`, ContextOverflow, 0},
		{500, `{"message":"The decoder prompt (length 9) is longer than the maximum model length of 8."}`, ContextOverflow, 8},
		{413, "<html><head><title>413 Request Entity Too Large</title></head></html>", GatewayError, 0},
		{400, `{"error":{"message":"Prompt contains invalid tokens"}}`, BadRequest, 0},
		{401, `{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`, Auth, 0},
		{403, `{"error":"Forbidden"}`, Auth, 0},
		{404, `{"detail":"Not Found"}`, Protocol, 0},
		{404, "404 page not found", Protocol, 0},
		{404, `{"error":{"message":"model 'x' not found"}}`, ModelNotFound, 0},
		{400, `{"error":{"message":"Invalid model name passed in model=x","code":"400"}}`, ModelNotFound, 0},
		{404, `{"error":{"message":"?","code":"model_not_found"}}`, ModelNotFound, 0},
		{405, `{"detail":"Method Not Allowed"}`, Protocol, 0},
		{429, `{"error":{"message":"slow down","code":"429"}}`, RateLimited, 0},
		{429, `{"error":"Model is overloaded","error_type":"overloaded"}`, Overloaded, 0},
		{500, "no healthy upstream", GatewayError, 0},
		{501, `{"error":{"message":"not supported"}}`, Protocol, 0},
		{502, "<html>502 Bad Gateway</html>", GatewayError, 0},
		{503, "<html>503 Service Temporarily Unavailable nginx</html>", GatewayError, 0},
		{503, "", Overloaded, 0},
		{503, `{"error":{"message":"The server is overloaded or not ready yet."}}`, Overloaded, 0},
		{503, `{"message":"EngineCore is dead"}`, ServerError, 0},
		{503, `{"message":"Model is starting"}`, Loading, 0},
		{504, "stream timeout", GatewayTimeout, 0},
		{524, "", GatewayTimeout, 0},
		{529, "", Overloaded, 0},
		{302, "", Protocol, 0},
		{418, `"teapot"`, BadRequest, 0},
		{500, `{"error":null,"detail":[{"loc":["body"],"msg":"x"}]}`, ServerError, 0},
		{400, `{"error":{"message":5}`, BadRequest, 0},
	} {
		got := classify(test.status, []byte(test.body))
		if got.class != test.class || got.limit != test.limit {
			t.Errorf("%d %s: %s %d, want %s %d", test.status, test.body, got.class, got.limit, test.class, test.limit)
		}
	}
}

func TestMessagesAreBoundedAndClean(t *testing.T) {
	x := &exchange{secrets: newSecrets(secretsOf([]string{"Bearer sk-12345678"}))}
	e := x.fail(Auth, http.StatusUnauthorized, nil, "a\r\nb\x00 sk-12345678 Bearer sk-12345678 %s", strings.Repeat("é\xff", 400))
	if len(e.Message) > maxMessage || strings.ContainsAny(e.Message, "\r\n\x00") || strings.Contains(e.Message, "12345678") || !strings.HasPrefix(e.Message, "a b <secret> <secret> é") {
		t.Errorf("%q", e.Message)
	}
}
