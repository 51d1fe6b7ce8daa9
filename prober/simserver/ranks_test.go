package simserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Two engines share the work in turns, or as a request names them; each counts for itself, under its leader's labels.
func TestRanks(t *testing.T) {
	log := &book{}
	inBubble(t, Config{Shape: "sglang", Ranks: Ranks{DP: 2, TP: 8}, Log: log}, func(r *rig) {
		for range 2 {
			r.post("/generate", native(prompt(9000, 1), 300, false))
			if n := r.lastTruth().CachedTokens; n != 0 {
				t.Errorf("%d tokens of another engine's cache", n)
			}
		}
		pinned := native(prompt(9000, 1), 300, false)
		pinned["routed_dp_rank"] = 1
		r.post("/generate", pinned)
		r.post("/generate", pinned)
		truths := r.server.Truth()
		if len(truths) != 4 || truths[2].CachedTokens != 8999 || truths[3].CachedTokens != 8999 || truths[0].ID == truths[1].ID {
			t.Errorf("%d requests: %+v", len(truths), truths)
		}
		text := r.get("/metrics").events[0]
		tail := `,dp_rank="1",engine_type="unified",mode="prefill_compute",model_name="kimi-k2.6",moe_ep_rank="0",pp_rank="0",tp_rank="4"} 9002.0`
		for _, want := range []string{
			"sglang:realtime_tokens_total{" + strings.TrimPrefix(tail, ","),
			`sglang:num_running_reqs{dp_rank="0",engine_type="unified",model_name="kimi-k2.6",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 0.0`,
			`sglang:num_running_reqs{dp_rank="1",engine_type="unified",model_name="kimi-k2.6",moe_ep_rank="0",pp_rank="0",tp_rank="4"} 0.0`,
			`sglang:cuda_graph_passes_total{dp_rank="1",engine_type="unified",mode="decode_cuda_graph",model_name="kimi-k2.6",moe_ep_rank="0",pp_rank="0",tp_rank="7"}`,
			`sglang:num_requests_total{engine_type="unified",model_name="kimi-k2.6"} 4.0`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
		if strings.Contains(text, `num_running_reqs{dp_rank="1",engine_type="unified",model_name="kimi-k2.6",moe_ep_rank="0",pp_rank="0",tp_rank="5"}`) {
			t.Error("gauges stand on ranks that do not lead")
		}
		loads := r.get("/v1/loads").json(t, 0)["loads"].([]any)
		if len(loads) != 2 || dig(t, loads, 1, "dp_rank") != 1.0 {
			t.Errorf("%v", loads)
		}
		if len(log.matching(" DP0 TP0] Prefill batch")) != 2 || len(log.matching(" DP1 TP4] Prefill batch")) != 4 || len(log.matching("server_args=")) != 1 {
			t.Errorf("%s", strings.Join(log.lines(), "\n"))
		}
	})
	inBubble(t, Config{Shape: "sglang", Ranks: Ranks{DP: 2, TP: 8, AllGauges: true}}, func(r *rig) {
		if n := strings.Count(r.get("/metrics").events[0], "\nsglang:num_running_reqs{"); n != 8 {
			t.Errorf("%d series of running requests", n)
		}
	})
}

func TestVLLMRanks(t *testing.T) {
	inBubble(t, Config{Shape: "vllm", Ranks: Ranks{DP: 2}}, func(r *rig) {
		for range 3 {
			req, _ := http.NewRequest(http.MethodPost, "http://sim/v1/completions", strings.NewReader(`{"prompt": "a b c", "max_tokens": 5, "ignore_eos": true}`))
			req.Header.Set("X-data-parallel-rank", "1")
			resp, err := r.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		text := r.get("/metrics").events[0]
		for _, want := range []string{
			`vllm:generation_tokens_total{engine="0",model_name="kimi-k2.6"} 0.0`, `vllm:generation_tokens_total{engine="1",model_name="kimi-k2.6"} 15.0`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
	})
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{Shape: "llamacpp", Ranks: Ranks{DP: 2}}, "llamacpp is not simulated with several engines"},
		{Config{Shape: "sglang", Ranks: Ranks{DP: 3}}, "8 tensor ranks do not spread over 3 engines"},
	} {
		if _, err := New(c.config); !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
