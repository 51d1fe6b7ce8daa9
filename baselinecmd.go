package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"longctx_exporter/prober"
	"longctx_exporter/prober/state"
)

// baselineCommand pins the step times that later ones are held against. It writes a file of its own, so that it works beside a
// running daemon, which takes the change in within seconds, and without one.
type baselineCommand struct {
	pin, unpin, show *kingpin.CmdClause

	storage, target, rung string
}

func newBaselineCommand(app *kingpin.Application) *baselineCommand {
	c := &baselineCommand{}
	clause := app.Command("baseline", "Pin the step times that later ones are held against, in longctx_step_baseline_seconds.")
	c.pin = clause.Command("pin", "Pin the usual step time of each rung: its median since the last deploy.")
	c.unpin = clause.Command("unpin", "Drop pinned baselines.")
	c.show = clause.Command("show", "Show the baselines of each rung.")
	for _, sub := range []*kingpin.CmdClause{c.pin, c.unpin, c.show} {
		sub.Flag("storage.path", "The daemon's --storage.path.").Required().StringVar(&c.storage)
		sub.Flag("target", "Only this target.").StringVar(&c.target)
		sub.Flag("rung", "Only this rung, such as 128k.").StringVar(&c.rung)
	}
	return c
}

// named says whether the command line asks for one of the commands.
func (c *baselineCommand) named(command string) bool {
	return slices.Contains([]string{c.pin.FullCommand(), c.unpin.FullCommand(), c.show.FullCommand()}, command)
}

func (c *baselineCommand) run(ctx context.Context, command string, stdout io.Writer) error {
	length := prober.Rung(0)
	if c.rung != "" {
		var err error
		if length, err = prober.ParseRung(c.rung); err != nil {
			return fmt.Errorf("--rung: %w", err)
		}
	}
	if command == c.show.FullCommand() {
		view, err := state.Look(c.storage)
		if err != nil {
			return err
		}
		return c.print(view, length, stdout)
	}
	return state.EditPins(ctx, c.storage, func(view state.View) error {
		rungs, err := c.chosen(view, length)
		if err != nil {
			return err
		}
		if command == c.unpin.FullCommand() {
			return unpin(view, rungs, stdout)
		}
		return pin(view, rungs, stdout)
	})
}

// chosenRung is a rung that the command line speaks of.
type chosenRung struct {
	key    string // of the target
	target state.Target
	length prober.Rung
}

func (r chosenRung) kept() state.Rung { return r.target.Rungs[int(r.length)] }

// chosen lists the rungs that the flags name, those of all targets where they name none. Of targets with one name the one that
// was configured last counts: the others were measured at another server or model.
func (c *baselineCommand) chosen(view state.View, length prober.Rung) ([]chosenRung, error) {
	latest := map[string]string{}
	for key, t := range view.Targets {
		if other, there := latest[t.Name]; !there || view.Targets[other].Seen.Before(t.Seen) {
			latest[t.Name] = key
		}
	}
	if _, there := latest[c.target]; c.target != "" && !there {
		return nil, fmt.Errorf("nothing is known of a target %q: known are %q", c.target, slices.Sorted(maps.Keys(latest)))
	}
	var rungs []chosenRung
	for _, name := range slices.Sorted(maps.Keys(latest)) {
		if c.target != "" && c.target != name {
			continue
		}
		t := view.Targets[latest[name]]
		lengths := slices.Collect(maps.Keys(t.Rungs))
		for pinned := range view.Pins[latest[name]] {
			if !slices.Contains(lengths, pinned) {
				lengths = append(lengths, pinned)
			}
		}
		slices.Sort(lengths)
		for _, l := range lengths {
			if length == 0 || int(length) == l {
				rungs = append(rungs, chosenRung{latest[name], t, prober.Rung(l)})
			}
		}
	}
	if len(rungs) == 0 {
		return nil, errors.New("no such rung was measured yet: `baseline show` lists those that were")
	}
	return rungs, nil
}

func pin(view state.View, rungs []chosenRung, stdout io.Writer) error {
	pinned := 0
	for _, r := range rungs {
		step := r.kept().Usual(r.target.Server.Deploy.ID)
		if step == 0 {
			fmt.Fprintf(stdout, "%s %s: not pinned, for it has fewer than %d clean step times\n", r.target.Name, r.length, state.EnoughSteps)
			continue
		}
		if view.Pins[r.key] == nil {
			view.Pins[r.key] = map[int]state.Pin{}
		}
		view.Pins[r.key][int(r.length)] = state.Pin{Target: r.target.Name, Step: step, At: time.Now(), Deploy: r.target.Server.Deploy.ID}
		fmt.Fprintf(stdout, "%s %s: pinned at %s\n", r.target.Name, r.length, seconds(step))
		pinned++
	}
	if pinned == 0 {
		return errors.New("nothing was pinned")
	}
	return nil
}

func unpin(view state.View, rungs []chosenRung, stdout io.Writer) error {
	for _, r := range rungs {
		if _, there := view.Pins[r.key][int(r.length)]; there {
			delete(view.Pins[r.key], int(r.length))
			fmt.Fprintf(stdout, "%s %s: unpinned\n", r.target.Name, r.length)
		}
	}
	return nil
}

// print shows a table.
func (c *baselineCommand) print(view state.View, length prober.Rung, stdout io.Writer) error {
	rungs, err := c.chosen(view, length)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "target\trung\tdeploy\tlatest\tpinned\tsince\tdeploy median\tprevious deploy")
	for _, r := range rungs {
		deploy := r.target.Server.Deploy.ID
		present, previous := r.kept().Medians(deploy)
		latest := 0.0
		if samples := r.kept().Samples; len(samples) > 0 {
			latest = samples[len(samples)-1].Step
		}
		pin, since := view.Pins[r.key][int(r.length)], "-"
		if !pin.At.IsZero() {
			since = pin.At.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.target.Name, r.length, dash(deploy), seconds(latest), seconds(pin.Step), since, seconds(present), seconds(previous))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// seconds is a step time for people; a dash for 0, which is not known.
func seconds(s float64) string {
	if s == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g s", s)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
