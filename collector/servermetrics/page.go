package servermetrics

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"sort"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

var errNotPrometheus = errors.New("the answer is not a page of Prometheus metrics")

// series is one sample line. A value that is not a finite number from 0 up is kept as NaN: it is there, but not known.
type series struct {
	labels map[string]string
	value  float64
}

// page holds the samples of interest by their name without prefix and without `_total`. A name with a line that could not
// be read is in broken: a sum that misses a part is no sum.
type page struct {
	samples map[string][]series
	broken  map[string]bool
}

// parsePage reads the wanted metrics of a page in the text format, line by line: a broken line or a repeated header costs
// that line, not the page, and the many lines of no interest cost next to nothing. The prefix is that of the engine,
// written before a colon or, by gateways and recording pipelines, before an underscore.
func parsePage(body []byte, prefix string, wanted map[string]bool) (page, error) {
	body = unwrap(body)
	p := page{samples: map[string][]series{}, broken: map[string]bool{}}
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '<' {
		return p, errNotPrometheus
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	seen := map[string]int{} // series key -> index in its slice
	looksRight := false
	for line := range bytes.Lines(body) {
		line = bytes.TrimSpace(line)
		if bytes.HasPrefix(line, []byte("# TYPE ")) || bytes.HasPrefix(line, []byte("# HELP ")) {
			looksRight = true
		}
		name, ok := wantedName(line, prefix, wanted)
		if !ok {
			continue
		}
		looksRight = true
		s, ok := parseLine(&parser, line)
		if !ok {
			p.broken[name] = true
			continue
		}
		key := seriesKey(name, s.labels)
		if i, again := seen[key]; again {
			p.samples[name][i] = s
			continue
		}
		seen[key] = len(p.samples[name])
		p.samples[name] = append(p.samples[name], s)
	}
	if !looksRight {
		return p, errNotPrometheus
	}
	return p, nil
}

// unwrap takes a page out of the JSON string that some server releases wrap it in.
func unwrap(body []byte) []byte {
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '"' {
		var text string
		if json.Unmarshal(trimmed, &text) == nil {
			return []byte(text)
		}
	}
	return body
}

// wantedName gives the short name of the metric on a line, where it is of interest.
func wantedName(line []byte, prefix string, wanted map[string]bool) (string, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(prefix))
	if !ok || len(rest) < 2 || (rest[0] != ':' && rest[0] != '_') {
		return "", false
	}
	rest = rest[1:]
	if end := bytes.IndexAny(rest, "{ \t"); end >= 0 {
		rest = rest[:end]
	}
	rest = bytes.TrimSuffix(rest, []byte("_total"))
	if !wanted[string(rest)] {
		return "", false
	}
	return string(rest), true
}

// parseLine reads one sample line.
func parseLine(parser *expfmt.TextParser, line []byte) (series, bool) {
	families, err := parser.TextToMetricFamilies(bytes.NewReader(append(bytes.Clone(line), '\n')))
	if err != nil || len(families) != 1 {
		return series{}, false
	}
	for _, family := range families {
		if len(family.GetMetric()) != 1 {
			return series{}, false
		}
		return toSeries(family.GetMetric()[0]), true
	}
	return series{}, false
}

func toSeries(m *dto.Metric) series {
	s := series{labels: make(map[string]string, len(m.GetLabel())), value: m.GetUntyped().GetValue()}
	for _, l := range m.GetLabel() {
		s.labels[l.GetName()] = l.GetValue()
	}
	if math.IsInf(s.value, 0) || s.value < 0 {
		s.value = math.NaN()
	}
	return s
}

// seriesKey names a series by its name and its labels but those left out.
func seriesKey(name string, labels map[string]string, leftOut ...string) string {
	keys := make([]string, 0, len(labels))
next:
	for k := range labels {
		for _, l := range leftOut {
			if k == l {
				continue next
			}
		}
		keys = append(keys, k)
	}
	sort.Strings(keys)
	var b strings.Builder
	b.WriteString(name)
	for _, k := range keys {
		b.WriteByte(0xff)
		b.WriteString(k)
		b.WriteByte(0xff)
		b.WriteString(labels[k])
	}
	return b.String()
}

// sum adds a metric up over the server's ranks, over the series that have all the given label values. Ranks of tensor,
// pipeline and expert parallelism repeat the same fact, so that of them the largest counts; data-parallel ranks, engines
// and workers add up. It is nil where the metric is absent, or where a part of it is not known.
func (p page) sum(name string, match ...string) *float64 {
	if p.broken[name] {
		return nil
	}
	groups := map[string]float64{}
	for _, s := range p.samples[name] {
		// With priority scheduling the empty priority is the total and the others are its parts.
		if s.labels["priority"] != "" || !matches(s.labels, match) {
			continue
		}
		key := seriesKey("", s.labels, "tp_rank", "pp_rank", "moe_ep_rank")
		best, ok := groups[key]
		if !ok || math.IsNaN(best) || s.value > best {
			groups[key] = s.value
		}
	}
	if len(groups) == 0 {
		return nil
	}
	total := 0.0
	for _, v := range groups {
		total += v
	}
	if math.IsNaN(total) || math.IsInf(total, 0) {
		return nil
	}
	return &total
}

// gauge is sum for a number of requests. Gauges of several processes, of which some may be dead, are ambiguous.
func (p page) gauge(name string) *int {
	pids := map[string]bool{}
	for _, s := range p.samples[name] {
		pids[s.labels["pid"]] = true
	}
	if len(pids) > 1 {
		return nil
	}
	return count(p.sum(name))
}

// count turns a number of requests into an int; nil where it cannot be one.
func count(v *float64) *int {
	if v == nil || *v > math.MaxInt32 {
		return nil
	}
	n := int(math.Round(*v))
	return &n
}

func matches(labels map[string]string, match []string) bool {
	for i := 0; i+1 < len(match); i += 2 {
		if labels[match[i]] != match[i+1] {
			return false
		}
	}
	return true
}
