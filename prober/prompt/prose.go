package prompt

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
)

// blockSize is how much prose one seeded block holds, in bytes, before its last paragraph ends.
const blockSize = 32 << 10

// Prose is the text that prompts are made of, written as far as one of them needed it. Targets share it: each would write and keep
// a megabyte of its own. It is safe for concurrent use.
type Prose struct {
	seed uint64

	mu     sync.Mutex
	writer *writer // nil until there is something to write
	blocks []block // the end of the text first
}

// block is a piece of prose and its weight.
type block struct {
	text   string
	weight float64
}

// NewProse is the prose of a seed.
func NewProse(seed uint64) *Prose { return &Prose{seed: seed} }

// block is block i of the prose.
func (p *Prose) block(i int) block {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i >= len(p.blocks) {
		if p.writer == nil {
			p.writer = newWriter(p.seed)
		}
		text := p.writer.block(len(p.blocks))
		p.blocks = append(p.blocks, block{text, weigh(text)})
	}
	return p.blocks[i]
}

// writer writes varied English prose in plain ASCII by a compiled grammar, the same for the same seed. Block 0 is the end of the
// text, block 1 stands before it, and so on: models accept drafts by what they read last, so prompts of every length must
// end alike.
type writer struct {
	seed  uint64
	rules [][]production
	names map[string]int
	rand  *rand.Rand
	out   []byte
	hero  string
	town  string
	trade string
}

// production is one way to write a rule: text and slots in turn.
type production []part

type part struct {
	text string
	slot int  // a rule, or one of the special slots; plain for text
	caps bool // the slot begins with a capital
}

// Slots that are not rules.
const (
	plain = -1 - iota
	article
	hero
	town
	trade
	small
	big
	year
	day
)

func newWriter(seed uint64) *writer {
	w := &writer{seed: seed, names: map[string]int{
		"a": article, "hero": hero, "town": town, "trade": trade, "num": small, "big": big, "year": year, "day": day,
	}}
	for name, words := range map[string]string{
		"n": nouns, "abs": abstracts, "mat": materials, "role": roles, "first": firsts, "last": lasts, "elsewhere": towns,
		"adj": adjectives, "vt": transitive, "vi": intransitive, "adv": adverbs, "creature": creatures, "month": months,
		"weekday": weekdays, "count": counts, "units": units,
	} {
		for _, word := range strings.Fields(words) {
			w.add(name, production{{text: word, slot: plain}})
		}
	}
	for name, words := range map[string]string{"ns": nouns, "roles": roles} {
		for _, word := range strings.Fields(words) {
			w.add(name, production{{text: plural(word), slot: plain}})
		}
	}
	lines := strings.Split(strings.TrimSpace(grammar), "\n")
	for _, line := range lines {
		name, _, _ := strings.Cut(line, ": ")
		w.rule(name)
	}
	for _, line := range lines {
		name, text, _ := strings.Cut(line, ": ")
		w.add(name, w.parse(text))
	}
	return w
}

// rule is the number of the rule called name, which is made where it is new.
func (w *writer) rule(name string) int {
	i, ok := w.names[name]
	if !ok {
		i = len(w.rules)
		w.names[name] = i
		w.rules = append(w.rules, nil)
	}
	return i
}

func (w *writer) add(name string, p production) {
	i := w.rule(name)
	w.rules[i] = append(w.rules[i], p)
}

// parse splits a production at its <slots>. A slot in capitals begins with one.
func (w *writer) parse(text string) production {
	var p production
	for text != "" {
		before, rest, found := strings.Cut(text, "<")
		if before != "" {
			p = append(p, part{text: before, slot: plain})
		}
		if !found {
			break
		}
		name, after, _ := strings.Cut(rest, ">")
		lower := strings.ToLower(name)
		p = append(p, part{slot: w.rule(lower), caps: name != lower})
		text = after
	}
	return p
}

func plural(word string) string {
	switch {
	case strings.HasSuffix(word, "man"):
		return strings.TrimSuffix(word, "man") + "men"
	case strings.HasSuffix(word, "lf"), strings.HasSuffix(word, "rf"):
		return strings.TrimSuffix(word, "f") + "ves"
	case strings.HasSuffix(word, "y") && !strings.ContainsAny(word[len(word)-2:], "aeou"):
		return strings.TrimSuffix(word, "y") + "ies"
	case strings.HasSuffix(word, "s"), strings.HasSuffix(word, "x"), strings.HasSuffix(word, "ch"), strings.HasSuffix(word, "sh"):
		return word + "es"
	}
	return word + "s"
}

// block writes block i of the text.
func (w *writer) block(i int) string {
	w.rand = rand.New(rand.NewPCG(w.seed, uint64(i)))
	w.out = make([]byte, 0, blockSize+4096)
	for len(w.out) < blockSize {
		w.paragraph()
	}
	if i == 0 {
		w.out = append(w.out, closing...)
	}
	return string(w.out)
}

func (w *writer) paragraph() {
	w.hero = w.word("first") + " " + w.word("last")
	w.town = w.word("elsewhere")
	w.trade = w.word("role")
	sentence := w.names["sentence"]
	for n := 3 + w.rand.IntN(6); n > 0; n-- {
		start := len(w.out)
		w.write(sentence)
		w.capital(start)
		if last := w.out[len(w.out)-1]; last != '"' && last != '.' {
			w.out = append(w.out, '.')
		}
		w.out = append(w.out, ' ')
	}
	w.out = append(w.out[:len(w.out)-1], "\n\n"...)
}

// word is a random word of a class.
func (w *writer) word(class string) string {
	words := w.rules[w.names[class]]
	return words[w.rand.IntN(len(words))][0].text
}

func (w *writer) capital(at int) {
	if w.out[at] == '"' {
		at++
	}
	if c := w.out[at]; c >= 'a' && c <= 'z' {
		w.out[at] = c - 'a' + 'A'
	}
}

// write appends a random production of a rule.
func (w *writer) write(rule int) {
	choices := w.rules[rule]
	for _, p := range choices[w.rand.IntN(len(choices))] {
		start := len(w.out)
		if p.slot >= 0 {
			w.write(p.slot)
			if p.caps {
				w.capital(start)
			}
			continue
		}
		w.special(p)
	}
}

func (w *writer) special(p part) {
	switch p.slot {
	case plain:
		w.text(p.text)
	case article:
		w.text("a")
	case hero:
		w.text(w.hero)
	case town:
		w.text(w.town)
	case trade:
		w.text(w.trade)
	case small:
		w.number(2 + w.rand.IntN(97))
	case big:
		w.number(101 + w.rand.IntN(8800))
	case year:
		w.number(1701 + w.rand.IntN(250))
	case day:
		w.ordinal(1 + w.rand.IntN(28))
	}
}

func (w *writer) number(n int) { w.text(strconv.Itoa(n)) }

func (w *writer) ordinal(n int) {
	w.number(n)
	suffix := "th"
	if n/10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	w.out = append(w.out, suffix...)
}

// text appends text. An article that stands before it becomes "an" where the text begins with a vowel letter.
func (w *writer) text(s string) {
	n := len(w.out)
	if article := n >= 2 && w.out[n-1] == ' ' && w.out[n-2] == 'a' && (n == 2 || strings.IndexByte(" \n\"", w.out[n-3]) >= 0); article &&
		strings.IndexByte("aeiou", s[0]) >= 0 {
		w.out = append(w.out[:n-1], "n "...)
	}
	w.out = append(w.out, s...)
}
