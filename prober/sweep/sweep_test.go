package sweep

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeRunner answers with prepared runs; a rung without one is measured perfectly.
type fakeRunner struct {
	facts inference.Facts
	err   error
	runs  map[prober.Rung]prober.Run
	asked []prober.Rung
	hook  func(context.Context, prober.Rung, func(prober.Progress)) // called before a run is returned
}

func (f *fakeRunner) Identify(context.Context) (inference.Facts, error) { return f.facts, f.err }
func (f *fakeRunner) Close()                                            {}

func (f *fakeRunner) Run(ctx context.Context, rung prober.Rung, progress func(prober.Progress)) prober.Run {
	f.asked = append(f.asked, rung)
	if f.hook != nil {
		f.hook(ctx, rung, progress)
	}
	if ctx.Err() != nil {
		return prober.Run{
			Rung: rung, Status: prober.Rejected, Reason: prober.Interrupted, Plan: prober.Triple,
			Message: "the run was interrupted", Legs: []prober.Leg{coldLeg(rung)},
			Sample: prober.Sample{PromptTokens: int(rung), TTFT: 1, Prefill: float64(rung)},
		}
	}
	if run, ok := f.runs[rung]; ok {
		return run
	}
	return acceptedRun(rung)
}

// The true line of the fake server.
const (
	trueIntercept = 0.0598
	trueSlope     = 1.4955e-5
	trueDecoded   = 32
)

func trueStep(rung prober.Rung) float64 {
	return trueIntercept + trueSlope*(float64(rung)+trueDecoded/2)
}

func ptr[T any](v T) *T { return &v }

func coldLeg(rung prober.Rung) prober.Leg {
	ttft := time.Duration(float64(rung) / 1037.8 * float64(time.Second))
	return prober.Leg{Run: 1, Kind: "cold", MaxTokens: 1, Response: inference.Response{
		HTTPStatus: 200, Streamed: true, TTFT: ttft, LastToken: ttft, Total: ttft, Chunks: []inference.Chunk{{At: ttft, Tokens: 1}},
		PromptTokens: ptr(int(rung)), CompletionTokens: ptr(1), CachedTokens: ptr(0), FinishReason: "length",
	}}
}

func warmLeg(rung prober.Rung, pair, tokens int) prober.Leg {
	ttft := 300 * time.Millisecond
	total := ttft + time.Duration(float64(tokens-1)/3.46*trueStep(rung)*float64(time.Second))
	return prober.Leg{Run: pair, Kind: "warm", MaxTokens: tokens, Response: inference.Response{
		HTTPStatus: 200, Streamed: true, TTFT: ttft, LastToken: total, Total: total, Chunks: make([]inference.Chunk, (tokens+2)/3),
		PromptTokens: ptr(int(rung)), CompletionTokens: ptr(tokens), CachedTokens: ptr(int(rung) - 1), FinishReason: "length",
	}}
}

func acceptedRun(rung prober.Rung) prober.Run {
	step := trueStep(rung)
	return prober.Run{
		Target: "ct200", Model: "kimi-k2.6", Rung: rung, Status: prober.Accepted, Plan: prober.Triple,
		Sample: prober.Sample{
			PromptTokens: int(rung), TTFT: float64(rung) / 1037.8, Prefill: 1037.8, Pairs: 2,
			Step: step, StepStream: step * 0.999, StepCI: [2]float64{step * 0.985, step * 1.015}, StepError: 0.0075,
			Method: "two_point", Steps: 18, StepsSource: "response", StepTimes: []float64{step}, DecodeTokens: trueDecoded,
			DecodeRate: 3.46 / step, AcceptLength: 3.46, AcceptHistogram: []int{1, 4, 5, 4, 2, 1, 1, 0}, Isolation: prober.Proved,
		},
		Legs: []prober.Leg{
			coldLeg(rung), warmLeg(rung, 1, 1), warmLeg(rung, 1, 33), warmLeg(rung, 2, 1), warmLeg(rung, 2, 33),
		},
	}
}

func notAccepted(rung prober.Rung, status prober.Status, reason prober.Reason, message string) prober.Run {
	return prober.Run{Rung: rung, Status: status, Reason: reason, Message: message}
}

var seedFacts = inference.Facts{
	Dialect: inference.SGLang, API: inference.Native, ServerVersion: "0.5.15", Models: []string{"kimi-k2.6"}, Model: "kimi-k2.6",
	ContextLimit: 200000, KVPoolTokens: 218484, Speculation: "DDTREE", BlockSize: 16,
}

type outcome struct {
	code           int
	stdout, stderr string
}

func testOptions(ladder ...prober.Rung) Options {
	return Options{
		Target: prober.Target{Name: "ct200", URL: "http://10.0.0.5:30000", Model: "kimi-k2.6", Ladder: ladder},
		Output: outputTable, Version: "1.2.3",
	}
}

func do(ctx context.Context, o Options, r runner) outcome {
	var stdout, stderr bytes.Buffer
	o.Stdout, o.Stderr = &stdout, &stderr
	code := o.run(ctx, r)
	return outcome{code, stdout.String(), stderr.String()}
}

func TestExitCode(t *testing.T) {
	refused := notAccepted(1024, prober.Failed, prober.Reason(inference.Auth), "the server wants a key (401)")
	for _, test := range []struct {
		name   string
		runs   map[prober.Rung]prober.Run
		err    error
		code   int
		stderr string
	}{
		{name: "all measured", code: 0},
		{name: "one rejected", code: 2, runs: map[prober.Rung]prober.Run{
			4096: notAccepted(4096, prober.Rejected, prober.Contended, "another request ran"),
		}},
		{name: "one beyond the context", code: 2, runs: map[prober.Rung]prober.Run{
			4096: notAccepted(4096, prober.Skipped, prober.ExceedsContext, "the server takes 2048 tokens"),
		}},
		{name: "all answered, none accepted", code: 2, runs: map[prober.Rung]prober.Run{
			1024: notAccepted(1024, prober.Failed, prober.Reason(inference.ServerError), "500"),
			4096: notAccepted(4096, prober.Rejected, prober.CacheHit, "the prompt was cached"),
		}},
		{name: "all skipped", code: 1, stderr: "no rung could be tried: exceeds_context: too long", runs: map[prober.Rung]prober.Run{
			1024: notAccepted(1024, prober.Skipped, prober.ExceedsContext, "too long"),
			4096: notAccepted(4096, prober.Skipped, prober.ExceedsContext, "too long"),
		}},
		{
			name: "turned away at every rung", code: 1, stderr: "no rung could be tried: auth: the server wants a key (401)",
			runs: map[prober.Rung]prober.Run{1024: refused, 4096: refused},
		},
		{
			name: "not identified", code: 1, err: &inference.Error{Class: inference.Connect, Message: "connection refused"},
			stderr: "longctx_exporter: identifying the server at http://10.0.0.5:30000: connect: connection refused; is it running",
		},
		{name: "not identified, plain error", code: 1, err: errors.New("boom"), stderr: "identifying the server at http://10.0.0.5:30000: boom"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := do(t.Context(), testOptions(1024, 4096), &fakeRunner{facts: seedFacts, runs: test.runs, err: test.err})
			if got.code != test.code {
				t.Errorf("exit %d, want %d; stderr: %s", got.code, test.code, got.stderr)
			}
			if !strings.Contains(got.stderr, test.stderr) || (test.stderr == "" && got.stderr != "") {
				t.Errorf("stderr %q, want %q", got.stderr, test.stderr)
			}
			if n := strings.Count(got.stderr, "\n"); n > 1 {
				t.Errorf("stderr has %d lines, want one sentence: %q", n, got.stderr)
			}
			if test.err != nil && got.stdout != "" {
				t.Errorf("stdout %q of a sweep that never began", got.stdout)
			}
		})
	}
}

func TestWrongUsage(t *testing.T) {
	for name, change := range map[string]func(*Options){
		`output "xml" is none of table, json, csv, markdown`: func(o *Options) { o.Output = "xml" },
		"--resume needs the --output-file":                   func(o *Options) { o.Resume = true },
		"the ladder is empty":                                func(o *Options) { o.Target.Ladder = nil },
		"the ladder lists 1k twice":                          func(o *Options) { o.Target.Ladder = []prober.Rung{1024, 1024} },
	} {
		o := testOptions(1024)
		change(&o)
		var stdout, stderr bytes.Buffer
		o.Stdout, o.Stderr = &stdout, &stderr
		if code := Run(t.Context(), o); code != 1 || !strings.Contains(stderr.String(), name) || stdout.Len() > 0 {
			t.Errorf("exit %d, stderr %q, want 1 and %q", code, stderr.String(), name)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := &fakeRunner{facts: seedFacts, hook: func(_ context.Context, rung prober.Rung, _ func(prober.Progress)) {
		if rung == 4096 {
			cancel()
		}
	}}
	o := testOptions(1024, 4096, 16384, 65536)
	o.Output = outputJSON
	o.OutputFile = filepath.Join(t.TempDir(), "sweep.json")
	got := do(ctx, o, r)
	if got.code != 2 {
		t.Errorf("exit %d, want 2", got.code)
	}
	d, err := parse([]byte(got.stdout))
	if err != nil {
		t.Fatal(err)
	}
	var ends []string
	for _, r := range d.Rungs {
		ends = append(ends, r.Rung+" "+string(r.Status)+" "+string(r.Reason))
	}
	want := "1k accepted |4k rejected interrupted|16k skipped shutting_down|64k skipped shutting_down"
	if got := strings.Join(ends, "|"); got != want {
		t.Errorf("rungs %s, want %s", got, want)
	}
	if len(r.asked) != 2 {
		t.Errorf("%d rungs were sent, want 2", len(r.asked))
	}
	if file, err := os.ReadFile(o.OutputFile); err != nil || string(file) != got.stdout {
		t.Errorf("the file differs from stdout: %v", err)
	}
}

func TestInterruptedBeforeIdentified(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := do(ctx, testOptions(1024), &fakeRunner{err: ctx.Err()})
	if got.code != 1 || got.stderr != "longctx_exporter: interrupted before the server was identified\n" {
		t.Errorf("exit %d, %q", got.code, got.stderr)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestBrokenStdout(t *testing.T) {
	for _, output := range Outputs() {
		o := testOptions(1024)
		var stderr bytes.Buffer
		o.Output, o.Stdout, o.Stderr = output, brokenWriter{}, &stderr
		if code := o.run(t.Context(), &fakeRunner{facts: seedFacts}); code != 2 || !strings.Contains(stderr.String(), "broken pipe") {
			t.Errorf("%s: exit %d, stderr %q", output, code, stderr.String())
		}
	}
}
