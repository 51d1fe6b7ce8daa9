package prompt

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"
)

// fakeCounter counts tokens like a server with a chat template: one a word and a mark, more for a share of the longer words
// and for digits. rate is roughly the tokens a word.
type fakeCounter struct {
	rate     float64
	overhead int
}

func (f fakeCounter) count(text string) int {
	n := f.overhead + strings.Count(text, "\n\n")
	for _, word := range strings.Fields(text) {
		marks := len(word) - len(strings.Trim(word, `.,;:?"`))
		n += 1 + marks
		h := fnv.New32a()
		h.Write([]byte(strings.Trim(word, `.,;:?"`)))
		// About six words in ten are longer than four letters; marks are already 0.15 a word.
		if len(word)-marks > 4 && float64(h.Sum32()%1000) < 1000*(f.rate-1.1)/0.6 {
			n++
		}
	}
	return n
}

func off(counted, wanted int) float64 { return math.Abs(float64(counted)/float64(wanted) - 1) }

func eachCounter(t *testing.T, test func(t *testing.T, seed uint64, f fakeCounter)) {
	for _, rate := range []float64{1.1, 1.2, 1.3, 1.4} {
		for _, overhead := range []int{0, 3, 20, 40, 60} {
			t.Run(fmt.Sprintf("%.1f tokens a word, template %d", rate, overhead), func(t *testing.T) {
				for seed := range uint64(4) {
					test(t, seed, fakeCounter{rate, overhead})
				}
			})
		}
	}
}

// One count cannot tell the template from the prose: a template at either end of 0 to 60 alone makes 1.5 %.
func TestTextNextRungAfterOneObservation(t *testing.T) {
	worst, builds, wide := 0.0, 0, 0
	eachCounter(t, func(t *testing.T, seed uint64, f fakeCounter) {
		b := NewText(NewProse(seed))
		first := b.Build(1024, 1)
		b.Observe(first, f.count(first.String()))
		got := off(f.count(b.Build(2048, 2).String()), 2048)
		worst = max(worst, got)
		builds++
		if got > 0.02 {
			wide++
		}
		if got > 0.025 || got > 0.02 && f.overhead >= 20 && f.overhead <= 40 {
			t.Errorf("seed %d: 2k is off by %.2f %% after one observation at 1k", seed, 100*got)
		}
	})
	t.Logf("worst %.2f %%, %d of %d above 2 %%", 100*worst, wide, builds)
	if wide > builds/10 {
		t.Errorf("%d of %d builds are off by more than 2 %% after one observation at 1k", wide, builds)
	}
}

// A short request before the first rung, such as a warm-up, tells the template.
func TestTextNextRungAfterWarmUp(t *testing.T) {
	squares, builds := 0.0, 0.0
	eachCounter(t, func(t *testing.T, seed uint64, f fakeCounter) {
		b := NewText(NewProse(seed))
		for _, tokens := range []int{64, 1024} {
			text := b.Build(tokens, uint64(tokens))
			b.Observe(text, f.count(text.String()))
		}
		got := off(f.count(b.Build(2048, 2).String()), 2048)
		squares += got * got
		builds++
		if got > 0.03 {
			t.Errorf("seed %d: 2k is off by %.2f %%", seed, 100*got)
		}
	})
	if rms := math.Sqrt(squares / builds); rms > 0.012 {
		t.Errorf("2k is off by %.2f %% root mean square", 100*rms)
	} else {
		t.Logf("%.2f %% root mean square", 100*rms)
	}
}

func TestTextTwoObservationsSuffice(t *testing.T) {
	worst := map[int]float64{}
	eachCounter(t, func(t *testing.T, seed uint64, f fakeCounter) {
		for _, rung := range []int{1024, 5500, 16384} {
			if rung > 8192 && seed > 0 {
				continue
			}
			b := NewText(NewProse(seed))
			for nonce := range uint64(2) {
				text := b.Build(rung, nonce)
				b.Observe(text, f.count(text.String()))
			}
			if !b.Exact(rung) {
				t.Errorf("seed %d: %d is not exact after two observations", seed, rung)
			}
			got := off(f.count(b.Build(rung, 77).String()), rung)
			worst[rung] = max(worst[rung], got)
			if got > 0.005 {
				t.Errorf("seed %d: %d is off by %.2f %% after two observations", seed, rung, 100*got)
			}
		}
	})
	t.Logf("worst shares %v", worst)
}

// Exact must not be told of a length that is not.
func TestTextExactIsTrue(t *testing.T) {
	ladder := []int{1024, 2048, 4096, 8192, 16384, 65536}
	builds := 0
	eachCounter(t, func(t *testing.T, seed uint64, f fakeCounter) {
		if seed > 0 || f.overhead%20 > 0 {
			return
		}
		b := NewText(NewProse(seed))
		for round := range 3 {
			for i, rung := range ladder {
				exact := b.Exact(rung)
				text := b.Build(rung, uint64(round*100+i))
				got := off(f.count(text.String()), rung)
				switch {
				case exact && got > 0.005:
					t.Errorf("round %d: %d is off by %.2f %% though exact", round, rung, 100*got)
				case round == 2 && !exact:
					t.Errorf("%d is not exact after two rounds", rung)
				case i > 0 && got > 0.02:
					t.Errorf("round %d: %d is off by %.2f %%", round, rung, 100*got)
				}
				b.Observe(text, f.count(text.String()))
				builds++
			}
		}
	})
	t.Logf("%d builds", builds)
}

func TestTextForgetsAnotherTokenizer(t *testing.T) {
	b := NewText(NewProse(1))
	observe := func(f fakeCounter, rung int, nonce uint64) {
		text := b.Build(rung, nonce)
		b.Observe(text, f.count(text.String()))
	}
	for nonce := range uint64(3) {
		observe(fakeCounter{1.1, 0}, 8192, nonce)
		observe(fakeCounter{1.1, 0}, 65536, nonce)
	}
	if !b.Exact(8192) || !b.Exact(65536) {
		t.Fatal("not exact after three observations")
	}
	now := fakeCounter{1.4, 30}
	observe(now, 8192, 10)
	if b.Exact(65536) || b.Exact(8192) {
		t.Error("still exact after the server's tokenizer changed")
	}
	observe(now, 8192, 11)
	if got := off(now.count(b.Build(8192, 12).String()), 8192); got > 0.005 {
		t.Errorf("off by %.2f %% after the tokenizer changed", 100*got)
	}
}

func TestTextEndsAlikeAndBeginsApart(t *testing.T) {
	b := NewText(NewProse(1))
	long := b.Build(131072, 0).String()
	for _, tokens := range []int{8192, 16384, 65536} {
		text := b.Build(tokens, 5).String()
		if end := long[len(long)-20_000:]; !strings.HasSuffix(text, end) {
			t.Errorf("%d: the last 20 kB differ from those of the longest prompt", tokens)
		}
		_, prose, _ := strings.Cut(text, ".\n\n")
		if !strings.HasSuffix(long, prose) {
			t.Errorf("%d: not a nonce and the end of the text", tokens)
		}
	}
	seen, first := map[string]bool{}, map[string]int{}
	const n = 5000
	for nonce := range uint64(n) {
		line := nonceLine(nonce)
		if seen[line] {
			t.Fatalf("nonce %d repeats the line of another", nonce)
		}
		seen[line] = true
		word, _, _ := strings.Cut(line, " ")
		first[word]++
	}
	same := 0
	for _, k := range first {
		same += k * (k - 1)
	}
	if share := float64(same) / (n * (n - 1)); share > 0.006 {
		t.Errorf("%.2f %% of pairs of nonces share their first word", 100*share)
	}
}

func TestTextBeginsWithASentence(t *testing.T) {
	b := NewText(NewProse(2))
	whole := 0
	for i := range 40 {
		_, prose, _ := strings.Cut(b.Build(30_000+977*i, 1).String(), ".\n\n")
		if c := prose[0]; c >= 'A' && c <= 'Z' || c == '"' {
			whole++
		}
	}
	t.Logf("%d of 40 prompts begin with a capital", whole)
	if whole < 30 {
		t.Errorf("only %d of 40 long prompts begin with a sentence", whole)
	}
}

func TestTextSurvivesOddities(t *testing.T) {
	b := NewText(NewProse(1))
	for _, text := range []Passage{nil, {""}, {"nothing of ours"}, {"Able acid.\n\n", ""}, {"", "."}} {
		b.Observe(text, 1)
		b.Observe(text, 0)
		b.Observe(text, -5)
		b.Observe(text, 1<<40)
	}
	for _, tokens := range []int{-5, 0, 1, 10, 16, 64, 1024} {
		b := NewText(NewProse(1))
		if text := b.Build(tokens, 1).String(); len(text) == 0 || len(text) > 100+10*max(tokens, 0) {
			t.Errorf("Build(%d) has %d bytes", tokens, len(text))
		}
	}
	if b := NewText(NewProse(1)); b.Exact(1024) {
		t.Error("exact before anything was counted")
	}
}

func TestTextKeepsFewObservations(t *testing.T) {
	b := NewText(NewProse(1))
	for nonce := range uint64(200) {
		text := b.Build(1024, nonce)
		b.Observe(text, fakeCounter{1.3, 10}.count(text.String())+int(nonce%5))
	}
	if n := len(b.observed); n > 5 {
		t.Errorf("%d observations kept of one rung", n)
	}
}

func BenchmarkTextBuild192k(b *testing.B) {
	p := NewText(NewProse(1))
	nonce := uint64(0)
	for b.Loop() {
		nonce++
		p.Build(196608, nonce)
	}
}

// TestTextSnapshotStaysAsItIs makes a prompt again though its length was learnt in between.
func TestTextSnapshotStaysAsItIs(t *testing.T) {
	b := NewText(NewProse(1))
	fact := NewFact(3).Sentence
	first := b.Plant(4096, 7, fact, 0.5)
	s := b.Snapshot()
	b.Observe(first, 4200)
	if slices.Equal(b.Plant(4096, 7, fact, 0.5), first) {
		t.Error("nothing was learnt")
	}
	if !slices.Equal(s.Plant(4096, 7, fact, 0.5), first) {
		t.Error("the prompt is another one")
	}
}
