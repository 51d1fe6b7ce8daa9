package prober

import (
	"net/http"
	"testing"

	"github.com/go-kit/log"

	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/simserver"
)

// Piped serves a handler through pipes until its bubble ends, and gives a target that reaches it. It is exported to the tests
// outside of the package, which may import those who import it.
func Piped(t *testing.T, h http.Handler) Target {
	t.Helper()
	listener := simserver.NewPipeListener()
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = listener.Close()
	})
	return Target{
		Name: "sim", Server: "sim", URL: "http://server.invalid", Dialect: inference.Auto, API: inference.AutoAPI, Plan: AutoPlan,
		Precision: 0.03, Budget: 1, Dial: listener.Dial,
	}
}

// Simulated starts a simulated server that lives until its bubble ends.
func Simulated(t *testing.T, c simserver.Config) *simserver.Server {
	t.Helper()
	sim, err := simserver.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	return sim
}

// RunnerOf makes the runner of a target that lives until its bubble ends.
func RunnerOf(t *testing.T, target Target, load LoadReaderFor) *Runner {
	t.Helper()
	r, err := NewRunner(target, load, log.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// ClientOf makes an HTTP client of others that reach the target's server, each time by a connection of its own.
func ClientOf(target Target) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: target.Dial, DisableKeepAlives: true}}
}
