package servermetrics

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

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
	odd     string // what is wrong about the page that does not keep it from being read
}

// has says whether a metric stands on the page.
func (p page) has(name string) bool { return len(p.samples[name]) > 0 && !p.broken[name] }

// parsePage reads the wanted metrics of a page in the text format, line by line: a broken line or a repeated header costs
// that line, not the page, and the many lines of no interest cost next to nothing. The prefix is that of the engine,
// written before a colon or, by gateways and recording pipelines, before an underscore; "" reads names that have none.
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
		whole := line[len(line)-1] == '\n'
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
		if !ok || !whole { // the last digits of a line that does not end may be missing
			p.broken[name] = true
			continue
		}
		key := seriesKey(name, s.labels, func(string) bool { return false })
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
	if !ok {
		return "", false
	}
	if prefix != "" {
		if len(rest) < 2 || (rest[0] != ':' && rest[0] != '_') {
			return "", false
		}
		rest = rest[1:]
	}
	if end := bytes.IndexAny(rest, "{ \t"); end >= 0 {
		rest = rest[:end]
	}
	rest = bytes.TrimSuffix(rest, []byte("_total"))
	if !wanted[string(rest)] {
		return "", false
	}
	return string(rest), true
}

// parseLine reads one sample line of the text format or of OpenMetrics.
func parseLine(parser *expfmt.TextParser, line []byte) (series, bool) {
	line, ok := bare(line)
	if !ok {
		return series{}, false
	}
	families, err := parser.TextToMetricFamilies(bytes.NewReader(append(line, '\n')))
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

// bare leaves a sample line its name, labels and value: time stamps are milliseconds in one format and seconds in the other,
// and only one has exemplars. None of them is of interest.
func bare(line []byte) ([]byte, bool) {
	end := labelsEnd(line)
	if end < 0 {
		return nil, false
	}
	rest, _, _ := bytes.Cut(line[end:], []byte(" # "))
	fields := bytes.Fields(rest)
	if len(fields) == 0 || len(fields) > 2 {
		return nil, false
	}
	if len(fields) == 2 {
		if _, err := strconv.ParseFloat(string(fields[1]), 64); err != nil {
			return nil, false
		}
	}
	short := append(bytes.Clone(line[:end]), ' ')
	return append(short, fields[0]...), true
}

// labelsEnd is where the value begins: after the closing brace, or after the name where there are no labels; -1 where the
// labels do not end.
func labelsEnd(line []byte) int {
	open := bytes.IndexAny(line, "{ \t")
	if open < 0 || line[open] != '{' {
		return open
	}
	quoted := false
	for i := open; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return i + 1
		}
	}
	return -1
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
