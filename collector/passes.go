package collector

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// nativeSchema is that of nativeFactor: each bucket is 2^(1/8) times as wide as the one before. Whole numbers up to a block's
// length need fewer buckets than nativeBucketsAtMost.
const nativeSchema = 3

// passHistogram is a histogram of tokens committed per verify pass that takes the counts of many passes in one step for each
// number of tokens. It is not safe for concurrent use.
type passHistogram struct {
	metric  Metric
	labels  []*dto.LabelPair
	created time.Time
	passes  []uint64    // passes[i] committed i+1 tokens
	shown   *dto.Metric // nil once there are new passes
}

func newPassHistogram(m Metric, labels []*dto.LabelPair) passHistogram {
	return passHistogram{metric: m, labels: labels, created: time.Now()}
}

// observe adds counts[i] passes that committed i+1 tokens.
func (h *passHistogram) observe(counts []int) {
	h.shown = nil
	h.passes = append(h.passes, make([]uint64, max(0, len(counts)-len(h.passes)))...)
	for i, n := range counts {
		h.passes[i] += uint64(max(0, n))
	}
}

// show makes the sample of a page.
func (h *passHistogram) show() *dto.Metric {
	if h.shown != nil {
		return h.shown
	}
	var count, tokens uint64
	native := map[int]int64{}
	classic := make([]*dto.Bucket, len(h.metric.Buckets))
	for i, bound := range h.metric.Buckets {
		classic[i] = &dto.Bucket{UpperBound: new(bound), CumulativeCount: new(uint64)}
	}
	for i, n := range h.passes {
		if n == 0 {
			continue
		}
		committed := float64(i + 1)
		count, tokens = count+n, tokens+n*uint64(i+1)
		native[int(math.Ceil(math.Log2(committed)*(1<<nativeSchema)))] += int64(n)
		for _, b := range classic {
			if committed <= b.GetUpperBound() {
				*b.CumulativeCount += n
			}
		}
	}
	h.shown = &dto.Metric{}
	_ = prometheus.MustNewConstNativeHistogram(prometheus.NewDesc(h.metric.Name, h.metric.Help, nil, nil), count, float64(tokens),
		native, nil, 0, nativeSchema, prometheus.DefNativeHistogramZeroThreshold, h.created).Write(h.shown) // has no way to fail
	h.shown.Label, h.shown.Histogram.Bucket = h.labels, classic
	return h.shown
}
