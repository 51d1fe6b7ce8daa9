package prompt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Tokenizer gives the ids of text by the server's own tokenizer, without special tokens, and the id of the
// beginning-of-sequence token that the server puts before a text prompt, -1 where it puts none.
type Tokenizer func(ctx context.Context, text string) (ids []int32, bos int32, err error)

const (
	nonceIDs    = 8        // ids of a nonce
	leastIDs    = 16       // the shortest prompt: a nonce and some text
	firstPiece  = 8 << 10  // bytes; the sample that tells how many bytes make a token
	pieceSize   = 64 << 10 // bytes; server tokenizers are slow and some limit the size of a request
	longToken   = 32       // bytes; no tokenizer makes prose of tokens this long on average
	leastVaried = 32       // different ids that any tokenizer finds in a sample of prose
)

// IDs makes prompts of token ids. It is safe for concurrent use.
type IDs struct {
	bos   int32
	drawn []int32  // the different ids of the text, ascending
	text  []uint16 // the end of the text, as indices of drawn: a program keeps as many texts as it has targets
}

// NewIDs tokenises as much of the seed's prose as a prompt of longest tokens needs, piece by piece from its end.
func NewIDs(ctx context.Context, tokenize Tokenizer, seed uint64, longest int) (*IDs, error) {
	b := &IDs{bos: -1}
	longest = max(longest, leastIDs)
	var pieces [][]int32
	w := newWriter(seed)
	text := "" // not tokenised yet; grows at its front
	blocks, have, used := 0, 0, 0
	for have < longest {
		size := firstPiece
		if have > 0 {
			size = min(pieceSize, (longest-have)*used/have*21/20+512)
		}
		for ; len(text) < size; blocks++ {
			text = w.block(blocks) + text
		}
		rest := paragraphBefore(text, len(text)-size)
		piece := text[rest:]
		ids, bos, err := tokenize(ctx, piece)
		if err != nil {
			return nil, fmt.Errorf("tokenising %d bytes of prompt text: %w", len(piece), err)
		}
		if len(ids) > 0 && ids[0] == bos {
			ids = ids[1:]
		}
		if err := plausible(ids, piece); err != nil {
			return nil, fmt.Errorf("tokenising prompt text: %w", err)
		}
		b.bos = bos
		pieces = append(pieces, ids)
		have += len(ids)
		used += len(piece)
		text = text[:rest]
	}
	slices.Reverse(pieces)
	var err error
	if b.drawn, b.text, err = condense(pieces, have); err != nil {
		return nil, fmt.Errorf("tokenising prompt text: %w", err)
	}
	return b, nil
}

// condense gives the different ids of the pieces, ascending, and all total of them as indices of those.
func condense(pieces [][]int32, total int) (drawn []int32, text []uint16, err error) {
	index := map[int32]uint16{}
	for _, piece := range pieces {
		for _, id := range piece {
			index[id] = 0
		}
	}
	if len(index) > math.MaxUint16+1 {
		return nil, nil, fmt.Errorf("the server's tokenizer returned %d different ids for prose of a few thousand words", len(index))
	}
	drawn = slices.Sorted(maps.Keys(index))
	for i, id := range drawn {
		index[id] = uint16(i)
	}
	text = make([]uint16, 0, total)
	for _, piece := range pieces {
		for _, id := range piece {
			text = append(text, index[id])
		}
	}
	return drawn, text, nil
}

// paragraphBefore is where the last paragraph that begins at or before i begins.
func paragraphBefore(text string, i int) int {
	if at := strings.LastIndex(text[:i], "\n\n"); at >= 0 {
		return at + len("\n\n")
	}
	return 0
}

// plausible tells why ids cannot be the tokens of text.
func plausible(ids []int32, text string) error {
	if len(ids) == 0 {
		return errors.New("the server's tokenizer returned no ids")
	}
	if len(ids) > len(text)+1 || len(ids) < len(text)/longToken {
		return fmt.Errorf("the server's tokenizer returned %d ids for %d bytes of prose", len(ids), len(text))
	}
	if low := slices.Min(ids); low < 0 {
		return fmt.Errorf("the server's tokenizer returned the negative id %d", low)
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(ids)))); n < min(leastVaried, len(text)/100) {
		return fmt.Errorf("the server's tokenizer returned only %d different ids for %d bytes of prose", n, len(text))
	}
	return nil
}

// Longest is the longest prompt that Build makes, in tokens.
func (b *IDs) Longest() int { return len(b.text) }

// Build makes a prompt of exactly the given number of tokens: the beginning-of-sequence token where the server puts one,
// eight ids that the nonce draws from those of the text, and the end of the text. Prompts of different nonces have nothing but
// the former in common at their beginning, so no prefix cache serves one with the other; prompts of one length end alike. The
// nonce's ids are plain text, since special ones mean things to servers.
func (b *IDs) Build(tokens int, nonce uint64) ([]int32, error) {
	return b.Plant(tokens, nonce, nil, 0)
}

// Plant makes the prompt of Build with a fact's ids at a depth from 0, right behind the nonce, to 1, before the end that all
// prompts share. Its length is that of Build: the fact takes the place of as much text.
func (b *IDs) Plant(tokens int, nonce uint64, fact []int32, depth float64) ([]int32, error) {
	if tokens < leastIDs || tokens > len(b.text) {
		return nil, fmt.Errorf("a prompt of %d tokens is outside of %d to %d, what the prompt text allows", tokens, leastIDs, len(b.text))
	}
	prompt := make([]int32, 0, tokens)
	if b.bos >= 0 {
		prompt = append(prompt, b.bos)
	}
	// Digits of the scrambled nonce in base n, so that with n ≥ 256 different nonces never give the same eight ids.
	n := uint64(len(b.drawn))
	for x, i := scramble(nonce), 0; i < nonceIDs; i++ {
		prompt = append(prompt, b.drawn[x%n])
		x /= n
	}
	rest := tokens - len(prompt) - len(fact)
	if rest < len(fact) {
		return nil, fmt.Errorf("a fact of %d tokens does not fit a prompt of %d", len(fact), tokens)
	}
	text := b.text[len(b.text)-rest:]
	at := int(depth * float64(max(0, rest-commonEnd)))
	prompt = append(b.appendText(prompt, text[:at]), fact...)
	return b.appendText(prompt, text[at:]), nil
}

func (b *IDs) appendText(prompt []int32, text []uint16) []int32 {
	for _, i := range text {
		prompt = append(prompt, b.drawn[i])
	}
	return prompt
}

// scramble spreads nonces, which may be consecutive, over all of 64 bits, one to one (the finaliser of splitmix64).
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
