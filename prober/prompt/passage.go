package prompt

import (
	"slices"
	"strings"
)

// Passage is a prompt of text in parts, each of which ends in an empty line but the last: put together, a long one takes a
// megabyte, of which all targets share what is prose.
type Passage []string

func (p Passage) String() string { return strings.Join(p, "") }

// Then is the passage with more text at its end.
func (p Passage) Then(text string) Passage { return append(p[:len(p):len(p)], text) }

func (p Passage) size() int {
	n := 0
	for _, part := range p {
		n += len(part)
	}
	return n
}

// plant puts a fact before the last paragraph that begins at or before a place.
func (p Passage) plant(fact string, at int) Passage {
	if fact == "" {
		return p
	}
	for i, part := range p {
		if at > len(part) {
			at -= len(part)
			continue
		}
		at = paragraphBefore(part, at)
		return slices.Concat(p[:i], Passage{part[:at], fact, part[at:]}, p[i+1:])
	}
	return p
}
