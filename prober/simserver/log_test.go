package simserver

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// book is a log in memory.
type book struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *book) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Split(strings.TrimSuffix(b.text.String(), "\n"), "\n")
}

// matching are the lines that hold a text.
func (b *book) matching(text string) []string {
	var out []string
	for _, line := range b.lines() {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out
}

var digits = regexp.MustCompile(`\d+(\.\d+)?`)

// form is a line whose numbers do not count.
func form(line string) string {
	line = regexp.MustCompile(`(accept|acceptance) rate( per position)?(: | = \()[0-9., ]+`).ReplaceAllString(line, "$1 rate$2$3 0")
	return strings.TrimRight(digits.ReplaceAllString(line, "0"), " ")
}

// The batch lines of each era have the form of the lines that servers of that time wrote.
func TestSGLangBatchLines(t *testing.T) {
	for era, want := range map[string][2]string{
		"0.4.1": {
			"[2025-02-14 09:43:41 TP0] Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, cache hit rate: 0.12%, token usage: 0.01, #running-req: 0, #queue-req: 1",
			"[2025-02-14 09:43:46 TP0] Decode batch. #running-req: 1, #token: 10024, token usage: 0.03, accept len: 2.91, gen throughput (token/s): 98.44, #queue-req: 0",
		},
		"0.4.4": {
			"[2025-03-13 11:02:31 TP0] Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 1, ",
			"[2025-03-13 11:02:33 TP0] Decode batch. #running-req: 1, #token: 16835, token usage: 0.03, accept len: 3.25, gen throughput (token/s): 4.18, largest-len: 0, #queue-req: 0, ",
		},
		"0.4.6": {
			"[2025-04-28 11:02:31 TP0] Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 1",
			"[2025-04-28 11:02:33 TP0] Decode batch. #running-req: 1, #token: 16835, token usage: 0.03, accept len: 3.25, gen throughput (token/s): 4.18, #queue-req: 0",
		},
		"0.4.9": {
			"[2025-06-12 11:02:31 TP0] Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 1",
			"[2025-06-12 11:02:33 TP0] Decode batch. #running-req: 1, #token: 16835, token usage: 0.03, accept len: 3.25, cuda graph: True, gen throughput (token/s): 4.18, #queue-req: 0",
		},
		"0.4.9.post1": {
			"[2025-07-09 10:11:12 TP0] Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, timestamp: 2025-07-09T10:11:12.418273",
			"[2025-07-09 10:11:15 TP0] Decode batch. #running-req: 1, #token: 16424, token usage: 0.03, accept len: 3.10, cuda graph: True, gen throughput (token/s): 3.97, #queue-req: 0, timestamp: 2025-07-09T10:11:15.771902",
		},
		"0.5.3": {
			"[2025-09-16 11:02:31 TP0] Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 1, ",
			"[2025-09-16 11:02:33 TP0] Decode batch. #running-req: 1, #token: 16835, token usage: 0.03, accept len: 3.25, cuda graph: True, gen throughput (token/s): 4.18, #queue-req: 0, ",
		},
		"0.5.4": {
			"[2025-10-24 08:00:01 TP0] Prefill batch [812], #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, ",
			"[2025-10-24 08:00:04 TP0] Decode batch [853], #running-req: 1, #token: 16430, token usage: 0.03, accept len: 2.88, accept rate: 0.72, cuda graph: True, gen throughput (token/s): 5.01, #queue-req: 0, ",
		},
		"0.5.6": {
			"[2025-12-11 20:02:31 TP0] Prefill batch, #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 1, ",
			"[2025-12-11 20:02:34 TP0] Decode batch, #running-req: 1, #token: 24811, token usage: 0.03, accept len: 3.02, accept rate: 0.76, cuda graph: True, gen throughput (token/s): 6.91, #queue-req: 0, ",
		},
		"0.5.9": {
			"[2026-02-24 20:02:31 TP0] Prefill batch, #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 1, input throughput (token/s): 314.92, cuda graph: False",
			"[2026-02-24 20:02:34 TP0] Decode batch, #running-req: 1, #token: 24811, token usage: 0.03, accept len: 3.02, accept rate: 0.76, cuda graph: True, gen throughput (token/s): 6.91, #queue-req: 0",
		},
		"0.5.10": {
			"[2026-04-05 20:02:31 TP0] Prefill batch, #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 1, cuda graph: False, input throughput (token/s): 314.92",
			"[2026-04-05 20:02:34 TP0] Decode batch, #running-req: 1, #token: 24811, token usage: 0.03, accept len: 3.02, accept rate: 0.76, cuda graph: True, gen throughput (token/s): 6.91, #queue-req: 0",
		},
		"present": {
			"[2026-07-20 12:00:31 TP0] Prefill batch, #new-seq: 1, #new-token: 16384, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, #pending-token: 114688, cuda graph: False, input throughput (token/s): 533.17",
			"[2026-07-20 12:00:41 TP0] Decode batch, #running-req: 1, #token: 131198, token usage: 0.08, accept len: 3.31, accept rate: 0.33, cuda graph: True, gen throughput (token/s): 9.64, #queue-req: 0",
		},
	} {
		log := &book{}
		inBubble(t, Config{Shape: "sglang", Era: era, Log: log}, func(r *rig) { r.post("/generate", native(prompt(20_000, 1), 400, false)) })
		prefill, decode := log.matching("Prefill batch"), log.matching("Decode batch")
		if len(prefill) != 3 || len(decode) == 0 {
			t.Fatalf("%s: %d lines of prefill, %d of decode", era, len(prefill), len(decode))
		}
		if form(prefill[0]) != form(want[0]) || strings.HasSuffix(prefill[0], " ") != strings.HasSuffix(want[0], " ") {
			t.Errorf("%s writes\n%q, like\n%q", era, prefill[0], want[0])
		}
		if form(decode[0]) != form(want[1]) || strings.HasSuffix(decode[0], " ") != strings.HasSuffix(want[1], " ") {
			t.Errorf("%s writes\n%q, like\n%q", era, decode[0], want[1])
		}
	}
}

// numberIn is the number that follows a key in a line.
func numberIn(t *testing.T, line, key string) float64 {
	t.Helper()
	_, rest, ok := strings.Cut(line, key)
	v, err := strconv.ParseFloat(digits.FindString(rest), 64)
	if !ok || err != nil {
		t.Fatalf("no %q in %q", key, line)
	}
	return v
}

// What the lines tell is what happened: chunk by chunk, and forty steps by forty steps.
func TestSGLangLinesTellTheTruth(t *testing.T) {
	log := &book{}
	inBubble(t, Config{Shape: "sglang", Log: log, Profile: noiseless(profile(t, ""))}, func(r *rig) {
		r.post("/generate", native(prompt(20_000, 1), 400, false))
		q := r.lastTruth()
		chunks := log.matching("Prefill batch")
		for i, want := range []struct{ tokens, pending float64 }{{8192, 11_808}, {8192, 3616}, {3616, 0}} {
			if numberIn(t, chunks[i], "#new-token: ") != want.tokens || numberIn(t, chunks[i], "#pending-token: ") != want.pending {
				t.Errorf("chunk %d: %s", i, chunks[i])
			}
		}
		rate := 8192 / (r.server.live().config.Profile.PrefillSeconds(16_384) - r.server.live().config.Profile.PrefillSeconds(8192))
		near(t, "rate of the second chunk", numberIn(t, chunks[1], "input throughput (token/s): "), rate, 1e-3)
		decode := log.matching("Decode batch")
		if len(decode) != len(q.Accepted)/40 {
			t.Fatalf("%d lines for %d steps", len(decode), len(q.Accepted))
		}
		for i, line := range decode {
			sum, seconds := 0, 0.0
			for s := i * 40; s < (i+1)*40; s++ {
				sum += q.Accepted[s]
				seconds += q.StepSeconds[s]
			}
			near(t, "accept len", numberIn(t, line, "accept len: "), float64(sum)/40, 2e-3)
			near(t, "accept rate", numberIn(t, line, "accept rate: "), (float64(sum)/40-1)/15, 3e-2)
			if i > 0 {
				near(t, "gen throughput", numberIn(t, line, "gen throughput (token/s): "), float64(sum)/seconds, 1e-3)
			}
			if held := numberIn(t, line, "#token: "); held < 20_000 || held > 20_400 {
				t.Errorf("%s", line)
			}
		}
		r.post("/generate", native(prompt(20_000, 1), 1, false))
		if last := log.matching("Prefill batch")[3]; numberIn(t, last, "#new-token: ") != 1 || numberIn(t, last, "#cached-token: ") != 19_999 {
			t.Errorf("warm: %s", last)
		}
		if access := log.matching("POST /generate"); len(access) != 2 || !strings.HasSuffix(access[0], `] INFO:     127.0.0.1:53346 - "POST /generate HTTP/1.1" 200 OK`) {
			t.Errorf("%q", access)
		}
	})
}

func TestSGLangStartup(t *testing.T) {
	log := &book{}
	inBubble(t, Config{Shape: "sglang", Log: log, APIKey: "sk-key"}, func(r *rig) {})
	all := strings.Join(log.lines(), "\n")
	for _, want := range []string{
		`server_args=ServerArgs(model_path='/models/kimi-k2.6', `, `api_key='sk-key'`, `context_length=None`, `enable_metrics=True`,
		` TP0] max_total_num_tokens=218484, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=8, context_len=200000, available_gpu_mem=11.42 GB`,
		` TP0] Initialized DDTree worker. block_size=16, tree_budget=15, max_tree_nodes=16`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}

func TestSGLangRequestLines(t *testing.T) {
	log := &book{}
	inBubble(t, Config{Shape: "sglang", Log: log, Options: Options{LogRequests: "json", LogTimeStats: true}}, func(r *rig) {
		r.post("/generate", native(prompt(3000, 1), 65, true))
		q := r.lastTruth()
		line := log.matching("request.finished")[0]
		if !regexp.MustCompile(`^\[[0-9: -]+\] \{"timestamp": "[0-9T:.-]+", "event": "request\.finished", "rid": "[^"]+", "obj": \{"rid": `).MatchString(line) {
			t.Errorf("%s", line)
		}
		_, text, _ := strings.Cut(line, "] ")
		var got struct {
			Out struct {
				Meta struct {
					Prompt    int   `json:"prompt_tokens"`
					Verify    int   `json:"spec_verify_ct"`
					Histogram []int `json:"spec_correct_drafts_histogram"`
				} `json:"meta_info"`
			}
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		sum := 0
		for _, n := range got.Out.Meta.Histogram {
			sum += n
		}
		if m := got.Out.Meta; m.Prompt != 3000 || m.Verify != len(q.Accepted) || sum != len(q.Accepted) {
			t.Errorf("%+v for %d steps", m, len(q.Accepted))
		}
		if n := len(log.matching("ReqTimeStats(rid=" + q.ID + ", input_len=3000, cached_input_len=0, output_len=")); n != 1 {
			t.Errorf("%d lines of time", n)
		}
	})
	log = &book{}
	inBubble(t, Config{Shape: "sglang", Log: log, Era: "0.5.6", Options: Options{LogRequests: "text"}}, func(r *rig) {
		r.post("/generate", native(prompt(3000, 1), 65, true))
		if line := log.matching("Finish: obj=GenerateReqInput(rid='")[0]; !strings.Contains(line, `, out={'meta_info': {'id': '`) ||
			!strings.Contains(line, `'finish_reason': {'type': 'length', 'length': 65}, 'prompt_tokens': 3000`) {
			t.Errorf("%s", line)
		}
	})
	if _, err := New(Config{Shape: "sglang", Era: "0.5.6", Log: io.Discard, Options: Options{LogRequests: "json"}}); err == nil {
		t.Error("0.5.6 logs JSON")
	}
}

func TestVLLMLines(t *testing.T) {
	const engine = "(APIServer pid=9) INFO 05-09 09:52:10 [loggers.py:259] Engine 000: Avg prompt throughput: 1.1 tokens/s, Avg generation throughput: 10.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%"
	for era, want := range map[string][2]string{
		"0.32.0": {engine, "(APIServer pid=4243) INFO 08-05 20:20:43 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: 1.00, Accepted throughput: 0.00 tokens/s, Drafted throughput: 1.23 tokens/s, Accepted: 0 tokens, Drafted: 495 tokens, Per-position acceptance rate: 0.000, 0.000, Avg Draft acceptance rate: 0.0%"},
		"0.8.3":  {"INFO 04-02 10:00:00 [loggers.py:80] Avg prompt throughput: 1.1 tokens/s, Avg generation throughput: 10.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%", "INFO 04-02 10:00:00 [metrics.py:70] SpecDecoding metrics: Draft acceptance rate: 100.0%, Accepted: 66 tokens, Drafted: 66 tokens"},
		"0.9.2":  {strings.TrimPrefix(engine, "(APIServer pid=9) "), "INFO 04-02 10:00:00 [metrics.py:70] SpecDecoding metrics: Draft acceptance rate: 100.0%, Mean acceptance length: 2.00, Accepted: 66 tokens, Drafted: 66 tokens, Per-position acceptance rate: 0.805, 0.3"},
		"v0":     {"INFO 01-23 06:33:37 metrics.py:396] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 16.7 tokens/s, Running: 16 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 92.1%, CPU KV cache usage: 0.0%.", "INFO 01-23 06:33:37 metrics.py:396] Speculative metrics: Draft acceptance rate: 0.642, System efficiency: 0.598, Number of speculative tokens: 3, Number of accepted tokens: 8547, Number of draft tokens: 13311, Number of emitted tokens: 10616."},
	} {
		log := &book{}
		inBubble(t, Config{Shape: "vllm", Era: era, Log: log}, func(r *rig) {
			r.post("/v1/completions", object{"prompt": prompt(3000, 1), "max_tokens": 400, "ignore_eos": true})
			time.Sleep(30 * time.Second)
		})
		for i, text := range []string{"Avg prompt throughput", "peculative metrics|SpecDecoding metrics"} {
			var lines []string
			for _, alternative := range strings.Split(text, "|") {
				lines = append(lines, log.matching(alternative)...)
			}
			if len(lines) == 0 || form(lines[0]) != form(want[i]) {
				t.Errorf("%s writes\n%q, like\n%q", era, lines, want[i])
			}
		}
	}
}

// The intervals of vLLM's lines add up to what happened, and an idle server falls silent.
func TestVLLMLinesTellTheTruth(t *testing.T) {
	log := &book{}
	inBubble(t, Config{Shape: "vllm", Log: log}, func(r *rig) {
		r.post("/v1/completions", object{"prompt": prompt(3000, 1), "max_tokens": 400, "ignore_eos": true})
		time.Sleep(time.Minute)
		q := r.lastTruth()
		correct := 0
		for _, k := range q.Accepted {
			correct += k - 1
		}
		accepted, drafted := 0.0, 0.0
		for _, line := range log.matching("SpecDecoding") {
			accepted += numberIn(t, line, "Accepted: ")
			drafted += numberIn(t, line, "Drafted: ")
		}
		if accepted != float64(correct) || drafted != float64(15*len(q.Accepted)) {
			t.Errorf("%v of %v, the truth is %d of %d", accepted, drafted, correct, 15*len(q.Accepted))
		}
		before := len(log.lines())
		time.Sleep(time.Minute)
		if after := len(log.lines()); after != before {
			t.Errorf("%d lines of an idle server", after-before)
		}
	})
}

func TestLlamaLines(t *testing.T) {
	for era, want := range map[string]string{
		"b8000":  "draft acceptance rate = 0.64479 (  167 accepted /   259 generated)",
		"b9690":  "draft acceptance = 0.64479 (  167 accepted /   259 generated), mean acceptance length =  2.92, acceptance rate per position = (0.805, 0.632, 0.483)",
		"b10290": "draft acceptance = 0.64479 (  167 accepted /   259 generated), mean len =  2.92",
		"b10587": "2.17.044.036 I slot print_timing: id  0 | task 908 | draft acceptance = 0.64479 (  167 accepted /   259 generated), mean len =  2.92",
	} {
		log := &book{}
		inBubble(t, Config{Shape: "llamacpp", Era: era, Log: log}, func(r *rig) {
			r.post("/v1/completions", object{"prompt": prompt(3000, 1), "max_tokens": 192, "ignore_eos": true})
			q := r.lastTruth()
			line := log.matching("draft acceptance")[0]
			if form(strings.Join(strings.Fields(line), " ")) != form(strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%s writes\n%q, like\n%q", era, line, want)
			}
			if numberIn(t, line, "(") != float64(sumOf(q.Accepted)-len(q.Accepted)) {
				t.Errorf("%s, for %v", line, q.Accepted)
			}
			eval := log.matching("       eval time =")[0]
			if !regexp.MustCompile(`^([0-9.]+ I slot print_timing: id  0 \| task 0 \| )?       eval time = {1,}[0-9.]+ ms /   192 tokens \( *[0-9.]+ ms per token, *[0-9.]+ tokens per second\)$`).MatchString(eval) {
				t.Errorf("%q", eval)
			}
		})
	}
}

func sumOf(list []int) int {
	n := 0
	for _, v := range list {
		n += v
	}
	return n
}

// What carries a log changes its lines; taken off again, they are the same.
func TestLogWraps(t *testing.T) {
	plain := "[2026-06-03 08:00:01 TP0] Decode batch, #running-req: 1, #token: 5500, token usage: 0.02, accept len: 3.42, accept rate: 0.05"
	at := time.Date(2026, 6, 3, 8, 0, 1, 100_000_000, time.UTC)
	long := strings.Repeat("x", 40_000)
	for wrap, want := range map[string]string{
		"docker":   `{"log":"` + plain + `\n","stream":"stderr","time":"2026-06-03T08:00:01.1Z"}`,
		"cri":      `2026-06-03T08:00:01.100000000Z stderr F ` + plain,
		"syslog":   `Jun 03 08:00:01 gpu01 sglang[28517]: ` + plain,
		"compose":  `sglang-1  | ` + plain,
		"kubectl":  `2026-06-03T08:00:01.100000000Z ` + plain,
		"ray":      `(SchedulerActor pid=28517, ip=10.0.0.5) ` + plain,
		"ansi":     "\x1b[2m[2026-06-03 08:00:01 TP0]\x1b[0m Decode batch, #running-req: 1, #token: 5500, token usage: 0.02, accept len: \x1b[33m3.42\x1b[0m, accept rate: 0.05",
		"journald": "",
		"":         plain,
	} {
		got := string(wrapLine(wrap, "sglang", at, plain))
		if wrap == "journald" {
			var o map[string]string
			if err := json.Unmarshal([]byte(got), &o); err != nil || o["MESSAGE"] != plain || o["__REALTIME_TIMESTAMP"] != "1780473601100000" {
				t.Errorf("%v %v", o, err)
			}
			continue
		}
		if got != want+"\n" {
			t.Errorf("%s:\n%q, want\n%q", wrap, got, want)
		}
	}
	docker := strings.Split(strings.TrimSpace(string(wrapLine("docker", "sglang", at, long))), "\n")
	if len(docker) != 3 || strings.Contains(docker[0], `\n`) || !strings.Contains(docker[2], `x\n","stream"`) {
		t.Errorf("%d pieces", len(docker))
	}
	cri := strings.Split(string(wrapLine("cri", "sglang", at, long)), "\n")
	if !strings.Contains(cri[0], " stderr P xxx") || !strings.Contains(cri[2], " stderr F xxx") {
		t.Errorf("%.60q %.60q", cri[0], cri[2])
	}
}

func TestEras(t *testing.T) {
	for _, shape := range shapes() {
		for i, e := range eras(shape) {
			if newer := eras(shape)[max(0, i-1)]; e.date > newer.date {
				t.Errorf("%s %s is newer than %s", shape, e.name, newer.name)
			}
			s, err := New(Config{Shape: shape, Era: e.name})
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
		}
	}
	_, err := New(Config{Shape: "llamacpp", Era: "0.5.4"})
	if want := `simulated server: llamacpp has no era "0.5.4"; there are b10587, b10290, b9820, b9690, b8000`; fmt.Sprint(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
}
