package prompt

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"testing"
)

// prose is at least size bytes from the end of the seed's text.
func prose(seed uint64, size int) string {
	w := newWriter(seed)
	text := ""
	for i := 0; len(text) < size; i++ {
		text = w.block(i) + text
	}
	return text
}

const wholeText = 1_350_000 // bytes, more than 250k tokens

func TestProseIsGolden(t *testing.T) {
	sum := sha256.Sum256([]byte(prose(1, wholeText)))
	const want = "4e84a8f09a9a73d7"
	if got := hex.EncodeToString(sum[:8]); got != want {
		t.Errorf("prose(1) has hash %s, want %s: measurements before and after this change cannot be compared", got, want)
	}
}

func TestProseIsVaried(t *testing.T) {
	text := prose(7, wholeText)
	words := strings.Fields(text)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	ratio := float64(packed.Len()) / float64(len(text))

	vocabulary := map[string]bool{}
	for _, w := range words {
		vocabulary[strings.ToLower(strings.Trim(w, `.,;:?"`))] = true
	}
	windows, repeated := map[string]bool{}, 0
	for i := range len(words) - 11 {
		window := strings.Join(words[i:i+12], " ")
		if windows[window] {
			repeated++
		}
		windows[window] = true
	}
	t.Logf("%d bytes, %d words, %d different, gzip %.3f, %d windows of 12 words repeated", len(text), len(words), len(vocabulary), ratio, repeated)
	if ratio < 0.25 || len(vocabulary) < 1500 || repeated > len(words)/100_000 {
		t.Errorf("prose repeats itself: gzip ratio %.3f, %d different words, %d windows repeated", ratio, len(vocabulary), repeated)
	}
}

func TestProseIsPlain(t *testing.T) {
	for seed := range uint64(5) {
		text := prose(seed, 200_000)
		for i := range len(text) {
			if c := text[i]; c != '\n' && (c < ' ' || c > '~') {
				t.Fatalf("seed %d: byte %#x at %d is not plain ASCII", seed, c, i)
			}
		}
		for _, wrong := range []string{`[<>|]`, `\b[Aa] [aeiou]`, `\b[Aa]n [^aeiou]`, `  `, ` [.,;]`, ` \n`, `\.\.`, `(^|\. )[a-z]`, `\b(\w+) (is|was) \.`} {
			if at := regexp.MustCompile(wrong).FindStringIndex(text); at != nil {
				t.Errorf("seed %d: %s found in %q", seed, wrong, text[max(0, at[0]-40):min(len(text), at[1]+20)])
			}
		}
	}
}

func TestProseEndsAlike(t *testing.T) {
	long := prose(3, 1_000_000)
	for _, size := range []int{1, 5000, 40_000, 500_000} {
		short := prose(3, size)
		if len(short) < size || !strings.HasSuffix(long, short) {
			t.Errorf("prose of %d bytes is not the end of the longer one", size)
		}
	}
	if prose(3, 1)[:1000] == prose(4, 1)[:1000] {
		t.Error("two seeds give the same prose")
	}
}

func TestGrammarIsComplete(t *testing.T) {
	w := newWriter(0)
	reached := map[int]bool{}
	for name, i := range w.names {
		if i >= 0 && len(w.rules[i]) == 0 {
			t.Errorf("slot <%s> has no production", name)
		}
	}
	var walk func(rule int)
	walk = func(rule int) {
		if rule < 0 || reached[rule] {
			return
		}
		reached[rule] = true
		for _, p := range w.rules[rule] {
			for _, part := range p {
				walk(part.slot)
			}
		}
	}
	walk(w.names["sentence"])
	for name, i := range w.names {
		if i >= 0 && !reached[i] {
			t.Errorf("rule %s is never used", name)
		}
	}
}

func TestNonceWords(t *testing.T) {
	different := map[string]bool{}
	for _, w := range strings.Fields(nonceWords) {
		different[w] = true
	}
	if len(different) != 256 {
		t.Errorf("%d different nonce words, want 256", len(different))
	}
}

func BenchmarkProse(b *testing.B) {
	for b.Loop() {
		prose(1, wholeText)
	}
}
