package collector

import (
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// page is what one scrape shows of the targets: families by name. It is not safe for concurrent use.
type page map[string]*dto.MetricFamily

func newPage(metrics map[string]Metric) page {
	types := map[Type]dto.MetricType{
		Counter: dto.MetricType_COUNTER, Gauge: dto.MetricType_GAUGE, Histogram: dto.MetricType_HISTOGRAM,
	}
	p := make(page, len(metrics))
	for _, m := range metrics {
		p[m.Name] = &dto.MetricFamily{Name: &m.Name, Help: &m.Help, Type: types[m.Type].Enum()}
	}
	return p
}

// families are those that have a series, in no order.
func (p page) families() []*dto.MetricFamily {
	var some []*dto.MetricFamily
	for _, f := range p {
		if len(f.Metric) > 0 {
			some = append(some, f)
		}
	}
	return some
}

// known adds a measurement, of which 0 is not one.
func (p page) known(name string, v float64, labels []*dto.LabelPair) {
	if positive(v) {
		p.gauge(name, v, labels)
	}
}

// gauge adds a gauge, unless it is no number.
func (p page) gauge(name string, v float64, labels []*dto.LabelPair) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	s := &struct { // one allocation
		metric dto.Metric
		gauge  dto.Gauge
		value  float64
	}{value: v}
	s.gauge.Value, s.metric.Label, s.metric.Gauge = &s.value, labels, &s.gauge
	p.add(name, &s.metric)
}

// time adds a gauge of Unix time, unless the time is not known.
func (p page) time(name string, t time.Time, labels []*dto.LabelPair) {
	if !t.IsZero() {
		p.gauge(name, float64(t.UnixMilli())/1000, labels)
	}
}

// counter adds a counter, unless it is no number.
func (p page) counter(name string, v float64, labels []*dto.LabelPair) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	s := &struct {
		metric  dto.Metric
		counter dto.Counter
		value   float64
	}{value: v}
	s.counter.Value, s.metric.Label, s.metric.Counter = &s.value, labels, &s.counter
	p.add(name, &s.metric)
}

func (p page) add(name string, m *dto.Metric) {
	f := p[name]
	f.Metric = append(f.Metric, m)
}
