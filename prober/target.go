package prober

import (
	"context"
	"net"
	"reflect"
	"time"

	"github.com/prometheus/common/config"

	"longctx_exporter/prober/inference"
)

// Target is one server endpoint and one served model, as validated configuration gives it.
type Target struct {
	Name    string
	URL     string // base URL without a trailing slash
	Server  string // what must not be probed twice at once; host:port of the URL unless configured
	Model   string // configured model, "" for the first that the server lists
	Dialect inference.Dialect
	API     inference.API
	Replica string // data-parallel rank, slot or sticky key, where several replicas answer one URL
	// ContextLimit is in tokens, prompt plus output; 0 is as the server tells.
	ContextLimit int

	Plan      Plan
	Ladder    []Rung
	Budget    float64 // largest share of the server's time that probes may take, 0 to 1
	Precision float64 // wanted relative standard error of the step time, 0 to 1

	DecodeTokens PerRung[int]           // M; 0 is auto
	Intervals    PerRung[time.Duration] // from due time to due time
	Timeout      time.Duration          // one leg; 0 is auto
	SLO          SLO

	Weights       PerRung[float64] // parts of the budget, relative to one another; 0 is 1
	QuietHours    []QuietHours     // in which no run starts
	Needle        bool             // a fact is planted in prompts and asked for after the run
	AllowEviction bool             // a run may push what others have cached out of the server's KV pool

	HTTP        config.HTTPClientConfig
	MetricsURLs []string // pages of the server's own metrics; nil is auto
	MetricsHTTP *config.HTTPClientConfig
	Logs        []LogSource // logs of the server to follow

	// Dial, where set, replaces the dialer: the built-in simulated server and tests speak over pipes.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// LogSource is one log of a server: a file or a systemd unit.
type LogSource struct {
	Path   string // "" for a unit
	Unit   string // "" for a file
	Format string // auto, sglang, vllm, llamacpp or ollama
}

// SLO are the objectives of a target: the longest good times. A rung that is in neither map is not judged.
type SLO struct {
	TTFT map[Rung]time.Duration // to the first token
	Step map[Rung]time.Duration // per decode step
}

// Same tells whether two targets are measured alike in every respect, so that what is known of one holds for the other.
// Targets with a Dial are never the same.
func (t Target) Same(other Target) bool { return reflect.DeepEqual(t, other) }

// weight is a rung's part of the budget, relative to those of the other rungs of its server.
func (t Target) weight(r Rung) float64 {
	if w := t.Weights.At(r); w > 0 {
		return w
	}
	return 1
}

// ModelLabel is the value of the label `model`: the configured name, or "default".
func (t Target) ModelLabel() string {
	if t.Model == "" {
		return "default"
	}
	return t.Model
}

// PerRung is a value with exceptions for single rungs.
type PerRung[T any] struct {
	Default T
	Rungs   map[Rung]T
}

// At is the value for one rung.
func (p PerRung[T]) At(r Rung) T {
	if v, ok := p.Rungs[r]; ok {
		return v
	}
	return p.Default
}
