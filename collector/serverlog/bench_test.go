package serverlog

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nothing is a sink that keeps nothing.
type nothing struct{}

func (nothing) ObserveRecord(*Record) {}
func (nothing) ObserveLines(Lines)    {}
func (nothing) SetReading(bool)       {}

const batchLine = "[2026-07-20 12:00:43 TP0] Decode batch, #running-req: 1, #token: 131331, token usage: 0.08, accept len: 3.33, accept rate: 0.33, cuda graph: True, gen throughput (token/s): 77.90, #queue-req: 0\n"

func otherLines() []byte {
	return []byte(strings.Join([]string{
		`[2026-07-20 12:00:31] INFO:     127.0.0.1:53346 - "POST /v1/completions HTTP/1.1" 200 OK`,
		`[2026-06-01 10:00:00] Receive: obj=GenerateReqInput(text='why does it print Decode batch, #running-req: 1, accept len: 9.99', rid='r1')`,
		`(APIServer pid=20) INFO 09-30 02:56:46 [launcher.py:44] Route: /v1/completions, Methods: POST`,
		`{"log":"INFO: 10.0.0.1 - \"GET /health HTTP/1.1\" 200 OK\n","stream":"stderr","time":"2026-06-03T08:00:01.1Z"}`,
		"2026-06-03T08:00:01.1Z stderr F \x1b[32mINFO\x1b[0m nothing to see",
		`{"level":"info","ts":1784548800.1,"msg":"request","path":"/health"}`,
		`srv  update_slots: all slots are idle`,
		``,
	}, "\n") + "\n")
}

// processorTime is what the process has taken so far, in seconds: on a machine that is shared, the clock tells of others too.
func processorTime(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

func report(b *testing.B, lines int, began float64) {
	b.ReportMetric(float64(lines)/(processorTime(b)-began), "lines/core-s")
}

// BenchmarkBatchLines is the whole way of a line from the bytes of a file to its record.
func BenchmarkBatchLines(b *testing.B) {
	chunk := []byte(strings.Repeat(batchLine, 300))
	l := newLineLog("auto", nothing{})
	var buffer lineBuffer
	var u unwrapper
	b.ReportAllocs()
	n, began := 0, processorTime(b)
	for b.Loop() {
		l.feed(&buffer, &u, chunk)
		n += 300
	}
	report(b, n, began)
}

// BenchmarkBatchLinesByRegexp is what the obvious way takes for the same lines.
func BenchmarkBatchLinesByRegexp(b *testing.B) {
	head := regexp.MustCompile(`^\[[^\]]*\] (Prefill|Decode) batch`)
	pair := regexp.MustCompile(`([#\w][^:,]*): ([0-9.]+)`)
	chunk := []byte(strings.Repeat(batchLine, 300))
	b.ReportAllocs()
	n, began := 0, processorTime(b)
	for b.Loop() {
		for line := range bytes.Lines(chunk) {
			n++
			if !head.Match(line) {
				continue
			}
			values := map[string]float64{}
			for _, m := range pair.FindAllSubmatch(line, -1) {
				if v, err := strconv.ParseFloat(string(m[2]), 64); err == nil {
					values[string(m[1])] = v
				}
			}
		}
	}
	report(b, n, began)
}

func BenchmarkOtherLines(b *testing.B) {
	chunk := bytes.Repeat(otherLines(), 50)
	lines := bytes.Count(chunk, []byte("\n"))
	l := newLineLog("auto", nothing{})
	var buffer lineBuffer
	var u unwrapper
	b.ReportAllocs()
	n, began := 0, processorTime(b)
	for b.Loop() {
		l.feed(&buffer, &u, chunk)
		n += lines
	}
	report(b, n, began)
}

// TestOtherLinesAllocateNothing holds that for each line that does not match, wrapped or not.
func TestOtherLinesAllocateNothing(t *testing.T) {
	l := newLineLog("auto", nothing{})
	var buffer lineBuffer
	var u unwrapper
	for line := range bytes.Lines(otherLines()) {
		fresh := bytes.Clone(line)
		if got := testing.AllocsPerRun(100, func() {
			copy(fresh, line) // colours are taken out in place
			l.feed(&buffer, &u, fresh)
		}); got != 0 {
			t.Errorf("%v allocations for %q", got, line)
		}
	}
	batch := []byte(batchLine)
	if got := testing.AllocsPerRun(100, func() { l.feed(&buffer, &u, batch) }); got != 0 {
		t.Errorf("%v allocations for a batch line", got)
	}
}
