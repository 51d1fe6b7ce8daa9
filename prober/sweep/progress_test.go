package sweep

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/prober"
)

// slowLegs plays a run of three legs that takes two minutes.
func slowLegs(ctx context.Context, rung prober.Rung, progress func(prober.Progress)) {
	if progress == nil {
		progress = func(prober.Progress) {}
	}
	leg := func(kind string, maxTokens int, expected time.Duration, chunks ...time.Duration) {
		p := prober.Progress{Rung: rung, Run: 1, Kind: kind, MaxTokens: maxTokens, Started: time.Now(), Expected: expected}
		progress(p)
		for _, wait := range chunks {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			p.Chunks++
			progress(p)
		}
		p.Ended = true
		progress(p)
		time.Sleep(time.Second) // between legs nothing is drawn
	}
	leg("cold", 1, 0, 100*time.Second)
	leg("warm", 1, 300*time.Millisecond, 290*time.Millisecond)
	leg("warm", 4, 20*time.Second, 5*time.Second, 5*time.Second, 7*time.Second)
}

func TestProgressOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(131072)
		o.Output, o.Terminal = outputJSON, true
		got := do(t.Context(), o, &fakeRunner{facts: seedFacts, hook: slowLegs})
		if got.code != 0 {
			t.Errorf("exit %d", got.code)
		}
		lines := strings.Split(got.stderr, "\r")
		// 117 s of legs at five lines a second.
		if n := len(lines); n < 580 || n > 590 {
			t.Errorf("the line was rewritten %d times", n)
		}
		for _, want := range []string{
			"128k  cold(1), pair 1  0.2 s  0 chunks",
			"128k  cold(1), pair 1  99.8 s  0 chunks",
			"128k  warm(4), pair 1  16.9 s of about 20.0 s  2 chunks",
		} {
			if !strings.Contains(got.stderr, want) {
				t.Errorf("progress never said %q", want)
			}
		}
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "128k  accepted, proved  TTFT 126.3 s  step ") || strings.Count(last, "\n") != 1 {
			t.Errorf("what stays is %q", last)
		}
		if cleared := lines[len(lines)-2]; strings.TrimSpace(cleared) != "" || len(cleared) == 0 {
			t.Errorf("the line was not cleared: %q", cleared)
		}
		if _, err := parse([]byte(got.stdout)); err != nil {
			t.Errorf("stdout holds more than JSON: %v", err)
		}
	})
}

func TestProgressIsQuietInAPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := do(t.Context(), testOptions(1024, 4096), &fakeRunner{facts: seedFacts, hook: slowLegs})
		if got.code != 0 || got.stderr != "" {
			t.Errorf("exit %d, stderr %q", got.code, got.stderr)
		}
	})
}

func TestProgressCoversLongerLines(t *testing.T) {
	var b bytes.Buffer
	p := progress{w: &b}
	p.rewrite("long line")
	p.rewrite("short")
	p.rewrite("")
	if got, want := b.String(), "\rlong line\rshort    \r     \r"; got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

func TestCancelEndsTheRunningLeg(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(30*time.Second, cancel)
		o := testOptions(1024, 4096)
		o.Terminal = true
		begun := time.Now()
		got := do(ctx, o, &fakeRunner{facts: seedFacts, hook: slowLegs})
		if ran := time.Since(begun); got.code != 2 || ran > 31*time.Second {
			t.Errorf("exit %d after %s", got.code, ran)
		}
		if !strings.Contains(got.stdout, "1k: rejected, interrupted: ") || !strings.Contains(got.stdout, "4k: skipped, shutting_down: ") {
			t.Errorf("stdout %s", got.stdout)
		}
	})
}
