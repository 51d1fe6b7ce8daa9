package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/prometheus/exporter-toolkit/web/kingpinflag"
	"golang.org/x/sync/errgroup"

	"longctx_exporter/collector"
	"longctx_exporter/collector/serverlog"
	"longctx_exporter/collector/servermetrics"
	"longctx_exporter/collector/statuspage"
	"longctx_exporter/prober"
	"longctx_exporter/prober/prompt"
	"longctx_exporter/prober/state"
)

// The end is bounded: a supervisor kills what does not end in time.
const (
	endOfRuns     = 4 * time.Second        // from the signal until runs that do not end are left behind
	endOfRequests = 500 * time.Millisecond // for scrapes that are being answered
)

// serveCommand is the daemon.
type serveCommand struct {
	file      *configFile
	checkOnly bool
	demo      bool
	metrics   string // path of the exporter's own metrics, under the prefix
	routes    routes
	history   int  // number of runs that are kept
	lifecycle bool // reloading over HTTP
	pprof     bool
	storage   string // directory of the state; "" for none
	web       *web.FlagConfig

	externalURL, routePrefix string // flags that routes are made from
}

func newServeCommand(app *kingpin.Application, file *configFile) *serveCommand {
	c := &serveCommand{file: file}
	clause := app.Command("serve", "Probe the configured servers and serve metrics.").Default()
	clause.Flag("config.check", "Check the configuration and exit.").BoolVar(&c.checkOnly)
	clause.Flag("demo", "Probe a built-in simulated server; needs no configuration.").BoolVar(&c.demo)
	clause.Flag("web.telemetry-path", "Path of the metrics.").Default("/metrics").StringVar(&c.metrics)
	clause.Flag("web.external-url", "URL under which people reach the exporter, such as https://host/longctx behind a reverse proxy.").
		PlaceHolder("URL").StringVar(&c.externalURL)
	clause.Flag("web.route-prefix", "Path that requests arrive under; by default that of --web.external-url. Give / where the proxy strips it.").
		PlaceHolder("PATH").StringVar(&c.routePrefix)
	clause.Flag("web.enable-lifecycle", "Reload the configuration on POST /-/reload, too.").BoolVar(&c.lifecycle)
	clause.Flag("web.enable-pprof", "Serve profiles of the exporter itself under /debug/pprof/.").BoolVar(&c.pprof)
	clause.Flag("storage.path", "Directory in which what was measured and learnt outlives restarts; by default it is kept in memory only.").StringVar(&c.storage)
	clause.Flag("history.limit", "How many of the latest runs /runs shows, in 16 MiB at most; 0 keeps none.").Default("1000").IntVar(&c.history)
	c.web = kingpinflag.AddFlags(clause, ":10430")
	return c
}

func (c *serveCommand) run(ctx context.Context, stdout, stderr io.Writer, logger log.Logger, lib *slog.Logger) error {
	if c.checkOnly {
		return c.file.check(stdout, stderr, *c.web.WebConfigFile)
	}
	if err := checkMetricsPath(c.metrics); err != nil {
		return err
	}
	var err error
	if c.routes, err = newRoutes(c.externalURL, c.routePrefix); err != nil {
		return err
	}
	if c.history < 0 {
		return fmt.Errorf("--history.limit=%d is below 0; 0 keeps no runs", c.history)
	}
	if err := web.Validate(*c.web.WebConfigFile); err != nil {
		return fmt.Errorf("%s: %w", *c.web.WebConfigFile, err)
	}
	if c.demo {
		return c.runDemo(ctx, stdout, logger, lib)
	}
	return c.probe(ctx, c.file.load, nil, logger, lib)
}

// probe runs the daemon until ctx ends. load gives the configuration, now and at each reload. A second observer may be told
// of the runs too.
func (c *serveCommand) probe(ctx context.Context, load loadFunc, second prober.RunObserver, logger log.Logger, lib *slog.Logger) error {
	s, err := c.newService(ctx, load, second, logger)
	if err != nil {
		return err
	}
	defer s.end()
	server := newServer(c.routes.handler(c.pages(s, lib)), lib)
	level.Info(logger).Log("msg", "starting", "version", programVersion(), "targets", len(s.config.Load().Targets()))

	if c.storage == "" {
		level.Info(logger).Log("msg", "state is kept in memory only: a restart begins anew; --storage.path keeps it")
	}

	group, ctx := errgroup.WithContext(ctx)
	probed := make(chan struct{})
	group.Go(func() error {
		if err := web.ListenAndServe(server, c.web, lib); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving metrics: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		defer close(probed)
		s.fleet.run(ctx)
		return nil
	})
	group.Go(func() error {
		saving, stop := context.WithCancel(context.WithoutCancel(ctx))
		go func() { <-probed; stop() }() // the last runs are to be saved too
		s.fleet.store.Run(saving)
		return nil
	})
	group.Go(func() error {
		s.reloadOnSignals(ctx)
		return nil
	})
	group.Go(func() error {
		<-probed // until then whoever asks learns that the daemon is stopping
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

// newServer bounds what a visitor may send and how long that may take: whoever is slow or idle must not hold the places of
// those who scrape.
func newServer(handler http.Handler, lib *slog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(lib.Handler(), slog.LevelDebug), // of visitors: anybody could fill the log
	}
}

// fleet is the runners of all targets, the scheduler that calls them and the series that they feed.
type fleet struct {
	scheduler *prober.Scheduler
	series    *collector.Collector
	pages     *statuspage.Pages
	second    prober.RunObserver // may be nil
	store     *state.Store
	prose     *prompt.Prose // of the prompts of all targets
	logger    log.Logger

	mu      sync.RWMutex
	members map[string]member // by name of the target
}

// member is a target, its runner, the poller of its server's own metrics and the followers of its logs.
type member struct {
	target prober.Target
	runner *prober.Runner
	poller *servermetrics.Poller
	logs   []*serverlog.Follower
}

// closeLogs ends the followers.
func (m member) closeLogs() {
	for _, l := range m.logs {
		l.Close()
	}
}

func (f *fleet) newMember(t prober.Target) (member, error) {
	poller, err := servermetrics.NewPoller(t, func(s servermetrics.Snapshot) { f.series.SetEngine(t.Name, s) }, f.logger)
	if err != nil {
		return member{}, err
	}
	runner, err := prober.NewRunner(t, poller.NewReader, f.logger)
	if err != nil {
		return member{}, err
	}
	runner.ShareProse(f.prose)
	return member{target: t, runner: runner, poller: poller}, nil
}

func newFleet(series *collector.Collector, pages *statuspage.Pages, second prober.RunObserver, logger log.Logger) *fleet {
	f := &fleet{series: series, pages: pages, second: second, prose: prober.NewProse(), logger: logger, members: map[string]member{}}
	f.scheduler = prober.NewScheduler(nil, f.measure, f, logger)
	return f
}

// change counts the targets that a new configuration touches.
type change struct{ begun, ended, kept int }

// replace makes the fleet probe these targets. Those that stay as they are go on undisturbed: runs, memory, counters and due
// times. Runs of the others are cancelled. An error changes nothing. It must not be called twice at once.
func (f *fleet) replace(ctx context.Context, targets []prober.Target) (change, error) {
	next := map[string]member{}
	var fresh []prober.Target
	for _, t := range targets {
		if m, there := f.members[t.Name]; there && m.target.Same(t) {
			next[t.Name] = m
			continue
		}
		fresh = append(fresh, t)
	}
	kept := len(next)
	_, err := collector.New(fresh) // whether it takes them
	for _, t := range fresh {
		if err != nil {
			break
		}
		var m member
		if m, err = f.newMember(t); err == nil {
			next[t.Name] = m
		}
	}
	var gone []string
	for name, m := range f.members {
		if next[name].runner != m.runner {
			gone = append(gone, name)
		}
	}
	if err != nil {
		f.closeUnless(next, f.members)
		return change{}, err
	}
	f.scheduler.Remove(ctx, gone)
	if ctx.Err() != nil {
		f.closeUnless(next, f.members)
		return change{}, fmt.Errorf("the exporter is stopping: %w", ctx.Err())
	}
	if err := f.swap(next, fresh, gone); err != nil {
		return change{}, err
	}
	f.pages.SetTargets(targets)
	f.setActive()
	f.scheduler.Add(fresh, f.past(fresh))
	f.planAll(func(prober.Target) bool { return true })
	return change{begun: len(fresh), ended: len(gone), kept: kept}, nil
}

// swap exchanges the series, runners and followers of targets that are not scheduled.
func (f *fleet) swap(next map[string]member, fresh []prober.Target, gone []string) error {
	for _, name := range gone {
		f.members[name].poller.Close() // or it would tell of the one before as of the one after
		f.series.Remove(name)
	}
	for _, t := range fresh {
		if err := f.series.Add(t); err != nil {
			return err
		}
		f.restore(next[t.Name])
	}
	for _, t := range fresh {
		m := next[t.Name]
		m.logs = f.followLogs(t)
		next[t.Name] = m
	}
	f.mu.Lock()
	last := f.members
	f.members = next
	f.mu.Unlock()
	f.closeUnless(last, next)
	for _, t := range fresh {
		next[t.Name].poller.Start()
	}
	return nil
}

// followLogs begins to read the logs of a target that has its series. closeLogs ends it.
func (f *fleet) followLogs(t prober.Target) []*serverlog.Follower {
	var logs []*serverlog.Follower
	for i, source := range t.Logs {
		sink := f.series.LogSink(t.Name, i)
		logs = append(logs, serverlog.Follow(source, sink, log.With(f.logger, "target", t.Name), serverlog.Options{}))
	}
	return logs
}

// closeUnless closes the runners, pollers and followers of members that are not among others.
func (f *fleet) closeUnless(members, others map[string]member) {
	for name, m := range members {
		if others[name].runner != m.runner {
			m.closeLogs()
			m.poller.Close()
			m.runner.Close()
		}
	}
}

// run probes until ctx ends, and a little longer at most.
func (f *fleet) run(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.scheduler.Run(ctx)
	}()
	f.planEvery(ctx, planAgain)
	for _, m := range f.current() {
		m.closeLogs()
		m.poller.Close()
	}
	select {
	case <-done:
		f.closeUnless(f.current(), nil)
	case <-time.After(endOfRuns):
		level.Warn(f.logger).Log("msg", "a run did not end in time; leaving it")
	}
}

func (f *fleet) current() map[string]member {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.members // replaced, never changed
}

func (f *fleet) measure(ctx context.Context, t prober.Target, r prober.Rung, earlier string) prober.Run {
	defer f.series.BeginRun(t.Name)()
	f.plan(t)
	m := f.current()[t.Name]
	m.poller.Nudge()
	defer m.poller.Nudge()
	run := m.runner.Confirm(ctx, r, earlier, nil)
	f.store.SetServer(t.StateKey(), m.runner.State())
	f.series.SetFacts(t.Name, m.runner.Facts(), m.runner.Deploy())
	return run
}

// ObserveRun passes a run on to everybody who wants to know.
func (f *fleet) ObserveRun(run prober.Run) {
	f.series.ObserveRun(run)
	if run.Status != prober.Skipped {
		// The rest after a long run keeps all targets of the server waiting.
		server := f.current()[run.Target].target.Server
		f.planAll(func(t prober.Target) bool { return t.Server == server })
	}
	f.pages.ObserveRun(run)
	if f.second != nil {
		f.second.ObserveRun(run)
	}
}

// planAgain is how often plans are made anew though nothing ran: budgets are paid off, quiet hours begin and end.
const planAgain = 30 * time.Second

func (f *fleet) planEvery(ctx context.Context, pause time.Duration) {
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			f.planAll(func(prober.Target) bool { return true })
		case <-ctx.Done():
			return
		}
	}
}

// planAll plans the chosen targets anew.
func (f *fleet) planAll(chosen func(prober.Target) bool) {
	for _, m := range f.current() {
		if chosen(m.target) {
			f.plan(m.target)
		}
	}
}

// plan tells the series when and how often each rung of a target comes, and what the target's budget has left.
func (f *fleet) plan(t prober.Target) {
	f.series.SetBudgetUsed(t.Name, f.scheduler.BudgetUsed(t.Name))
	for _, r := range t.Ladder {
		f.series.SetInterval(t.Name, r, f.scheduler.EffectiveInterval(t.Name, r))
		f.series.SetNextDue(t.Name, r, f.scheduler.NextDue(t.Name, r))
	}
}
