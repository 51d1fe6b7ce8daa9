package servermetrics

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/simserver"
)

// TestAgreesWithTheTruth compares what is exported of a simulated server with what it really did.
func TestAgreesWithTheTruth(t *testing.T) {
	for _, dialect := range []inference.Dialect{inference.SGLang, inference.VLLM, inference.LlamaCpp} {
		t.Run(string(dialect), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { agree(t, dialect) })
		})
	}
}

func agree(t *testing.T, dialect inference.Dialect) {
	profile, err := simserver.ProfileByName("kimi-k2.6-ddtree")
	if err != nil {
		t.Fatal(err)
	}
	sim, err := simserver.New(simserver.Config{Profile: profile, Shape: string(dialect), Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	listener := simserver.NewPipeListener()
	server := &http.Server{Handler: sim.Handler()}
	go func() { _ = server.Serve(listener) }()
	defer func() {
		_ = server.Close()
		_ = listener.Close()
		sim.Close()
	}()
	var got Snapshot
	target := prober.Target{Name: "sim", URL: "http://server.invalid", Dialect: dialect, Dial: listener.Dial}
	p, err := NewPoller(target, func(s Snapshot) { got = s }, log.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: listener.Dial, DisableKeepAlives: true}}
	complete := func(tokens int) {
		body := fmt.Sprintf(`{"model":%q,"prompt":%q,"max_tokens":%d,"ignore_eos":true}`, profile.Model, strings.Repeat("word ", 3000), tokens)
		resp, err := client.Post("http://server.invalid/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, err)
		}
	}
	complete(64)
	p.poll(t.Context(), pollEvery)
	known := len(sim.Truth())
	complete(400)
	complete(400)
	time.Sleep(time.Minute)
	p.poll(t.Context(), pollEvery)

	truth := sim.Truth()
	var prompt, cached, generated, steps float64
	for _, r := range truth {
		prompt, cached, generated = prompt+float64(r.PromptTokens), cached+float64(r.CachedTokens), generated+float64(r.CompletionTokens)
		steps += float64(len(r.StepSeconds))
	}
	var passes, committed float64
	for _, r := range truth[known:] {
		for _, n := range r.Accepted {
			passes, committed = passes+1, committed+float64(n)
		}
	}
	if cached == 0 {
		t.Error("the second prompt was not cached")
	}
	for _, c := range []struct {
		what string
		got  *float64
		want float64
		off  float64
	}{
		{"prompt tokens", got.PromptTokens, prompt, 0},
		{"cached tokens", got.CachedTokens, cached, 0},
		{"output tokens", got.GeneratedTokens, generated, 0},
		{"verify passes", got.VerifySteps, steps, 0},
		{"acceptance length", got.AcceptLength, committed / passes, 0.02}, // SGLang cuts the last pass at max_tokens
	} {
		if c.got == nil || math.Abs(*c.got-c.want) > c.off*c.want {
			t.Errorf("%s: got %s, the truth is %v", c.what, show(c.got), c.want)
		}
	}
	if !got.Up || got.Running == nil || *got.Running != 0 || got.Queued == nil || *got.Queued != 0 {
		t.Errorf("an idle server: %+v", got)
	}
	if got.KVFree == nil || math.Abs(*got.KVFree-float64(profile.PoolTokens)) > 0.01*float64(profile.PoolTokens) && dialect != inference.LlamaCpp {
		t.Errorf("free in an idle pool: %s of %d", show(got.KVFree), profile.PoolTokens)
	}
}

func show(v *float64) string {
	if v == nil {
		return "nothing"
	}
	return fmt.Sprint(*v)
}
