package simserver

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// page writes the text exposition format, or OpenMetrics.
type page struct {
	w     io.Writer
	open  bool // OpenMetrics
	plain bool // whole numbers without ".0", as servers that are not written in Python do
	flat  bool // names with an underscore for their colon
}

func (p page) head(name, kind, help string) {
	if p.flat {
		name = strings.Replace(name, ":", "_", 1)
	}
	if p.open && kind == "counter" {
		name = strings.TrimSuffix(name, "_total")
	}
	fmt.Fprintf(p.w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p page) sample(name, labels string, value float64) {
	if p.flat {
		name = strings.Replace(name, ":", "_", 1)
	}
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(p.w, "%s%s %s\n", name, labels, p.number(value))
}

// number writes what prometheus_client writes: 3.0, and from a million up 1.638e+06.
func (p page) number(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	switch {
	case p.plain:
		return fmt.Sprint(v)
	case v < 1e6 && v > -1e6 && strings.Contains(s, "e+"):
		return strconv.FormatFloat(v, 'f', 1, 64)
	case !strings.ContainsAny(s, ".eIN"):
		if v >= 1e6 {
			return strconv.FormatFloat(v, 'e', -1, 64)
		}
		return s + ".0"
	}
	return s
}

func (p page) one(kind, name, labels, help string, value float64) {
	p.head(name, kind, help)
	p.sample(name, labels, value)
}

func (p page) histogram(name, labels, help string, h histogram) {
	p.head(name, "histogram", help)
	p.buckets(name, labels, h)
}

func (p page) buckets(name, labels string, h histogram) {
	sep := ""
	if labels != "" {
		sep = ","
	}
	total := 0
	for i, n := range h.counts {
		total += n
		le := "+Inf"
		if i < len(h.bounds) {
			le = p.number(h.bounds[i])
		}
		p.sample(name+"_bucket", labels+sep+`le="`+le+`"`, float64(total))
	}
	p.sample(name+"_sum", labels, h.sum)
	p.sample(name+"_count", labels, float64(h.n))
}

// servePage answers as prometheus_client's application does: OpenMetrics for those who ask for it, and compressed for those
// who can read that.
func (s *instance) servePage(w http.ResponseWriter, r *http.Request, write func(p page)) {
	var body bytes.Buffer
	p := page{w: &body, open: strings.Contains(r.Header.Get("Accept"), "application/openmetrics-text"), flat: s.config.Options.FlatNames}
	write(p)
	kind := "text/plain; version=0.0.4; charset=utf-8"
	if p.open {
		kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
		body.WriteString("# EOF\n")
	}
	w.Header().Set("Content-Type", kind)
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		_, _ = w.Write(body.Bytes()) // the client's going away is no concern of ours
		return
	}
	w.Header().Set("Content-Encoding", "gzip")
	zip := gzip.NewWriter(w)
	_, _ = zip.Write(body.Bytes()) // as above
	_ = zip.Close()
}
