package prober

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

func decodeTokens(ladder Ladder, levels ...RungValues[Tokens]) PerRung[int] {
	p := PerRung[int]{Rungs: map[Rung]int{}}
	for _, r := range ladder {
		v, _ := valueFor(r, levels...)
		p.Rungs[r] = int(v)
	}
	return p
}

func intervals(ladder Ladder, levels ...RungValues[Interval]) PerRung[time.Duration] {
	p := PerRung[time.Duration]{Default: DefaultInterval(0), Rungs: map[Rung]time.Duration{}}
	for _, r := range ladder {
		p.Rungs[r] = DefaultInterval(r)
		if v, ok := valueFor(r, levels...); ok {
			p.Rungs[r] = time.Duration(v)
		}
	}
	return p
}

func rungWeights(ladder Ladder, levels ...RungValues[Weight]) PerRung[float64] {
	p := PerRung[float64]{Default: 1, Rungs: map[Rung]float64{}}
	for _, r := range ladder {
		p.Rungs[r] = 1
		if w, ok := valueFor(r, levels...); ok {
			p.Rungs[r] = float64(w)
		}
	}
	return p
}

// at gives the objectives of the rungs that have one.
func (s *SLOConfig) at(ladder Ladder) SLO {
	if s == nil {
		return SLO{}
	}
	return SLO{TTFT: objectives(ladder, s.TTFT), Step: objectives(ladder, s.Step)}
}

func objectives(ladder Ladder, values RungValues[Duration]) map[Rung]time.Duration {
	m := map[Rung]time.Duration{}
	for _, r := range ladder {
		if v, ok := valueFor(r, values); ok {
			m[r] = time.Duration(v)
		}
	}
	return m
}

// strayWarnings tells of settings for context lengths that are not probed: often a slip of the pen.
func (c ProbeConfig) strayWarnings(ladder Ladder) []string {
	return slices.Concat(stray("intervals", ladder, c.Intervals), stray("decode_tokens", ladder, c.DecodeTokens),
		stray("weights", ladder, c.Weights))
}

func (s *SLOConfig) strayWarnings(ladder Ladder) []string {
	if s == nil {
		return nil
	}
	return append(stray("slo.ttft", ladder, s.TTFT), stray("slo.step", ladder, s.Step)...)
}

func stray[T Tokens | Interval | Duration | Weight](key string, ladder Ladder, values RungValues[T]) []string {
	var warnings []string
	for _, r := range slices.Sorted(maps.Keys(values.Rungs)) {
		if !slices.Contains(ladder, r) {
			warnings = append(warnings, fmt.Sprintf("%s names %s, which is not in the ladder", key, r))
		}
	}
	return warnings
}

// limitWarnings tells of a ladder that the configured limit lets nothing be sent of.
func limitWarnings(t Target) []string {
	for _, r := range t.Ladder {
		m := cmp.Or(t.DecodeTokens.At(r), firstDecodeTokens)
		if t.ContextLimit == 0 || float64(r) <= shortening*float64(t.ContextLimit-1-m) {
			return nil
		}
	}
	return []string{fmt.Sprintf("context_limit of %d tokens has no room for any rung of the ladder: nothing will be measured; raise it or shorten the ladder", t.ContextLimit)}
}

func decodeWarnings(t Target) []string {
	for _, r := range t.Ladder {
		if m := t.DecodeTokens.At(r); m > 0 && m < 8 {
			return []string{fmt.Sprintf("decode_tokens %d for %s is below 8: the step time rests on few steps", m, r)}
		}
	}
	return nil
}
