package collector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/collectors/version"
)

// NewProcessRegistry makes the registry of the process: Go runtime, process and longctx_exporter_build_info.
func NewProcessRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		version.NewCollector("longctx_exporter"),
	)
	return r
}

const (
	stateSaveTime     = "longctx_state_last_save_timestamp_seconds"
	stateSaveFailures = "longctx_state_save_failures_total"
	reloadSuccessful  = "longctx_config_last_reload_successful"
	reloadSuccessTime = "longctx_config_last_reload_success_timestamp_seconds"
)

// processMetrics are the metrics of the exporter itself, those of the libraries left out.
func processMetrics() []Metric {
	const group = "Exporter"
	return []Metric{
		{
			Name: "longctx_exporter_build_info", Group: group, Type: Gauge, Labels: []string{"branch", "goarch", "goos", "goversion", "revision", "tags", "version"},
			Help: "A metric with a constant '1' value labeled by version, revision, branch, goversion from which longctx_exporter was built, and the goos and goarch for the build.",
		},
		{
			Name: reloadSuccessful, Group: group, Type: Gauge,
			Help: "Whether the latest attempt to load the configuration succeeded: 1 if so, 0 if the exporter runs on the one before.",
		},
		{Name: reloadSuccessTime, Group: group, Type: Gauge, Help: "Unix time at which the configuration in use was loaded."},
		{
			Name: stateSaveTime, Group: group, Type: Gauge,
			Help: "Unix time at which all that a restart should find again was last on disk, perhaps saved by an earlier process; absent without --storage.path, and before the first success.",
		},
		{
			Name: stateSaveFailures, Group: group, Type: Counter,
			Help: "Number of attempts to save the state that failed; absent without --storage.path.",
		},
	}
}

// Reloads tells how the loading of the configuration went. It is safe for concurrent use.
type Reloads struct {
	successful, succeeded prometheus.Gauge
}

// NewReloads adds the series to a registry. The configuration that the process started with counts as loaded now.
func NewReloads(registry prometheus.Registerer) *Reloads {
	gauges := map[string]prometheus.Gauge{}
	for _, m := range processMetrics() {
		gauges[m.Name] = prometheus.NewGauge(prometheus.GaugeOpts{Name: m.Name, Help: m.Help})
	}
	r := &Reloads{successful: gauges[reloadSuccessful], succeeded: gauges[reloadSuccessTime]}
	registry.MustRegister(r.successful, r.succeeded)
	r.Success()
	return r
}

// Success tells that a configuration was loaded and is in use.
func (r *Reloads) Success() {
	r.successful.Set(1)
	r.succeeded.SetToCurrentTime()
}

// Failure tells that a configuration could not be loaded.
func (r *Reloads) Failure() { r.successful.Set(0) }

// saves exports how the saving of the state goes.
type saves struct {
	at, failures *prometheus.Desc
	last         func() (time.Time, int)
}

// NewSaves adds the series of a stored state to a registry. last tells when it was last saved, zero if never, and how many
// attempts failed.
func NewSaves(registry prometheus.Registerer, last func() (at time.Time, failures int)) {
	help := map[string]string{}
	for _, m := range processMetrics() {
		help[m.Name] = m.Help
	}
	registry.MustRegister(saves{
		at:       prometheus.NewDesc(stateSaveTime, help[stateSaveTime], nil, nil),
		failures: prometheus.NewDesc(stateSaveFailures, help[stateSaveFailures], nil, nil),
		last:     last,
	})
}

// Describe sends what Collect may send.
func (s saves) Describe(ch chan<- *prometheus.Desc) { ch <- s.at; ch <- s.failures }

// Collect asks anew.
func (s saves) Collect(ch chan<- prometheus.Metric) {
	at, failures := s.last()
	ch <- prometheus.MustNewConstMetric(s.failures, prometheus.CounterValue, float64(failures))
	if !at.IsZero() {
		ch <- prometheus.MustNewConstMetric(s.at, prometheus.GaugeValue, float64(at.UnixMilli())/1000)
	}
}
