package endtoend_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"longctx_exporter/collector"
	"longctx_exporter/grafana"
)

// unseen are metrics and labels that are not there while all is well, each with its reason.
func unseen() map[string]string {
	return map[string]string{
		"pod":                                        "only Kubernetes attaches it",
		"longctx_plan_step_ratio":                    "every tenth run of a rung is a cold pair",
		"longctx_plan_accept_length_ratio":           "every tenth run of a rung is a cold pair",
		"longctx_probe_evicted_tokens_total":         "no server here tells what its pool holds beside requests",
		"longctx_step_p99_seconds":                   "no run here has a hundred steps",
		"longctx_contended_ttft_seconds":             "nobody else uses these servers",
		"longctx_contended_step_seconds":             "nobody else uses these servers",
		"longctx_contended_decode_tokens_per_second": "nobody else uses these servers",
		"longctx_contended_running_requests":         "nobody else uses these servers",
	}
}

// empty are queries without data while all is well, each with its reason.
func empty() map[string]string {
	const plan, deploy, alone = "every tenth run of a rung is a cold pair", "nothing was deployed since the start", "nobody else uses these servers"
	return map[string]string{
		"longctx-probes, Slowest single steps of a run, B": "no run here has a hundred steps",
		"longctx-fleet, Time to first token, B":            alone,
		"longctx-fleet, Decode speed, B":                   alone,
		"longctx-context, Time to first token, B":          alone,
		"longctx-context, Decode speed, B":                 alone,
		"longctx-context, Step time by rung, B":            alone,
		"longctx-speculation, Decode speed, B":             alone,
		"longctx-speculation, Step time by rung, B":        alone,
		"longctx-probes, Requests running and waiting, C":  alone,
		"longctx-context, Steps of 256k, A":                "the server refuses this length, so that no step was seen",
		"longctx-context, Step time by context, before":    deploy,
		"longctx-context, By rung, deploy":                 deploy,
		"longctx-probes, Cold pairs against warm ones, A":  plan,
		"longctx-probes, Cold pairs against warm ones, B":  plan,
		"longctx-probes, Cached tokens pushed out, A":      "no server here tells what its pool holds beside requests",
	}
}

func TestEndToEnd(t *testing.T) {
	p := stage(t)
	for _, part := range []struct {
		name  string
		check func(t *testing.T)
	}{
		{"what is asked for exists", func(t *testing.T) { eventually(t, patience, func() error { return p.contract(t) }) }},
		{"what the catalogue has is stored", func(t *testing.T) { eventually(t, patience, p.catalogue) }},
		{"panels have data", p.panels},
		{"native histograms have quantiles", func(t *testing.T) { eventually(t, patience, p.nativeHistograms) }},
		{"a doubled slope fires, and nothing else does", p.alerts},
	} {
		if !t.Run(part.name, part.check) {
			return // the rest would wait for the same
		}
	}
}

// stage starts everything: simulated servers, the exporter, and, when it has measured every rung three times, a Prometheus that
// knows the week before.
func stage(t *testing.T) *prometheus {
	t.Helper()
	dir, rungs := t.TempDir(), 0
	urls, logs := map[string]string{}, map[string]string{}
	for _, g := range targets() {
		logs[g.name] = filepath.Join(dir, g.name+".log")
		sim := start(t, regexp.MustCompile(`http://(127\.0\.0\.1:\d+),`), program, "simulate", "--listen=127.0.0.1:0",
			"--profile="+g.profile, "--shape="+g.shape, fmt.Sprint("--time-scale=", g.scale),
			"--log-file="+logs[g.name], "--log-requests=text")
		urls[g.name] = "http://" + sim.address
		rungs += len(g.ladder)
	}
	config := filepath.Join(dir, "longctx.yml")
	write(t, config, configuration(urls, logs))
	exporter := start(t, regexp.MustCompile(`Listening on.*address=(127\.0\.0\.1:\d+)`), program, "serve", "--config.file="+config, "--web.listen-address=127.0.0.1:0", "--storage.path="+filepath.Join(dir, "state"))
	began := time.Now()
	var families map[string]*dto.MetricFamily
	eventually(t, 3*patience, func() (err error) {
		if families, err = measured(exporter.address); err != nil {
			return err
		}
		if n := measuredThrice(families); n != rungs {
			return fmt.Errorf("%d of %d rungs are measured three times", n, rungs)
		}
		return nil
	})
	t.Logf("every rung is measured three times after %.0f s", time.Since(began).Seconds())
	data := filepath.Join(dir, "data")
	writeHistory(t, data, families)
	t.Logf("a week is written after %.0f s", time.Since(began).Seconds())
	rules := filepath.Join(dir, "rules.yml")
	write(t, rules, lapse(read(t, shippedRules)))
	scrape := filepath.Join(dir, "prometheus.yml")
	write(t, scrape, adapted(t, exporter.address, rules))
	return startPrometheus(t, scrape, data)
}

// measuredThrice counts the rungs with three clean runs or more.
func measuredThrice(families map[string]*dto.MetricFamily) int {
	clean := map[string]float64{}
	for name, sign := range map[string]float64{"longctx_probe_runs_total": 1, "longctx_probe_failures_total": -1, "longctx_probe_rejections_total": -1} {
		for _, m := range families[name].GetMetric() {
			clean[labels(labelsOf(m))] += sign * m.Counter.GetValue()
		}
	}
	n := 0
	for _, runs := range clean {
		if runs >= 3 {
			n++
		}
	}
	return n
}

// contract checks that what panels, variables, annotations and rules ask for is there.
func (p *prometheus) contract(t *testing.T) error {
	asked, err := p.asked(t)
	if err != nil {
		return err
	}
	known := map[string][]string{}
	var faults []error
	for _, q := range asked {
		tree, err := p.parse(q.expr)
		if err != nil {
			return fmt.Errorf("%s: %w", q.where, err)
		}
		uses, metrics := tree.uses()
		for _, l := range q.labels {
			uses = append(uses, use{metrics, l})
		}
		for _, u := range uses {
			fault, err := p.missing(known, u)
			if err != nil {
				return err
			}
			if fault != nil {
				faults = append(faults, fmt.Errorf("%s: %w", q.where, fault))
			}
		}
	}
	return errors.Join(faults...)
}

// missing says what of a use is not there. known holds the labels of the metrics that were already asked for.
func (p *prometheus) missing(known map[string][]string, u use) (fault, err error) {
	exceptions := unseen()
	var all []string
	for _, m := range u.metrics {
		if _, ok := known[m]; !ok {
			if known[m], err = p.labelsOf(m); err != nil {
				return nil, err
			}
		}
		if exceptions[m] != "" {
			return nil, nil
		}
		all = append(all, known[m]...)
	}
	switch {
	case u.label == "" && len(all) == 0:
		return fmt.Errorf("nobody exports or records %s", u.metrics), nil
	case u.label != "" && len(u.metrics) > 0 && !slices.Contains(all, u.label) && exceptions[u.label] == "":
		return fmt.Errorf("%s has no label %s", u.metrics, u.label), nil
	}
	return nil, nil
}

// catalogue checks that everything that the exporter may export is stored, with all its labels.
func (p *prometheus) catalogue() error {
	known := map[string][]string{}
	var faults []error
	for _, m := range collector.Catalogue() {
		names := []string{m.Name}
		if m.Buckets != nil {
			names = append(names, m.Name+"_bucket", m.Name+"_sum", m.Name+"_count")
		}
		for _, name := range names {
			for _, l := range append([]string{""}, m.Labels...) {
				fault, err := p.missing(known, use{[]string{name}, l})
				if err != nil {
					return err
				}
				faults = append(faults, fault)
			}
		}
	}
	return errors.Join(faults...)
}

// panels checks that each query of each dashboard has data, and with it each label that its legend shows.
func (p *prometheus) panels(t *testing.T) {
	var all []query
	eventually(t, patience, func() error {
		all = nil
		for _, d := range grafana.Dashboards() {
			of, err := p.queriesOf(d)
			if err != nil {
				return err
			}
			all = append(all, of...)
		}
		return nil
	})
	none := empty()
	all = slices.DeleteFunc(all, func(q query) bool { return none[q.where] != "" })
	eventually(t, patience, func() error {
		var faults []error
		all = slices.DeleteFunc(all, func(q query) bool {
			err := p.hasData(q)
			faults = append(faults, err)
			return err == nil
		})
		return errors.Join(faults...)
	})
}

func (p *prometheus) hasData(q query) error {
	found, err := p.query(q.expr, q.step)
	if err != nil {
		return fmt.Errorf("%s: %w", q.where, err)
	}
	if len(found) == 0 {
		return fmt.Errorf("%s has no data: %s", q.where, q.expr)
	}
	shown := map[string]bool{}
	for _, r := range found {
		if math.IsNaN(r.value) || math.IsInf(r.value, 0) {
			return fmt.Errorf("%s has the value %v for %v: %s", q.where, r.value, r.labels, q.expr)
		}
		for l := range r.labels {
			shown[l] = true
		}
	}
	for _, l := range q.labels {
		if !shown[l] {
			return fmt.Errorf("%s shows the label %s, which no series of its result has: %s", q.where, l, q.expr)
		}
	}
	return nil
}

// nativeHistograms checks that quantiles can be had of every native histogram, and that those of prefill are what the gauges say.
func (p *prometheus) nativeHistograms() error {
	for _, m := range collector.Catalogue() {
		if !m.Native {
			continue
		}
		q := query{where: "quantile of " + m.Name, expr: "histogram_quantile(0.5, sum by (target, rung) (rate(" + m.Name + "[5m]))) > 0"}
		if err := p.hasData(q); err != nil {
			return err
		}
	}
	const median = "histogram_quantile(0.5, sum by (target, rung) (longctx_prefill_throughput_tokens_per_second))"
	ratios, err := p.query(median+" / on (target, rung) longctx_prefill_tokens_per_second", 0)
	if err != nil {
		return err
	}
	if len(ratios) == 0 {
		return errors.New("no median of prefill stands beside its gauge")
	}
	for _, r := range ratios {
		if r.value < 0.5 || r.value > 2 {
			return fmt.Errorf("the median of prefill at %v is %.2f times its gauge", r.labels, r.value)
		}
	}
	return nil
}

// alerts checks that the doubled slope fires its alerts and that nothing else ever fires. It looks until every alert has had time to
// wait as long as it waits at most.
func (p *prometheus) alerts(t *testing.T) {
	want := slices.Sorted(slices.Values(slopeDoubled()))
	eventually(t, patience, func() error {
		got, err := p.fired()
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("fired: %s\nwant:  %s", strings.Join(got, ", "), strings.Join(want, ", "))
		}
		return err
	})
	const longest = 30 * time.Second // half an hour, lapsed
	time.Sleep(max(0, time.Until(p.started.Add(longest+15*time.Second))))
	got, err := p.fired()
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("fired: %s (%v)\nwant:  %s", strings.Join(got, ", "), err, strings.Join(want, ", "))
	}
}

// fired are the alerts that fired since the start, each as "name target rung" as far as it has them.
func (p *prometheus) fired() ([]string, error) {
	found, err := p.query(`count by (alertname, target, rung) (count_over_time(ALERTS{alertstate="firing"}[1h]))`, 0)
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, r := range found {
		all[strings.TrimSpace(strings.Join([]string{r.labels["alertname"], r.labels["target"], r.labels["rung"]}, " "))] = true
	}
	return slices.Sorted(maps.Keys(all)), nil
}
