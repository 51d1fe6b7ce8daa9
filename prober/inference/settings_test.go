package inference

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// told lists what servers say of how they were started.
var told = map[string]struct {
	o         Options
	pages     map[string]string
	want      Settings
	attention string
	started   float64
}{
	"sglang": {
		pages: map[string]string{
			"GET /v1/models": `{"data":[{"id":"kimi","root":"kimi","owned_by":"sglang","max_model_len":200000,"created":1784548843}]}`,
			"GET /server_info": `{"api_key":"hunter2","admin_api_key":"hunter2","version":"0.5.18","model_path":"https://u:hunter2@hub/m?token=hunter2",
				"random_seed":12345,"port":30000,"nccl_port":4711,"attention_backend":"triton","quantization":null,"tp_size":8,"lora_paths":["hunter2"],
				"speculative_algorithm":{"hunter2":1},"disable_cuda_graph":false,"uptime":17.5,"max_total_num_tokens":218484,"ssl_keyfile_password":"hunter2",
				"internal_states":[{"api_key":"hunter2","attention_backend":"fa3","quantization":null,"last_gen_throughput":77.9,"avg_spec_accept_length":3.3,"page_size":64}]}`,
			"GET /model_info": `{"weight_version":"v2","preferred_sampling_params":"hunter2"}`,
		},
		want: Settings{
			"model": "kimi", "model_root": "kimi", "version": "0.5.18", "model_path": "https://hub/m", "attention_backend": "fa3", "quantization": "null",
			"tp_size": "8", "disable_cuda_graph": "false", "page_size": "64", "weight_version": "v2",
		},
		attention: "fa3",
	},
	"vllm": {
		pages: map[string]string{
			"GET /v1/models": `{"data":[{"id":"m","root":"/models/m","owned_by":"vllm","max_model_len":131072}]}`, "GET /version": `{"version":"0.32.0"}`,
			"GET /metrics": "# HELP vllm:x y\nprocess_start_time_seconds 1.78454e+09\nvllm:cache_config_info{block_size=\"16\",cache_dtype=\"fp8\",enable_prefix_caching=\"True\",engine=\"0\",gpu_memory_utilization=\"0.9\",num_gpu_blocks=\"1000\"} 1.0\n",
		},
		want: Settings{
			"model": "m", "model_root": "/models/m", "max_model_len": "131072", "version": "0.32.0", "speculation": "none", "block_size": "16", "cache_dtype": "fp8",
			"enable_prefix_caching": "True",
		},
		started: 1.78454e9,
	},
	"llamacpp": {
		pages: map[string]string{
			"GET /v1/models": `{"data":[{"id":"m","owned_by":"llamacpp","meta":{"n_ctx":4096}}]}`,
			"GET /props":     `{"default_generation_settings":{"n_ctx":4096,"speculative":true,"params":{"seed":1}},"total_slots":2,"model_path":"/m.gguf","model_ftype":"Q4_K","build_info":"b1","api_key":"hunter2"}`,
		},
		want: Settings{"model": "m", "version": "b1", "model_path": "/m.gguf", "model_ftype": "Q4_K", "total_slots": "2", "n_ctx": "4096", "speculative": "true"},
	},
	"llamacpp that tells in its slots": {
		pages: map[string]string{
			"GET /v1/models": `{"data":[{"id":"m","owned_by":"llamacpp","meta":{"n_ctx":4096}}]}`,
			"GET /props":     `{"default_generation_settings":{"n_ctx":4096},"total_slots":1,"build_info":"b10587-3f545becc"}`,
			"GET /slots":     `[{"id":0,"n_ctx":4096,"speculative":true,"is_processing":false}]`,
		},
		want: Settings{"model": "m", "version": "b10587-3f545becc", "total_slots": "1", "n_ctx": "4096", "speculative": "true"},
	},
	"ollama": {
		pages: map[string]string{
			"GET /v1/models": `{"data":[{"id":"m","owned_by":"library"}]}`, "GET /api/version": `{"version":"0.33"}`,
			"GET /api/tags": `{"models":[{"name":"other","digest":"no"},{"name":"m","digest":"abc"}]}`, "GET /api/ps": `{"models":[{"name":"m","context_length":8192}]}`,
		},
		want: Settings{"model": "m", "version": "0.33", "digest": "abc"},
	},
	"trtllm": {
		pages: map[string]string{"GET /v1/models": `{"data":[{"id":"m","owned_by":"tensorrt_llm"}]}`, "GET /version": `{"version":"1.3"}`},
		want:  Settings{"model": "m", "version": "1.3"},
	},
	"anything else":               {pages: map[string]string{"GET /v1/models": `{"data":[{"id":"m","owned_by":"me"}]}`}, want: Settings{"model": "m"}},
	"no list, but all configured": {o: Options{Dialect: OpenAI, Model: "m"}, want: Settings{}},
}

// TestSettings reads what is listed, and neither secrets nor what changes by itself.
func TestSettings(t *testing.T) {
	for name, test := range told {
		t.Run(name, func(t *testing.T) {
			if test.o.Dialect == "" {
				test.o.Dialect = Auto
			}
			scripted(t, pages(test.pages), test.o, func(t *testing.T, c *Client, _ *wireServer) {
				f, err := c.Identify(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				again, err := c.Glance(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range []Facts{f, again} {
					if diff := cmp.Diff(test.want, f.Settings); diff != "" || f.Attention != test.attention || f.Started != test.started {
						t.Errorf("%q, started %v, settings (-want +got):\n%s", f.Attention, f.Started, diff)
					}
				}
			})
		})
	}
}

func FuzzSettings(f *testing.F) {
	for _, test := range told {
		f.Add(test.pages["GET /server_info"])
	}
	f.Add(`{"version":"\u0000\n","model_path":"http://[","tp_size":1e999,"dtype":"` + strings.Repeat("é", 1000) + `"}`)
	f.Fuzz(func(t *testing.T, page string) {
		s := Settings{}
		s.pick([]byte(page), sglangSettings())
		(&Client{}).believe(&Facts{Settings: s})
		for name, value := range s {
			if value == "" || len(value) > maxMessage || strings.ContainsAny(value, "\n\x00\x1b") || strings.Contains(value, "://") && strings.Contains(value, "?") {
				t.Errorf("%s is %q", name, value)
			}
		}
	})
}
