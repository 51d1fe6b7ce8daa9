package grafana

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

// The numbers of the alerts. The tests hold them against the rules, so that a colour on a dashboard is an alert that fires.
const (
	stepGrowthWarns  = 1.25 // LongCtxStepTimeGrowth
	deployGrowth     = 1.15 // LongCtxDeployRegression
	bendWarns        = 1.3  // LongCtxStepTimeSuperlinear
	stepGrowthPages  = 1.5  // LongCtxStepTimeGrowthWide
	lineGrowthWarns  = 0.3  // LongCtxStepSlopeGrowth, LongCtxStepInterceptGrowth: in parts of the usual value
	prefillDropWarns = 0.8  // LongCtxPrefillThroughputDrop
	acceptDropWarns  = 0.7  // LongCtxAcceptanceCollapse
	acceptFloor      = 1.1  // LongCtxAcceptanceCollapse: tokens a step
	failuresWarn     = 3    // LongCtxFailing
	missesWarn       = 2    // LongCtxWrongAnswer
	staleIntervals   = 2.5  // the recording rules of fresh values
	missingIntervals = 4    // LongCtxNoCleanMeasurement
	judgedRungs      = 5    // the recording rules of slope and intercept
	noisySpread      = 0.3  // LongCtxNoisyMeasurement
	budgetSpent      = 1    // LongCtxBudgetExhausted
	lateIntervals    = 0.5  // LongCtxOverdue: intervals after the due time, and
	lateSeconds      = 600  // so many seconds
)

const (
	green  = "green"
	yellow = "yellow"
	orange = "orange"
	red    = "red"
	grey   = "#8e8e8e"
	plain  = "text" // that of the text, where a number means neither good nor bad
)

// from is a step that colours values from v up.
func from(v float64, color string) dashboard.Threshold {
	return dashboard.Threshold{Value: &v, Color: color}
}

// steps are thresholds that begin with a colour.
func steps(base string, above ...dashboard.Threshold) []dashboard.Threshold {
	return append([]dashboard.Threshold{{Color: base}}, above...)
}

// The thresholds of changes against what is usual: 0.25 is a quarter more.
func stepChange() []dashboard.Threshold {
	return steps(green, from(stepGrowthWarns-1, orange), from(stepGrowthPages-1, red))
}

func deployChange() []dashboard.Threshold { return steps(green, from(deployGrowth-1, orange)) }

func bend() []dashboard.Threshold { return steps(green, from(bendWarns-1, orange)) }

func noise() []dashboard.Threshold { return steps(green, from(noisySpread, orange)) }

func budget() []dashboard.Threshold { return steps(green, from(budgetSpent, orange)) }

func lineChange() []dashboard.Threshold { return steps(green, from(lineGrowthWarns, orange)) }

func prefillChange() []dashboard.Threshold { return steps(orange, from(prefillDropWarns-1, green)) }

func acceptChange() []dashboard.Threshold { return steps(orange, from(acceptDropWarns-1, green)) }

func acceptance() []dashboard.Threshold { return steps(orange, from(acceptFloor, green)) }

func age() []dashboard.Threshold {
	return steps(green, from(staleIntervals, yellow), from(missingIntervals, orange))
}

// anyIs colours counts of what should not be.
func anyIs(color string) []dashboard.Threshold { return steps(green, from(1, color)) }
