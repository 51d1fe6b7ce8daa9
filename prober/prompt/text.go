package prompt

import (
	"math"
	"slices"
	"strings"
)

const (
	nonceLength = 8 // words of a nonce, of 256 to choose from: 64 bits
	// Tokens beyond the prose before anything was counted, and as long as nothing at another length was: the nonce's, and a chat
	// template of 0 to 60.
	firstOverhead = 20
	usualOverhead = 38
	near          = 0.01 // observations this close in length are of one length
	changed       = 0.02 // an observation that differs this much from an earlier one of its length shows another tokenizer
	exactWithin   = 0.05 // a build this far from an observation is off by a tenth of that at most: 0.5 %
)

// Text makes text prompts for servers that take no token ids. It learns their length from what the server counts. It is not
// safe for concurrent use.
type Text struct {
	prose    *Prose
	observed []observation
}

// observation is what the server counted for a prompt: tokens is the whole of it, weight that of its prose.
type observation struct{ weight, tokens float64 }

// NewText makes text prompts of prose.
func NewText(prose *Prose) *Text { return &Text{prose: prose} }

// Snapshot makes the prompts that b makes now, whatever b learns later.
func (b *Text) Snapshot() *Text {
	return &Text{prose: b.prose, observed: slices.Clone(b.observed)}
}

// Build makes a prompt of about the given number of tokens, as near as the observations so far allow: a line of eight words
// that the nonce picks, and the end of the prose, from the beginning of a sentence where that is near enough. Different nonces give
// different lines.
func (b *Text) Build(tokens int, nonce uint64) Passage { return b.Plant(tokens, nonce, "", 0) }

// Plant makes the prompt of Build with a fact, which ends in an empty line, between two paragraphs: at a depth from 0, right
// behind the nonce, to 1, before the end that all prompts share. The fact takes the place of as much prose.
func (b *Text) Plant(tokens int, nonce uint64, fact string, depth float64) Passage {
	prose := b.end(b.weightFor(float64(tokens))-weigh(fact), float64(tokens)/1000)
	size := prose.size()
	before := size - int(float64(size)*min(1, commonEnd/float64(tokens)))
	return slices.Concat(Passage{nonceLine(nonce)}, prose.plant(fact, int(depth*float64(before))))
}

// end is the end of the prose with the wanted weight, cut at a sentence where one begins within the tolerance.
func (b *Text) end(want, tolerance float64) Passage {
	var parts Passage
	for i := 0; ; i++ {
		block := b.prose.block(i)
		if block.weight >= want {
			parts = append(parts, block.text[cut(block.text, want, tolerance):])
			break
		}
		want -= block.weight
		parts = append(parts, block.text)
	}
	slices.Reverse(parts)
	return parts
}

// nonceLine is eight short words, one for each byte of the scrambled nonce.
func nonceLine(nonce uint64) string {
	words := strings.Fields(nonceWords)
	line := make([]string, nonceLength)
	x := scramble(nonce)
	for i := range line {
		line[i] = words[x&0xff]
		x >>= 8
	}
	s := strings.Join(line, " ") + ".\n\n"
	return strings.ToUpper(s[:1]) + s[1:]
}

// Observe learns how many tokens the server counted for a prompt that Build made. Counts of prompts that the server cut short
// must be kept from it.
func (b *Text) Observe(prompt Passage, counted int) {
	if len(prompt) == 0 || counted < 1 {
		return
	}
	o := observation{tokens: float64(counted)}
	for _, part := range prompt[1:] { // the first is the nonce's line
		o.weight += weigh(part)
	}
	var kept []observation
	for _, old := range b.observed {
		if math.Abs(old.weight-o.weight) > near*o.weight {
			kept = append(kept, old)
			continue
		}
		expected := old.tokens + (o.weight-old.weight)*b.slope()
		if math.Abs(expected-o.tokens) > changed*o.tokens {
			kept = nil
			break
		}
	}
	b.observed = append(kept, o)
}

// Exact tells whether the length of the next Build of so many tokens is known within 0.5 %.
func (b *Text) Exact(tokens int) bool {
	o, ok := b.nearest(float64(tokens))
	return ok && math.Abs(o.tokens-float64(tokens)) <= exactWithin*float64(tokens)
}

func (b *Text) nearest(tokens float64) (nearest observation, ok bool) {
	for _, o := range b.observed {
		if !ok || math.Abs(o.tokens-tokens) < math.Abs(nearest.tokens-tokens) {
			nearest, ok = o, true
		}
	}
	return nearest, ok
}

// weightFor is the weight of prose that makes a prompt of so many tokens: from the nearest observation towards the nearest on
// the other side, where there is one, else along the slope of them all.
func (b *Text) weightFor(tokens float64) float64 {
	from, ok := b.nearest(tokens)
	if !ok {
		return tokens - firstOverhead
	}
	slope := b.slope()
	distance := math.Inf(1)
	for _, o := range b.observed {
		opposite := (o.tokens-tokens)*(from.tokens-tokens) < 0
		ascending := (o.tokens-from.tokens)*(o.weight-from.weight) > 0
		if d := math.Abs(o.tokens - tokens); opposite && ascending && d < distance {
			distance = d
			slope = (o.tokens - from.tokens) / (o.weight - from.weight)
		}
	}
	return from.weight + (tokens-from.tokens)/slope
}

// slope is the number of tokens a unit of weight, from the longest prompt that was counted, less what is not prose in it:
// the constant part of the line through shortest and longest, where these differ enough to tell.
func (b *Text) slope() float64 {
	shortest, longest := b.observed[0], b.observed[0]
	for _, o := range b.observed {
		if o.weight < shortest.weight {
			shortest = o
		}
		if o.weight > longest.weight {
			longest = o
		}
	}
	overhead := min(usualOverhead, longest.tokens/4)
	if longest.weight > 1.5*shortest.weight && longest.tokens > shortest.tokens {
		line := (longest.tokens - shortest.tokens) / (longest.weight - shortest.weight)
		overhead = max(0, shortest.tokens-line*shortest.weight)
	}
	return (longest.tokens - overhead) / max(longest.weight, 1)
}

// weigh guesses the tokens of prose: one a word, more for long words, one a punctuation mark, half of one a digit. Only its
// proportions matter. The weight of a text is the sum of the weights of its words.
func weigh(text string) float64 {
	var twentieths, run int
	for i := range len(text) {
		switch c := text[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			run++
			switch {
			case run == 1:
				twentieths += 20
			case run > 7:
				twentieths += 3
			}
			continue
		case c >= '0' && c <= '9', c == '\n':
			twentieths += 10
		case c != ' ' && c != '\'':
			twentieths += 20
		}
		run = 0
	}
	return float64(twentieths) / 20
}

// cut is where the suffix of text with the wanted weight begins: at the beginning of a sentence if one is within the tolerance,
// else at the nearest word.
func cut(text string, want, tolerance float64) int {
	best, bestOff := len(text), math.Inf(1)
	sentence, sentenceOff := -1, tolerance
	weight := 0.0
	for end := len(text); end > 0 && weight < want+tolerance; {
		start := strings.LastIndexAny(text[:end-1], " \n") + 1
		weight += weigh(text[start:end])
		end = start
		if text[start] == '\n' {
			continue
		}
		off := math.Abs(weight - want)
		if off < bestOff {
			best, bestOff = start, off
		}
		if off <= sentenceOff && beginsSentence(text[:start]) {
			sentence, sentenceOff = start, off
		}
	}
	if sentence >= 0 {
		return sentence
	}
	return best
}

// beginsSentence tells whether a sentence begins after before.
func beginsSentence(before string) bool {
	before = strings.TrimSuffix(before, " ")
	return before == "" || strings.HasSuffix(before, ".") || strings.HasSuffix(before, ".\"") || strings.HasSuffix(before, "\n")
}
