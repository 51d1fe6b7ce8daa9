package prober

import (
	"errors"
	"time"

	"longctx_exporter/prober/inference"
)

// shortening is how far above the room for it a rung may lie to be run at the length that fits.
const shortening = 1.02

// refusal is the last prompt that a server refused as too long; zero for none.
type refusal struct {
	prompt int       // tokens
	limit  int       // tokens, prompt plus output, as the server named it; 0 where it did not
	at     time.Time // when
}

// triedAgain is how long a refused length is not sent again: four tries a day find out that a server takes more.
const triedAgain = 6 * time.Hour

// stands says whether the refusal still speaks against a prompt of so many tokens.
func (r refusal) stands(tokens int) bool {
	return r.prompt > 0 && tokens >= r.prompt && time.Since(r.at) < triedAgain
}

// fitted is fit with an M that need not be so large: a rung that fits with the least that auto begins with is not given up.
func (e *execution) fitted(m int) (int, error) {
	err := e.fit(m)
	if err != nil && m > firstDecodeTokens && e.target.DecodeTokens.At(e.rung) == 0 {
		m = firstDecodeTokens
		err = e.fit(m)
	}
	return m, err
}

// fit shortens the prompt by at most 2 % where the server's limits ask for it, or skips the rung.
func (e *execution) fit(m int) error {
	output := 1 + max(m, e.recallRoom()) + e.facts.BlockSize
	e.length = int(e.rung)
	for _, l := range []struct {
		reason Reason
		what   string
		stated int // 0 unknown
		beside int // tokens that must find room beside the prompt
	}{
		{ExceedsContext, "context limit", e.facts.ContextLimit, output},
		{ExceedsContext, "longest prompt", e.facts.MaxPrompt, 0},
		{ExceedsPool, "KV pool", e.facts.KVPoolTokens, output},
	} {
		if !e.shorten(l.stated, l.beside) {
			return skip(l.reason, "%d prompt tokens and %d to decode do not fit the server's %s of %d tokens", e.rung, m+1, l.what, l.stated)
		}
	}
	refused := e.memory.refused
	e.shorten(refused.limit, output)
	if refused.stands(e.length) {
		return skip(ExceedsContext, "the server refused a prompt of %d tokens as too long; one of %d is not sent before %s",
			refused.prompt, e.length, refused.at.Add(triedAgain).UTC().Format(time.RFC3339))
	}
	return nil
}

// shorten makes the prompt fit a limit where that takes little. It says whether it fits.
func (e *execution) shorten(limit, beside int) bool {
	room := limit - beside
	if limit == 0 {
		return true
	}
	if e.length > room && float64(e.rung) > shortening*float64(room) {
		return false
	}
	e.length = min(e.length, room-e.inexact())
	return true
}

// inexact is how many tokens more than wanted the server may count of a prompt of text.
func (e *execution) inexact() int {
	if e.prompts == nil || !e.prompts.calibrates() {
		return 0
	}
	return int(mismatch * float64(e.rung))
}

// roomForDecode is the largest M that fits the server's limits beside the prompt.
func (e *execution) roomForDecode() int {
	room := mostDecodeTokens
	for _, limit := range []int{e.facts.ContextLimit, e.facts.KVPoolTokens, e.memory.refused.limit} {
		if limit > e.length {
			room = min(room, limit-e.length-e.inexact()-1-e.facts.BlockSize)
		}
	}
	return room
}

// noteRefusal remembers a prompt that was refused as too long, with the limit if the server named it.
func (e *execution) noteRefusal(prompt int, err error) {
	var wire *inference.Error
	if errors.As(err, &wire) && wire.Class == inference.ContextOverflow {
		e.memory.refused = refusal{prompt: prompt, limit: wire.Limit, at: time.Now()}
	}
}

// noteTaken forgets a refusal that an accepted run has refuted.
func (e *execution) noteTaken() {
	if r := e.memory.refused; r.prompt > 0 && e.length >= r.prompt {
		e.memory.refused = refusal{}
	}
}

// forgetRefusal forgets what a server refused that had other limits than it tells now.
func (r *Runner) forgetRefusal(now inference.Facts) {
	if now.ContextLimit != r.facts.ContextLimit || now.MaxPrompt != r.facts.MaxPrompt || now.KVPoolTokens != r.facts.KVPoolTokens {
		r.memory.refused = refusal{}
	}
}
