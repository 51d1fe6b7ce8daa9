package prober

import (
	"math"
	"slices"

	"longctx_exporter/prober/estimate"
)

// Bounds of what is a surprise, and of what settles it.
const (
	keptClean     = 10   // samples that a value is held against
	fewestClean   = 3    // below which nothing is known to be usual
	surprising    = 0.20 // relative distance from their median
	twiceSeen     = 2    // as far off among them: then it is no news
	certain       = 3    // clean values in a row, all of them off, make a change certain
	confirmations = 2    // of one surprise at most
)

// quantity is one that is watched for surprises.
type quantity struct {
	name   string
	decode bool                 // pairs on a cached prompt measure it
	of     func(Sample) float64 // 0 where not known
}

func quantities() []quantity {
	return []quantity{
		{"step", true, func(s Sample) float64 { return s.Step }},
		{"ttft", false, func(s Sample) float64 {
			if s.Buffered {
				return 0
			}
			return s.TTFT
		}},
		{"prefill", false, func(s Sample) float64 { return s.Prefill }},
	}
}

// evidence is what the clean samples of a rung say of its latest one.
type evidence struct {
	clean      []Sample // the latest, oldest first; what a change that was confirmed has made old is forgotten
	doubt      *doubt   // nil where there is none
	prefillToo bool     // the latest one is surprising in its prefill, whatever the doubt is about
}

// doubt is a surprising value that is neither confirmed nor refuted.
type doubt struct {
	quantity
	value, usual float64
	seen         int // values in a row that are as far off
	asked        int // confirmations
}

// finding is what a clean sample changes.
type finding int

const (
	nothingNew finding = iota
	surprised
	confirmed
	refuted
)

// take takes a clean sample in, and gives the doubt that it raised or settled.
func (e *evidence) take(s Sample) (finding, doubt) {
	before := e.clean
	e.clean = append(slices.Clone(before), s)
	e.clean = e.clean[max(0, len(e.clean)-keptClean):]
	surprises := doubted(before, s)
	e.prefillToo = slices.ContainsFunc(surprises, func(d doubt) bool { return !d.decode })
	if e.doubt == nil {
		if len(surprises) == 0 {
			return nothingNew, doubt{}
		}
		e.doubt = &surprises[0]
		return surprised, *e.doubt
	}
	d := e.doubt
	switch v := d.of(s); {
	case !measured(v):
		return nothingNew, doubt{}
	case !d.borneOutBy(v):
		e.doubt = nil
		return refuted, *d
	}
	if d.seen++; d.seen < certain {
		return nothingNew, doubt{}
	}
	e.doubt = nil
	e.forget(d.decode)
	return confirmed, *d
}

// forget drops the samples from before a change; of one in decode that not all confirm with a prefill of theirs, only the steps.
func (e *evidence) forget(decode bool) {
	n := len(e.clean) - certain
	if !decode || !slices.ContainsFunc(e.clean[n:], func(s Sample) bool { return !measured(s.Prefill) }) {
		e.clean = e.clean[n:]
		return
	}
	for i := range e.clean[:n] {
		e.clean[i].Step = 0
	}
}

// decodeAlone says whether warm pairs settle the doubt: prefill is not in it.
func (e *evidence) decodeAlone() bool { return e.doubt != nil && e.doubt.decode && !e.prefillToo }

// doubted lists the quantities of a sample that are surprising beside the ones before it.
func doubted(before []Sample, s Sample) (surprises []doubt) {
	for _, q := range quantities() {
		var known []float64
		for _, b := range before {
			if v := q.of(b); measured(v) {
				known = append(known, v)
			}
		}
		usual, ok := estimate.Median(known)
		v := q.of(s)
		if !ok || len(known) < fewestClean || !measured(v) || math.Abs(v-usual) <= surprising*usual {
			continue
		}
		d := doubt{quantity: q, value: v, usual: usual, seen: 1}
		alike := 0
		for _, b := range known {
			if d.borneOutBy(b) {
				alike++
			}
		}
		if alike < twiceSeen {
			surprises = append(surprises, d)
		}
	}
	return surprises
}

// borneOutBy says whether a value is as surprising, to the same side.
func (d *doubt) borneOutBy(v float64) bool {
	if d.value > d.usual {
		return v > (1+surprising)*d.usual
	}
	return v < (1-surprising)*d.usual
}

// measured says whether a value of a sample is known.
func measured(v float64) bool { return v > 0 && !math.IsInf(v, 1) }
