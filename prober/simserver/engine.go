package simserver

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"
)

// engine schedules requests as inference servers do: first come first served, a bounded batch that decodes together, and
// long prompts prefilled in chunks between decode steps. It keeps its own clock of absolute times, so what it realises is
// exact however late the machine wakes it.
type engine struct {
	profile Profile
	rank    int
	faults  Faults
	scale   float64
	seed    uint64
	started time.Time
	epoch   time.Time // from which the truth counts
	words   []int32   // what continuations are made of
	journal journal
	single  bool // one slot that keeps only its last sequence
	uncut   bool // the last verify pass is handed out whole

	done    chan struct{}
	stopped chan struct{}
	wake    chan struct{}
	ticked  chan struct{} // closed when no further tick comes

	mu            sync.Mutex
	rng           *rand.Rand
	cache         *cache
	queue         []*job
	running       []*job // in order of admission
	clock         time.Time
	decodedLast   bool
	jobs          uint64
	scheduledJobs int
	truth         *history
	count         counters
	shown         gauges
	interval      interval
}

func newEngine(c Config, words []int32) *engine {
	e := &engine{
		profile: c.Profile, faults: c.Faults, scale: c.TimeScale, seed: c.Seed, started: time.Now(), words: words,
		single: c.Shape == shapeLlama || c.Shape == shapeOllama,
		done:   make(chan struct{}), stopped: make(chan struct{}), wake: make(chan struct{}, 1), ticked: make(chan struct{}),
		journal: noJournal{},
		rng:     rand.New(rand.NewPCG(c.Seed, 1)),
		cache:   newCache(c.Profile.PageSize, c.Profile.PoolTokens),
		count:   newCounters(c.Profile.BlockSize()),
	}
	e.clock = e.started
	return e
}

// submit queues a job. Its randomness depends on the server's seed and its own number alone.
func (e *engine) submit(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.jobs++
	j.rng = rand.New(rand.NewPCG(splitmix(e.jobs), e.seed))
	if j.id == "" {
		j.id = "req-" + strconv.FormatUint(splitmix(e.jobs+uint64(e.rank)<<40)|1<<63, 16)
	}
	j.textSeed = seedOf(j.prompt)
	j.notify = make(chan struct{}, 1)
	j.received = time.Now()
	j.home = e
	e.queue = append(e.queue, j)
	e.journal.received(e, j)
	e.nudge()
}

// abort takes a job out at the next boundary between passes.
func (e *engine) abort(j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	j.cancelled = true
	e.nudge()
}

func (e *engine) waiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.queue)
}

func (e *engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *engine) close() {
	close(e.done)
	<-e.stopped
	<-e.ticked
}

// start begins scheduling; close ends it.
func (e *engine) start(j journal) {
	e.journal = j
	j.started(e, e.started)
	go e.run()
	if j == (noJournal{}) {
		close(e.ticked)
		return
	}
	go e.tick()
}

func (e *engine) run() {
	defer close(e.stopped)
	for {
		pass := e.plan()
		if pass == nil {
			if !e.idle() {
				return
			}
			continue
		}
		if !e.sleepUntil(pass.end) {
			return
		}
		e.commit(pass)
	}
}

// idle waits for work; false when the engine is closed. Gauges that are not kept up to date are refreshed after half a
// minute.
func (e *engine) idle() bool {
	timer := time.NewTimer(time.Duration(30 / e.scale * float64(time.Second)))
	defer timer.Stop()
	refresh := timer.C
	for {
		select {
		case <-e.wake:
			return true
		case <-e.done:
			return false
		case <-refresh:
			e.mu.Lock()
			e.show()
			e.shown.throughput = 0
			e.mu.Unlock()
			refresh = nil
		}
	}
}

// pass is one forward pass of the engine: a prefill chunk of one request or a decode step of the batch.
type pass struct {
	prefill *job
	chunk   chunk
	batch   []*job
	seconds float64 // wall clock
	end     time.Time
}

// plan admits what fits and picks the next pass; nil when there is nothing to do.
func (e *engine) plan() *pass {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.reap()
	for len(e.queue) > 0 && len(e.running) < e.profile.MaxRunning && e.admit(e.queue[0]) {
		e.queue = slices.Delete(e.queue, 0, 1)
	}
	var next *job
	var batch []*job
	for _, j := range e.running {
		if j.prefilled {
			batch = append(batch, j)
		} else if next == nil {
			next = j
		}
	}
	if next != nil && (len(batch) == 0 || e.decodedLast) {
		e.decodedLast = false
		return e.planChunk(next)
	}
	if len(batch) == 0 {
		return nil
	}
	e.decodedLast = true
	return e.timed(&pass{batch: batch}, e.clock, e.passSeconds(batch, e.clock))
}

func (e *engine) planChunk(j *job) *pass {
	e.show()
	n := min(e.profile.ChunkTokens, len(j.prompt)-j.computed)
	start := e.clock
	if j.scheduled.After(start) {
		start = j.scheduled
	}
	c := e.chunkFacts(j, n)
	e.journal.scheduled(e, c)
	return e.timed(&pass{prefill: j, chunk: c}, start, e.chunkSeconds(j, n))
}

func (e *engine) timed(p *pass, start time.Time, unscaled float64) *pass {
	p.seconds = unscaled / e.scale
	p.end = start.Add(time.Duration(p.seconds * float64(time.Second)))
	return p
}

// reap ends jobs whose clients have left.
func (e *engine) reap() {
	for _, list := range []*[]*job{&e.queue, &e.running} {
		for _, j := range slices.Clone(*list) {
			if j.cancelled {
				*list = slices.DeleteFunc(*list, func(x *job) bool { return x == j })
				e.end(j, "abort")
				j.emit(event{final: true})
			}
		}
	}
}

// admit gives a job its place in the batch and in the pool; false when there is no room yet.
func (e *engine) admit(j *job) bool {
	matched, at := 0, (*node)(nil)
	if !j.noCache && !e.faults.NoPrefixCache && len(j.prompt) > 0 {
		matched, at = e.cache.match(j.salt, j.prompt[:len(j.prompt)-1])
	}
	before := e.cache.lost
	e.cache.lock(at, 1)
	need := len(j.prompt) - matched + min(j.maxTokens, 4096) + e.profile.BlockSize()
	if e.single {
		e.cache.drop()
	}
	if need > e.cache.free()+e.cache.evictable() && len(e.running) > 0 {
		e.cache.lock(at, -1)
		return false
	}
	e.cache.evict(need)
	j.evicted = e.cache.lost.since(before)
	j.node, j.reserved, j.matched = at, need, matched
	e.cache.reserved += need
	j.scheduled = e.clock
	if len(e.running) == 0 || j.received.After(e.clock) {
		j.scheduled = laterOf(e.clock, j.received)
	}
	if len(e.running) == 0 {
		e.clock = j.scheduled
	}
	e.roll(j)
	j.cached = e.faults.distort(j.rng, matched, len(j.prompt))
	j.computed = j.cached
	e.running = append(e.running, j)
	e.count.prefillCache += j.cached
	e.count.scheduledPrompts += len(j.prompt)
	j.emit(event{progress: j.computed})
	return true
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// commit books what a pass has done.
func (e *engine) commit(p *pass) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.clock = p.end
	if p.prefill != nil {
		e.commitChunk(p)
		return
	}
	e.count.decodePasses++
	if e.count.decodePasses%sglangDecodeInterval == 0 || !e.faults.StaleGauges {
		e.show()
	}
	for _, j := range p.batch {
		e.commitStep(j, p.seconds)
	}
	e.journal.decoded(e, p.batch)
	if e.count.decodePasses%sglangDecodeInterval == 0 {
		e.showInterval()
	}
}

func (e *engine) commitChunk(p *pass) {
	j, tokens := p.prefill, p.chunk.tokens
	j.computed += tokens
	e.count.prefillCompute += tokens
	e.count.prefillPasses++
	p.chunk.done = p.end
	e.journal.prefilled(e, p.chunk)
	j.emit(event{progress: j.computed})
	if j.computed < len(j.prompt) {
		return
	}
	j.prefilled = true
	e.store(j, j.prompt)
	j.firstToken = e.clock
	e.count.observePrefill(j)
	if j.maxTokens == 0 {
		e.finish(j, nil, "length")
		return
	}
	tokensOut := e.nextTokens(j, 1)
	j.noteOutput(e.clock)
	e.count.emitted++
	switch {
	case j.stopAt == 1:
		e.finish(j, tokensOut, "stop")
	case j.maxTokens == 1 && !e.faults.OvershootBudget:
		e.finish(j, tokensOut, "length")
	default:
		j.emit(event{tokens: tokensOut})
	}
}

func (e *engine) commitStep(j *job, seconds float64) {
	k := e.drawAccepted(j)
	j.accepted = append(j.accepted, k)
	j.steps = append(j.steps, seconds)
	e.count.observeStep(k, seconds)
	n, finish := k, ""
	if left := j.maxTokens - len(j.output); n >= left {
		finish = "length"
		if !e.faults.OvershootBudget && !e.uncut {
			n = left
		}
	}
	if left := j.stopAt - len(j.output); j.stopAt > 0 && n >= left {
		n, finish = left, "stop"
	}
	tokens := e.nextTokens(j, n)
	j.noteOutput(e.clock)
	e.count.emitted += n
	if finish == "" {
		j.emit(event{tokens: tokens})
		return
	}
	e.finish(j, tokens, finish)
}

// store moves what a job has computed from its reservation into the prefix cache.
func (e *engine) store(j *job, ids []int32) {
	e.cache.reserved -= j.reserved
	if j.noCache || e.faults.NoPrefixCache {
		e.cache.reserved += j.reserved
		return
	}
	before, lost := e.cache.used, e.cache.lost
	at := e.cache.insert(j.salt, ids, j.background)
	made := e.cache.lost.since(lost)
	j.evicted.background += made.background
	j.evicted.foreground += made.foreground
	e.cache.lock(at, 1)
	e.cache.lock(j.node, -1)
	j.node = at
	j.reserved = max(0, j.reserved-(e.cache.used-before))
	e.cache.reserved += j.reserved
}

// finish ends a job that is in the batch and hands out its last tokens.
func (e *engine) finish(j *job, tokens []int32, reason string) {
	e.running = slices.DeleteFunc(e.running, func(x *job) bool { return x == j })
	e.end(j, reason)
	j.emit(event{tokens: tokens, final: true})
}

// end frees what a job holds and writes down what happened to it.
func (e *engine) end(j *job, reason string) {
	j.finish, j.finished = reason, e.clock
	if reason == "abort" && j.scheduled.IsZero() {
		j.finished = laterOf(e.clock, j.received)
	}
	if !j.scheduled.IsZero() {
		e.store(j, e.sequence(j))
		e.cache.lock(j.node, -1)
		e.cache.reserved -= j.reserved
		j.node, j.reserved = nil, 0
	}
	e.count.observeEnd(j)
	e.truth.add(e.record(j))
	e.journal.ended(e, j)
	if !e.faults.StaleGauges {
		e.show()
	}
}

// sequence is what of a job has keys and values: all but the last token.
func (e *engine) sequence(j *job) []int32 {
	if len(j.output) == 0 {
		return j.prompt[:j.computed]
	}
	return append(slices.Clone(j.prompt), j.output[:len(j.output)-1]...)
}

// abortMatching aborts the requests whose ids match; they end as answers that were aborted.
func (e *engine) abortMatching(match func(id string) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range slices.Concat(e.queue, e.running) {
		if match(j.id) {
			j.cancelled = true
		}
	}
	e.nudge()
}
