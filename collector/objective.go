package collector

import (
	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/prober"
)

// The values of the label `slo`.
const (
	sloTTFT = "ttft"
	sloStep = "step"
)

// objective judges the runs of a rung by the longest good time.
type objective struct {
	slo       string
	threshold float64 // seconds
	labels    []*dto.LabelPair
	good, bad count
}

// judge counts a run. One that failed had no first token, in however long a time; of its steps nothing is known. One that was
// rejected says nothing: somebody else's requests or a cached prompt are in its times.
func (o *objective) judge(run prober.Run) {
	measured := valuesOf(run.Sample)
	seconds := measured.ttft
	if o.slo == sloStep {
		seconds = measured.step
	}
	switch {
	case run.Status == prober.Failed && o.slo == sloTTFT:
		o.bad.n++
	case run.Status != prober.Accepted || seconds == 0:
	case seconds <= o.threshold:
		o.good.n++
	default:
		o.bad.n++
	}
}

func (p page) objective(o *objective) {
	p.gauge(sloThreshold, o.threshold, o.labels)
	p.counter(sloEvents, o.good.n, o.good.labels)
	p.counter(sloEvents, o.bad.n, o.bad.labels)
}
