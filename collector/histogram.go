package collector

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	nativeFactor        = 1.1 // growth from bucket to bucket of native histograms
	nativeBucketsAtMost = 160

	// stepsAtMost bounds what one run may add to a histogram: a ladder's longest legs take some thousand steps.
	stepsAtMost = 1 << 20
	// exemplarRunes bounds the name of a run in an exemplar, which may have 128 characters with its label.
	exemplarRunes = 64
)

// histogram is a histogram that knows its classic buckets and how it was last shown. It is not safe for concurrent use.
type histogram struct {
	prometheus.Histogram
	bounds []float64
	labels []*dto.LabelPair
	shown  *dto.Metric // nil once there are new observations
}

func newHistogram(m Metric, labels []*dto.LabelPair) histogram {
	return histogram{bounds: m.Buckets, labels: labels, Histogram: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: m.Name, Help: m.Help, Buckets: m.Buckets,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeBucketsAtMost,
		NativeHistogramMinResetDuration: time.Hour,
	})}
}

// show makes the sample of a page. Pages come more often than runs and change nothing in what they show, so that one sample
// does for many.
func (h *histogram) show() *dto.Metric {
	if h.shown == nil {
		h.shown = &dto.Metric{}
		_ = h.Write(h.shown) // has no way to fail
		h.shown.Label = h.labels
	}
	return h.shown
}

// observe observes what is known of the values of a run, the first of each bucket with the run's name as exemplar: a bucket
// keeps but one.
func (h *histogram) observe(run string, values ...float64) {
	h.shown = nil
	named := make([]bool, len(h.bounds)+1)
	if run == "" || !utf8.ValidString(run) || utf8.RuneCountInString(run) > exemplarRunes {
		run = ""
	}
	for _, v := range values[:min(len(values), stepsAtMost)] {
		if !positive(v) {
			continue
		}
		bucket, _ := slices.BinarySearch(h.bounds, v)
		if run == "" || named[bucket] {
			h.Observe(v)
			continue
		}
		named[bucket] = true
		h.Histogram.(prometheus.ExemplarObserver).ObserveWithExemplar(v, prometheus.Labels{"run_id": run})
	}
}

// observeCounts observes counts[i] times the value i+1, or nothing where the counts cannot be those of one run.
func (h *histogram) observeCounts(run string, counts []int) {
	total := 0
	for _, n := range counts {
		if n < 0 || n > stepsAtMost-total {
			return
		}
		total += n
	}
	values := make([]float64, 0, total)
	for i, n := range counts {
		values = append(values, slices.Repeat([]float64{float64(i + 1)}, n)...)
	}
	h.observe(run, values...)
}

// positive tells whether a measurement may be exported: 0 stands for not known, and no unit in use reaches 1e12, of which
// any number can be summed up.
func positive(v float64) bool { return v > 0 && v < 1e12 }
