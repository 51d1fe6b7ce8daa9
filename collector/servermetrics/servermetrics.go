// Package servermetrics reads a server's own view of its load: its page of Prometheus metrics and, where there is one, its
// load endpoint. It turns the names, labels and ranks of each engine into one prober.Load.
//
// It reads nothing that reading destroys, with one exception that cannot be helped: llama.cpp's two speed gauges start anew
// whenever anybody reads its page.
package servermetrics

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// engine reads one server through its endpoints.
type engine interface {
	read(ctx context.Context) (prober.Load, error)
}

// reader sums a target's servers up: one, but for disaggregated prefill and decode.
type reader struct{ engines []engine }

// New makes the reader for a target whose server is identified; nil, nil where the dialect offers nothing to read. It sends
// nothing. Credentials of the target go to the target's own host only.
func New(t prober.Target, f inference.Facts) (prober.LoadReader, error) {
	if t.Dial != nil {
		return newReader(t, f, config.WithDialContextFunc(t.Dial))
	}
	return newReader(t, f)
}

func newReader(t prober.Target, f inference.Facts, options ...config.HTTPClientOption) (prober.LoadReader, error) {
	dialect := f.Dialect
	if dialect == "" || dialect == inference.Auto {
		dialect = t.Dialect
	}
	switch dialect {
	case inference.SGLang, inference.VLLM, inference.LlamaCpp:
	default:
		return nil, nil
	}
	pages := t.MetricsURLs
	if len(pages) == 0 {
		pages = []string{strings.TrimSuffix(strings.TrimRight(t.URL, "/"), "/v1") + "/metrics"}
	}
	r := &reader{}
	for _, raw := range pages {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || u.User != nil || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("target %s: a metrics URL must be http:// or https:// with a host and without credentials", t.Name)
		}
		client, err := newClient(t, u, options)
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", t.Name, err)
		}
		at := func(path string) *endpoint {
			base, ok := strings.CutSuffix(strings.TrimRight(raw, "/"), "/metrics")
			if !ok {
				return nil // a page at an address of its own says nothing of where the API is
			}
			return &endpoint{url: base + path, client: client}
		}
		page := &endpoint{url: raw, client: client}
		switch dialect {
		case inference.SGLang:
			r.engines = append(r.engines, &sglang{page: page, loads: at("/v1/loads?include=core,queues")})
		case inference.VLLM:
			r.engines = append(r.engines, &vllm{page: page})
		default:
			r.engines = append(r.engines, &llamaCpp{page: page, slots: at("/slots")})
		}
	}
	return r, nil
}

// ReadLoad reads every endpoint within 5 s. A reading that is not complete is an error; an endpoint that the server does not
// offer is none: its facts are absent.
func (r *reader) ReadLoad(ctx context.Context) (prober.Load, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var total prober.Load
	for _, e := range r.engines {
		l, err := e.read(ctx)
		if err != nil {
			return prober.Load{}, err
		}
		add(&total, l)
	}
	total.At = time.Now()
	return total, nil
}

// add adds l to total, field by field, where l knows the field.
func add(total *prober.Load, l prober.Load) {
	total.Live = total.Live || l.Live
	total.Digits = max(total.Digits, l.Digits)
	addTo(&total.Running, l.Running)
	addTo(&total.Queued, l.Queued)
	addTo(&total.PromptTokens, l.PromptTokens)
	addTo(&total.ComputedTokens, l.ComputedTokens)
	addTo(&total.GeneratedTokens, l.GeneratedTokens)
	addTo(&total.ForwardTokens, l.ForwardTokens)
	addTo(&total.Steps, l.Steps)
	addTo(&total.CorrectDrafts, l.CorrectDrafts)
	addTo(&total.FinishedRequests, l.FinishedRequests)
	addTo(&total.AbortedRequests, l.AbortedRequests)
}

func addTo[T int | float64](total **T, v *T) {
	switch {
	case v == nil:
	case *total == nil:
		sum := *v
		*total = &sum
	default:
		**total += *v
	}
}

// optional makes a page that the server does not offer an empty one.
func optional(p page, err error) (page, error) {
	if errors.Is(err, errNotOffered) {
		return page{}, nil
	}
	return p, err
}

func names(list ...string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, n := range list {
		set[n] = true
	}
	return set
}
