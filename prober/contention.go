package prober

// Contention is what the requests of a run felt that other people's requests disturbed: no measurement of the server, but what
// its users felt then. A zero field is not known.
type Contention struct {
	TTFT       float64 // seconds, mean over the cold legs that were streamed
	Step       float64 // seconds per verify pass, mean over the long legs whose stream and passes are known
	DecodeRate float64 // tokens per second of one request, after its first token
	Running    int     // requests of others in the batch, as the server told after the last leg
}

// felt is what the legs of a contended run felt; nil where none tells anything. Differences of two legs say nothing here: others
// may have disturbed either.
func (e *execution) felt() *Contention {
	var c Contention
	var ttft, span, timed, tokens float64
	colds, steps := 0, 0
	for _, l := range e.run.Legs {
		r := l.Response
		if l.Error != "" || r.CompletionTokens == nil || r.TTFT <= 0 || e.buffered(l) {
			continue
		}
		if l.Kind == cold && checkCold(l) == nil {
			ttft += r.TTFT.Seconds()
			colds++
		}
		if l.MaxTokens <= e.memory.shortTokens || !e.streamed(l) || r.Chunks[0].Tokens > 1 {
			continue
		}
		decoding := (r.LastToken - r.TTFT).Seconds()
		span += decoding
		tokens += float64(*r.CompletionTokens - 1)
		if n, ok := e.toldSteps(l); ok {
			steps += n
			timed += decoding
		}
	}
	if colds > 0 {
		c.TTFT = ttft / float64(colds)
	}
	if steps > 0 && timed >= leastDelta {
		c.Step = timed / float64(steps)
	}
	if span >= leastDelta && tokens/span <= fastest {
		c.DecodeRate = tokens / span
	}
	if c == (Contention{}) {
		return nil
	}
	if e.after != nil {
		c.Running = known(e.after.Running)
	}
	return &c
}

// toldSteps are the verify passes of a leg by a source that others cannot disturb: what the server counts over all requests is
// none.
func (e *execution) toldSteps(l Leg) (int, bool) {
	for _, source := range stepSources() {
		if source == "counters" {
			continue
		}
		if n, ok := e.legSteps(source, l); ok && n > 0 {
			return n, true
		}
	}
	return 0, false
}
