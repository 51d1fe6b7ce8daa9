package servermetrics

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// parts are the values of one metric by the series that add up to it.
type parts map[string]float64

// parts groups the series of a metric that have all the given label values. Ranks of tensor, pipeline and expert parallelism
// repeat the same fact, so that of them the largest counts; data-parallel ranks, engines and workers stand apart. It is nil
// where the metric is absent, or where a part of it is not known.
func (p page) parts(name string, match ...string) parts {
	if p.broken[name] {
		return nil
	}
	leftOut := map[string]bool{}
	for i := 0; i < len(match); i += 2 {
		leftOut[match[i]] = true
	}
	var groups parts
	for _, s := range p.samples[name] {
		// With priority scheduling the empty priority is the total and the others are its parts.
		if s.labels["priority"] != "" || !matches(s.labels, match) {
			continue
		}
		if math.IsNaN(s.value) {
			return nil
		}
		if groups == nil {
			groups = parts{}
		}
		key := seriesKey("", s.labels, func(label string) bool { return leftOut[label] || repeats(label) })
		if best, ok := groups[key]; !ok || s.value > best {
			groups[key] = s.value
		}
	}
	return groups
}

// repeats says whether the ranks that a label tells apart do the same work: those of any parallelism but of data.
func repeats(label string) bool { return strings.HasSuffix(label, "_rank") && label != "dp_rank" }

// seriesKey names a series by its name and its labels but those left out. A label without a value is none.
func seriesKey(name string, labels map[string]string, leftOut func(label string) bool) string {
	var b strings.Builder
	b.WriteString(name)
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if labels[k] == "" || leftOut(k) {
			continue
		}
		b.WriteByte(0xff)
		b.WriteString(k)
		b.WriteByte(0xff)
		b.WriteString(labels[k])
	}
	return b.String()
}

func matches(labels map[string]string, match []string) bool {
	for i := 0; i+1 < len(match); i += 2 {
		if labels[match[i]] != match[i+1] {
			return false
		}
	}
	return true
}

// sum is nil where there are no parts, or where they are too many to count.
func (p parts) sum() *float64 {
	if p == nil {
		return nil
	}
	total := 0.0
	for _, v := range p {
		total += v
	}
	return finite(total)
}

// finite is nil where a value is too large to be one.
func finite(v float64) *float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return nil
	}
	return &v
}

// sum adds a metric up over the server's ranks, over the series that have all the given label values.
func (p page) sum(name string, match ...string) *float64 { return p.parts(name, match...).sum() }

// gauge is sum for a number of requests.
func (p page) gauge(name string) *int {
	if p.ambiguous(name) {
		return nil
	}
	return count(p.sum(name))
}

// most is the largest part of a share, 0 to 1.
func (p page) most(name string) *float64 {
	if p.ambiguous(name) {
		return nil
	}
	var most *float64
	for _, v := range p.parts(name) {
		if most == nil || v > *most {
			most = &v
		}
	}
	return share(most)
}

// share is a value that can be one: from 0 to 1.
func share(v *float64) *float64 {
	if v == nil || !(*v >= 0 && *v <= 1) {
		return nil
	}
	return v
}

// ambiguous says whether a gauge comes from several processes, of which some may be dead.
func (p page) ambiguous(name string) bool {
	pids := map[string]bool{}
	for _, s := range p.samples[name] {
		pids[s.labels["pid"]] = true
	}
	return len(pids) > 1
}

// values is how many values of a label the series of a metric have; series without the label count as one.
func (p page) values(name, label string) int {
	seen := map[string]bool{}
	for _, s := range p.samples[name] {
		seen[s.labels[label]] = true
	}
	return len(seen)
}

// latest is the largest value of a metric; nil where it is absent, or where a part of it is not known.
func (p page) latest(name string) *float64 {
	if p.broken[name] {
		return nil
	}
	var latest *float64
	for _, s := range p.samples[name] {
		if math.IsNaN(s.value) {
			return nil
		}
		if latest == nil || s.value > *latest {
			latest = &s.value
		}
	}
	return latest
}

// count turns a number of requests into an int; nil where it cannot be one.
func count(v *float64) *int {
	if v == nil || *v > math.MaxInt32 {
		return nil
	}
	n := int(math.Round(*v))
	return &n
}
