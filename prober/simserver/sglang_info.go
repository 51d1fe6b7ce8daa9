package simserver

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"
)

func (s sglang) infoRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /health", s.health)
	mux.HandleFunc("GET /health_generate", s.health)
	mux.HandleFunc("GET /v1/models", s.models)
	mux.HandleFunc("GET /get_server_info", s.serverInfo)
	mux.HandleFunc("GET /get_model_info", s.modelInfo)
	if s.era.has(sglangInfoPaths) {
		mux.HandleFunc("GET /server_info", s.serverInfo)
		mux.HandleFunc("GET /model_info", s.modelInfo)
	}
	if s.era.has(sglangLoads) {
		mux.HandleFunc("GET /v1/loads", s.loads)
	}
	mux.HandleFunc("GET /get_load", s.oldLoad)
	mux.HandleFunc("POST /abort_request", s.abortRequest)
	if !s.config.Options.NoTokenizer && s.era.has(sglangTokenize) {
		for _, path := range []string{"POST /tokenize", "POST /v1/tokenize"} {
			mux.HandleFunc(path, s.tokenize)
		}
		for _, path := range []string{"POST /detokenize", "POST /v1/detokenize"} {
			mux.HandleFunc(path, s.detokenize)
		}
	}
	if !s.config.Options.NoMetrics {
		mux.HandleFunc("GET /metrics", s.metrics)
		mux.HandleFunc("GET /metrics/", s.metrics)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, object{"detail": "Not Found"})
	})
}

func (s sglang) health(w http.ResponseWriter, _ *http.Request) {
	if s.loading() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (s sglang) models(w http.ResponseWriter, _ *http.Request) {
	p := s.config.Profile
	card := object{"id": p.Model, "object": "model", "created": s.started.Unix(), "owned_by": "sglang", "root": p.Model, "parent": nil}
	if s.era.has(sglangModelLimit) {
		card["max_model_len"] = p.ContextLimit
	}
	writeJSON(w, http.StatusOK, object{"object": "list", "data": []any{card}})
}

func (s sglang) modelInfo(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, object{
		"model_path": "/models/" + s.config.Profile.Model, "tokenizer_path": "/models/" + s.config.Profile.Model,
		"is_generation": true, "preferred_sampling_params": nil, "weight_version": "default",
	})
}

// arguments are what the server was started with, its key in clear as the real one shows it.
func (s sglang) arguments() object {
	p := s.config.Profile
	key := s.config.APIKey
	if key == "" {
		key = "sk-never-show-this-secret"
	}
	args := object{
		"model_path": "/models/" + p.Model, "served_model_name": p.Model, "api_key": key, "admin_api_key": nil,
		"context_length": nil, "page_size": p.PageSize, "chunked_prefill_size": p.ChunkTokens, "max_prefill_tokens": 16384,
		"disable_radix_cache": s.config.Faults.NoPrefixCache, "enable_hierarchical_cache": false, "hicache_storage_backend": nil,
		"stream_interval": s.config.Options.StreamInterval, "incremental_streaming_output": false,
		"enable_cache_report": s.config.Options.CacheReport, "enable_metrics": !s.config.Options.NoMetrics,
		"decode_log_interval": 40, "tp_size": s.config.Ranks.TP, "dp_size": s.config.Ranks.DP, "enable_dp_attention": s.config.Ranks.DP > 1, "attention_backend": "triton",
		"max_running_requests": p.MaxRunning, "max_queued_requests": nil, "schedule_policy": "fcfs",
		"disable_overlap_schedule": true, "speculative_algorithm": nil, "speculative_num_draft_tokens": nil,
		"speculative_num_steps": nil, "speculative_eagle_topk": nil, "speculative_dflash_block_size": nil,
		"speculative_ddtree_budget": nil, "speculative_draft_model_path": nil,
	}
	if p.Algorithm != "" {
		args["speculative_algorithm"], args["speculative_num_draft_tokens"] = p.Algorithm, p.BlockSize()
		args["speculative_draft_model_path"] = "/models/" + p.Model + "-draft"
		args["speculative_dflash_block_size"] = p.BlockSize()
	}
	if p.Algorithm == "DDTREE" {
		args["speculative_ddtree_budget"] = p.BlockSize() - 1
	}
	return args
}

func (s sglang) serverInfo(w http.ResponseWriter, _ *http.Request) {
	p, args := s.config.Profile, s.arguments()
	var states []any
	for _, v := range s.views() {
		state := object{"effective_max_running_requests_per_dp": p.MaxRunning, "last_gen_throughput": v.throughput, "memory_usage": object{
			"weight": 71.2, "kvcache": 55.1, "token_capacity": p.PoolTokens, "graph": 3.1,
		}}
		maps.Copy(state, args)
		if p.Algorithm != "" && v.steps >= sglangDecodeInterval {
			state["avg_spec_accept_length"] = acceptLength(v.counters)
		}
		states = append(states, state)
	}
	if s.era.has(sglangStates) {
		args["internal_states"] = states
	} else {
		maps.Copy(args, states[0].(object))
	}
	args["status"], args["version"] = "ready", s.era.version
	args["kv_events"] = nil
	args["max_total_num_tokens"], args["max_req_input_len"] = p.PoolTokens, s.maxInput()
	writeJSON(w, http.StatusOK, args)
}

// acceptLength is the mean over the server's life.
func acceptLength(c counters) float64 {
	if c.steps == 0 {
		return 0
	}
	return 1 + float64(c.correct)/float64(c.steps)
}

func (s sglang) loads(w http.ResponseWriter, r *http.Request) {
	views := s.views()
	if r.URL.Query().Get("format") == "prometheus" {
		s.loadsPage(w, views)
		return
	}
	var loads []any
	for _, v := range views {
		loads = append(loads, s.load(v))
	}
	writeJSON(w, http.StatusOK, object{
		"timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.0-07:00"), "version": s.era.version, "loads": loads,
	})
}

func (s sglang) load(v view) object {
	p := s.config.Profile
	load := object{
		"timestamp": unix(time.Now()), "dp_rank": v.rank, "num_running_reqs": v.running, "num_waiting_reqs": v.waiting,
		"num_waiting_uncached_tokens": 0, "num_used_tokens": v.held, "num_total_tokens": v.held,
		"max_total_num_tokens": p.PoolTokens, "max_running_requests": p.MaxRunning,
		"token_usage": ratio(v.held, p.PoolTokens), "gen_throughput": v.throughput, "cache_hit_rate": 0.0, "utilization": 0.0,
		"memory":         object{"weight_gb": 71.2, "kv_cache_gb": 55.1, "graph_gb": 3.1, "token_capacity": p.PoolTokens},
		"disaggregation": object{"mode": "null", "prefill_bootstrap_queue_reqs": 0, "prefill_inflight_queue_reqs": 0},
		"queues":         object{"waiting": v.waiting, "grammar": 0, "paused": 0, "retracted": 0},
	}
	if p.Algorithm != "" && v.acceptLength > 0 {
		load["speculative"] = object{
			"accept_length": acceptLength(v.counters), "accept_rate": s.era.acceptRate(v.acceptLength, p.BlockSize()),
		}
	}
	return load
}

func (s sglang) oldLoad(w http.ResponseWriter, _ *http.Request) {
	var loads []any
	for _, v := range s.views() {
		loads = append(loads, object{
			"dp_rank": v.rank, "num_reqs": v.running + v.waiting, "num_waiting_reqs": v.waiting, "num_tokens": v.held,
			"num_pending_tokens": 0, "ts_tic": unix(time.Now()),
		})
	}
	writeJSON(w, http.StatusOK, loads)
}

// abortRequest ends requests whose id starts with rid, or all.
func (s sglang) abortRequest(w http.ResponseWriter, r *http.Request) {
	var in struct {
		RID string `json:"rid"`
		All bool   `json:"abort_all"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.refuse(w, badRequest("the body is not valid: %v", err))
		return
	}
	for _, e := range s.engines {
		e.abortMatching(func(id string) bool { return in.All || in.RID != "" && strings.HasPrefix(id, in.RID) })
	}
}

// tokenizeBody is a request to a tokenizer.
type tokenizeBody struct {
	Prompt     string  `json:"prompt"`
	Content    string  `json:"content"`
	Tokens     []int32 `json:"tokens"`
	AddSpecial *bool   `json:"add_special_tokens"`
	LlamaAdd   bool    `json:"add_special"`
	WithPieces bool    `json:"with_pieces"`
}

func (s *instance) readTokenize(w http.ResponseWriter, r *http.Request) (tokenizeBody, bool) {
	var in tokenizeBody
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.refuse(w, badRequest("the body is not valid: %v", err))
		return in, false
	}
	return in, true
}

// tokens are the ids of a text, the beginning-of-sequence id first where the model has one and it is wanted.
func (s *instance) tokens(text string, special bool) []int32 {
	ids := s.tok.encode(text)
	if bos := s.config.Profile.BOS; special && bos > 0 {
		ids = append([]int32{int32(bos)}, ids...)
	}
	return ids
}

func (s sglang) tokenize(w http.ResponseWriter, r *http.Request) {
	in, ok := s.readTokenize(w, r)
	if !ok {
		return
	}
	ids := s.tokens(in.Prompt, in.AddSpecial == nil || *in.AddSpecial)
	// What a tokenizer says of its longest text is no limit of the model: beyond 64 bits, as in life.
	writeJSON(w, http.StatusOK, object{
		"tokens": ids, "count": len(ids), "max_model_len": json.RawMessage("1000000000000000019884624838656"),
	})
}

func (s sglang) detokenize(w http.ResponseWriter, r *http.Request) {
	if in, ok := s.readTokenize(w, r); ok {
		writeJSON(w, http.StatusOK, object{"text": s.tok.decode(in.Tokens)})
	}
}
