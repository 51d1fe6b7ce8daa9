package prober

import (
	"bytes"
	"math"
	"os"
	"runtime/metrics"
	"strconv"
	"sync"
	"time"
)

// Self is what this process itself suffered during a run: a probe that is late to look sees a slow server. Times are seconds.
type Self struct {
	Lag   float64  // the longest that a timer of ours was late
	GC    float64  // the longest pause of our garbage collector, rounded up
	Steal *float64 // share of the machine's CPU time that its hypervisor gave to others; nil is not known
}

// Bounds of watching ourselves.
const (
	selfPeriod = 20 * time.Millisecond // between looks; a shorter stall between two of them is not seen
	leastStall = 2 * time.Millisecond  // timers are this late on an idle machine
	keptStalls = 4096                  // of a run; a machine that stalls more often is told by the longest of them all
)

// stall is a time in which we did not run though a timer was due.
type stall struct{ due, ran time.Time }

func (s stall) seconds() float64 { return s.ran.Sub(s.due).Seconds() }

// selfWatch notes when this process is late, from its start to its stop.
type selfWatch struct {
	mu     sync.Mutex
	stalls []stall
	lag    float64

	pauses []uint64
	cpu    cpuTimes
	stop   func()
}

// watchSelf begins to watch; the caller calls stop.
func watchSelf() *selfWatch {
	w := &selfWatch{pauses: gcPauses().Counts, cpu: readCPU()}
	done, ended := make(chan struct{}), make(chan struct{})
	w.stop = func() { close(done); <-ended }
	go func() {
		defer close(ended)
		timer := time.NewTimer(selfPeriod)
		defer timer.Stop()
		for due := time.Now().Add(selfPeriod); ; {
			select {
			case <-done:
				return
			case <-timer.C:
			}
			now := time.Now()
			w.note(stall{due, now})
			due = now.Add(selfPeriod)
			timer.Reset(selfPeriod)
		}
	}()
	return w
}

func (w *selfWatch) note(s stall) {
	if s.ran.Sub(s.due) < leastStall {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lag = max(w.lag, s.seconds())
	if len(w.stalls) < keptStalls {
		w.stalls = append(w.stalls, s)
	}
}

// at is how late a stamp may be that was taken at a time: as long as the longest stall around it.
func (w *selfWatch) at(t time.Time) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := 0.0
	for _, s := range w.stalls {
		if !t.Before(s.due.Add(-leastStall)) && !t.After(s.ran.Add(leastStall)) {
			longest = max(longest, s.seconds())
		}
	}
	return longest
}

// suffered sums up what was seen since the start.
func (w *selfWatch) suffered() Self {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Self{Lag: w.lag, GC: longestPause(w.pauses, gcPauses()), Steal: readCPU().stealSince(w.cpu)}
}

// gcPauses counts the stop-the-world pauses of the garbage collector so far by their length.
func gcPauses() *metrics.Float64Histogram {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return &metrics.Float64Histogram{}
	}
	return sample[0].Value.Float64Histogram()
}

// longestPause is the upper bound of the longest pause that was counted since before; 0 for none.
func longestPause(before []uint64, now *metrics.Float64Histogram) float64 {
	for i := len(now.Counts) - 1; i >= 0; i-- {
		if i < len(before) && now.Counts[i] > before[i] {
			if bound := now.Buckets[i+1]; !math.IsInf(bound, 1) {
				return bound
			}
			return now.Buckets[i]
		}
	}
	return 0
}

// cpuTimes are CPU times of the machine since its start, in ticks; zero where they are not known.
type cpuTimes struct{ all, stolen float64 }

// readCPU reads the first line of Linux's /proc/stat: user, nice, system, idle, iowait, irq, softirq and steal (man 5 proc_stat).
func readCPU() cpuTimes {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return cpuTimes{} // not Linux
	}
	return parseCPU(text)
}

func parseCPU(text []byte) cpuTimes {
	const steal = 8 // its field, behind the name
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if len(fields) <= steal || string(fields[0]) != "cpu" {
		return cpuTimes{}
	}
	var c cpuTimes
	for i, f := range fields[1 : steal+1] {
		ticks, err := strconv.ParseUint(string(f), 10, 64)
		if err != nil {
			return cpuTimes{}
		}
		c.all += float64(ticks)
		if i+1 == steal {
			c.stolen = float64(ticks)
		}
	}
	return c
}

// stealSince is the share of stolen time since an earlier reading; nil where it is not known.
func (c cpuTimes) stealSince(before cpuTimes) *float64 {
	if before.all == 0 || c.all <= before.all || c.stolen < before.stolen {
		return nil
	}
	share := (c.stolen - before.stolen) / (c.all - before.all)
	return &share
}

// checkSelf rejects a difference that our own lateness may have made. Only what happened at the stamps that it rests on can have:
// the beginning and the end of each leg. It matters where it exceeds both the standard error and what was wanted of it.
func (e *execution) checkSelf(pairs []pairLegs, seconds float64) error {
	if e.self == nil {
		return nil
	}
	var late float64
	for _, p := range pairs {
		for _, l := range []Leg{p.short, p.long} {
			late += e.self.at(l.began)
			late += e.self.at(l.began.Add(l.Response.LastToken))
		}
	}
	if late <= seconds*max(e.run.Sample.StepError, e.target.Precision) {
		return nil
	}
	return reject(Implausible, "the prober was up to %.3g s late when it measured a difference of %.3g s: its machine is too busy (longctx_self_lag_seconds)", late, seconds)
}
