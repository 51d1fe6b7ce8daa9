package simserver

import (
	"hash/fnv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Ids below firstWordID are control ids and single bytes; words live from there to lastWordID.
const (
	eosID       = 2
	firstByteID = 3
	firstWordID = 1000
	lastWordID  = 150_000
	maxWord     = 12 // letters in one piece; longer words are cut as real tokenizers do
)

// tokenizer cuts text into words with their leading space, numbers and punctuation, and gives each piece an id by its
// hash. It learns words as it meets them, so both directions are exact. When its vocabulary is full it falls back to bytes.
type tokenizer struct {
	mu    sync.Mutex
	ids   map[string]int32
	words map[int32]string
}

func newTokenizer() *tokenizer {
	return &tokenizer{ids: map[string]int32{}, words: map[int32]string{}}
}

// encode gives the ids of text, without special ones.
func (t *tokenizer) encode(text string) []int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := make([]int32, 0, len(text)/4+1)
	for len(text) > 0 {
		n := pieceLength(text)
		if id, ok := t.intern(text[:n]); ok {
			ids = append(ids, id)
		} else {
			for _, b := range []byte(text[:n]) {
				ids = append(ids, firstByteID+int32(b))
			}
		}
		text = text[n:]
	}
	return ids
}

// decode gives the text of ids. An id that no text has had yet gets a word of its own.
func (t *tokenizer) decode(ids []int32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, id := range ids {
		switch {
		case id >= firstByteID && id < firstByteID+256:
			b.WriteByte(byte(id - firstByteID))
		case id >= firstWordID && id <= lastWordID:
			b.WriteString(t.word(id))
		}
	}
	return b.String()
}

func (t *tokenizer) intern(piece string) (int32, bool) {
	if id, ok := t.ids[piece]; ok {
		return id, true
	}
	const room = lastWordID - firstWordID + 1
	if !utf8.ValidString(piece) || len(t.ids) >= room*9/10 {
		return 0, false
	}
	h := fnv.New32a()
	h.Write([]byte(piece))
	for at := h.Sum32() % room; ; at = (at + 1) % room {
		id := int32(firstWordID + at)
		if _, taken := t.words[id]; !taken {
			t.ids[strings.Clone(piece)], t.words[id] = id, strings.Clone(piece)
			return id, true
		}
	}
}

func (t *tokenizer) word(id int32) string {
	if w, ok := t.words[id]; ok {
		return w
	}
	w := " "
	for n := id; ; n /= 100 {
		w += string("bcdfghjklmnprstvwxyz"[n%20]) + string("aeiou"[n%100/20])
		if _, taken := t.ids[w]; n < 100 && !taken {
			break
		} else if n < 100 {
			n = id
		}
	}
	t.ids[w], t.words[id] = id, w
	return w
}

// pieceLength is the length in bytes of the first piece of text.
func pieceLength(text string) int {
	r, size := utf8.DecodeRuneInString(text)
	if unicode.IsSpace(r) {
		return spaceLength(text, r, size)
	}
	return solidLength(text, r, size)
}

// spaceLength takes a run of white space but leaves its last blank to the word that follows; a single blank takes the
// word along.
func spaceLength(text string, first rune, size int) int {
	end := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) })
	switch {
	case end < 0:
		return len(text)
	case first == ' ' && end == size:
		r, n := utf8.DecodeRuneInString(text[end:])
		return end + solidLength(text[end:], r, n)
	case text[end-1] == ' ' && end > 1:
		return end - 1
	}
	return end
}

func solidLength(text string, first rune, size int) int {
	switch {
	case unicode.IsLetter(first):
		return runLength(text, unicode.IsLetter, maxWord)
	case unicode.IsDigit(first):
		return runLength(text, unicode.IsDigit, 3)
	}
	return size
}

func runLength(text string, is func(rune) bool, most int) int {
	n := 0
	for i, r := range text {
		if n == most || !is(r) {
			return i
		}
		n++
	}
	return len(text)
}
