package prompt

import (
	"strconv"
	"strings"
)

// Sequence is a prompt of token ids as it is sent: lists of decimal numbers with commas between them, in parts that the targets
// with one tokenizer share. A long prompt takes a megabyte.
type Sequence []string

// Then is the sequence with more ids at its end.
func (s Sequence) Then(ids []int32) Sequence {
	if len(ids) == 0 {
		return s
	}
	return append(s[:len(s):len(s)], listOf(ids))
}

func listOf(ids []int32) string {
	var b strings.Builder
	b.Grow(7 * len(ids)) // six digits and a comma
	var digits [20]byte
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(strconv.AppendInt(digits[:0], int64(id), 10))
	}
	return b.String()
}

// place is where the id with so many before it begins in a list.
func place(list string, before int) int {
	at := 0
	for range before {
		at += strings.IndexByte(list[at:], ',') + 1
	}
	return at
}
