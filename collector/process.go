package collector

import (
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
