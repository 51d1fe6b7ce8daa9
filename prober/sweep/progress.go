package sweep

import (
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"

	"longctx_exporter/prober"
)

// tick is how often the line of progress is rewritten.
const tick = 200 * time.Millisecond

// progress keeps one line of a terminal up to date while a rung runs.
type progress struct {
	w io.Writer

	mu    sync.Mutex
	leg   prober.Progress // of the running leg
	runs  bool            // a leg is running
	width int             // of what stands on the line
}

// observe is told by the runner, from whatever goroutine.
func (p *progress) observe(leg prober.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leg, p.runs = leg, !leg.Ended
}

// watch rewrites the line until stop is called, which clears it.
func (p *progress) watch() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				p.draw()
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		p.rewrite("")
	}
}

func (p *progress) draw() {
	p.mu.Lock()
	leg, runs := p.leg, p.runs
	p.mu.Unlock()
	if runs {
		p.rewrite(describe(leg, time.Since(leg.Started)))
	}
}

// rewrite covers what stood on the line before; a progress line that cannot be written is no reason to stop measuring.
func (p *progress) rewrite(line string) {
	if line == "" && p.width == 0 {
		return
	}
	_, _ = io.WriteString(p.w, "\r"+pad(line, p.width, false))
	p.width = utf8.RuneCountInString(line)
	if line == "" {
		_, _ = io.WriteString(p.w, "\r")
	}
}

func describe(leg prober.Progress, ran time.Duration) string {
	line := fmt.Sprintf("%s  %s(%d)", leg.Rung, leg.Kind, leg.MaxTokens)
	if leg.Run > 0 {
		line += fmt.Sprintf(", pair %d", leg.Run)
	}
	line += fmt.Sprintf("  %.1f s", ran.Seconds())
	if leg.Expected > 0 {
		line += fmt.Sprintf(" of about %.1f s", leg.Expected.Seconds())
	}
	return line + fmt.Sprintf("  %d chunks", leg.Chunks)
}
