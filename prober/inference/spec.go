package inference

import "fmt"

// spec keeps what one source tells of speculation, and the clash that it has within itself. Sources come in any order; the
// best one stays, and one that contradicts it is a clash too.
func (a *answer) spec(s *Spec, clash string) {
	if clash != "" {
		a.resp.Clash = clash
	}
	have := a.resp.Spec
	switch {
	case s == nil:
	case have == nil || have.Source == s.Source: // the same source counts on
		a.resp.Spec = s
	default:
		if clash := have.clash(s); clash != "" {
			a.resp.Clash = clash
		}
		a.resp.Spec = better(have, s)
	}
}

// better is the source that tells more: exact steps before a bound, then drafts, then a histogram.
func better(a, b *Spec) *Spec {
	worth := func(s *Spec) (n int) {
		if !s.AtLeast {
			n += 4
		}
		if s.Drafts >= 0 {
			n += 2
		}
		if s.Histogram != nil {
			n++
		}
		return n
	}
	if worth(b) > worth(a) {
		return b
	}
	return a
}

// clash says how two sources contradict each other, "" where they agree as far as both tell.
func (s *Spec) clash(o *Spec) string {
	switch {
	case !s.AtLeast && !o.AtLeast && !alike(s.Steps, o.Steps):
		return fmt.Sprintf("%s tells of %d verify passes, %s of %d", s.Source, s.Steps, o.Source, o.Steps)
	case s.Drafts >= 0 && o.Drafts >= 0 && !alike(s.Drafts, o.Drafts):
		return fmt.Sprintf("%s tells of %d accepted drafts, %s of %d", s.Source, s.Drafts, o.Source, o.Drafts)
	}
	return ""
}

// alike says whether two counts differ by no more than rounding and a pass that one of them has not seen.
func alike(a, b int) bool {
	apart := max(a-b, b-a)
	return apart <= 1 || float64(apart) <= 0.02*float64(max(a, b))
}

// spec are SGLang's speculation facts of a request; nil where it verified nothing. Builds before late 2025 count passes only:
// what those delivered says nothing of drafts, short as it is of what the last pass accepted beyond max_tokens.
func (d *specDetails) spec(source string) (s *Spec, clash string) {
	if d.Verified <= 0 {
		return nil, ""
	}
	counts := d.CorrectHistogram
	if counts == nil {
		counts = d.AcceptHistogram
	}
	return specOf(d.Verified, counts, source, d.CorrectDrafts, d.AcceptedDrafts, d.AcceptedTokens)
}

// spec are the facts behind vLLM's and TensorRT-LLM's counts; nil where there was no pass.
func (c *specCounts) spec(source string) (s *Spec, clash string) {
	if c == nil || c.Steps <= 0 || c.Accepted == nil && c.Total == nil && c.Histogram == nil {
		return nil, ""
	}
	s, clash = specOf(c.Steps, c.Histogram, source, c.Accepted, c.Total)
	if c.Depth > 0 && c.Depth < mostOvershoot {
		s.Block = c.Depth + 1
	}
	if n := len(c.PerStep); n > 0 && !alike(n, c.Steps) {
		clash = fmt.Sprintf("%s lists %d verify passes and counts %d", source, n, c.Steps)
	}
	return s, clash
}

// specOf makes facts of a number of passes, a histogram of accepted drafts per pass, and the number of drafts under any of its
// names. All are of the same passes: where two differ by more than rounding, one of them is wrong.
func specOf(steps int, counts []int, source string, drafts ...*int) (s *Spec, clash string) {
	s = &Spec{Steps: steps, Drafts: -1, Source: source}
	for _, n := range drafts {
		switch {
		case n == nil || *n < 0:
		case s.Drafts < 0:
			s.Drafts = *n
		case !alike(s.Drafts, *n):
			clash = fmt.Sprintf("%s tells of %d accepted drafts and of %d", source, s.Drafts, *n)
		}
	}
	passes, correct, ok := totals(counts)
	switch {
	case !ok:
		return s, clash
	case !alike(passes, steps):
		return s, fmt.Sprintf("%s counts %d verify passes, its histogram %d", source, steps, passes)
	case s.Drafts >= 0 && !alike(correct, s.Drafts):
		return s, fmt.Sprintf("%s counts %d accepted drafts, its histogram %d", source, s.Drafts, correct)
	case passes != steps || s.Drafts >= 0 && correct != s.Drafts:
		return s, clash // within rounding, but whose steps it holds is not known
	}
	s.Histogram, s.Drafts = counts, correct
	return s, clash
}

// totals are the passes and the accepted drafts of a histogram; it fails where there is none, or one that is garbage.
func totals(counts []int) (passes, drafts int, ok bool) {
	for i, n := range counts {
		if n < 0 || n > mostCount || i >= mostOvershoot && n > 0 {
			return 0, 0, false
		}
		passes += n
		drafts += i * n
	}
	return passes, drafts, passes > 0
}

// mostOvershoot is more than one pass of any drafter commits.
const mostOvershoot = 128

// possible says whether the counts can belong to an answer with the given number of tokens after its first: each pass
// delivers one at least, and only the last one commits some that are not delivered.
func (s *Spec) possible(decoded int) bool {
	if s.Steps > decoded+1 || s.Drafts > decoded+mostOvershoot {
		return false
	}
	return s.Drafts-(decoded-s.Steps) < mostOvershoot
}
