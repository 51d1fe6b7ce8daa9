package simserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Background is the load of other people's requests. They go through the same queue, batch, cache and counters.
type Background struct {
	Rate         float64 // requests per second of simulated time, arriving at random; 0 none
	PromptTokens [2]int  // from, to
	OutputTokens [2]int  // from, to
	AbortShare   float64 // share of requests whose client leaves after half of the output time
}

func (b Background) validate(limit int) error {
	if b.Rate == 0 {
		return nil
	}
	if !(b.Rate > 0) || !(b.AbortShare >= 0 && b.AbortShare <= 1) {
		return errors.New("background load: the rate must not be negative and the share of aborts lies from 0 to 1")
	}
	for _, r := range [][2]int{b.PromptTokens, b.OutputTokens} {
		if r[0] < 1 || r[1] < r[0] {
			return errors.New("background load: ranges of tokens start at 1 and do not fall")
		}
	}
	if b.PromptTokens[1]+b.OutputTokens[1] >= limit {
		return fmt.Errorf("background load: its longest requests do not fit into %d tokens", limit)
	}
	return nil
}

// queueBound is the queue at which further background requests stay away.
const queueBound = 1000

// background sends requests until it is closed.
type background struct {
	load   Background
	engine *engine
	vocab  int
	rng    *rand.Rand
	done   chan struct{}
	ended  chan struct{}
}

func startBackground(e *engine, c Config) *background {
	b := &background{
		load: c.Background, engine: e, vocab: lastWordID, rng: rand.New(rand.NewPCG(c.Seed, 2)),
		done: make(chan struct{}), ended: make(chan struct{}),
	}
	if b.load.Rate == 0 {
		close(b.ended)
		return b
	}
	go b.run()
	return b
}

func (b *background) close() {
	close(b.done)
	<-b.ended
}

func (b *background) run() {
	defer close(b.ended)
	next := time.Now()
	var leaving []departure
	for {
		next = next.Add(b.scaled(b.rng.ExpFloat64() / b.load.Rate))
		for len(leaving) > 0 && leaving[0].at.Before(next) {
			if !b.until(leaving[0].at) {
				return
			}
			b.engine.abort(leaving[0].job)
			leaving = leaving[1:]
		}
		if !b.until(next) {
			return
		}
		j := b.request()
		if b.engine.waiting() >= queueBound {
			continue
		}
		b.engine.submit(j)
		if b.rng.Float64() < b.load.AbortShare {
			leaving = insertDeparture(leaving, departure{at: next.Add(b.scaled(b.patience(j))), job: j})
		}
	}
}

// departure is a client that will leave.
type departure struct {
	at  time.Time
	job *job
}

func insertDeparture(list []departure, d departure) []departure {
	i := len(list)
	for i > 0 && list[i-1].at.After(d.at) {
		i--
	}
	list = append(list, departure{})
	copy(list[i+1:], list[i:])
	list[i] = d
	return list
}

// patience is about when half of an undisturbed answer is out, in unscaled seconds.
func (b *background) patience(j *job) float64 {
	p := b.engine.profile
	steps := float64(j.maxTokens) / p.AcceptMean(len(j.prompt))
	return p.PrefillSeconds(len(j.prompt)) + steps/2*p.StepSeconds(len(j.prompt))
}

func (b *background) request() *job {
	ids := make([]int32, b.between(b.load.PromptTokens))
	for i := range ids {
		ids[i] = firstWordID + b.rng.Int32N(int32(b.vocab-firstWordID))
	}
	return &job{endpoint: "background", prompt: ids, maxTokens: b.between(b.load.OutputTokens), background: true}
}

func (b *background) between(r [2]int) int { return r[0] + b.rng.IntN(r[1]-r[0]+1) }

func (b *background) scaled(seconds float64) time.Duration {
	return time.Duration(seconds / b.engine.scale * float64(time.Second))
}

func (b *background) until(at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.done:
		return false
	}
}
