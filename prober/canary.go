package prober

import (
	"context"
	"fmt"
	"math"

	"longctx_exporter/prober/estimate"
)

// Bounds within which a canary says that the server was as free as at other times.
const (
	canaryPace  = 1.25  // of the quickest pace known
	canaryTTFT  = 1.5   // of the usual short prefill
	canaryWhole = 2.5   // of the usual whole answer, which depends on how many steps its tokens took
	canaryFloor = 0.003 // seconds beyond that: the jitter of this machine and the network is no sign of others
	usually     = 0.25  // quantile that others who come and go leave alone
	many        = 8     // gaps, from which a quantile is better than the shortest
	keptSongs   = 8     // remembered, so that a server that has become slower for good is believed after a few runs
	singings    = 3     // of a canary that seems strained: chunks that merged or a short hiccup do not repeat
)

// canary is what the pre-roll tells of the server's state. Where a server says nothing of its load, one before and one after
// the run show whether it was busy with others then.
type canary struct {
	ttft  float64 // seconds
	pace  float64 // a short gap between chunks in seconds: chunks may merge, but not split
	whole float64 // seconds; set instead where the answer was not streamed
}

func (e *execution) canaryOf(l Leg) canary {
	if !e.streamed(l) {
		return canary{whole: l.Response.Total.Seconds()}
	}
	stamps, _ := chunkSeries(l.Response)
	gaps := estimate.Gaps(stamps)
	pace, _ := estimate.Quantile(gaps, 0)
	if len(gaps) >= many {
		pace, _ = estimate.Quantile(gaps, usually) // a chunk that was read late shortens the gap behind it
	}
	return canary{ttft: l.Response.TTFT.Seconds(), pace: pace}
}

// sing sends a canary, again while it seems strained, and says how it is then; "" for well.
func (e *execution) sing(ctx context.Context) (strain string, err error) {
	for range singings {
		leg, err := e.preRoll(ctx)
		if err != nil {
			return "", err
		}
		c := e.canaryOf(leg)
		songs := append(e.memory.canaries, c)
		e.memory.canaries = songs[max(0, len(songs)-keptSongs):]
		if strain = c.strained(songs); strain == "" {
			e.canaries = append(e.canaries, c)
			return "", nil
		}
	}
	return strain, nil
}

// checkCanaries sends the canary after the run and says whether the server was as free then and before.
func (e *execution) checkCanaries(ctx context.Context) error {
	if len(e.canaries) == 0 {
		return nil // the run ended before
	}
	strain, err := e.sing(ctx)
	switch {
	case err != nil:
		return err
	case strain != "":
		return reject(Contended, "the server was busy with others: after the run, %s", strain)
	}
	if strain = e.canaries[0].strained(e.memory.canaries); strain != "" {
		return reject(ColdStart, "the server was busy with others or not warm: before the run, %s", strain)
	}
	return nil
}

// confirmPrefill sends one more cold leg at the end of a rung's first run on a server that tells nothing of its load: those
// before may have agreed because the same others were there. Later runs, and long rungs, have an expectation to be held against.
func (e *execution) confirmPrefill(ctx context.Context, c coldPrefill) error {
	_, known := e.memory.cold[e.rung]
	if e.before != nil || known || len(c.legs) < 2 || c.seconds() >= repeatBelow.Seconds() {
		return nil
	}
	leg, _, err := e.coldLeg(ctx, len(e.run.Legs))
	if err != nil {
		return err
	}
	if now, then := shortSeconds(leg), c.seconds(); math.Abs(now-then) > max(agreement*then, jitterFloor) {
		return reject(Inconsistent, "a cold leg took %.3g s to the first token after the decode legs, %.3g s before them", now, then)
	}
	return nil
}

// strained says in what a canary is slower than all of them let expect; "" where it is not.
func (c canary) strained(songs []canary) string {
	for _, m := range []struct {
		what     string
		of       func(canary) float64
		quantile float64
		most     float64
	}{
		{"a step", func(c canary) float64 { return c.pace }, usually, canaryPace},
		{"the first token", func(c canary) float64 { return c.ttft }, 0.5, canaryTTFT},
		{"the answer", func(c canary) float64 { return c.whole }, 0.5, canaryWhole},
	} {
		var told []float64
		for _, s := range songs {
			if v := m.of(s); v > 0 {
				told = append(told, v)
			}
		}
		if usual, ok := estimate.Quantile(told, m.quantile); ok && m.of(c) > m.most*usual+canaryFloor {
			return fmt.Sprintf("%s of a short request took %.3g s, usually %.3g s", m.what, m.of(c), usual)
		}
	}
	return ""
}

// checkSteady says whether the pace within each long leg stayed the same: others who come or go change it, and their prefills
// stand between its steps.
func (e *execution) checkSteady(pairs []pairLegs) error {
	for _, p := range pairs {
		if !e.streamed(p.long) {
			continue
		}
		stamps, _ := chunkSeries(p.long.Response)
		gaps := estimate.Gaps(stamps)
		if least, most := paces(gaps); most > unsteady*least {
			return reject(Inconsistent, "the pace within one answer changed from %.3g to %.3g s per chunk: the server was busy with others", least, most)
		}
		if pauses, n := pauses(gaps); n > 0 && pauses > paused {
			return reject(Inconsistent, "%d pauses take %.0f %% of one answer's time: the server was busy with others", n, 100*pauses)
		}
	}
	return nil
}

// Bounds of a steady answer.
const (
	unsteady  = 1.2  // of the slowest block of chunks to the quickest
	paused    = 0.04 // of an answer's time, in pauses
	pauseFrom = 1.8  // of the usual gap
	rarely    = 0.1  // of all gaps: more of them are chunks that merge, not pauses
)

// paces are the usual gaps of the quickest and the slowest block of chunks; 0 and 0 where there is no whole block.
func paces(gaps []float64) (least, most float64) {
	const block = 8
	for ; len(gaps) >= block; gaps = gaps[block:] {
		m, ok := estimate.Quantile(gaps[:block], usually) // chunks that merge leave it alone
		if !ok {
			break
		}
		if least == 0 || m < least {
			least = m
		}
		most = max(most, m)
	}
	return least, most
}

// pauses is the share of the time that rare, long gaps take beyond the usual one, chunks that merged left out, and their
// number.
func pauses(gaps []float64) (share float64, n int) {
	usual, ok := estimate.Median(gaps)
	if !ok || len(gaps) < many {
		return 0, 0
	}
	var span float64
	for _, g := range gaps {
		span += g
		if g <= pauseFrom*usual {
			continue
		}
		n++
		if !merged(g / usual) {
			share += g - usual
		}
	}
	if float64(n) > max(1, rarely*float64(len(gaps))) {
		return 0, 0
	}
	return share / span, n
}

// merged says whether a gap, in usual gaps, may be a few steps whose chunks merged.
func merged(gaps float64) bool {
	const most, near = 4.5, 0.15
	return gaps < most && math.Abs(gaps-math.Round(gaps)) < near
}
