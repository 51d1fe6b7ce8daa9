package collector

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// target keeps the series of one target as state that collect makes into samples, so that a value's age is judged at the moment
// it is shown.
type target struct {
	metrics  map[string]Metric
	values   []string // of the labels target and model
	labels   []*dto.LabelPair
	ladder   []*rung // shortest first
	inFlight atomic.Int64
	logs     *logs // nil without logs

	mu               sync.Mutex // guards what follows, and the rungs
	reasons          []*reasonCount
	computed, cached count   // prompt tokens
	busy             float64 // seconds
	self             *prober.Self
	used             *float64 // share of the budget
	evicted          *float64 // tokens
	up               *bool
	facts            *inference.Facts
	deploy           prober.Deploy
	info             []*dto.LabelPair
	engine           *servermetrics.Snapshot // nil before the first reading
}

// reasonCount is one child of the counter of reasons.
type reasonCount struct {
	count
	status prober.Status
	reason prober.Reason
}

// count is a counter with its labels.
type count struct {
	labels []*dto.LabelPair
	n      float64
}

// kinds names the statuses that have reasons, as values of the label `kind`.
func kinds() map[prober.Status]string {
	return map[prober.Status]string{prober.Failed: "failure", prober.Rejected: "rejection", prober.Skipped: "skip"}
}

func newTarget(t prober.Target, metrics map[string]Metric) (*target, error) {
	s := &target{metrics: metrics, values: []string{t.Name, t.ModelLabel()}}
	s.labels = s.pairs(targetUp)
	s.logs = s.newLogs(len(t.Logs))
	s.computed.labels, s.cached.labels = s.pairs(promptTokens, "computed"), s.pairs(promptTokens, "cached")
	for _, status := range []prober.Status{prober.Failed, prober.Rejected, prober.Skipped} {
		for _, reason := range prober.Reasons(status) {
			labels := s.pairs(probeReasons, kinds()[status], string(reason))
			s.reasons = append(s.reasons, &reasonCount{count{labels: labels}, status, reason})
		}
	}
	for _, r := range slices.Sorted(slices.Values(t.Ladder)) {
		if s.rung(r) != nil {
			return nil, fmt.Errorf("the ladder lists %s twice", r)
		}
		s.ladder = append(s.ladder, s.newRung(t, r))
	}
	return s, nil
}

func (t *target) newRung(config prober.Target, length prober.Rung) *rung {
	values := []string{length.Context(), length.String()}
	labels := t.pairs(rungContext, values...)
	r := &rung{
		length:     length,
		labels:     labels,
		configured: config.Intervals.At(length),
		step:       newHistogram(t.metrics[stepDuration], labels),
		accept:     newHistogram(t.metrics[acceptLengthTokens], labels),
		prefill:    newHistogram(t.metrics[prefillThroughput], labels),
		ttft:       newHistogram(t.metrics[timeToFirstToken], labels),
		baselines:  map[string][]*dto.LabelPair{},
	}
	for _, name := range []string{baselinePinned, baselineDeploy, baselinePrevious} {
		r.baselines[name] = t.pairs(stepBaseline, append(slices.Clone(values), name)...)
	}
	for _, slo := range []struct {
		name       string
		thresholds map[prober.Rung]time.Duration
	}{{sloTTFT, config.SLO.TTFT}, {sloStep, config.SLO.Step}} {
		if threshold, ok := slo.thresholds[length]; ok {
			values := append(slices.Clone(values), slo.name)
			r.objectives = append(r.objectives, &objective{
				slo: slo.name, threshold: threshold.Seconds(), labels: t.pairs(sloThreshold, values...),
				good: count{labels: t.pairs(sloEvents, append(slices.Clone(values), "good")...)},
				bad:  count{labels: t.pairs(sloEvents, append(slices.Clone(values), "bad")...)},
			})
		}
	}
	return r
}

// pairs makes the labels of a series of the target once, for they are the same at every scrape.
func (t *target) pairs(name string, more ...string) []*dto.LabelPair {
	var pairs []*dto.LabelPair
	for i, value := range append(slices.Clone(t.values), more...) {
		pairs = append(pairs, &dto.LabelPair{Name: &t.metrics[name].Labels[i], Value: &value})
	}
	slices.SortFunc(pairs, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	return pairs
}

// rung finds a rung, nil where the target has none of that length.
func (t *target) rung(length prober.Rung) *rung {
	i, ok := slices.BinarySearchFunc(t.ladder, length, func(r *rung, length prober.Rung) int { return cmp.Compare(r.length, length) })
	if !ok {
		return nil
	}
	return t.ladder[i]
}

func (t *target) setFacts(f inference.Facts, d prober.Deploy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	up := true
	t.facts, t.up, t.deploy = &f, &up, d
	t.info = t.pairs(targetInfo, infoLabels(f, d)...)
}

func (t *target) setBudgetUsed(share float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used = &share
}

func (t *target) setInterval(length prober.Rung, effective time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.rung(length); r != nil {
		r.effective = effective
	}
}

func (t *target) setNextDue(length prober.Rung, due time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.rung(length); r != nil {
		r.nextDue = due
	}
}
