// Package servermetrics reads a server's own view of its load: its page of Prometheus metrics and, where there is one, its
// load endpoint. It turns the names, labels and ranks of each engine into one prober.Load, which certifies runs, and one Snapshot,
// which is exported. Gauges of the past, and values that cannot be, are left out.
//
// It reads nothing that reading destroys, with one exception that cannot be helped: llama.cpp's two speed gauges start anew
// whenever anybody reads its page. They are not used.
package servermetrics

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// engine reads one server through its endpoints.
type engine interface {
	read(ctx context.Context) (reading, error)
}

// errNoAddress stands for an endpoint of which the address is not known.
var errNoAddress = &fault{reason: NotFound, text: "where this server has its API is not known"}

// reader sums a target's servers up: one, but for disaggregated prefill and decode.
type reader struct {
	engines  []engine
	replicas int    // data-parallel ranks that the server is known to have, 0 for any number
	hint     string // what to do where the page is not offered
}

// New makes the reader for a target whose server is identified; nil, nil where the dialect offers nothing to read. It sends
// nothing. Credentials of the target go to the target's own host only.
func New(t prober.Target, f inference.Facts) (prober.LoadReader, error) {
	r, err := open(t, f.Dialect)
	if r == nil || err != nil {
		return nil, err // not a nil *reader in an interface
	}
	r.replicas = f.Replicas
	return r, nil
}

// open makes the reader of a target.
func open(t prober.Target, dialect inference.Dialect) (*reader, error) {
	if t.Dial != nil {
		return openReader(t, dialect, config.WithDialContextFunc(t.Dial))
	}
	return openReader(t, dialect)
}

// openReader makes the reader of a target that speaks a dialect, of the configured one where that is not known; nil where it
// offers nothing to read: where neither is known yet, or where the dialect has no page and none is configured.
func openReader(t prober.Target, dialect inference.Dialect, options ...config.HTTPClientOption) (*reader, error) {
	if dialect == "" || dialect == inference.Auto {
		dialect = t.Dialect
	}
	kind, ok := kinds()[dialect]
	switch {
	case ok:
	case len(t.MetricsURLs) == 0 || dialect == "" || dialect == inference.Auto:
		return nil, nil
	default:
		kind.hint, kind.open = unknownHint, func(s server) engine { return &unknown{server: s, page: s.at("")} }
	}
	pages := t.MetricsURLs
	if len(pages) == 0 {
		pages = []string{strings.TrimSuffix(strings.TrimRight(t.URL, "/"), "/v1") + kind.path}
	}
	r := &reader{hint: kind.hint}
	for _, raw := range pages {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("target %s: a metrics URL must be http:// or https:// with a host and without credentials", t.Name)
		}
		client, err := newClient(t, u, options)
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", t.Name, err)
		}
		r.engines = append(r.engines, kind.open(server{page: raw, client: client}))
	}
	return r, nil
}

// kind is how one kind of server is read.
type kind struct {
	path string // of its page, beside the API
	hint string
	open func(server) engine
}

func kinds() map[inference.Dialect]kind {
	return map[inference.Dialect]kind{
		inference.SGLang: {"/metrics", "start SGLang with --enable-metrics", func(s server) engine {
			return &sglang{page: s.at(""), loads: s.beside("/v1/loads?include=core,queues")}
		}},
		inference.VLLM: {"/metrics", "start vLLM without --disable-log-stats", func(s server) engine { return &vllm{page: s.at("")} }},
		inference.LlamaCpp: {"/metrics", "start llama-server with --metrics", func(s server) engine {
			return &llamaCpp{page: s.at(""), slots: s.beside("/slots")}
		}},
		inference.TRTLLM: {"/prometheus/metrics", "set return_perf_metrics: true for trtllm-serve", func(s server) engine {
			return &trtllm{page: s.at(""), other: s.at(prometheusPath(s.page))}
		}},
		inference.LMDeploy: {"/metrics", "start LMDeploy without switching its metrics off", func(s server) engine { return &lmDeploy{page: s.at("")} }},
	}
}

// server is one page with the client that may ask for it.
type server struct {
	page   string
	client *http.Client
}

// at is the endpoint at a URL, "" for the page.
func (s server) at(url string) *endpoint {
	return &endpoint{url: cmp.Or(url, s.page), client: s.client}
}

// beside is an endpoint of the API whose page it is; nil where the page is at an address of its own, which says nothing of where
// the API is.
func (s server) beside(path string) *endpoint {
	base, ok := strings.CutSuffix(strings.TrimRight(s.page, "/"), "/metrics")
	if !ok {
		return nil
	}
	return s.at(base + path)
}

// ReadLoad reads every endpoint within 5 s. A reading that is not complete is an error; an endpoint that the server does not
// offer is none: its facts are absent.
func (r *reader) ReadLoad(ctx context.Context) (prober.Load, error) {
	read, err := r.read(ctx)
	if read.ranks > 0 && read.ranks < r.replicas {
		read.load.Running, read.load.Queued = nil, nil // old builds show the rank that wrote last
	}
	return read.load, err
}

func (r *reader) read(ctx context.Context) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var total reading
	for i, e := range r.engines {
		one, err := e.read(ctx)
		if err != nil {
			return reading{}, err
		}
		if len(r.engines) > 1 {
			one.apart(i)
		}
		seesBroken := one.load.SeesBroken && (i == 0 || total.load.SeesBroken)
		total.add(one)
		total.load.SeesBroken = seesBroken
	}
	total.load.At = time.Now()
	return total, nil
}

func names(list ...string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, n := range list {
		set[n] = true
	}
	return set
}
