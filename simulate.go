package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"longctx_exporter/prober"
	"longctx_exporter/prober/simserver"
)

// simulateCommand is the simulated server by itself.
type simulateCommand struct {
	clause *kingpin.CmdClause
	config simserver.Config

	listen, profile, logFile string
}

func newSimulateCommand(app *kingpin.Application) *simulateCommand {
	c := &simulateCommand{}
	c.clause = app.Command("simulate", "Serve a simulated inference server whose truth is known, at GET /truth.")
	c.clause.Flag("listen", "Address to listen on.").Default("127.0.0.1:30000").StringVar(&c.listen)
	c.clause.Flag("profile", "Model and machine: "+strings.Join(simserver.Profiles(), ", ")+".").StringVar(&c.profile)
	c.clause.Flag("shape", "Server to look like: sglang, vllm, llamacpp, trtllm, lmdeploy, ollama or openai.").Default("sglang").StringVar(&c.config.Shape)
	c.clause.Flag("era", "Version of that server, as named in the error that an unknown one gives; the newest if not given.").StringVar(&c.config.Era)
	c.clause.Flag("control", "Let POST /sim/physics change its speed and POST /sim/deploy restart it.").BoolVar(&c.config.Control)
	c.clause.Flag("log-file", "File to append the log of such a server to; none if not given.").StringVar(&c.logFile)
	c.clause.Flag("log-wrap", "What carries the log and wraps its lines: "+strings.Join(simserver.LogWraps(), ", ")+".").StringVar(&c.config.LogWrap)
	c.clause.Flag("log-requests", "Log a line for each request as SGLang's --log-requests does: text or json.").StringVar(&c.config.Options.LogRequests)
	c.clause.Flag("time-scale", "How many times faster than life.").Default("1").Float64Var(&c.config.TimeScale)
	c.clause.Flag("seed", "Seed of everything random.").Default("1").Uint64Var(&c.config.Seed)
	c.clause.Flag("api-key", "Key that clients must send; none if not given.").StringVar(&c.config.APIKey)
	return c
}

func (c *simulateCommand) run(ctx context.Context, stdout io.Writer, logger log.Logger) error {
	profile, err := simserver.ProfileByName(c.profile)
	if err != nil {
		return fmt.Errorf("--profile: %w", err)
	}
	if !(c.config.TimeScale > 0) {
		return fmt.Errorf("the time scale --time-scale=%g does not let time go on; 1 is the speed of life", c.config.TimeScale)
	}
	c.config.Profile = profile
	if c.logFile != "" {
		file, err := os.OpenFile(c.logFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("--log-file: %w", err)
		}
		defer func() { _ = file.Close() }() // every line has been written by then
		c.config.Log = file
	}
	sim, err := startSimulation(c.config, c.listen)
	if err != nil {
		return err
	}
	defer sim.close()
	fmt.Fprintf(stdout, "%s as %s, %g times faster than life: %s, truth at %s/truth, Ctrl-C ends\n",
		profile.Name, c.config.Shape, c.config.TimeScale, sim.url, sim.url)
	select {
	case <-ctx.Done():
		level.Info(logger).Log("msg", "stopped")
		return nil
	case err := <-sim.failed:
		return err
	}
}

// simulation is a simulated server that listens.
type simulation struct {
	*simserver.Server
	url     string
	started time.Time
	http    *http.Server
	failed  chan error // takes one error, when listening ends
}

// startSimulation listens until close.
func startSimulation(c simserver.Config, address string) (*simulation, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("simulated server: %w", err)
	}
	started := time.Now()
	server, err := simserver.New(c)
	if err != nil {
		_ = listener.Close() // nothing has come yet
		return nil, err
	}
	s := &simulation{
		Server: server, url: "http://" + listener.Addr().String(), started: started,
		http: &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second}, failed: make(chan error, 1),
	}
	go func() { s.failed <- s.http.Serve(listener) }()
	return s, nil
}

func (s *simulation) close() {
	_ = s.http.Close() // whoever is connected is cut off
	s.Close()
}

// The demonstration: quick enough to watch, slow enough that a millisecond of this machine is no large part of a step.
const (
	demoScale = 50
	demoTries = 3 // rounds after which the table shows what is there
)

// runDemo probes a simulated server, and compares what was measured with the truth.
func (c *serveCommand) runDemo(ctx context.Context, stdout io.Writer, logger log.Logger, lib *slog.Logger) error {
	profile, err := simserver.ProfileByName("")
	if err != nil {
		return err
	}
	sim, err := startSimulation(simserver.Config{
		Shape: "sglang", Profile: profile, TimeScale: demoScale, Seed: 1,
		Options: simserver.Options{CacheReport: true, SpecMetrics: true},
	}, "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer sim.close()
	every := prober.Interval(25 * time.Second) // what is 2.5 intervals old leaves the metrics: longer than a pass over the ladder
	config, err := prober.Config{Targets: []prober.TargetConfig{{
		Name: "demo", URL: sim.url, Model: profile.Model, ProbeConfig: prober.ProbeConfig{
			Budget: 1, Intervals: prober.RungValues[prober.Interval]{Default: &every},
		},
	}}}.Validate()
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "Probing %s at %s, simulated %d times faster than life; a table comes when every rung is measured, in about 40 s.\n",
		profile.Name, sim.url, demoScale)
	table := newComparison(sim, config.Targets()[0].Ladder, stdout,
		fmt.Sprintf("metrics: http://localhost:%s%s, Ctrl-C ends\n", portOf((*c.web.WebListenAddresses)[0]), c.routes.prefix+c.metrics))
	return c.probe(ctx, func() (prober.ValidatedConfig, error) { return config, nil }, table, logger, lib)
}

func portOf(address string) string {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return port
}

// comparison gathers the first accepted run of each rung, and prints them beside the truth once they are all there.
type comparison struct {
	sim    *simulation
	ladder []prober.Rung
	out    io.Writer
	last   string // printed after the table

	mu      sync.Mutex
	best    map[prober.Rung]prober.Run // accepted, or else the last
	tries   map[prober.Rung]int
	printed bool
}

func newComparison(sim *simulation, ladder []prober.Rung, out io.Writer, last string) *comparison {
	return &comparison{
		sim: sim, ladder: ladder, out: out, last: last, best: map[prober.Rung]prober.Run{}, tries: map[prober.Rung]int{},
	}
}

// ObserveRun takes a run in.
func (c *comparison) ObserveRun(run prober.Run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.printed || run.Status == prober.Skipped || run.Reason == prober.Interrupted {
		return
	}
	c.tries[run.Rung]++
	if c.best[run.Rung].Status != prober.Accepted {
		c.best[run.Rung] = run
		fmt.Fprintf(c.out, "%5s %s\n", run.Rung, run.Status)
	}
	for _, r := range c.ladder {
		if c.best[r].Status != prober.Accepted && c.tries[r] < demoTries {
			return
		}
	}
	c.printed = true
	c.print()
}

func (c *comparison) print() {
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "rung\tTTFT measured\tTTFT true\tstep measured\tstep true\tτ measured\tτ true\t")
	for _, r := range c.ladder {
		run := c.best[r]
		if run.Status != prober.Accepted {
			fmt.Fprintf(w, "%s\t%s: %s\t\n", r, run.Status, cmp.Or(string(run.Reason), run.Message))
			continue
		}
		known, err := c.truth(run)
		if err != nil {
			fmt.Fprintf(w, "%s\t%v\t\n", r, err)
			continue
		}
		fmt.Fprintf(w, "%s\t%.3f s\t%.3f s\t%.2f ms\t%.2f ms\t%.2f\t%.2f\t\n", r, run.Sample.TTFT, known.ttft,
			run.Sample.Step*1e3, known.step*1e3, run.Sample.AcceptLength, known.accept)
	}
	_ = w.Flush() // a closed standard output is noticed soon enough
	fmt.Fprint(c.out, c.last)
}

// truth is what the simulated server knows of a run: seconds, and tokens per step.
type truth struct{ ttft, step, accept float64 }

// truth finds the requests of a run, the first since its start that are like its legs in their order: what is sent around and
// between them, as a pre-roll or the question for the planted fact, is not.
func (c *comparison) truth(run prober.Run) (truth, error) {
	from := run.Started.Sub(c.sim.started).Seconds() - 0.01
	requests := slices.DeleteFunc(c.sim.Truth(), func(t simserver.TruthRequest) bool { return t.Received < from })
	var ttft, step, accept mean
	for _, leg := range run.Legs {
		i := slices.IndexFunc(requests, func(t simserver.TruthRequest) bool { return isOf(t, leg) })
		if i < 0 {
			return truth{}, errors.New("the simulated server does not remember each request of this run")
		}
		done := requests[i]
		requests = requests[i+1:]
		if leg.Discarded {
			continue
		}
		if leg.Kind == "cold" {
			ttft.add(done.QueueSeconds + done.PrefillSeconds)
		}
		if leg.MaxTokens <= 2 {
			continue // the short one of two
		}
		for j := range done.StepSeconds {
			step.add(done.StepSeconds[j])
			accept.add(float64(done.Accepted[j]))
		}
	}
	return truth{ttft.value(), step.value(), accept.value()}, nil
}

// isOf says whether a request may be that of a leg, by the tokens that the leg was told of.
func isOf(done simserver.TruthRequest, leg prober.Leg) bool {
	like := func(told *int, tokens int) bool { return told == nil || *told == tokens }
	return like(leg.Response.PromptTokens, done.PromptTokens) && like(leg.Response.CompletionTokens, done.CompletionTokens) &&
		like(leg.Response.CachedTokens, done.CachedTokens)
}

// mean is a running mean.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

func (m *mean) value() float64 { return m.sum / float64(max(m.n, 1)) }
