package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/promslog"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// TestFleetTakesAllOrNothing offers a fleet targets of which one cannot be probed.
func TestFleetTakesAllOrNothing(t *testing.T) {
	good, err := prober.TargetConfig{Name: "good", URL: "http://127.0.0.1:1"}.Target()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	logger, _ := newLogger(&promslog.Config{Level: promslog.NewLevel(), Format: promslog.NewFormat()}, &out)
	load := func() (prober.ValidatedConfig, error) {
		return prober.Config{Targets: []prober.TargetConfig{{Name: "first", URL: "http://127.0.0.1:1"}}}.Validate()
	}
	s, err := (&serveCommand{}).newService(t.Context(), load, nil, logger)
	if err != nil {
		t.Fatal(err)
	}
	defer s.end()
	bad := good
	bad.Name, bad.URL = "bad", "://"
	if _, err := s.fleet.replace(t.Context(), []prober.Target{good, bad}); err == nil {
		t.Error("a target without an address is taken")
	}
	if got := s.fleet.current(); len(got) != 1 || got["first"].runner == nil || s.fleet.scheduler.EffectiveInterval("first", 1024) == 0 {
		t.Errorf("a bad target changes the fleet: %v", got)
	}
	s.fleet.closeUnless(s.fleet.current(), nil)
}

// TestFleetReadsEngines reads a server's own page, before any run and after a reload that changes the target.
func TestFleetReadsEngines(t *testing.T) {
	var running atomic.Int32
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintf(w, "vllm:num_requests_running %d\n", running.Load())
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer engine.Close()
	replica := ""
	load := func() (prober.ValidatedConfig, error) {
		return prober.Config{Targets: []prober.TargetConfig{{Name: "first", URL: engine.URL, Dialect: inference.VLLM, Replica: replica}}}.Validate()
	}
	s, err := (&serveCommand{}).newService(t.Context(), load, nil, log.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer s.end()
	shown := func(want int) {
		running.Store(int32(want))
		line := fmt.Sprintf(`longctx_engine_running_requests{model="default",target="first"} %d`, want)
		for page := ""; !strings.Contains(page, line); {
			if t.Context().Err() != nil {
				t.Fatalf("no %s on\n%s", line, page)
			}
			s.fleet.current()["first"].poller.Nudge()
			families, err := s.series.Gatherer().Gather()
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			for _, f := range families {
				if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
					t.Fatal(err)
				}
			}
			page = b.String()
			time.Sleep(time.Millisecond)
		}
	}
	shown(1)
	kept := s.fleet.current()["first"].poller
	if err := s.reload(); err != nil || s.fleet.current()["first"].poller != kept {
		t.Errorf("a target that stays as it is gets another poller, %v", err)
	}
	shown(2)
	replica = "1"
	if err := s.reload(); err != nil || s.fleet.current()["first"].poller == kept {
		t.Errorf("a target that changes keeps its poller, %v", err)
	}
	shown(3)
	s.fleet.closeUnless(s.fleet.current(), nil)
}
