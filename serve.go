package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"regexp"
	"slices"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"
	"golang.org/x/sync/errgroup"

	"longctx_exporter/collector"
	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/prober"
)

// The end is bounded: a supervisor kills what does not end in time.
const (
	endOfRuns     = 4 * time.Second        // from the signal until runs that do not end are left behind
	endOfRequests = 500 * time.Millisecond // for scrapes that are being answered
)

// healthPath answers whether the daemon lives.
const healthPath = "/-/healthy"

// telemetryPath keeps out what the multiplexer would take for a pattern.
var telemetryPath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)

// serveCommand is the daemon.
type serveCommand struct {
	file      *configFile
	checkOnly bool
	demo      bool
	metrics   string // path of the exporter's own metrics
	web       *web.FlagConfig
}

func newServeCommand(app *kingpin.Application, file *configFile) *serveCommand {
	c := &serveCommand{file: file}
	clause := app.Command("serve", "Probe the configured servers and serve metrics.").Default()
	clause.Flag("config.check", "Check the configuration and exit.").BoolVar(&c.checkOnly)
	clause.Flag("demo", "Probe a built-in simulated server; needs no configuration.").BoolVar(&c.demo)
	clause.Flag("web.telemetry-path", "Path of the metrics.").Default("/metrics").StringVar(&c.metrics)
	c.web = kingpinflag.AddFlags(clause, ":10430")
	return c
}

func (c *serveCommand) run(ctx context.Context, stdout, stderr io.Writer, logger log.Logger, lib *slog.Logger) error {
	if c.checkOnly {
		return c.file.check(stdout, stderr, *c.web.WebConfigFile)
	}
	if !telemetryPath.MatchString(c.metrics) || path.Clean(c.metrics) != c.metrics {
		return fmt.Errorf("--web.telemetry-path=%q is not a path like /metrics", c.metrics)
	}
	if c.metrics == healthPath {
		return fmt.Errorf("--web.telemetry-path=%s is the path of the health check; choose another", c.metrics)
	}
	if err := web.Validate(*c.web.WebConfigFile); err != nil {
		return fmt.Errorf("%s: %w", *c.web.WebConfigFile, err)
	}
	if c.demo {
		return c.runDemo(ctx, stdout, logger, lib)
	}
	config, err := c.file.load()
	if err != nil {
		return err
	}
	for _, warning := range config.Warnings() {
		level.Warn(logger).Log("msg", "the configuration is unwise", "file", c.file.path, "warning", warning)
	}
	return c.probe(ctx, config.Targets(), nil, logger, lib)
}

// probe runs the daemon until ctx ends. A second observer may be told of the runs too.
func (c *serveCommand) probe(ctx context.Context, targets []prober.Target, second prober.RunObserver, logger log.Logger, lib *slog.Logger) error {
	series, err := collector.New(targets)
	if err != nil {
		return err
	}
	fleet, err := newFleet(targets, series, second, logger)
	if err != nil {
		return err
	}
	page, err := c.landingPage()
	if err != nil {
		return err
	}
	// Whoever reads slowly or not at all must not hold the places of those who scrape.
	server := &http.Server{
		Handler: c.mux(series, page, lib), ReadHeaderTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: 5 * time.Minute,
	}
	level.Info(logger).Log("msg", "starting", "version", programVersion(), "targets", len(targets))

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := web.ListenAndServe(server, c.web, lib); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving metrics: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		fleet.run(ctx)
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), endOfRequests)
		defer cancel()
		if server.Shutdown(bounded) != nil {
			_ = server.Close() // scrapes that are still open are cut
		}
		return nil
	})
	err = group.Wait()
	level.Info(logger).Log("msg", "stopped")
	return err
}

// mux is every page of the daemon.
func (c *serveCommand) mux(series *collector.Collector, page http.Handler, lib *slog.Logger) *http.ServeMux {
	process := collector.NewProcessRegistry()
	collector.NewReloads(process)
	metrics := promhttp.InstrumentMetricHandler(process, promhttp.HandlerFor(series.Gatherer(process), promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(lib.Handler(), slog.LevelError),
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: 40,
	}))
	mux := http.NewServeMux()
	mux.Handle(c.metrics, metrics)
	mux.HandleFunc(healthPath, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, program+" is healthy.") })
	mux.Handle("/{$}", page)
	return mux
}

func (c *serveCommand) landingPage() (http.Handler, error) {
	return web.NewLandingPage(web.LandingConfig{
		Name:        program,
		Description: "Measures prefill and decode of long-context inference servers.",
		Version:     programVersion(),
		Links: []web.LandingLinks{
			{Address: c.metrics, Text: "Metrics"},
			{Address: healthPath, Text: "Health"},
		},
		Profiling: "false",
	})
}

// fleet is the runners of all targets, the scheduler that calls them and the series that they feed.
type fleet struct {
	targets   []prober.Target
	runners   map[string]*prober.Runner
	scheduler *prober.Scheduler
	series    *collector.Collector
	second    prober.RunObserver // may be nil
	logger    log.Logger
}

func newFleet(targets []prober.Target, series *collector.Collector, second prober.RunObserver, logger log.Logger) (*fleet, error) {
	f := &fleet{targets: targets, runners: map[string]*prober.Runner{}, series: series, second: second, logger: logger}
	for _, t := range targets {
		runner, err := prober.NewRunner(t, servermetrics.New, logger)
		if err != nil {
			f.close()
			return nil, err
		}
		f.runners[t.Name] = runner
	}
	f.scheduler = prober.NewScheduler(targets, f.measure, f, logger)
	for _, t := range targets {
		f.plan(t)
	}
	return f, nil
}

// run probes until ctx ends, and a little longer at most.
func (f *fleet) run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.scheduler.Run(ctx)
	}()
	<-ctx.Done()
	select {
	case <-done:
		f.close()
	case <-time.After(endOfRuns):
		level.Warn(f.logger).Log("msg", "a run did not end in time; leaving it")
	}
}

func (f *fleet) measure(ctx context.Context, t prober.Target, r prober.Rung) prober.Run {
	defer f.series.BeginRun(t.Name)()
	f.plan(t)
	runner := f.runners[t.Name]
	run := runner.Run(ctx, r, nil)
	f.series.SetFacts(t.Name, runner.Facts())
	return run
}

// ObserveRun passes a run on to everybody who wants to know.
func (f *fleet) ObserveRun(run prober.Run) {
	f.series.ObserveRun(run)
	if run.Status != prober.Skipped {
		f.stretch(run.Target)
	}
	if f.second != nil {
		f.second.ObserveRun(run)
	}
}

// stretch plans every target of a server anew now that a run has ended: the rest after a long one keeps the short ones
// waiting too.
func (f *fleet) stretch(target string) {
	i := slices.IndexFunc(f.targets, func(t prober.Target) bool { return t.Name == target })
	for _, t := range f.targets {
		if i >= 0 && t.Server == f.targets[i].Server {
			f.plan(t)
		}
	}
}

// plan tells the series when and how often each rung of a target comes.
func (f *fleet) plan(t prober.Target) {
	for _, r := range t.Ladder {
		f.series.SetInterval(t.Name, r, f.scheduler.EffectiveInterval(t.Name, r))
		f.series.SetNextDue(t.Name, r, f.scheduler.NextDue(t.Name, r))
	}
}

func (f *fleet) close() {
	for _, r := range f.runners {
		r.Close()
	}
}
