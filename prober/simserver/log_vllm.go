package simserver

import (
	"fmt"
	"time"
)

// When vLLM's lines had what.
const (
	vllmV0                 period = "/2025-04-01"           // the old engine's lines
	vllmEngineNumber       period = "2025-04-20/"           // "Engine 000: "
	vllmSpecNoLength       period = "2025-04-01/2025-04-20" // rates and counts only
	vllmSpecRateFirst      period = "2025-04-20/2025-09-11" //
	vllmLengthNoBonus      period = "2025-04-20/2025-05-12" // the mean leaves the bonus token out
	vllmProcess            period = "2025-08-10/"           // "(APIServer pid=9) " before the level
	vllmComputedThroughput period = "2026-02-04/"           // prompt throughput leaves cached tokens out
)

// vllmLog writes vLLM's two lines of statistics; without traffic they are on the debug level.
type vllmLog struct {
	noJournal
	server vllm
	out    *lineWriter
	last   counters
	at     time.Time
	idle   bool
}

func (l *vllmLog) head(at time.Time, source string) string {
	v := l.server.era
	when := at.Format("01-02 15:04:05")
	switch {
	case v.has(vllmProcess):
		return fmt.Sprintf("(APIServer pid=9) INFO %s [%s] ", when, source)
	case v.has(vllmV0):
		return fmt.Sprintf("INFO %s metrics.py:455] ", when)
	}
	return fmt.Sprintf("INFO %s [%s] ", when, source)
}

func (l *vllmLog) started(e *engine, at time.Time) {
	l.at, l.last, l.idle = at, e.count.copied(), true
	if e.rank > 0 {
		return
	}
	l.out.line(at, "%svLLM API server version %s", l.head(at, "api_server.py:1140"), l.server.era.version)
	l.out.line(at, "%sGPU KV cache size: %s tokens", l.head(at, "kv_cache_utils.py:864"), grouped(e.profile.PoolTokens))
}

// grouped writes a number with commas.
func grouped(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

func (l *vllmLog) every(e *engine, at time.Time) {
	c := e.count.copied()
	prompt, generated := c.prefilledPrompts-l.last.prefilledPrompts, c.emitted-l.last.emitted
	if l.server.era.has(vllmComputedThroughput) {
		prompt -= c.prefilledCached - l.last.prefilledCached
	}
	idle := prompt == 0 && generated == 0
	if !idle || !l.idle { // one line of zeros follows the last one with traffic
		l.engineLine(e, c, at, prompt, generated)
		l.specLine(e, c, at)
	}
	l.last, l.at, l.idle = c, at, idle
}

func (l *vllmLog) engineLine(e *engine, c counters, at time.Time, prompt, generated int) {
	v := l.server.era
	usage := 100 * ratio(e.pool().held, e.profile.PoolTokens)
	text := l.head(at, "loggers.py:259")
	if v.has(vllmEngineNumber) {
		text += fmt.Sprintf("Engine %03d: ", e.rank)
	}
	text += fmt.Sprintf("Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs",
		perSecondOf(prompt, l.at, at), perSecondOf(generated, l.at, at), len(e.running))
	if v.has(vllmV0) {
		text += fmt.Sprintf(", Swapped: 0 reqs, Pending: %d reqs, GPU KV cache usage: %.1f%%, CPU KV cache usage: 0.0%%.", len(e.queue), usage)
	} else {
		text += fmt.Sprintf(", Waiting: %d reqs, GPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%", len(e.queue), usage,
			100*ratio(c.prefilledCached, c.prefilledPrompts))
	}
	l.out.line(at, "%s", text)
}

// specLine is not written where nothing was drafted.
func (l *vllmLog) specLine(e *engine, c counters, at time.Time) {
	steps := c.steps - l.last.steps
	if e.profile.Algorithm == "" || steps == 0 {
		return
	}
	v, width := l.server.era, len(c.perPosition)
	correct, drafted := c.correct-l.last.correct, steps*width
	rate := 100 * ratio(correct, drafted)
	positions := positionRates(minus(c.perPosition, l.last.perPosition), steps)
	length := 1 + ratio(correct, steps)
	if v.has(vllmLengthNoBonus) {
		length--
	}
	text := l.head(at, "metrics.py:100")
	switch {
	case v.has(vllmV0):
		text += fmt.Sprintf("Speculative metrics: Draft acceptance rate: %.3f, System efficiency: %.3f, Number of speculative tokens: %d, Number of accepted tokens: %d, Number of draft tokens: %d, Number of emitted tokens: %d.",
			ratio(c.correct, c.steps*width), ratio(c.decodeTokens, c.steps*(width+1)), width, c.correct, c.steps*width, c.decodeTokens)
	case v.has(vllmSpecNoLength):
		text += fmt.Sprintf("SpecDecoding metrics: Draft acceptance rate: %.1f%%, Accepted: %d tokens, Drafted: %d tokens", rate, correct, drafted)
	case v.has(vllmSpecRateFirst):
		text += fmt.Sprintf("SpecDecoding metrics: Draft acceptance rate: %.1f%%, Mean acceptance length: %.2f, Accepted: %d tokens, Drafted: %d tokens, Per-position acceptance rate: %s",
			rate, length, correct, drafted, positions)
	default:
		text += fmt.Sprintf("SpecDecoding metrics: Mean acceptance length: %.2f, Accepted throughput: %.2f tokens/s, Drafted throughput: %.2f tokens/s, Accepted: %d tokens, Drafted: %d tokens, Per-position acceptance rate: %s, Avg Draft acceptance rate: %.1f%%",
			length, perSecondOf(correct, l.at, at), perSecondOf(drafted, l.at, at), correct, drafted, positions, rate)
	}
	l.out.line(at, "%s", text)
}
