package simserver

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// When SGLang's lines had what.
const (
	logCacheHitRate  period = "/2025-02-20"           // in prefill lines
	logLargestLen    period = "2025-02-20/2025-03-14" // in decode lines
	logTrailingEarly period = "2025-02-20/2025-04-25" // lines end in ", "
	logTrailingLate  period = "2025-07-15/2026-01-28" // and did again
	logRankOfOne     period = "/2025-07-15"           // a tag also where there is one rank
	logGraph         period = "2025-05-12/"           // in decode lines
	logStamp         period = "2025-07-06/2025-07-15" // a time as the last field
	logAcceptRate    period = "2025-10-13/"           //
	logIteration     period = "2025-10-20/2025-10-27" // its number after the name of the batch
	logComma         period = "2025-10-20/"           // after the name of the batch; a full stop before
	logRequestsJSON  period = "2025-12-24/"           //
	logInputRate     period = "2026-01-28/"           // throughput of prefill, and the graph in its lines
	logAfterForward  period = "2026-01-30/"           // prefill lines come when the chunk is done
	logTimeStatsLong period = "2026-03-01/"           // ReqTimeStats in one word
	logGraphFirst    period = "2026-03-19/"           // before the throughput of prefill
	logPending       period = "2026-04-10/"           //
	rateWithoutBonus period = "2026-04-28/"           // how the accept rate is defined
)

// sglangDecodeInterval is how many decode passes go into one line.
const sglangDecodeInterval = 40

// sglangLog writes what SGLang does.
type sglangLog struct {
	noJournal
	server sglang
	out    *lineWriter

	tag          string
	passes       int // decode passes since the last line
	steps        int // counters at the last decode line
	decodeTokens int
	lastDecode   time.Time
	lastPrefill  time.Time
	iteration    int
}

func (l *sglangLog) line(at time.Time, tagged bool, format string, args ...any) {
	tag := ""
	if tagged {
		tag = l.tag
	}
	l.out.line(at, "[%s%s] %s", at.Format(time.DateTime), tag, fmt.Sprintf(format, args...))
}

// tagOf is the rank of the scheduler that writes; a part is left out where there is one of its kind.
func (l *sglangLog) tagOf(e *engine) string {
	r, tag := l.server.config.Ranks, ""
	if r.DP > 1 {
		tag = fmt.Sprintf(" DP%d", e.rank)
	}
	if r.TP > 1 || l.server.era.has(logRankOfOne) {
		tag += fmt.Sprintf(" TP%d", r.leader(e.rank))
	}
	return tag
}

func (l *sglangLog) started(e *engine, at time.Time) {
	l.tag = l.tagOf(e)
	l.lastDecode, l.lastPrefill = at, at
	if e.rank == 0 {
		l.start(e, at)
	}
}

func (l *sglangLog) start(e *engine, at time.Time) {
	p := e.profile
	var args strings.Builder
	for i, f := range ordered(l.server.arguments(), "model_path", "tokenizer_path") {
		if i > 0 {
			args.WriteString(", ")
		}
		fmt.Fprintf(&args, "%s=%s", f.key, pyRepr(f.value))
	}
	l.line(at, false, "server_args=ServerArgs(%s)", args.String())
	l.line(at, true, "Load weight begin. avail mem=178.31 GB")
	l.line(at, true, "KV Cache is allocated. #tokens: %d, KV size: 55.10 GB", p.PoolTokens)
	if p.Algorithm == "DDTREE" {
		l.line(at, true, "Initialized DDTree worker. block_size=%d, tree_budget=%d, max_tree_nodes=%d", p.BlockSize(), p.BlockSize()-1, p.BlockSize())
	}
	l.line(at, true, "max_total_num_tokens=%d, chunked_prefill_size=%d, max_prefill_tokens=16384, max_running_requests=%d, context_len=%d, available_gpu_mem=%.2f GB",
		p.PoolTokens, p.ChunkTokens, p.MaxRunning, p.ContextLimit, 11.42)
	l.line(at, false, "INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)")
	l.line(at, false, "The server is fired up and ready to roll!")
}

func (l *sglangLog) scheduled(e *engine, c chunk) {
	if !l.server.era.has(logAfterForward) {
		l.prefill(e, c, laterOf(e.clock, c.job.scheduled))
	}
}

func (l *sglangLog) prefilled(e *engine, c chunk) {
	if l.server.era.has(logAfterForward) {
		l.prefill(e, c, c.done)
	}
}

func (l *sglangLog) prefill(e *engine, c chunk, at time.Time) {
	l.iteration++
	v := l.server.era
	f := []string{fmt.Sprintf("#new-seq: 1, #new-token: %d, #cached-token: %d", c.tokens, c.cached)}
	if v.has(logCacheHitRate) {
		f = append(f, fmt.Sprintf("cache hit rate: %.2f%%", 100*ratio(e.count.prefillCache, e.count.prefillCache+e.count.prefillCompute)))
	}
	f = append(f, fmt.Sprintf("token usage: %.2f, #running-req: %d, #queue-req: %d", l.usage(e, c.held), c.running, c.queued))
	if v.has(logPending) {
		f = append(f, fmt.Sprintf("#pending-token: %d", c.pending))
	}
	if v.has(logInputRate) {
		rate := fmt.Sprintf("input throughput (token/s): %.2f", perSecondOf(c.tokens, l.lastPrefill, at))
		if v.has(logGraphFirst) {
			f = append(f, "cuda graph: False", rate)
		} else {
			f = append(f, rate, "cuda graph: False")
		}
	}
	l.lastPrefill = at
	l.batch("Prefill", at, f)
}

func (l *sglangLog) decoded(e *engine, batch []*job) {
	l.iteration++
	l.passes++
	if l.passes%sglangDecodeInterval != 0 {
		return
	}
	at, v, p := e.clock, l.server.era, e.profile
	steps, tokens := e.count.steps-l.steps, e.count.decodeTokens-l.decodeTokens
	held := e.pool().held
	f := []string{fmt.Sprintf("#running-req: %d, #token: %d, token usage: %.2f", len(batch), held, l.usage(e, held))}
	if p.Algorithm != "" {
		length := ratio(tokens, steps)
		f = append(f, fmt.Sprintf("accept len: %.2f", length))
		if v.has(logAcceptRate) {
			f = append(f, fmt.Sprintf("accept rate: %.2f", v.acceptRate(length, p.BlockSize())))
		}
	}
	if v.has(logGraph) {
		f = append(f, "cuda graph: True")
	}
	f = append(f, fmt.Sprintf("gen throughput (token/s): %.2f", perSecondOf(tokens, l.lastDecode, at)))
	if v.has(logLargestLen) {
		f = append(f, "largest-len: 0")
	}
	f = append(f, fmt.Sprintf("#queue-req: %d", len(e.queue)))
	l.steps, l.decodeTokens, l.lastDecode = e.count.steps, e.count.decodeTokens, at
	l.batch("Decode", at, f)
}

// acceptRate is the one of logs and gauges. It counted the bonus token on both sides at first.
func (v era) acceptRate(length float64, block int) float64 {
	if v.has(rateWithoutBonus) {
		return (length - 1) / float64(max(1, block-1))
	}
	return length / float64(block)
}

// batch writes a batch line of the era.
func (l *sglangLog) batch(kind string, at time.Time, fields []string) {
	v := l.server.era
	text := kind + " batch"
	if v.has(logIteration) {
		text += fmt.Sprintf(" [%d]", l.iteration)
	}
	mark := ". "
	if v.has(logComma) {
		mark = ", "
	}
	text += mark + strings.Join(fields, ", ")
	if v.has(logStamp) {
		text += ", timestamp: " + at.Format("2006-01-02T15:04:05.000000")
	}
	if v.has(logTrailingEarly) || v.has(logTrailingLate) {
		if !v.has(logStamp) {
			text += ", "
		}
	}
	l.line(at, true, "%s", text)
}

func (l *sglangLog) usage(e *engine, held int) float64 { return ratio(held, e.profile.PoolTokens) }

func (l *sglangLog) access(r *http.Request, status int, _, ended time.Time) {
	l.line(ended, false, `INFO:     %s - "%s %s HTTP/1.1" %d %s`, clientOf(r), r.Method, r.URL.RequestURI(), status, http.StatusText(status))
}

// clientOf is the address of a client; a pipe has none.
func clientOf(r *http.Request) string {
	if _, err := netip.ParseAddrPort(r.RemoteAddr); err != nil {
		return "127.0.0.1:53346"
	}
	return r.RemoteAddr
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func perSecondOf(n int, from, to time.Time) float64 {
	if d := to.Sub(from).Seconds(); d > 0 {
		return float64(n) / d
	}
	return 0
}
