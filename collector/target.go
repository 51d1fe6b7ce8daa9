package collector

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// freshIntervals is for how many effective intervals a clean value stands.
const freshIntervals = 2.5

// target keeps the series of one target. Histograms keep themselves; the rest is state that Collect makes into samples, so
// that a value's age is judged at the moment it is shown.
type target struct {
	registry *prometheus.Registry
	descs    map[string]*prometheus.Desc
	values   []string // of the labels target and model
	labels   []*dto.LabelPair
	ladder   []prober.Rung

	mu               sync.Mutex
	rungs            map[prober.Rung]*rung // the map itself never changes
	reasons          map[reasonKey]*count
	computed, cached count   // prompt tokens
	busy             float64 // seconds
	up               *bool
	facts            *inference.Facts
	info             []*dto.LabelPair
}

// reasonKey names one child of the counter of reasons.
type reasonKey struct {
	kind   string
	reason prober.Reason
}

// count is a counter with its labels.
type count struct {
	labels []*dto.LabelPair
	n      float64
}

// rung is the state of one rung. Zero times and nil pointers are not known.
type rung struct {
	labels     []*dto.LabelPair
	configured time.Duration
	effective  time.Duration

	step, accept, prefill, ttft prometheus.Observer

	runs, failures, rejections, skips float64
	verifySteps, completionTokens     float64

	attempted time.Time
	duration  time.Duration
	succeeded time.Time // wall clock, for people and alerts
	cleanAt   time.Time // monotonic, for the age of clean
	clean     *prober.Sample
	cleanPlan prober.Plan
	reachable *bool

	plans planComparison
}

// planComparison holds a cold pair against the triple before it. A ratio of 0 is not known.
type planComparison struct {
	at           time.Time // monotonic
	step, accept float64
}

// comparisonIntervals is how long, in intervals, a comparison of plans is shown: pairs come every tenth run.
const comparisonIntervals = 10 * freshIntervals

// compared is the latest comparison of plans while it may be shown.
func (r *rung) compared(now time.Time) planComparison {
	if now.Sub(r.plans.at) > time.Duration(comparisonIntervals*float64(max(r.configured, r.effective))) {
		return planComparison{}
	}
	return r.plans
}

// fresh is the latest clean sample while it may be shown, else nil.
func (r *rung) fresh(now time.Time) *prober.Sample {
	if r.clean == nil || now.Sub(r.cleanAt) > time.Duration(freshIntervals*float64(max(r.configured, r.effective))) {
		return nil
	}
	return r.clean
}

// kinds names the statuses that have reasons, as values of the label `kind`.
func kinds() map[prober.Status]string {
	return map[prober.Status]string{prober.Failed: "failure", prober.Rejected: "rejection", prober.Skipped: "skip"}
}

func newTarget(t prober.Target, metrics map[string]Metric, descs map[string]*prometheus.Desc) (*target, error) {
	s := &target{
		registry: prometheus.NewRegistry(),
		descs:    descs,
		values:   []string{t.Name, t.ModelLabel()},
		ladder:   slices.Clone(t.Ladder),
		rungs:    map[prober.Rung]*rung{},
		reasons:  map[reasonKey]*count{},
	}
	s.labels = s.pairs(targetUp)
	s.computed.labels, s.cached.labels = s.pairs(promptTokens, "computed"), s.pairs(promptTokens, "cached")
	for status, kind := range kinds() {
		for _, reason := range prober.Reasons(status) {
			s.reasons[reasonKey{kind, reason}] = &count{labels: s.pairs(probeReasons, kind, string(reason))}
		}
	}
	step, accept := newHistogram(metrics[stepDuration]), newHistogram(metrics[acceptLengthTokens])
	prefill, first := newHistogram(metrics[prefillThroughput]), newHistogram(metrics[timeToFirstToken])
	for _, r := range t.Ladder {
		if _, twice := s.rungs[r]; twice {
			return nil, fmt.Errorf("the ladder lists %s twice", r)
		}
		values := append(slices.Clone(s.values), r.Context(), r.String())
		s.rungs[r] = &rung{
			labels:     s.pairs(rungContext, r.Context(), r.String()),
			configured: t.Intervals.At(r),
			step:       step.WithLabelValues(values...),
			accept:     accept.WithLabelValues(values...),
			prefill:    prefill.WithLabelValues(values...),
			ttft:       first.WithLabelValues(values...),
		}
	}
	for _, c := range []prometheus.Collector{s, step, accept, prefill, first} {
		if err := s.registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering its series: %w", err)
		}
	}
	return s, nil
}

// pairs makes the labels of a series of the target once, for they are the same at every scrape.
func (t *target) pairs(name string, more ...string) []*dto.LabelPair {
	return prometheus.MakeLabelPairs(t.descs[name], append(slices.Clone(t.values), more...))
}

func newHistogram(m Metric) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: m.Name, Help: m.Help, Buckets: m.Buckets,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeBucketsAtMost,
		NativeHistogramMinResetDuration: time.Hour,
	}, m.Labels)
}

func (t *target) setFacts(f inference.Facts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	up := true
	t.facts, t.up = &f, &up
	t.info = t.pairs(targetInfo, infoLabels(f)...)
}

func (t *target) setInterval(r prober.Rung, effective time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.rungs[r]; ok {
		s.effective = effective
	}
}
