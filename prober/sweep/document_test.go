package sweep

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// generic is the document as another program reads it.
func generic(t *testing.T, d document) map[string]any {
	t.Helper()
	var b bytes.Buffer
	if err := d.write(&b); err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b.Bytes(), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func keys(m any) string {
	return strings.Join(slices.Sorted(maps.Keys(m.(map[string]any))), " ")
}

func list(m any, key string, i int) any { return m.(map[string]any)[key].([]any)[i] }

func TestSchema(t *testing.T) {
	m := generic(t, goldenDocument())
	for _, test := range []struct {
		name string
		got  any
		want string
	}{
		{"document", m, "exporter_version fit rungs schema started target"},
		{"target", m["target"], "context_limit dialect kv_pool_tokens model name server_version speculation url"},
		{"fit", m["fit"], "intercept_seconds rungs slope_seconds_per_token"},
		{"accepted rung", list(m, "rungs", 0), "accept_histogram accept_length buffered context decode_tokens_per_second isolation legs " +
			"message method pairs plan prefill_tokens_per_second prompt_tokens reason rung status step_error_ratio step_seconds " +
			"step_seconds_ci step_seconds_stream steps steps_source ttft_seconds"},
		{"rung without a step", list(m, "rungs", 2), "buffered context decode_tokens_per_second isolation legs message method pairs plan " +
			"prompt_tokens reason rung status"},
		{"failed rung", list(m, "rungs", 4), "context legs message plan reason rung status"},
		{"rejected rung", list(m, "rungs", 5), "buffered context isolation legs message plan prefill_tokens_per_second prompt_tokens " +
			"reason rung status ttft_seconds"},
		{"skipped rung", list(m, "rungs", 6), "context legs message reason rung status"},
		{"leg", list(list(m, "rungs", 0), "legs", 0), "cached_tokens chunks completion_tokens error error_class finish_reason " +
			"http_status leg max_tokens prompt_tokens run total_seconds ttft_seconds"},
		{"failed leg", list(list(m, "rungs", 4), "legs", 0), "error error_class http_status leg max_tokens run total_seconds"},
	} {
		if diff := cmp.Diff(test.want, keys(test.got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	if m["schema"] != "longctx/sweep/v1" || m["started"] != "2026-11-29T12:00:00Z" {
		t.Errorf("schema %v started %v", m["schema"], m["started"])
	}
	cold := list(list(m, "rungs", 0), "legs", 0).(map[string]any)
	if cold["cached_tokens"] != 0.0 || cold["leg"] != "cold" || cold["error"] != "" {
		t.Errorf("the cold leg is %v", cold)
	}
	if legs := m["rungs"].([]any)[5].(map[string]any)["legs"].([]any); len(legs) != 5 {
		t.Errorf("%d legs of the rejected rung, want all 5", len(legs))
	}
}

func TestUnknownTargetFactsAreAbsent(t *testing.T) {
	d := document{Target: newTarget(prober.Target{Name: "x", URL: "http://user:secret@h:1/base?key=secret"}, inference.Facts{}), Rungs: []rung{}}
	m := generic(t, d)
	if got := keys(m["target"]); got != "model name url" {
		t.Errorf("target has %s", got)
	}
	if got := m["target"].(map[string]any)["url"]; got != "http://h:1/base" {
		t.Errorf("url %v", got)
	}
	if _, there := m["fit"]; there {
		t.Error("a fit through nothing")
	}
}

func TestNoWrongNumber(t *testing.T) {
	for _, wrong := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1} {
		run := acceptedRun(1024)
		s := &run.Sample
		for _, p := range []*float64{&s.TTFT, &s.Prefill, &s.Step, &s.StepStream, &s.StepError, &s.DecodeRate, &s.AcceptLength, &s.DecodeTokens, &s.StepCI[0], &s.StepCI[1]} {
			*p = wrong
		}
		s.Steps, s.Pairs, s.PromptTokens = -1, -1, -1
		run.Legs[0].Response.TTFT = -1
		m := generic(t, document{Rungs: []rung{newRung(run)}})
		for key, value := range list(m, "rungs", 0).(map[string]any) {
			if strings.Contains(key, "seconds") || strings.Contains(key, "tokens") || strings.Contains(key, "ratio") || key == "steps" || key == "pairs" {
				t.Errorf("%v became %s = %v", wrong, key, value)
			}
		}
	}
}

func TestSixDigits(t *testing.T) {
	for v, want := range map[float64]float64{
		126.3000001: 126.3, 1.49551234e-5: 1.49551e-5, 2.0214567: 2.02146, math.MaxFloat64: 1.79769e308, -1.2345678: -1.23457,
	} {
		if got := six(v); got != want {
			t.Errorf("six(%v) = %v, want %v", v, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	var rungs []rung
	for _, context := range []prober.Rung{1024, 4096, 16384, 65536} {
		rungs = append(rungs, newRung(acceptedRun(context)))
	}
	outlier := acceptedRun(131072)
	outlier.Status, outlier.Reason = prober.Rejected, prober.Contended
	rungs = append(rungs, newRung(outlier))
	check := func(name string, rungs []rung) {
		got := fitLine(rungs)
		if got == nil || got.Rungs != 4 || math.Abs(got.Intercept/trueIntercept-1) > 1e-3 || math.Abs(got.Slope/trueSlope-1) > 1e-3 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	check("measured", rungs)
	for i := range rungs {
		rungs[i].decoded = 0 // as read from a file: from the legs then
	}
	check("read", rungs)
	if got := fitLine(rungs[:2]); got != nil {
		t.Errorf("a line through two rungs: %+v", got)
	}
}
