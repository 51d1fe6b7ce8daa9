package endtoend_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// prometheus is a Prometheus that runs.
type prometheus struct {
	process
	started time.Time
}

func startPrometheus(t *testing.T, config, dir string) *prometheus {
	t.Helper()
	started := time.Now()
	p := start(t, regexp.MustCompile(`Listening on.*address=(127\.0\.0\.1:\d+)`), tool(t, *prometheusPath),
		"--config.file="+config, "--storage.tsdb.path="+dir, "--web.listen-address=127.0.0.1:0")
	eventually(t, patience, func() error {
		answer, err := http.Get("http://" + p.address + "/-/ready")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("Prometheus is not ready: %s", answer.Status)
		}
		return nil
	})
	return &prometheus{p, started}
}

// get asks the HTTP API.
func get[T any](p *prometheus, path string, parameters url.Values) (T, error) {
	var reply struct {
		Status, Error string
		Data          T
	}
	answer, err := http.Get("http://" + p.address + "/api/v1/" + path + "?" + parameters.Encode())
	if err != nil {
		return reply.Data, err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&reply); err != nil {
		return reply.Data, fmt.Errorf("%s: %s: %w", path, answer.Status, err)
	}
	if reply.Status != "success" {
		return reply.Data, fmt.Errorf("%s: %s", path, reply.Error)
	}
	return reply.Data, nil
}

// result is a series of a query's result with its last value.
type result struct {
	labels map[string]string
	value  float64
}

// matrix is the result of a query: values over time, or one value of each series.
type matrix struct {
	Result []struct {
		Metric map[string]string
		Value  []any
		Values [][]any
	}
}

// query gives the series that an expression has, with their last values: now, or within the last five minutes if there is a step.
func (p *prometheus) query(expr string, step time.Duration) ([]result, error) {
	path, parameters := "query", url.Values{"query": {expr}}
	if step > 0 {
		now := time.Now()
		path = "query_range"
		parameters.Set("start", now.Add(-(5 * time.Minute).Truncate(step)).Format(time.RFC3339Nano)) // so that the last step is now
		parameters.Set("end", now.Format(time.RFC3339Nano))
		parameters.Set("step", fmt.Sprint(step.Seconds()))
	}
	data, err := get[matrix](p, path, parameters)
	if err != nil {
		return nil, fmt.Errorf("%w in %s", err, expr)
	}
	var all []result
	for _, r := range data.Result {
		last := r.Value
		if len(r.Values) > 0 {
			last = r.Values[len(r.Values)-1]
		}
		if len(last) != 2 {
			return nil, fmt.Errorf("%s is no vector of numbers", expr)
		}
		v, err := strconv.ParseFloat(fmt.Sprint(last[1]), 64)
		if err != nil {
			return nil, err
		}
		all = append(all, result{r.Metric, v})
	}
	return all, nil
}

// labelsOf gives the labels that a series has had since the start; none if there was no such series.
func (p *prometheus) labelsOf(name string) ([]string, error) {
	series, err := get[[]map[string]string](p, "series", url.Values{"match[]": {name}, "start": {fmt.Sprint(p.started.Unix())}})
	if err != nil {
		return nil, err
	}
	labels := map[string]bool{}
	for _, s := range series {
		for l := range s {
			labels[l] = true
		}
	}
	return slices.Sorted(maps.Keys(labels)), nil
}

// node is an expression as Prometheus parses it.
type node struct {
	Type, Name string
	Matchers   []struct{ Name string }
	Grouping   []string
	Matching   *struct {
		Labels, Include []string
		On              bool
	}
	Expr, LHS, RHS, Param *node
	Args                  []node
}

func (p *prometheus) parse(expr string) (*node, error) {
	n, err := get[*node](p, "parse_query", url.Values{"query": {expr}})
	if err != nil {
		return nil, fmt.Errorf("%w in %s", err, expr)
	}
	return n, nil
}

func (n *node) children() []*node {
	var all []*node
	for _, c := range []*node{n.Expr, n.LHS, n.RHS, n.Param} {
		if c != nil {
			all = append(all, c)
		}
	}
	for i := range n.Args {
		all = append(all, &n.Args[i])
	}
	return all
}

// use is a label that an expression asks for. One of the metrics must have it; where it is empty, the one metric must exist.
type use struct {
	metrics []string
	label   string
}

// uses are all metrics and labels of an expression, and its metrics again.
func (n *node) uses() (all []use, metrics []string) {
	below := map[*node][]string{}
	for _, c := range n.children() {
		uses, names := c.uses()
		all, metrics = append(all, uses...), append(metrics, names...)
		below[c] = names
	}
	if n.Type == "vectorSelector" || n.Type == "matrixSelector" {
		metrics = []string{n.Name}
		all = append(all, use{metrics, ""})
		for _, m := range n.Matchers {
			if m.Name != "__name__" {
				all = append(all, use{metrics, m.Name})
			}
		}
	}
	for _, l := range n.Grouping {
		all = append(all, use{metrics, l})
	}
	if n.Matching == nil {
		return all, metrics
	}
	for _, l := range n.Matching.Labels {
		if n.Matching.On {
			all = append(all, use{below[n.LHS], l}, use{below[n.RHS], l})
			continue
		}
		all = append(all, use{metrics, l})
	}
	for _, l := range n.Matching.Include {
		all = append(all, use{metrics, l})
	}
	return all, metrics
}
