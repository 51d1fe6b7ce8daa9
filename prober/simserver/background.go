package simserver

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Background is one kind of load of other people's requests. They go through the same queue, batch, cache and counters.
type Background struct {
	Rate         float64 // arrivals per second of simulated time, as a Poisson process; 0 none
	Burst        int     // requests that arrive together; 0 means 1
	Standing     int     // clients besides, each of which asks again as soon as it is answered
	PromptTokens [2]int  // from, to
	OutputTokens [2]int  // from, to

	Prefixes     int    // texts that prompts begin with, one of them each, as system prompts and documents are; 0 none
	PrefixTokens [2]int // their lengths, from and to, before the tokens of the prompt

	AbortShare    float64 // share of requests whose client leaves after half of the output time
	AbortAnywhere bool    // they leave at any time instead, also before the first token
}

func (b Background) idle() bool { return b.Rate == 0 && b.Standing == 0 }

func (b Background) validate(limit int) error {
	if b.idle() {
		return nil
	}
	if !(b.Rate >= 0) || b.Standing < 0 || b.Burst < 0 || b.Prefixes < 0 || !(b.AbortShare >= 0 && b.AbortShare <= 1) {
		return errors.New("background load: rate, burst, clients and prefixes must not be negative and the share of aborts lies from 0 to 1")
	}
	ranges := [][2]int{b.PromptTokens, b.OutputTokens}
	if b.Prefixes > 0 {
		ranges = append(ranges, b.PrefixTokens)
	}
	longest := 0
	for _, r := range ranges {
		if r[0] < 1 || r[1] < r[0] {
			return errors.New("background load: ranges of tokens start at 1 and do not fall")
		}
		longest += r[1]
	}
	if longest >= limit {
		return fmt.Errorf("background load: its longest requests do not fit into %d tokens", limit)
	}
	return nil
}

// queueBound is the queue at which further background requests stay away.
const queueBound = 1000

// background sends requests until it is closed.
type background struct {
	engine  *engine   // whose speed all have
	engines []*engine // that take turns
	turn    atomic.Uint64
	done    chan struct{}
	ended   sync.WaitGroup
}

func startBackground(engines []*engine, c Config) *background {
	b := &background{engine: engines[0], engines: engines, done: make(chan struct{})}
	for i, load := range append([]Background{c.Background}, c.Traffic...) {
		prefixes := load.prefixes(c.Seed, i)
		crowd := func(stream uint64) *crowd {
			return &crowd{background: b, load: load, prefixes: prefixes, rng: rand.New(rand.NewPCG(c.Seed, stream))}
		}
		if load.Rate > 0 {
			b.ended.Go(crowd(uint64(2 + 1000*i)).arrive)
		}
		for n := range load.Standing {
			b.ended.Go(crowd(uint64(3 + 1000*i + n)).stand)
		}
	}
	return b
}

func (b *background) close() {
	close(b.done)
	b.ended.Wait()
}

// prefixes are the texts that prompts of a load share, the same for a seed.
func (b Background) prefixes(seed uint64, kind int) [][]int32 {
	rng := rand.New(rand.NewPCG(seed, uint64(500+1000*kind)))
	texts := make([][]int32, b.Prefixes)
	for i := range texts {
		texts[i] = randomIDs(rng, between(rng, b.PrefixTokens))
	}
	return texts
}

func randomIDs(rng *rand.Rand, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = firstWordID + rng.Int32N(lastWordID-firstWordID)
	}
	return ids
}

func between(rng *rand.Rand, r [2]int) int { return r[0] + rng.IntN(r[1]-r[0]+1) }

// crowd is those who send one kind of load.
type crowd struct {
	*background
	load     Background
	prefixes [][]int32
	rng      *rand.Rand
}

// arrive sends requests that come at random.
func (b *crowd) arrive() {
	next := time.Now()
	var leaving []departure
	for {
		next = next.Add(b.scaled(b.rng.ExpFloat64() / b.load.Rate))
		for len(leaving) > 0 && leaving[0].at.Before(next) {
			if !b.until(leaving[0].at) {
				return
			}
			leaving[0].job.leave()
			leaving = leaving[1:]
		}
		if !b.until(next) {
			return
		}
		for range max(1, b.load.Burst) {
			j := b.request()
			e := b.next()
			if e.waiting() >= queueBound {
				continue
			}
			e.submit(j)
			if b.rng.Float64() < b.load.AbortShare {
				leaving = insertDeparture(leaving, departure{at: next.Add(b.scaled(b.patience(j))), job: j})
			}
		}
	}
}

// stand is one client that always has a request running.
func (b *crowd) stand() {
	for {
		j := b.request()
		j.over = make(chan struct{})
		b.next().submit(j)
		if !b.outlast(j) {
			return
		}
	}
}

// outlast waits until a request is over, which its client may bring about; false when the load is closed.
func (b *crowd) outlast(j *job) bool {
	var leave <-chan time.Time
	if b.rng.Float64() < b.load.AbortShare {
		timer := time.NewTimer(b.scaled(b.patience(j)))
		defer timer.Stop()
		leave = timer.C
	}
	for {
		select {
		case <-leave:
			j.leave()
			leave = nil
		case <-j.over:
			return true
		case <-b.done:
			return false
		}
	}
}

func (b *background) next() *engine {
	return b.engines[int(b.turn.Add(1)-1)%len(b.engines)]
}

// leave is a client's going away.
func (j *job) leave() { j.home.abort(j) }

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

// patience is when a client leaves, in unscaled seconds: about when half of an undisturbed answer is out, or at any time
// of an undisturbed request.
func (b *crowd) patience(j *job) float64 {
	p := b.engine.physics()
	prefill := p.PrefillSeconds(len(j.prompt))
	decode := float64(j.maxTokens) / p.AcceptMean(len(j.prompt)) * p.StepSeconds(len(j.prompt))
	if b.load.AbortAnywhere {
		return b.rng.Float64() * (prefill + decode)
	}
	return prefill + decode/2
}

func (b *crowd) request() *job {
	n := between(b.rng, b.load.PromptTokens)
	ids := randomIDs(b.rng, n)
	if len(b.prefixes) > 0 {
		prefix := b.prefixes[b.rng.IntN(len(b.prefixes))]
		ids = append(append(make([]int32, 0, len(prefix)+n), prefix...), ids...)
	}
	return &job{endpoint: "background", prompt: ids, maxTokens: between(b.rng, b.load.OutputTokens), background: true}
}

func (b *crowd) scaled(seconds float64) time.Duration {
	return time.Duration(seconds / b.engine.scale * float64(time.Second))
}

func (b *crowd) until(at time.Time) bool {
	return wait(time.Until(at), b.done)
}
