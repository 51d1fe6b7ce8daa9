package simserver

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// When llama-server's draft line had which form, since when its lines tell time and level, and since when each line of timing
// stands behind its slot and task instead of on a line of its own: in b10587 it does.
const (
	llamaDraftPositions period = "2026-06-16/2026-06-28"
	llamaDraftShort     period = "2026-06-28/"
	llamaStamped        period = "2026-03-01/"
	llamaTimingBehind   period = "2026-08-22/"
)

// llamaLog writes what llama-server does: a paragraph for each request.
type llamaLog struct {
	noJournal
	server llama
	out    *lineWriter
	tasks  int
}

// head is the time since the start, and the level.
func (l *llamaLog) head(e *engine, at time.Time) string {
	if !l.server.era.has(llamaStamped) {
		return ""
	}
	d := at.Sub(e.started)
	return fmt.Sprintf("%d.%02d.%03d.%03d I ", int(d.Minutes()), int(d.Seconds())%60, d.Milliseconds()%1000, d.Microseconds()%1000)
}

func (l *llamaLog) started(e *engine, at time.Time) {
	l.out.line(at, "%smain: server is listening on http://127.0.0.1:8080", l.head(e, at))
	l.out.line(at, "%ssrv  update_slots: all slots are idle", l.head(e, at))
}

func (l *llamaLog) prefilled(e *engine, c chunk) {
	l.out.line(c.done, "%sslot update_slots: id  0 | task %d | prompt processing progress, n_tokens = %d, batch.n_tokens = %d, progress = %.6f",
		l.head(e, c.done), l.tasks, c.job.computed, c.tokens, ratio(c.job.computed, len(c.job.prompt)))
}

func (l *llamaLog) ended(e *engine, j *job) {
	at := j.finished
	h := l.head(e, at)
	if j.finish == "abort" {
		l.out.line(at, "%ssrv          stop: cancel task, id_task = %d", h, l.tasks)
		l.tasks++
		return
	}
	prompt, n := len(j.prompt)-j.cached, len(j.output)
	promptMS, evalMS := 1000*secondsBetween(j.scheduled, j.firstToken), 1000*secondsBetween(j.firstToken, j.finished)
	evals := max(1, n-1)
	lines := []string{
		fmt.Sprintf("prompt eval time = %10.2f ms / %5d tokens (%8.2f ms per token, %8.2f tokens per second)",
			promptMS, prompt, promptMS/float64(max(1, prompt)), perSecond(float64(prompt), promptMS)),
		fmt.Sprintf("       eval time = %10.2f ms / %5d tokens (%8.2f ms per token, %8.2f tokens per second)",
			evalMS, n, evalMS/float64(evals), perSecond(float64(n-1), evalMS)),
		fmt.Sprintf("      total time = %10.2f ms / %5d tokens", promptMS+evalMS, prompt+n),
	}
	if e.profile.Algorithm != "" && j.verifyPasses() > 0 {
		lines = append(lines, l.draft(j, e.profile.BlockSize()-1))
	}
	l.timing(at, fmt.Sprintf("%sslot print_timing: id  0 | task %d | ", h, l.tasks), lines)
	l.out.line(at, "%sslot      release: id  0 | task %d | stop processing: n_tokens = %d, truncated = 0", h, l.tasks, len(j.prompt)+n-1)
	l.out.line(at, "%ssrv  update_slots: all slots are idle", h)
	l.tasks++
}

// timing writes the lines about the timing of a request, each behind the slot's own words or all below them.
func (l *llamaLog) timing(at time.Time, slot string, lines []string) {
	if !l.server.era.has(llamaTimingBehind) {
		l.out.line(at, "%s", slot+"\n"+strings.Join(lines, "\n"))
		return
	}
	for _, line := range lines {
		l.out.line(at, "%s", slot+line)
	}
}

// draft is the line about speculation, whose mean counts the bonus token.
func (l *llamaLog) draft(j *job, width int) string {
	steps, correct := j.verifyPasses(), j.correctDrafts()
	rate := ratio(correct, steps*width)
	counts := fmt.Sprintf("(%5d accepted / %5d generated)", correct, steps*width)
	mean := 1 + ratio(correct, steps)
	switch v := l.server.era; {
	case v.has(llamaDraftShort):
		return fmt.Sprintf("draft acceptance = %.5f %s, mean len = %5.2f", rate, counts, mean)
	case v.has(llamaDraftPositions):
		return fmt.Sprintf("draft acceptance = %.5f %s, mean acceptance length = %5.2f, acceptance rate per position = (%s)",
			rate, counts, mean, positionRates(positionsOf(j, width), steps))
	}
	return fmt.Sprintf("draft acceptance rate = %.5f %s", rate, counts)
}

// positionsOf counts at i the steps that accepted more than i drafts.
func positionsOf(j *job, width int) []int {
	n := make([]int, width)
	for _, k := range j.accepted {
		for i := range k - 1 {
			n[i]++
		}
	}
	return n
}

func positionRates(counts []int, steps int) string {
	parts := make([]string, len(counts))
	for i, n := range counts {
		parts[i] = fmt.Sprintf("%.3f", ratio(n, steps))
	}
	return strings.Join(parts, ", ")
}

// lmdeployLog writes LMDeploy's line of statistics.
type lmdeployLog struct {
	noJournal
	out  *lineWriter
	last counters
	at   time.Time
}

func (l *lmdeployLog) started(e *engine, at time.Time) { l.at, l.last = at, e.count.copied() }

func (l *lmdeployLog) every(e *engine, at time.Time) {
	c := e.count.copied()
	in, out := c.prefillCompute-l.last.prefillCompute, c.emitted-l.last.emitted
	if in > 0 || out > 0 {
		text := fmt.Sprintf("[%s DP0] Avg thr (in/out): %.1f / %.1f tokens/s, Server (succeeded/failed/routed/waiting): %d / %d / %d / %d, Engine (running/waiting): %d / %d, KV cache: %.1f%%",
			at.Format(time.DateTime), perSecondOf(in, l.at, at), perSecondOf(out, l.at, at), c.requests, c.aborted, len(e.running), len(e.queue),
			len(e.running), len(e.queue), 100*ratio(e.pool().held, e.profile.PoolTokens))
		if steps := c.steps - l.last.steps; e.profile.Algorithm != "" && steps > 0 {
			correct, drafted := c.correct-l.last.correct, steps*len(c.perPosition)
			text += fmt.Sprintf(", SpecDecoding metrics: Draft acceptance rate: %.2f%%, Mean acceptance length: %.2f, Accepted: %d tokens, Drafted: %d tokens, Per-position acceptance rate: %s",
				100*ratio(correct, drafted), 1+ratio(correct, steps), correct, drafted, positionRates(minus(c.perPosition, l.last.perPosition), steps))
		}
		l.out.line(at, "%s", text)
	}
	l.last, l.at = c, at
}

func minus(a, b []int) []int {
	out := make([]int, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

// ollamaLog writes Ollama's access lines and its warning about prompts that are cut.
type ollamaLog struct {
	noJournal
	out *lineWriter
}

func (l *ollamaLog) received(e *engine, j *job) {
	if j.asked > len(j.prompt) {
		l.out.line(j.received, `time=%s level=WARN source=runner.go:131 msg="truncating input prompt" limit=%d prompt=%d keep=4 new=%d`,
			j.received.Format("2006-01-02T15:04:05.000Z07:00"), e.profile.ContextLimit, j.asked, len(j.prompt))
	}
}

func (l *ollamaLog) access(r *http.Request, status int, began, ended time.Time) {
	host, _, _ := strings.Cut(clientOf(r), ":")
	l.out.line(ended, `[GIN] %s | %3d | %12v | %15s | %-8s "%s"`, ended.Format("2006/01/02 - 15:04:05"), status, ended.Sub(began), host, r.Method, r.URL.Path)
}
