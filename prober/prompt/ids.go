package prompt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unique"
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
	bos    int32
	drawn  []int32 // the different ids of the text
	pieces []piece // of the end of the text
	total  int     // ids in them
}

// piece is a part of the text as it is sent. Targets with one tokenizer share it.
type piece struct {
	list unique.Handle[string]
	ids  int
}

// NewIDs tokenises as much prose as a prompt of longest tokens needs, piece by piece from its end.
func NewIDs(ctx context.Context, tokenize Tokenizer, prose *Prose, longest int) (*IDs, error) {
	b := &IDs{bos: -1}
	longest = max(longest, leastIDs)
	seen := map[int32]bool{}
	text := "" // not tokenised yet; grows at its front
	blocks, used := 0, 0
	for b.total < longest {
		size := firstPiece
		if b.total > 0 {
			size = min(pieceSize, (longest-b.total)*used/b.total*21/20+512)
		}
		for ; len(text) < size; blocks++ {
			text = prose.block(blocks).text + text
		}
		rest := paragraphBefore(text, len(text)-size)
		end := text[rest:]
		ids, bos, err := tokenize(ctx, end)
		if err != nil {
			return nil, fmt.Errorf("tokenising %d bytes of prompt text: %w", len(end), err)
		}
		if len(ids) > 0 && ids[0] == bos {
			ids = ids[1:]
		}
		if err := plausible(ids, end); err != nil {
			return nil, fmt.Errorf("tokenising prompt text: %w", err)
		}
		for _, id := range ids {
			if !seen[id] {
				seen[id] = true
				b.drawn = append(b.drawn, id)
			}
		}
		b.bos = bos
		b.pieces = append(b.pieces, piece{unique.Make(listOf(ids)), len(ids)})
		b.total += len(ids)
		used += len(end)
		text = text[:rest]
	}
	slices.Reverse(b.pieces)
	return b, nil
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
	different := map[int32]bool{}
	for _, id := range ids {
		if different[id] = true; len(different) == leastVaried {
			return nil
		}
	}
	if n := len(different); n < min(leastVaried, len(text)/100) {
		return fmt.Errorf("the server's tokenizer returned only %d different ids for %d bytes of prose", n, len(text))
	}
	return nil
}

// Longest is the longest prompt that Build makes, in tokens.
func (b *IDs) Longest() int { return b.total }

// Build makes a prompt of exactly the given number of tokens: the beginning-of-sequence token where the server puts one,
// eight ids that the nonce draws from those of the text, and the end of the text. Prompts of different nonces have nothing but
// the former in common at their beginning, so no prefix cache serves one with the other; prompts of one length end alike. The
// nonce's ids are plain text, since special ones mean things to servers.
func (b *IDs) Build(tokens int, nonce uint64) (Sequence, error) {
	return b.Plant(tokens, nonce, nil, 0)
}

// Plant makes the prompt of Build with a fact's ids at a depth from 0, right behind the nonce, to 1, before the end that all
// prompts share. Its length is that of Build: the fact takes the place of as much text.
func (b *IDs) Plant(tokens int, nonce uint64, fact []int32, depth float64) (Sequence, error) {
	if tokens < leastIDs || tokens > b.total {
		return nil, fmt.Errorf("a prompt of %d tokens is outside of %d to %d, what the prompt text allows", tokens, leastIDs, b.total)
	}
	head := make([]int32, 0, 1+nonceIDs)
	if b.bos >= 0 {
		head = append(head, b.bos)
	}
	// Digits of the scrambled nonce in base n, so that with n ≥ 256 different nonces never give the same eight ids.
	n := uint64(len(b.drawn))
	for x, i := scramble(nonce), 0; i < nonceIDs; i++ {
		head = append(head, b.drawn[x%n])
		x /= n
	}
	rest := tokens - len(head) - len(fact)
	if rest < len(fact) {
		return nil, fmt.Errorf("a fact of %d tokens does not fit a prompt of %d", len(fact), tokens)
	}
	at := int(depth * float64(max(0, rest-commonEnd)))
	return slices.Concat(Sequence{}.Then(head), b.text(rest, rest-at), Sequence{}.Then(fact), b.text(rest-at, 0)), nil
}

// text is the text from so many ids before its end to so many before its end.
func (b *IDs) text(from, to int) Sequence {
	var s Sequence
	left := b.total // ids from the beginning of the piece to the end of the text
	for _, p := range b.pieces {
		first, last := max(0, left-from), min(p.ids, left-to)
		left -= p.ids
		if first >= last {
			continue
		}
		list := p.list.Value()
		if last < p.ids {
			list = list[:place(list, last)-1]
		}
		s = append(s, list[place(list, first):])
	}
	return s
}

// scramble spreads nonces, which may be consecutive, over all of 64 bits, one to one (the finaliser of splitmix64).
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
