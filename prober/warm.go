package prober

import (
	"time"

	"longctx_exporter/prober/inference"
)

// Bounds of what timing alone may show, where the server counts no cached tokens.
const (
	warmShare     = 0.2  // of the cold TTFT: a warm leg below it was served from the cache
	missShare     = 0.8  // of the cold TTFT: a warm leg above it was computed anew
	alikeTTFT     = 0.2  // relative difference of warm TTFTs that were served alike
	alikeOfDecode = 0.05 // or their difference as a share of the time spent decoding
)

// checkWarm says whether a short leg on a prompt that was just computed took it from the cache, and remembers where not.
func (e *execution) checkWarm(c coldPrefill, short Leg) error {
	cached := known(short.Response.CachedTokens)
	if float64(cached) > templates*float64(e.length) {
		e.memory.countsSeen = true
		return nil
	}
	share := shortSeconds(short) / c.seconds()
	counted := short.Response.CachedTokens != nil && e.memory.countsSeen
	if share < warmShare && !counted {
		return nil
	}
	switch {
	case counted: // a cache that is known to work has lost the prompt this time
	case share > missShare && c.seconds() > 1:
		e.memory.noPrefixCache = time.Now()
	default:
		e.memory.noWarm[e.rung] = time.Now()
	}
	return reject(CacheMiss, "the prompt that was just computed was not served from a prefix cache (%.3g s to the first token, %.3g s cold)",
		shortSeconds(short), c.seconds())
}

// checkAlike says whether both legs of a warm pair recomputed the same, shown by the server's count, else by timing.
func (e *execution) checkAlike(c coldPrefill, short, long Leg) error {
	a, b := known(short.Response.CachedTokens), known(long.Response.CachedTokens)
	if a > 0 || b > 0 {
		if a == b {
			return nil
		}
		return reject(CacheMiss, "the legs of a warm pair took %d and %d tokens from the cache", a, b)
	}
	if !e.streamed(long) {
		e.memory.noWarm[e.rung] = time.Now()
		return reject(CacheMiss, "nothing shows that the long warm leg was served from the cache: no count, and the answer came in one piece")
	}
	first, second := shortSeconds(short), long.Response.TTFT.Seconds()
	apart := max(first, second) - min(first, second)
	decoding := (long.Response.LastToken - long.Response.TTFT).Seconds()
	if max(first, second) > warmShare*c.seconds() || apart > max(alikeTTFT*max(first, second), alikeOfDecode*decoding) {
		return reject(CacheMiss, "the legs of a warm pair took %.3g and %.3g s to the first token (%.3g s cold): not served alike",
			first, second, c.seconds())
	}
	return nil
}

// expectedWarm is not known before a warm leg of the rung was seen: a fraction of the cold one, for the progress line.
func (m *memory) expectedWarm(r Rung) time.Duration { return m.cold[r] / 10 }

// streamed says whether the chunk stamps of a leg mean what they say.
func (e *execution) streamed(l Leg) bool {
	return l.Response.Streamed && len(l.Response.Chunks) >= 2 && !e.buffered(l)
}

// buffered says whether chunks were held back and came in bursts. One chunk is one step, so that many in a single read
// were; llama.cpp alone sends each token of a step in a chunk of its own.
func (e *execution) buffered(l Leg) bool {
	burst := 4
	if e.facts.Dialect == inference.LlamaCpp && e.facts.Speculation != noSpeculation {
		burst = 17
	}
	chunks := l.Response.Chunks
	run, most := 0, 0
	for i, c := range chunks {
		if i > 0 && c.At != chunks[i-1].At {
			run = 0
		}
		run++
		most = max(most, run)
	}
	return l.Response.Encoded || most >= burst || most > 1 && most == len(chunks)
}
