package simserver

import (
	"slices"
	"time"
)

// Felt is what the requests of the background met in some time.
type Felt struct {
	TTFT Spread // seconds from sending to the first token
	Gap  Spread // seconds between the tokens of one step and those of the next, prefills of others included
}

// Spread is the distribution of some values; all 0 where there are none.
type Spread struct {
	N                        int
	Mean, P50, P90, P99, Max float64
}

// BackgroundFelt tells what the background met from one time to another after the server's start, wall clock: first tokens
// and gaps that ended in between, of requests that run and of those that /truth remembers. Zero for the second is now.
func (s *Server) BackgroundFelt(from, to time.Duration) Felt {
	requests := s.Truth()
	if now := s.live(); now != nil {
		for _, e := range now.engines {
			requests = append(requests, e.unfinished()...)
		}
	}
	within := func(t float64) bool { return t >= from.Seconds() && (to == 0 || t < to.Seconds()) }
	var ttft, gaps []float64
	for _, q := range requests {
		if !q.Background {
			continue
		}
		for i, at := range q.OutputAt {
			switch {
			case !within(at):
			case i == 0:
				ttft = append(ttft, at-q.Received)
			default:
				gaps = append(gaps, at-q.OutputAt[i-1])
			}
		}
	}
	return Felt{TTFT: spread(ttft), Gap: spread(gaps)}
}

// unfinished tells what has happened so far to the requests that run.
func (e *engine) unfinished() []TruthRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []TruthRequest
	for _, j := range e.running {
		out = append(out, e.record(j))
	}
	return out
}

func spread(values []float64) Spread {
	n := len(values)
	if n == 0 {
		return Spread{}
	}
	slices.Sort(values)
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	at := func(share float64) float64 { return values[min(n-1, int(share*float64(n)))] }
	return Spread{N: n, Mean: sum / float64(n), P50: at(0.5), P90: at(0.9), P99: at(0.99), Max: values[n-1]}
}
