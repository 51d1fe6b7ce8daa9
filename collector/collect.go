package collector

import (
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/prober"
	"longctx_exporter/prober/estimate"
	"longctx_exporter/prober/inference"
)

// labelRunes is the longest label value, in characters, that is taken from a server.
const labelRunes = 128

// Describe implements prometheus.Collector. Histograms describe themselves.
func (t *target) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range Catalogue() {
		if m.Type != Histogram {
			ch <- t.descs[m.Name]
		}
	}
}

// Collect implements prometheus.Collector.
func (t *target) Collect(ch chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := emitter{ch: ch, descs: t.descs}
	now := time.Now()
	var x, y []float64
	for _, length := range t.ladder {
		r := t.rungs[length]
		e.outcome(length, r)
		plans := r.compared(now)
		e.known(planStepRatio, plans.step, r.labels)
		e.known(planAcceptRatio, plans.accept, r.labels)
		s := r.fresh(now)
		if s == nil {
			continue
		}
		e.sample(r.labels, s)
		if positive(s.Step) {
			tokens := float64(length)
			if s.PromptTokens > 0 {
				tokens = float64(s.PromptTokens)
			}
			x, y = append(x, tokens+max(0, s.DecodeTokens)/2), append(y, s.Step)
		}
	}
	if intercept, slope, ok := estimate.TheilSen(x, y); ok {
		e.gauge(stepSlope, slope, t.labels)
		e.gauge(stepIntercept, intercept, t.labels)
		e.gauge(stepFitRungs, float64(len(x)), t.labels)
	}
	t.collectTarget(e)
}

// collectTarget emits what stands for the target as a whole.
func (t *target) collectTarget(e emitter) {
	for _, c := range t.reasons {
		e.counter(probeReasons, c.n, c.labels)
	}
	e.counter(promptTokens, t.computed.n, t.computed.labels)
	e.counter(promptTokens, t.cached.n, t.cached.labels)
	e.counter(engineBusy, t.busy, t.labels)
	if t.up != nil {
		e.gauge(targetUp, truth(*t.up), t.labels)
	}
	if t.facts == nil {
		return
	}
	e.gauge(targetInfo, 1, t.info)
	e.known(targetMaxContext, float64(t.facts.ContextLimit), t.labels)
	e.known(targetKVPool, float64(t.facts.KVPoolTokens), t.labels)
}

// infoLabels are the values of the labels that targetInfo adds, in their order.
func infoLabels(f inference.Facts) []string {
	return []string{
		labelValue(f.Model), labelValue(string(f.Dialect)), labelValue(f.ServerVersion), labelValue(f.Speculation),
	}
}

// labelValue makes a server's text fit for a label: of bounded length, valid and free of control characters.
func labelValue(s string) string {
	n := 0
	return strings.Map(func(c rune) rune {
		switch n++; {
		case n > labelRunes:
			return -1
		case unicode.IsControl(c):
			return '\uFFFD'
		}
		return c // bytes that are not UTF-8 come as U+FFFD
	}, s)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// emitter sends samples to a registry.
type emitter struct {
	ch    chan<- prometheus.Metric
	descs map[string]*prometheus.Desc
}

// outcome emits what is known of a rung without a measurement.
func (e emitter) outcome(length prober.Rung, r *rung) {
	e.gauge(rungContext, float64(length), r.labels)
	e.gauge(probeInterval, r.configured.Seconds(), r.labels)
	e.counter(probeRuns, r.runs, r.labels)
	e.counter(probeFailures, r.failures, r.labels)
	e.counter(probeRejections, r.rejections, r.labels)
	e.counter(probeSkips, r.skips, r.labels)
	e.counter(verifySteps, r.verifySteps, r.labels)
	e.counter(completionTokens, r.completionTokens, r.labels)
	if !r.attempted.IsZero() {
		e.gauge(probeLastAttempt, unix(r.attempted), r.labels)
		e.gauge(probeDuration, r.duration.Seconds(), r.labels)
	}
	if !r.succeeded.IsZero() {
		e.gauge(probeLastSuccess, unix(r.succeeded), r.labels)
	}
	if r.reachable != nil {
		e.gauge(rungReachable, truth(*r.reachable), r.labels)
	}
}

// sample emits the latest clean values, those that are known.
func (e emitter) sample(labels []*dto.LabelPair, s *prober.Sample) {
	e.known(probePromptTokens, float64(s.PromptTokens), labels)
	e.known(prefillRate, s.Prefill, labels)
	e.known(stepTime, s.Step, labels)
	e.known(decodeRate, s.DecodeRate, labels)
	e.known(acceptLength, s.AcceptLength, labels)
	e.known(stepError, s.StepError, labels)
	if !s.Buffered {
		e.known(ttft, s.TTFT, labels)
	}
	// A step time that comes from the stream has no second opinion here.
	if s.Method != "stream" && positive(s.Step) && positive(s.StepStream) {
		e.gauge(methodDisagreement, math.Abs(s.StepStream-s.Step)/s.Step, labels)
	}
}

// known emits a measurement, of which 0 is not one.
func (e emitter) known(name string, v float64, labels []*dto.LabelPair) {
	if positive(v) {
		e.gauge(name, v, labels)
	}
}

func (e emitter) gauge(name string, v float64, labels []*dto.LabelPair) {
	if !math.IsNaN(v) && !math.IsInf(v, 0) {
		e.ch <- &point{desc: e.descs[name], labels: labels, gauge: &dto.Gauge{Value: &v}}
	}
}

func (e emitter) counter(name string, v float64, labels []*dto.LabelPair) {
	e.ch <- &point{desc: e.descs[name], labels: labels, counter: &dto.Counter{Value: &v}}
}

// point is one sample of a gauge or of a counter.
type point struct {
	desc    *prometheus.Desc
	labels  []*dto.LabelPair
	gauge   *dto.Gauge
	counter *dto.Counter
}

// Desc implements prometheus.Metric.
func (p *point) Desc() *prometheus.Desc { return p.desc }

// Write implements prometheus.Metric.
func (p *point) Write(m *dto.Metric) error {
	m.Label, m.Gauge, m.Counter = p.labels, p.gauge, p.counter
	return nil
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
