package serverlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"longctx_exporter/prober/simserver"
)

// simulated runs a simulated server, lets it answer a few requests one after the other and gives what it logged and what is
// true.
func simulated(t *testing.T, c simserver.Config) (logged []byte, truth [][]int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		c.Log = &log
		s, err := simserver.New(c)
		if err != nil {
			t.Fatal(err)
		}
		l := simserver.NewPipeListener()
		server := &http.Server{Handler: s.Handler()}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = server.Serve(l)
		}()
		transport := &http.Transport{DialContext: l.Dial, DisableKeepAlives: true}
		client := &http.Client{Transport: transport}
		for i := range 3 {
			ids := make([]int, 3000*(i+1))
			for k := range ids {
				ids[k] = 1000 + (k*7+i)%5000
			}
			path, request := "/v1/completions", map[string]any{"prompt": ids, "max_tokens": 400, "temperature": 0, "ignore_eos": true}
			if c.Shape == "lmdeploy" { // where a list of numbers is a list of prompts
				path, request = "/generate", map[string]any{"input_ids": ids, "max_tokens": 400, "ignore_eos": true}
			}
			body, err := json.Marshal(request)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Post("http://server"+path, "application/json", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			time.Sleep(time.Minute)
		}
		for _, q := range s.Truth() {
			truth = append(truth, q.Accepted)
		}
		transport.CloseIdleConnections()
		_ = server.Close()
		s.Close()
		<-ended
		logged = log.bytes()
	})
	return logged, truth
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}

// TestBatchLinesOfSGLang reads the logs of every version, and of one in the clothes of every transport: the acceptance of each
// line is the mean of the forty passes that it tells of.
func TestBatchLinesOfSGLang(t *testing.T) {
	test := func(era, wrap string) {
		t.Run(fmt.Sprintf("%s %s", era, wrap), func(t *testing.T) {
			logged, truth := simulated(t, simserver.Config{Shape: "sglang", Era: era, LogWrap: wrap})
			_, n := readAll("auto", logged)
			passes := slices.Concat(truth...)
			if len(n.accept) != len(passes)/40 || len(n.accept) == 0 || n.sum.Unparsed != 0 {
				t.Fatalf("%d lines of %d passes, counted %+v", len(n.accept), len(passes), n.sum)
			}
			for i, got := range n.accept {
				sum := 0
				for _, committed := range passes[40*i : 40*(i+1)] {
					sum += committed
				}
				if want := float64(sum) / 40; math.Abs(got-want) > 0.0051 {
					t.Errorf("line %d: %v, the mean is %v", i, got, want)
				}
			}
		})
	}
	for _, era := range simserver.Eras("sglang") {
		test(era, "")
	}
	for _, wrap := range simserver.LogWraps() {
		test("", wrap)
	}
}

// TestRequestLinesOfSGLang reads finished requests: their histograms are the passes, count for count.
func TestRequestLinesOfSGLang(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		for _, wrap := range []string{"", "docker", "cri", "journald"} {
			t.Run(format+" "+wrap, func(t *testing.T) {
				logged, truth := simulated(t, simserver.Config{Shape: "sglang", LogWrap: wrap, Options: simserver.Options{LogRequests: format}})
				steps := map[int][]int{} // by prompt
				collect := recordSink(func(r *Record) {
					if prompt, known := r.Value(PromptTokens); known && r.Kind == Request {
						steps[int(prompt)] = slices.Clone(r.Steps)
					}
				})
				newLineLog("auto", collect).feed(&lineBuffer{}, &unwrapper{}, logged)
				for i, accepted := range truth {
					want := make([]int, slices.Max(accepted))
					for _, n := range accepted {
						want[n-1]++
					}
					if got := steps[3000*(i+1)]; !slices.Equal(got, want) {
						t.Errorf("request %d: %v, the truth is %v", i, got, want)
					}
				}
			})
		}
	}
}

// recordSink is a sink for records alone.
type recordSink func(*Record)

func (s recordSink) ObserveRecord(r *Record) { s(r) }
func (recordSink) ObserveLines(Lines)        {}
func (recordSink) SetReading(bool)           {}

// TestOtherServers reads the logs of every version of the other servers. Where versions differ in whether they count the bonus
// token, the means that are read do not.
func TestOtherServers(t *testing.T) {
	silent := []string{"0.8.3", "b8000"} // do not tell the mean
	for _, shape := range []string{"vllm", "llamacpp", "lmdeploy"} {
		var newest []float64
		for _, era := range simserver.Eras(shape) {
			t.Run(shape+" "+era, func(t *testing.T) {
				logged, truth := simulated(t, simserver.Config{Shape: shape, Era: era})
				_, n := readAll("auto", logged)
				if n.sum.Matched == 0 || n.sum.Unparsed != 0 || (len(n.accept) == 0) != slices.Contains(silent, era) {
					t.Fatalf("acceptance %v, counted %+v of\n%.2000s", n.accept, n.sum, logged)
				}
				switch {
				case newest == nil:
					newest = n.accept
					if got, want := mean(n.accept), mean(passMeans(truth)); math.Abs(got-want) > 1 {
						t.Errorf("acceptance %v, about %v happened", n.accept, want)
					}
				case len(n.accept) == len(newest): // but for the first engine of vLLM, whose first line has none before it
					for i := range newest {
						if math.Abs(n.accept[i]-newest[i]) > 0.011 {
							t.Errorf("acceptance %v, the newest version tells %v", n.accept, newest)
							break
						}
					}
				case era != "v0" && len(n.accept) > 0:
					t.Errorf("acceptance %v, the newest version tells %v", n.accept, newest)
				}
			})
		}
	}
}

func passMeans(truth [][]int) (means []float64) {
	for _, accepted := range truth {
		sum := 0
		for _, committed := range accepted {
			sum += committed
		}
		means = append(means, float64(sum)/float64(len(accepted)))
	}
	return means
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
