package grafana

import (
	"fmt"
	"strings"
)

// Windows of queries over counters and of what is usual. Runs are sparse and scrapes are dense: over a window of a few scrapes a
// counter of runs hardly ever moves, whatever Grafana would choose.
const (
	eventWindow = "6h"
	costWindow  = "1h"
	stepWindow  = "1h"
	runWindow   = "1h"
	usualWindow = "[7d:1h] offset 1d"
)

// What names the series of a target and of a rung within a dashboard's variables.
const (
	exporterSelector = `job=~"$job"`
	targetSelector   = `job=~"$job",model=~"$model",target=~"$target"`
	rungSelector     = targetSelector + `,rung=~"$rung"`
)

// ofTarget selects a series that has no rung.
func ofTarget(name string, matchers ...string) string {
	return name + "{" + strings.Join(append([]string{targetSelector}, matchers...), ",") + "}"
}

// ofRung selects a series of rungs.
func ofRung(name string, matchers ...string) string {
	return name + "{" + strings.Join(append([]string{rungSelector}, matchers...), ",") + "}"
}

// ofExporter selects a series of the exporter itself.
func ofExporter(name string) string { return name + "{" + exporterSelector + "}" }

// joined joins the series of a restarted exporter, as the recording rules do.
func joined(q string) string { return "max without (instance, pod) (" + q + ")" }

// change is by what part a value differs from the usual one; the usual one may be negative, as an intercept is now and then.
func change(q, usual string) string {
	return fmt.Sprintf("(%s - %s) / abs(%s)", q, usual, usual)
}

// usual is the median of a week for series that no rule records, with the rules' conditions.
func usual(q string) string {
	return fmt.Sprintf("(quantile_over_time(0.5, %s%s) and count_over_time(%s%s) >= 24)", q, usualWindow, q, usualWindow)
}

// orZero makes a count 0 instead of absent.
func orZero(q string) string { return q + " or vector(0)" }

// byRung has a row or a line for each rung of each target.
func byRung(aggregate, q string) string {
	return aggregate + " by (target, model, rung, context) (" + q + ")"
}

func stepChangeQuery() string { return ofRung(stepGrowth) + " - 1" }

func slopeChangeQuery() string { return change(ofTarget(slopeFresh), ofTarget(slopeMedian)) }

func interceptChangeQuery() string {
	return change(ofTarget(interceptFresh), ofTarget(interceptMedian))
}

// deployChangeQuery is by what part steps became slower than in the deploy before.
func deployChangeQuery() string { return ofRung(stepConfirmedFresh) + " / " + previousStep() + " - 1" }

// previousStep is the median step time of the deploy before.
func previousStep() string {
	return "max without (instance, pod, baseline) (" + ofRung(stepBaseline, `baseline="previous_deploy"`) + ")"
}

func bendQuery() string { return ofRung(stepConfirmedFresh) + " / " + ofRung(stepExpectedMax) + " - 1" }

func acceptChangeQuery() string { return change(ofRung(acceptFresh), ofRung(acceptMedian)) }

func prefillChangeQuery() string { return change(ofRung(prefillFresh), ofRung(prefillMedian)) }

func ttftChangeQuery() string { return change(ofRung(ttftFresh), usual(ofRung(ttftFresh))) }

// slopePerThousand is in milliseconds per 1,000 tokens, as seconds per token have too many zeros to read.
func slopePerThousand(q string) string { return q + " * 1e6" }

// line is the step time that slope and intercept give at each rung's length.
func line() string {
	return fmt.Sprintf("%s * ignoring (rung, context) group_left () %s + ignoring (rung, context) group_left () %s",
		joined(ofRung(rungContext)), joined(ofTarget(stepSlope)), joined(ofTarget(stepIntercept)))
}

// longestAnswered is the longest rung that the server takes.
func longestAnswered(by string) string {
	return fmt.Sprintf("max by (%s) (%s and %s == 1)", by, joined(ofRung(rungContext)), joined(ofRung(rungReachable)))
}

// intervalsSince is the age of the latest accepted run in intervals.
func intervalsSince() string {
	return fmt.Sprintf("(time() - %s) / %s", joined(ofRung(probeLastSuccess)), joined(ofRung(probeEffective)))
}

// withoutFresh are the rungs without a confirmed step time; the value has no meaning.
func withoutFresh() string {
	return joined(ofRung(probeEffective)) + " unless " + ofRung(stepConfirmedFresh)
}

// outOfReach are the rungs that the server refuses for length and took within a week. One that never worked is configuration.
func outOfReach() string {
	return fmt.Sprintf("%s == 0 and %s == 1", joined(ofRung(rungReachable)), ofRung(reachableInSevenDays))
}

// The states of a rung, the worst first in rungState.
const (
	stateFine = iota
	stateSlow
	stateUnknown
	stateFailing
	stateOutOfReach
)

// rungState is the worst state that holds for each rung.
func rungState() string {
	return fmt.Sprintf("(%s == 0) * 0 + %d or (%s >= %d) * 0 + %d or (%s) * 0 + %d or (%s > %g) * 0 + %d or %s * 0",
		joined(ofRung(rungReachable)), stateOutOfReach,
		joined(ofRung(failuresInARow)), failuresWarn, stateFailing,
		withoutFresh(), stateUnknown,
		ofRung(stepGrowth), stepGrowthWarns, stateSlow,
		ofRung(stepConfirmedFresh))
}

// sumOf is by how much counters grew within a window, in sum.
func sumOf(counter, window string) string {
	return fmt.Sprintf("sum(increase(%s[%s]))", counter, window)
}

// late is by how many seconds the next run of each rung is late.
func late() string { return "clamp_min(time() - " + joined(ofRung(probeNextDue)) + ", 0)" }

// overdue are the rungs whose alert of that name would fire.
func overdue() string {
	return fmt.Sprintf("%s > %g * %s + %d", late(), lateIntervals, joined(ofRung(probeEffective)), lateSeconds)
}
