package prompt

import (
	"slices"
	"strings"
	"testing"
)

func TestFactAnsweredBy(t *testing.T) {
	f := Fact{answer: "481736"}
	for text, want := range map[string]bool{
		" 481736.": true, "It is 481,736": true, "4 8 1 7 3 6": true, "<think>The text says 481736": true,
		"": false, "481735": false, "48173": false, "481": false, "no number": false,
	} {
		if got := f.AnsweredBy(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestNewFact(t *testing.T) {
	seen := map[string]bool{}
	for nonce := range uint64(1000) {
		f := NewFact(nonce)
		seen[f.answer] = true
		if !f.AnsweredBy(f.Sentence) || f.AnsweredBy(f.Question) || len(f.answer) != 6 || f != NewFact(nonce) {
			t.Fatalf("%+v", f)
		}
	}
	if len(seen) < 990 {
		t.Errorf("%d different numbers of 1000", len(seen))
	}
}

func TestPlantInText(t *testing.T) {
	f := NewFact(7)
	b := NewText(NewProse(1))
	end := b.Build(65536, 1).String()
	end = end[len(end)-3*commonEnd:] // a token is more than three bytes
	places := map[float64]int{}
	for _, depth := range []float64{0, 0.5, 1} {
		text := b.Plant(65536, 2, f.Sentence, depth).String()
		places[depth] = strings.Index(text, f.Sentence)
		if before := text[:max(0, places[depth])]; places[depth] < 0 || !strings.HasSuffix(before, "\n\n") || !strings.HasSuffix(text, end) {
			t.Errorf("depth %v: at %d of %d", depth, places[depth], len(text))
		}
		if got, want := weigh(text), weigh(b.Build(65536, 2).String()); got < want-70 || got > want+70 {
			t.Errorf("depth %v: weight %v, without the fact %v", depth, got, want)
		}
	}
	if places[0] > 100 || places[0.5] < 100_000 || places[1] < 2*places[0.5]*9/10 {
		t.Errorf("places %v", places)
	}
	for _, tokens := range []int{1024, 4096} {
		if text := b.Plant(tokens, 2, f.Sentence, 1).String(); strings.Index(text, f.Sentence) > 100 {
			t.Errorf("%d tokens: the fact stands within the common end", tokens)
		}
	}
}

func TestPlantInIDs(t *testing.T) {
	b, _ := newIDs(t, 65536)
	fact := []int32{-1, -2, -3}
	for _, tokens := range []int{1024, 4096, 16384, 65536} {
		plain := build(t, b, tokens, 2)
		for _, depth := range []float64{0, 0.5, 1} {
			planted, err := b.Plant(tokens, 2, fact, depth)
			if err != nil {
				t.Fatal(err)
			}
			ids := written(t, planted)
			at := slices.Index(ids, -1)
			want := 9 + int(depth*float64(max(0, tokens-12-commonEnd)))
			if len(ids) != tokens || at != want || !slices.Equal(ids[at:at+3], fact) {
				t.Errorf("%d tokens, depth %v: %d long, the fact at %d, want %d", tokens, depth, len(ids), at, want)
			}
			common := min(commonEnd, tokens-12)
			if !slices.Equal(ids[tokens-common:], plain[tokens-common:]) || !slices.Equal(ids[:9], plain[:9]) {
				t.Errorf("%d tokens, depth %v: another beginning or end", tokens, depth)
			}
		}
	}
	if _, err := b.Plant(20, 2, make([]int32, 10), 0); err == nil {
		t.Error("a fact of ten tokens fits a prompt of 20")
	}
}
