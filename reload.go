package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/client_golang/prometheus"

	"longctx_exporter/collector"
	"longctx_exporter/collector/statuspage"
	"longctx_exporter/prober"
	"longctx_exporter/prober/state"
)

// loadFunc reads and checks the configuration.
type loadFunc func() (prober.ValidatedConfig, error)

// service is what serves and probes, on a configuration that can be loaded anew.
type service struct {
	ctx     context.Context // of the whole life: a reload is not left halfway when whoever asked for it goes
	load    loadFunc
	config  atomic.Pointer[prober.ValidatedConfig] // in use
	fleet   *fleet
	series  *collector.Collector
	process *prometheus.Registry
	reloads *collector.Reloads
	pages   *statuspage.Pages
	hangups chan os.Signal
	logger  log.Logger

	mu sync.Mutex // held by the reload that is going on
}

// newService makes a service whose first configuration is in use. end must be called at its end.
func (c *serveCommand) newService(ctx context.Context, load loadFunc, second prober.RunObserver, logger log.Logger) (*service, error) {
	series, err := collector.New(nil)
	if err != nil {
		return nil, err
	}
	pages, err := statuspage.New(statuspage.Options{
		Version: programVersion(), Metrics: c.metrics, History: c.history, Values: series, Logs: series,
	})
	if err != nil {
		return nil, err
	}
	store, err := state.Open(state.Options{Dir: c.storage, Logger: logger})
	if err != nil {
		return nil, err
	}
	s := &service{
		ctx: ctx, load: load, fleet: newFleet(series, pages, second, logger), series: series,
		process: collector.NewProcessRegistry(), pages: pages, hangups: make(chan os.Signal, 1), logger: logger,
	}
	s.fleet.keepWith(store)
	store.Repinned = s.fleet.repin
	signal.Notify(s.hangups, syscall.SIGHUP)
	if _, err := s.use(); err != nil {
		s.end()
		return nil, err
	}
	s.watchSaves()
	s.reloads = collector.NewReloads(s.process)
	return s, nil
}

// end lets SIGHUP end the program again, as it did before, and gives the directory of the state free.
func (s *service) end() {
	signal.Stop(s.hangups)
	s.fleet.store.Close()
}

// use loads the configuration and puts it in use. An error changes nothing.
func (s *service) use() (change, error) {
	config, err := s.load()
	if err != nil {
		return change{}, err
	}
	for _, warning := range config.Warnings() {
		level.Warn(s.logger).Log("msg", "the configuration is unwise", "warning", warning)
	}
	touched, err := s.fleet.replace(s.ctx, config.Targets())
	if err != nil {
		return change{}, err
	}
	s.config.Store(&config)
	return touched, nil
}

// reload puts the configuration in use as it is now, and tells of it.
func (s *service) reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	touched, err := s.use()
	if err != nil {
		s.reloads.Failure()
		level.Error(s.logger).Log("msg", "the configuration was not reloaded; the one before stays in use", "err", err)
		return err
	}
	s.reloads.Success()
	level.Info(s.logger).Log("msg", "configuration reloaded",
		"targets_begun", touched.begun, "targets_ended", touched.ended, "targets_kept", touched.kept)
	return nil
}

// reloadOnSignals reloads at each SIGHUP until ctx ends.
func (s *service) reloadOnSignals(ctx context.Context) {
	for {
		select {
		case <-s.hangups:
			_ = s.reload() // it has told of the error
		case <-ctx.Done():
			return
		}
	}
}

func (s *service) serveReload(w http.ResponseWriter, _ *http.Request) {
	if err := s.reload(); err != nil {
		http.Error(w, fmt.Sprintf("The configuration was not reloaded; the one before stays in use: %v", err), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, "The configuration was reloaded.")
}

// serveReady answers whether the exporter probes: from the first configuration on, which was in use before it listened, until
// it is told to stop.
func (s *service) serveReady(w http.ResponseWriter, _ *http.Request) {
	if s.ctx.Err() != nil {
		http.Error(w, program+" is stopping.", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, program+" is ready.")
}

func (s *service) serveConfig(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(s.config.Load().YAML()) // whoever asked has gone
}
