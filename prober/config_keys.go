package prober

import "longctx_exporter/prober/inference"

// The comments of the types below are the documentation of the configuration file: CONFIGURATION.md is made of them. A
// comment may end in lines with the key's Unit, its Default (as YAML in backticks, or in words), an Example and values that
// are Refused; a key without omitempty must be there. Tests hold defaults, examples and refusals against the parser.
//
//go:generate go test -run ^TestConfigurationDocument$ . -args -update

// Config is the configuration file: what holds for every target, and the targets.
type Config struct {
	// ProbeConfig is for every target that does not say otherwise.
	ProbeConfig `yaml:",inline"`
	// Targets are the servers to probe, at least one.
	//
	// Example: [{name: ct200, url: 'http://10.0.0.5:30000'}]
	// Refused: []
	Targets []TargetConfig `yaml:"targets"`
}

// ProbeConfig is what the top of the file and every target can set.
type ProbeConfig struct {
	// Ladder is the list of context lengths to probe, 24 at most and none twice.
	//
	// Unit: tokens
	// Default: `[1k, 2k, 4k, 8k, 16k, 32k, 64k, 128k, 192k]`
	// Example: [1k, 8k, 5500]
	// Refused: []
	// Refused: [1k, 1024]
	// Refused: [8x]
	Ladder Ladder `yaml:"ladder,omitempty"`
	// Budget is the largest share of a server's time that probes may take: three quarters of it for the ladder, the rest for
	// confirmations. A rung runs once on credit and again when its part has paid for that, so that a long rung may run more
	// seldom than its interval says. Over a day probes exceed it by a tenth at most, or by the one run that is longer. 100% is no limit.
	//
	// Unit: share of time
	// Default: `2%`
	// Example: 0.5%
	// Refused: 0
	// Refused: 2
	Budget Share `yaml:"budget,omitempty"`
	// Weights are the parts of the budget that rungs get, relative to one another, where it is too small for all intervals. Where 1k
	// takes 6 s and 192k takes 390 s, 2 % of one server and nine equal shares let 192k run every 65 hours and 1k every hour;
	// `{192k: 8}` makes that 14 hours.
	//
	// Default: `1`
	// Example: {128k: 2, 192k: 4}
	// Refused: {128k: 0}
	// Refused: a lot
	Weights RungValues[Weight] `yaml:"weights,omitempty"`
	// QuietHours are hours in which no run starts; a run that goes on is not ended. Due runs are skipped with the reason budget.
	//
	// Default: none
	// Example: [Mon-Fri 08:00-18:00 Europe/Berlin, '12:00-14:00']
	// Refused: ['08:00']
	// Refused: [Mon-Fri 08:00-18:00 Mars]
	QuietHours []QuietHours `yaml:"quiet_hours,omitempty"`
	// AllowEviction lets a run push what others have cached out of the server's KV pool. Without it a rung that would push out more
	// than a twentieth of the pool is skipped as pool_full, where the server tells what its pool holds (SGLang of April 2026
	// or newer): on such a server in use long rungs wait for ever, for its pool is always full of prefixes. What earlier probes left
	// counts as free while nobody else needed that room. Where a server tells only a total (vLLM, llama.cpp, older SGLang), a rung
	// runs if it fits beside what running requests hold. A sweep, which somebody starts by hand, takes true where the file does not
	// say.
	//
	// Default: `false`
	// Example: true
	// Refused: sometimes
	AllowEviction *bool `yaml:"allow_eviction,omitempty"`
	// Needle plants a fact in the text of each prompt and asks for it when the run is over and its prompt still cached: whether the
	// answer holds it is exported, never judged. It costs one more request of 16 output tokens (32 of chat), a twentieth of a run.
	//
	// Default: `true`
	// Example: false
	// Refused: sometimes
	Needle *bool `yaml:"needle,omitempty"`
	// Precision is the wanted relative standard error of the step time. The finer it is, the more a run repeats.
	//
	// Unit: share of the step time
	// Default: `3%`
	// Example: 5%
	// Refused: 3 percent
	Precision Share `yaml:"precision,omitempty"`
	// DecodeTokens is the number of tokens that the long request of a pair decodes beyond the short one. A number below 8 is
	// warned about: the step time rests on few steps then.
	//
	// Unit: tokens
	// Default: `auto`
	// Example: {default: 16, 128k: 8}
	// Refused: 0
	DecodeTokens RungValues[Tokens] `yaml:"decode_tokens,omitempty"`
	// Intervals are the times from one run of a rung to its next, from 1s up. A default that is set here is that of every
	// rung; the built-in ones hold for each rung from their length up.
	//
	// Unit: time
	// Default: `{default: 5m, 64k: 30m, 128k: 1h, 192k: 4h}`
	// Example: {default: 10m, 128k: 2h}
	// Refused: 500ms
	// Refused: 300
	Intervals RungValues[Interval] `yaml:"intervals,omitempty"`
}

// TargetConfig is one entry of `targets`: a server and a model that it serves.
type TargetConfig struct {
	// Name is the value of the label `target`, unlike that of any other target, up to 128 bytes.
	//
	// Example: ct200
	// Refused: ''
	Name string `yaml:"name"`
	// URL is the base URL of the server, with or without /v1. Credentials in it are refused.
	//
	// Example: http://10.0.0.5:30000
	// Refused: 10.0.0.5:30000
	// Refused: http://me:secret@10.0.0.5:30000
	URL string `yaml:"url"`
	// Server is the name of what must not be probed twice at once: targets of one server take turns and share its rest.
	//
	// Default: host:port of the URL
	// Example: ct200
	Server string `yaml:"server,omitempty"`
	// Model is the served model.
	//
	// Default: the first that the server lists
	// Example: kimi-k2.6
	Model string `yaml:"model,omitempty"`
	// Dialect is how the server is spoken to: auto, sglang, vllm, llamacpp, trtllm, lmdeploy, ollama or openai.
	//
	// Default: `auto`
	// Example: vllm
	// Refused: tgi
	Dialect inference.Dialect `yaml:"dialect,omitempty"`
	// API is the endpoint family: auto, completions, chat or native.
	//
	// Default: `auto`
	// Example: completions
	// Refused: responses
	API inference.API `yaml:"api,omitempty"`
	// Plan is how a rung is measured: auto, pair (every request uncached) or triple (one uncached, then pairs that the prefix
	// cache serves). A surprising step time of a triple is confirmed by more of its pairs alone, the plan `warm`.
	//
	// Default: `auto`
	// Example: pair
	// Refused: single
	Plan Plan `yaml:"plan,omitempty"`
	// Replica pins a data-parallel rank, slot or sticky key where several replicas answer one URL. Without it the requests of a run
	// may be answered by different ones: most runs are then rejected as `replica_mismatch`, `cache_miss` or `inconsistent`. Behind a
	// router, set `metrics` to the page of the pinned replica.
	//
	// Default: none
	// Example: '0'
	Replica string `yaml:"replica,omitempty"`
	// ContextLimit is the most tokens, prompt plus output, that the server can take in one request. It holds where the server
	// tells no limit, and where it tells more. Rungs beyond it are not sent.
	//
	// Unit: tokens
	// Default: as the server tells
	// Example: 128k
	// Refused: 0
	ContextLimit Length `yaml:"context_limit,omitempty"`
	// ProbeConfig is for this target alone, and wins over the top of the file.
	ProbeConfig `yaml:",inline"`
	// Timeout is the longest that one request may take. `auto` is 60s and 10ms per prompt token, or four times what the request
	// took before where that is more.
	//
	// Unit: time
	// Default: `auto`
	// Example: 10m
	// Refused: 0s
	Timeout Timeout `yaml:"timeout,omitempty"`
	// HTTP is for credentials, TLS and proxy settings. Credentials are never sent to another host.
	//
	// Default: no credentials
	// Example: {authorization: {credentials_file: api-key}}
	// Refused: {authorization: {credentials_file: api-key}, basic_auth: {username: me}}
	HTTP *HTTPConfig `yaml:"http,omitempty"`
	// Metrics is where the server's own metrics are.
	//
	// Default: /metrics beside the API, /prometheus/metrics of TensorRT-LLM; none of gateways, whose engines' pages can be set here
	// Example: {urls: ['http://10.0.0.5:30000/metrics', 'http://10.0.0.6:30000/metrics']}
	Metrics *MetricsConfig `yaml:"metrics,omitempty"`
	// Logs are logs of the server, of which the acceptance of real traffic is read. What was written before the start is not
	// read; rotation and truncation are followed.
	//
	// Default: none
	// Example: [{path: /var/log/sglang/server.log}]
	// Refused: [{path: /var/log/server.log}, {path: /var/log/server.log}]
	Logs []LogConfig `yaml:"logs,omitempty"`
	// SLO are objectives by context length, exported beside the measurements.
	//
	// Default: none
	// Example: {ttft: {128k: 180s}, step: {128k: 3s}}
	SLO *SLOConfig `yaml:"slo,omitempty"`
}

// MetricsConfig is where the server's own metrics are.
type MetricsConfig struct {
	// URLs are the pages, several where prefill and decode are servers apart.
	//
	// Default: `[auto]`
	// Example: ['http://10.0.0.5:30000/metrics', 'http://10.0.0.6:30000/metrics']
	// Refused: [auto, 'http://10.0.0.6:30000/metrics']
	// Refused: ['http://10.0.0.5:30000/metrics?api_key=secret']
	URLs []string `yaml:"urls,omitempty"`
	// HTTP takes the place of the target's `http` for these pages.
	//
	// Default: the target's, for pages on its own host
	// Example: {basic_auth: {username: prometheus, password_file: metrics-password}}
	HTTP *HTTPConfig `yaml:"http,omitempty"`
}

// LogConfig is one log of a server: a file or a systemd unit. Entries of docker, Kubernetes and journald, colours and prefixes are
// recognised.
type LogConfig struct {
	// Path is the path of a file that the exporter's user may read. Where the exporter runs in a container, mount the folder: a file
	// that is mounted by itself stays the old one when it is rotated. On Kubernetes mount `/var/log/containers` and `/var/log/pods` of
	// the server's node read-only and run the exporter on that node; docker's are `/var/lib/docker/containers/ID/ID-json.log`. Lines
	// that `copytruncate` cuts before they could be read, within a quarter of a second, are lost.
	//
	// Default: none
	// Example: /var/log/sglang/server.log
	// Refused: ''
	Path string `yaml:"path,omitempty"`
	// Unit is a systemd unit whose journal is followed by a `journalctl` of its own, in the place of a path. The exporter's user must
	// be in the group `systemd-journal`; in its unit, `SupplementaryGroups=systemd-journal`.
	//
	// Default: none
	// Example: sglang.service
	// Refused: '-f'
	Unit string `yaml:"unit,omitempty"`
	// Format is that of its lines: auto, sglang, vllm, llamacpp or ollama.
	//
	// Default: `auto`
	// Example: sglang
	// Refused: json
	Format string `yaml:"format,omitempty"`
}

// SLOConfig are objectives by context length. A rung without one has none.
type SLOConfig struct {
	// TTFT is the longest good time to first token.
	//
	// Unit: time
	// Default: none
	// Example: {1k: 500ms, 128k: 180s}
	// Refused: {128k: 0s}
	TTFT RungValues[Duration] `yaml:"ttft,omitempty"`
	// Step is the longest good time per decode step.
	//
	// Unit: time
	// Default: none
	// Example: {default: 150ms, 128k: 3s}
	// Refused: fast
	Step RungValues[Duration] `yaml:"step,omitempty"`
}
