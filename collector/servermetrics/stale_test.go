package servermetrics

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// parsed parses a page of an engine.
func parsed(t testing.TB, prefix string, wanted map[string]bool, text string) page {
	t.Helper()
	p, err := parsePage([]byte(text), prefix, wanted)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSGLangGaugeOfAcceptance takes the gauge only of ranks that decode now.
func TestSGLangGaugeOfAcceptance(t *testing.T) {
	ranks := func(decoded0, decoded1 string) string {
		return `sglang:num_running_reqs{dp_rank="0"} 3
sglang:num_running_reqs{dp_rank="1"} 1
sglang:spec_accept_length{dp_rank="0"} 4
sglang:spec_accept_length{dp_rank="1"} 2
sglang:realtime_tokens_total{dp_rank="0",mode="decode"} ` + decoded0 + `
sglang:realtime_tokens_total{dp_rank="1",mode="decode"} ` + decoded1 + "\n"
	}
	synctest.Test(t, func(t *testing.T) {
		var s sglang
		look := func(text string) *float64 { return s.fromPage(parsed(t, "sglang", sglangNames(), text)).accept }
		for i, tt := range []struct {
			after            time.Duration
			decoded0, other1 string
			want             *float64
		}{
			{0, "100", "100", nil}, // nobody knows since when
			{pollEvery, "150", "120", f((3*4 + 2) / 4.0)},
			{pollEvery, "200", "120", f((3*4 + 2) / 4.0)},
			{pollEvery + time.Second, "250", "120", f(4)}, // the second prefills
			{time.Minute, "250", "120", nil},
		} {
			time.Sleep(tt.after)
			if diff := cmp.Diff(tt.want, look(ranks(tt.decoded0, tt.other1))); diff != "" {
				t.Errorf("look %d (-want +got):\n%s", i, diff)
			}
		}
	})
}

// TestStillPageIsNotBelieved lets go of requests that a page goes on to show while nothing moves on it.
func TestStillPageIsNotBelieved(t *testing.T) {
	text := file(t, "trtllm.prom")
	for _, tt := range []struct {
		name    string
		change  func(string) string
		running *int
	}{
		{"nothing moves", func(s string) string { return s }, nil},
		{"an iteration", func(s string) string { return strings.Replace(s, "0.0412", "0.0413", 1) }, n(2)},
		{"idle", func(s string) string {
			return strings.Replace(s, "} 2.0\n# TYPE trtllm_num_requests_waiting", "} 0.0\n# TYPE trtllm_num_requests_waiting", 1)
		}, n(0)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &trtllm{}
				look := func(text string) reading {
					p := parsed(t, "trtllm", trtllmNames(), text)
					r := fromTRTLLM(p)
					e.life.look(alive(p, trtllmNames()))
					believe(&r, e.life)
					return r
				}
				if got := look(text).load.Running; got == nil || *got != 2 {
					t.Fatalf("running %v", got)
				}
				time.Sleep(stillGauges + time.Second)
				look(tt.change(text))
				if tt.name == "idle" {
					time.Sleep(stillGauges + time.Second)
				}
				got := look(tt.change(text))
				if diff := cmp.Diff(tt.running, got.load.Running); diff != "" {
					t.Errorf("running (-want +got):\n%s", diff)
				}
				if tt.running == nil && (got.kvUsed != nil || got.load.PoolFree != nil || got.load.PoolTokens == nil) {
					t.Errorf("a share of long ago is believed: %+v", got)
				}
			})
		})
	}
}
