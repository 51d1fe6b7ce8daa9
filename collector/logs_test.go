package collector

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/collector/serverlog"
	"longctx_exporter/prober"
)

// withLogs is a target with so many logs.
func withLogs(name string, n int) prober.Target {
	t := newTargetConfig(name, rung8k)
	for i := range n {
		t.Logs = append(t.Logs, prober.LogSource{Path: fmt.Sprintf("server-%d.log", i), Format: "auto"})
	}
	return t
}

// readLog makes the first log of ct200 tell everything that can be told.
func readLog(c *Collector) {
	sink := c.LogSink("ct200", 0)
	sink.SetReading(true)
	parser := serverlog.NewParser("auto")
	for _, line := range []string{
		"[2026-07-20 12:00:41 TP0] Decode batch, #running-req: 1, #token: 131198, token usage: 0.08, accept len: 3.31, accept rate: 0.33, cuda graph: True, gen throughput (token/s): 9.64, #queue-req: 0",
		"[2026-07-20 12:00:41 TP1] Decode batch, #running-req: 1, #token: 131198, token usage: 0.08, accept len: 3.31, accept rate: 0.33, cuda graph: True, gen throughput (token/s): 9.63, #queue-req: 0",
		"[2026-07-20 12:00:51 TP0] Decode batch, #running-req: 2, #token: 9000, token usage: 0.08, accept len: nan, accept rate: nan, cuda graph: True, gen throughput (token/s): 9.64, #queue-req: 0",
		finishedRequest(131072, 3, 4, 4, 2, 2, 1, 1, 2),
		finishedRequest(8192, 1, 1),
		finishedRequest(8193, 0, 0, 2),
		finishedRequest(400000, 5),
		"[2026-07-20 12:01:00 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 8123, #new_token_ratio: 0.7000 -> 0.8300",
	} {
		records, _ := parser.Parse([]byte(line))
		for i := range records {
			sink.ObserveRecord(&records[i])
		}
	}
	sink.ObserveLines(serverlog.Lines{Read: 11, Matched: 8, Unparsed: 1, Rotations: 1, Last: time.Now(), Kept: []string{"Decode batch, #running-req: x"}})
	sink.ObserveLines(serverlog.Lines{Truncations: 1})
}

// finishedRequest is a log line of a request whose passes committed 1, 2, ... tokens so many times.
func finishedRequest(prompt int, passes ...int) string {
	steps, correct := 0, 0
	for drafts, n := range passes {
		steps += n
		correct += drafts * n
	}
	return fmt.Sprintf(`[2026-07-20 12:00:43] {"timestamp": "2026-07-20T12:00:43.511402", "event": "request.finished", "rid": "8f0c", "obj": {"rid": "8f0c", "stream": true}, "out": {"meta_info": {"id": "8f0c", "finish_reason": {"type": "length", "length": 65}, "prompt_tokens": %d, "completion_tokens": %d, "cached_tokens": 0, "e2e_latency": 11.402, "spec_accept_length": 3.42, "spec_num_correct_drafts": %d, "spec_num_proposed_drafts": 133, "spec_verify_ct": %d, "spec_correct_drafts_histogram": %s}}}`,
		prompt, steps+correct+1, correct, steps, strings.ReplaceAll(fmt.Sprint(passes), " ", ", "))
}

func TestLogsWithoutATargetOrALogAreNobodys(t *testing.T) {
	c := mustNew(t, withLogs("ct200", 1), newTargetConfig("without", rung8k))
	if c.LogSink("ct200", 1) != nil || c.LogSink("without", 0) != nil || c.LogSink("nobody", 0) != nil {
		t.Error("a log that is not configured has a sink")
	}
	sink := c.LogSink("ct200", 0)
	c.Remove("ct200")
	sink.ObserveLines(serverlog.Lines{Read: 1}) // of a follower that is about to end
	if got := text(t, c.Gatherer()); strings.Contains(got, "server_log") {
		t.Errorf("series of a target that is gone:\n%s", got)
	}
}

func TestUnparsedLinesAreFew(t *testing.T) {
	c := mustNew(t, withLogs("ct200", 1))
	sink := c.LogSink("ct200", 0)
	for i := range 20 {
		sink.ObserveLines(serverlog.Lines{Unparsed: 1, Kept: []string{fmt.Sprint(i)}})
	}
	if got := fmt.Sprint(c.UnparsedLines("ct200")); got != "[15 16 17 18 19]" {
		t.Errorf("kept %s", got)
	}
	if got := c.UnparsedLines("nobody"); got != nil {
		t.Errorf("lines of nobody: %v", got)
	}
}

// TestADayOfRequests follows a file into which a day of finished requests is written, with another distribution for each
// length of prompts, and holds the histograms of the page against what was written.
func TestADayOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "server.log")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		c := mustNew(t, withLogs("ct200", 1))
		f := serverlog.Follow(prober.LogSource{Path: path, Format: "auto"}, c.LogSink("ct200", 0), log.NewNopLogger(),
			serverlog.Options{Wake: func() <-chan time.Time { return time.After(5 * time.Minute) }})
		defer f.Close()
		time.Sleep(10 * time.Minute)

		const block = 8
		draw := rand.New(rand.NewPCG(1, 2))
		ladder := prober.DefaultLadder()
		var steps, tokens [9]int
		var wrote [9][block]int
		var requests [9]int
		for range 24 * 6 {
			for range 20 {
				i := draw.IntN(len(ladder))
				prompt := int(ladder[i]) - draw.IntN(int(ladder[i])/4)
				passes := make([]int, block)
				for range 10 + draw.IntN(30) {
					drafts := 0
					for drafts < block-1 && draw.Float64() < 0.85-0.05*float64(i) {
						drafts++
					}
					passes[drafts]++
					wrote[i][drafts]++
					steps[i]++
					tokens[i] += drafts + 1
				}
				requests[i]++
				fmt.Fprintln(file, finishedRequest(prompt, passes...))
			}
			time.Sleep(10 * time.Minute)
		}
		for i, rung := range ladder {
			bucket := rung.String()
			if got := value(t, c, logRequests, bucket, "", ""); got != float64(requests[i]) {
				t.Errorf("%s: %v requests, %d were written", bucket, got, requests[i])
			}
			count, sum, cumulative := stepsOn(t, c, bucket)
			if count != uint64(steps[i]) || sum != float64(tokens[i]) {
				t.Errorf("%s: %d passes with %v tokens, %d with %d were written", bucket, count, sum, steps[i], tokens[i])
			}
			total := 0
			for drafts := range block {
				total += wrote[i][drafts]
				if got := cumulative[float64(drafts+1)]; got != uint64(total) {
					t.Errorf("%s: %d passes with up to %d tokens, %d were written", bucket, got, drafts+1, total)
				}
			}
		}
		if got := value(t, c, logStepAccept, "+Inf", "", ""); got != 0 {
			t.Errorf("%v passes above the longest bound", got)
		}
		if got := value(t, c, logUnparsed, "", ""); got != 0 {
			t.Errorf("%v lines unparsed", got)
		}
	})
}

// stepsOn reads the histogram of a bucket off the page.
func stepsOn(t *testing.T, c *Collector, bucket string) (count uint64, sum float64, cumulative map[float64]uint64) {
	t.Helper()
	families, err := c.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != logStepAccept || m.GetLabel()[0].GetValue() != bucket {
				continue
			}
			cumulative = map[float64]uint64{}
			for _, b := range m.GetHistogram().GetBucket() {
				cumulative[b.GetUpperBound()] = b.GetCumulativeCount()
			}
			return m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum(), cumulative
		}
	}
	t.Fatalf("no histogram for %s", bucket)
	return 0, 0, nil
}
