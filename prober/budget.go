package prober

import "time"

// longestRest keeps a tiny budget from overflowing; a process hardly outlives it.
const longestRest = 365 * 24 * time.Hour

// rest is how long a server is left alone after a run, so that probes take at most the budget's share of its time.
func rest(ran time.Duration, budget float64) time.Duration {
	if ran <= 0 {
		return 0
	}
	return time.Duration(min(float64(ran)*(1/budget-1), float64(longestRest)))
}

// effectiveInterval forecasts the time from run to run of one slot of a server. Where the runs and the rests that they
// call for fill more than the whole time, the policy of the scheduler stretches every interval alike; and no slot comes
// sooner than the longest run, with its rest, lets go of the server.
func effectiveInterval(interval time.Duration, slots []*slot) time.Duration {
	var load float64
	var longest time.Duration
	for _, s := range slots {
		load += float64(s.cost) / float64(s.interval)
		longest = max(longest, s.cost)
	}
	stretched := min(float64(interval)*max(load, 1), float64(longestRest))
	return max(time.Duration(stretched), longest)
}
