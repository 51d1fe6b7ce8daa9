// Package sweep measures each rung of a ladder once and prints what was found.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// Options are what one sweep does.
type Options struct {
	Target     prober.Target
	LoadReader prober.LoadReaderFor // nil reads no load
	Output     string               // one of Outputs, "" for the first
	OutputFile string               // where each finished rung is kept at once, as JSON; "" for nowhere
	Resume     bool                 // keep the accepted rungs of OutputFile
	Stdout     io.Writer            // takes the result and nothing else
	Stderr     io.Writer            // takes errors, notes and progress
	Terminal   bool                 // Stderr is a terminal
	Version    string               // of this program
	Logger     log.Logger
}

// The exit codes.
const (
	exitMeasured = 0 // every rung was measured
	exitNothing  = 1 // nothing could be tried
	exitPartly   = 2 // rungs were tried and some have no accepted sample
)

// runner is what a sweep needs of a prober.Runner.
type runner interface {
	Identify(context.Context) (inference.Facts, error)
	Run(context.Context, prober.Rung, func(prober.Progress)) prober.Run
	Close()
}

// Run sweeps the ladder of a target and returns the exit code of the command: 0 when every rung was measured, 2 when some
// have no accepted sample, 1 when nothing could be tried. Cancelling ctx ends the running request and prints what was
// measured so far.
func Run(ctx context.Context, o Options) (exitCode int) {
	if o.Logger == nil {
		o.Logger = log.NewNopLogger()
	}
	if o.Output == "" {
		o.Output = Outputs()[0]
	}
	if err := o.check(); err != nil {
		return o.fail(err)
	}
	o.Target.Needle = false // what it tells is a change, which a single pass has no past to see by
	r, err := prober.NewRunner(o.Target, o.LoadReader, o.Logger)
	if err != nil {
		return o.fail(err)
	}
	defer r.Close()
	return o.run(ctx, r)
}

func (o Options) fail(err error) int {
	o.note("longctx_exporter: %s", err)
	return exitNothing
}

func (o Options) note(format string, args ...any) {
	fmt.Fprintf(o.Stderr, format+"\n", args...)
}

func (o Options) check() error {
	if !slices.Contains(Outputs(), o.Output) {
		return fmt.Errorf("output %q is none of %s", o.Output, strings.Join(Outputs(), ", "))
	}
	if o.Resume && o.OutputFile == "" {
		return errors.New("--resume needs the --output-file to go on from")
	}
	if len(o.Target.Ladder) == 0 {
		return errors.New("the ladder is empty: name the context lengths to measure, for example --ladder=1k,8k,64k")
	}
	for i, rung := range o.Target.Ladder {
		if slices.Contains(o.Target.Ladder[:i], rung) {
			return fmt.Errorf("the ladder lists %s twice", rung)
		}
	}
	return nil
}

func (o Options) run(ctx context.Context, r runner) int {
	var earlier document
	resumed := false
	if o.Resume {
		var err error
		if earlier, resumed, err = load(o.OutputFile); err != nil {
			return o.fail(err)
		}
	}
	facts, err := r.Identify(ctx)
	if err != nil {
		return o.fail(o.unreachable(ctx, err))
	}
	s := sweep{Options: o, runner: r, document: document{
		Schema:          schema,
		Started:         time.Now().UTC().Truncate(time.Second),
		ExporterVersion: o.Version,
		Target:          newTarget(o.Target, facts),
		Rungs:           []rung{},
	}}
	if resumed {
		if err := earlier.sameTarget(o.OutputFile, s.document.Target); err != nil {
			return o.fail(err)
		}
		s.keep(earlier)
	}
	// A file that cannot be written is told before hours of measuring.
	if err := s.save(); err != nil {
		return o.fail(err)
	}
	return s.finish(s.climb(ctx))
}

// unreachable says in one sentence why nothing could be tried.
func (o Options) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return errors.New("interrupted before the server was identified")
	}
	err = fmt.Errorf("identifying the server at %s: %w", bareURL(o.Target.URL), err)
	var failure *inference.Error
	if errors.As(err, &failure) {
		if advice := advice(failure.Class); advice != "" {
			err = fmt.Errorf("%w; %s", err, advice)
		}
	}
	return err
}

// advice is what to do about a server that cannot be spoken to.
func advice(c inference.Class) string {
	switch c {
	case inference.Connect:
		return "is it running, and are host and port right?"
	case inference.TLS:
		return "is it https, and is its authority known (http.tls_config)?"
	case inference.Auth:
		return "give its key by --http.credentials-file, or in a configuration file by http.authorization.credentials_file"
	case inference.ModelNotFound:
		return "name a model that it serves, or none"
	case inference.Loading:
		return "try again when the model is loaded"
	}
	return ""
}

// sweep is one pass over the ladder.
type sweep struct {
	Options
	runner   runner
	document document
	unsaved  error // the first rung that did not get to the file
}

// keep takes over what an earlier sweep measured, rungs that left the ladder included: nothing that is on disk gets lost.
func (s *sweep) keep(earlier document) {
	kept := earlier.accepted()
	if len(kept) == 0 {
		return
	}
	s.document.Started, s.document.Rungs = earlier.Started, kept
	names := make([]string, len(kept))
	for i, r := range kept {
		names[i] = r.Rung
	}
	if s.Terminal {
		s.note("kept from %s: %s", s.OutputFile, strings.Join(names, ", "))
	}
	was, is := earlier.Target, s.document.Target
	if was.ServerVersion != is.ServerVersion || was.Speculation != is.Speculation {
		s.note("note: the kept rungs were measured on %s; the server is now %s", was.build(), is.build())
	}
}

func (t target) build() string {
	return strings.TrimSpace(fmt.Sprintf("version %q with speculation %q", clean(t.ServerVersion, maxName), clean(t.Speculation, maxName)))
}

// climb measures the rungs that are not there yet and says whether the server could be spoken to.
func (s *sweep) climb(ctx context.Context) (spoken bool) {
	spoken = len(s.document.Rungs) > 0
	for _, next := range s.Target.Ladder {
		if s.has(next) {
			continue
		}
		result := s.measure(ctx, next)
		spoken = spoken || result.spoken()
		s.document.Rungs = append(s.document.Rungs, result)
		s.order()
		if err := s.save(); err != nil && s.unsaved == nil {
			s.unsaved = err
			s.note("longctx_exporter: %s; the sweep goes on", err)
		}
	}
	return spoken
}

func (s *sweep) has(context prober.Rung) bool {
	return slices.ContainsFunc(s.document.Rungs, func(r rung) bool { return r.Context == context })
}

func (s *sweep) measure(ctx context.Context, next prober.Rung) rung {
	if ctx.Err() != nil {
		return newRung(prober.Run{
			Rung: next, Status: prober.Skipped, Reason: prober.ShuttingDown, Message: "the sweep was interrupted before this rung",
		})
	}
	if !s.Terminal {
		return newRung(s.runner.Run(ctx, next, nil))
	}
	line := progress{w: s.Stderr}
	stop := line.watch()
	result := newRung(s.runner.Run(ctx, next, line.observe))
	stop()
	s.note("%s", result.summary())
	return result
}

// summary is the line that stays on a terminal when a rung is done.
func (r rung) summary() string {
	line := r.Rung + "  " + verdict(r)
	if r.TTFT > 0 {
		line += "  TTFT " + seconds(r.TTFT)
	}
	if r.Step > 0 {
		line += "  step " + secondsWithin(r.Step, r.StepCI)
	}
	return line
}

// spoken is false where the rung was not sent or met no server that would take it.
func (r rung) spoken() bool {
	if r.Status == prober.Skipped {
		return false
	}
	answered := func(l leg) bool { return l.HTTPStatus == http.StatusOK && l.ErrorClass == "" }
	if r.Status != prober.Failed || slices.ContainsFunc(r.Legs, answered) {
		return true
	}
	switch inference.Class(r.Reason) {
	case inference.Connect, inference.TLS, inference.Auth, inference.ModelNotFound, inference.Protocol:
		return false
	}
	return true
}

// order puts the rungs in the order of the ladder, those that left it last.
func (s *sweep) order() {
	place := func(r rung) int {
		if i := slices.Index(s.Target.Ladder, r.Context); i >= 0 {
			return i
		}
		return len(s.Target.Ladder)
	}
	slices.SortStableFunc(s.document.Rungs, func(a, b rung) int { return place(a) - place(b) })
}

func (s *sweep) save() error {
	s.document.Fit = fitLine(s.document.Rungs)
	if s.OutputFile == "" {
		return nil
	}
	return s.document.save(s.OutputFile)
}

// finish prints the result.
func (s *sweep) finish(spoken bool) int {
	err := s.document.print(s.Stdout, s.Output)
	if err != nil {
		s.note("longctx_exporter: writing the result: %s", err)
	}
	if !spoken {
		first := s.document.Rungs[0]
		return s.fail(fmt.Errorf("no rung could be tried: %s", strings.TrimSuffix(string(first.Reason)+": "+first.Message, ": ")))
	}
	if err != nil || s.unsaved != nil || len(s.document.accepted()) < len(s.document.Rungs) {
		return exitPartly
	}
	return exitMeasured
}
