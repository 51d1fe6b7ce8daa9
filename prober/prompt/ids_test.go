package prompt

import (
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
)

const bosID = 163584

// fakeTokenizer splits text the way byte-pair encodings do, into ids from 1 to 100,000, and counts the bytes it was given.
type fakeTokenizer struct{ bytes, calls, largest int }

func (f *fakeTokenizer) tokenize(_ context.Context, text string) ([]int32, int32, error) {
	f.bytes += len(text)
	f.calls++
	f.largest = max(f.largest, len(text))
	var ids []int32
	for text != "" {
		n := 1 // a token is a blank or a letter and up to six letters or digits after it
		for n < min(7, len(text)) && (text[n] >= 'a' && text[n] <= 'z' || text[n] >= '0' && text[n] <= '9') {
			n++
		}
		h := fnv.New32a()
		h.Write([]byte(text[:n]))
		ids = append(ids, int32(h.Sum32()%100_000)+1)
		text = text[n:]
	}
	return ids, bosID, nil
}

func build(t *testing.T, b *IDs, tokens int, nonce uint64) []int32 {
	t.Helper()
	s, err := b.Build(tokens, nonce)
	if err != nil {
		t.Fatal(err)
	}
	ids := written(t, s)
	if len(ids) != tokens {
		t.Fatalf("Build(%d) gave %d ids", tokens, len(ids))
	}
	return ids
}

// written is a sequence as ids.
func written(t testing.TB, s Sequence) (ids []int32) {
	t.Helper()
	if err := json.Unmarshal([]byte("["+strings.Join(s, ",")+"]"), &ids); err != nil {
		t.Fatal(err)
	}
	return ids
}

func newIDs(t testing.TB, longest int) (*IDs, *fakeTokenizer) {
	t.Helper()
	f := &fakeTokenizer{}
	b, err := NewIDs(context.Background(), f.tokenize, NewProse(1), longest)
	if err != nil {
		t.Fatal(err)
	}
	return b, f
}

func TestIDsLengthAndEnd(t *testing.T) {
	b, _ := newIDs(t, 196608)
	want := build(t, b, 196608, 0)
	for _, tokens := range []int{leastIDs, 17, 1024, 5500, 8192, 131072, 196607} {
		got := build(t, b, tokens, uint64(tokens))
		if got[0] != bosID {
			t.Errorf("%d: first id %d is not BOS", tokens, got[0])
		}
		same := min(4096, tokens-1-nonceIDs)
		if !slices.Equal(got[tokens-same:], want[len(want)-same:]) {
			t.Errorf("%d: the last %d ids differ from those of the longest prompt", tokens, same)
		}
		if slices.Contains(got[1:], bosID) {
			t.Errorf("%d: BOS within the prompt", tokens)
		}
	}
}

func TestIDsEndDoesNotDependOnTheLadder(t *testing.T) {
	short, _ := newIDs(t, 4096)
	long, _ := newIDs(t, 60_000)
	if !slices.Equal(build(t, short, 4096, 9)[1+nonceIDs:], build(t, long, 4096, 9)[1+nonceIDs:]) {
		t.Error("a longer ladder changes the text of its shorter prompts")
	}
}

func TestIDsWithoutBOS(t *testing.T) {
	f := &fakeTokenizer{}
	b, err := NewIDs(context.Background(), func(ctx context.Context, text string) ([]int32, int32, error) {
		ids, _, err := f.tokenize(ctx, text)
		return ids, -1, err
	}, NewProse(1), 1000)
	if err != nil {
		t.Fatal(err)
	}
	if got := build(t, b, 1000, 5); slices.Min(got) < 1 {
		t.Error("a prompt without BOS begins with -1")
	}
}

func TestIDsDropBOSThatTheTokenizerAdds(t *testing.T) {
	f := &fakeTokenizer{}
	b, err := NewIDs(context.Background(), func(ctx context.Context, text string) ([]int32, int32, error) {
		ids, bos, err := f.tokenize(ctx, text)
		return append([]int32{bos}, ids...), bos, err
	}, NewProse(1), 50_000)
	if err != nil {
		t.Fatal(err)
	}
	if got := build(t, b, 50_000, 5); slices.Contains(got[1:], bosID) {
		t.Error("BOS within the prompt")
	}
}

func TestIDsNonces(t *testing.T) {
	b, _ := newIDs(t, 8192)
	const n = 20_000
	seen, first := map[[nonceIDs]int32]bool{}, map[int32]int{}
	text := map[int32]bool{}
	for _, id := range written(t, b.text(b.total, 0)) {
		text[id] = true
	}
	for nonce := range uint64(n) {
		ids := build(t, b, 64, nonce)
		key := [nonceIDs]int32(ids[1:])
		if seen[key] {
			t.Fatalf("nonce %d repeats the ids of another", nonce)
		}
		seen[key] = true
		first[key[0]]++
		for _, id := range key {
			if !text[id] {
				t.Fatalf("nonce %d uses id %d, which is not from the text", nonce, id)
			}
		}
	}
	same := 0
	for _, k := range first {
		same += k * (k - 1)
	}
	share := float64(same) / (n * (n - 1))
	t.Logf("%d different first ids; %.3f %% of pairs of nonces share theirs", len(first), 100*share)
	if share > 0.005 {
		t.Errorf("%.3f %% of pairs of nonces share their first id", 100*share)
	}
	if slices.Equal(build(t, b, 64, 1), build(t, b, 64, 2)) || !slices.Equal(build(t, b, 64, 1), build(t, b, 64, 1)) {
		t.Error("a prompt does not follow from its nonce")
	}
}

func TestIDsTokeniseWhatIsNeeded(t *testing.T) {
	for _, longest := range []int{1024, 8192, 131072, 196608} {
		b, f := newIDs(t, longest)
		needed := float64(f.bytes) / float64(b.Longest()) * float64(longest)
		t.Logf("longest %d: %d bytes in %d calls, the largest %d, needed %.0f", longest, f.bytes, f.calls, f.largest, needed)
		if b.Longest() < longest || float64(f.bytes) > 1.02*needed+firstPiece+4096 || f.largest > pieceSize+4096 {
			t.Errorf("longest %d: tokenised %d bytes, %d at once, where %.0f suffice", longest, f.bytes, f.largest, needed)
		}
	}
}

func TestIDsRefuseNonsense(t *testing.T) {
	many := func(n int, id func(i int) int32) []int32 {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = id(i)
		}
		return ids
	}
	for name, test := range map[string]struct {
		ids  []int32
		err  error
		want string
	}{
		"error":    {err: errors.New("status 404"), want: "status 404"},
		"empty":    {want: "no ids"},
		"only BOS": {ids: []int32{bosID}, want: "no ids"},
		"negative": {ids: many(2000, func(i int) int32 { return int32(i) - 5 }), want: "negative id -5"},
		"constant": {ids: many(2000, func(int) int32 { return 3 }), want: "only 1 different ids"},
		"too many": {ids: many(50_000, func(i int) int32 { return int32(i) }), want: "50000 ids for"},
		"too few":  {ids: many(60, func(i int) int32 { return int32(i) }), want: "60 ids for"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			b, err := NewIDs(context.Background(), func(context.Context, string) ([]int32, int32, error) {
				calls++
				return test.ids, bosID, test.err
			}, NewProse(1), 100_000)
			if b != nil || err == nil || !strings.Contains(err.Error(), test.want) || calls != 1 {
				t.Errorf("got %v after %d calls, want one with %q", err, calls, test.want)
			}
			if test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("%v does not wrap the tokenizer's error", err)
			}
		})
	}
}

// TestIDsAreShared keeps one text for all targets with one tokenizer.
func TestIDsAreShared(t *testing.T) {
	a, _ := newIDs(t, 60_000)
	b, _ := newIDs(t, 60_000)
	if !slices.Equal(a.pieces, b.pieces) {
		t.Error("two texts by one tokenizer are kept apart")
	}
}

// TestIDsText cuts the text at every place within its last pieces.
func TestIDsText(t *testing.T) {
	b, _ := newIDs(t, 30_000)
	all := written(t, b.text(b.total, 0))
	if len(all) != b.total {
		t.Fatalf("%d ids of %d", len(all), b.total)
	}
	for from := 0; from <= b.total; from += 997 {
		for to := 0; to <= from; to += 1499 {
			if got := written(t, b.text(from, to)); !slices.Equal(got, all[b.total-from:b.total-to]) {
				t.Fatalf("%d ids from %d to %d before the end", len(got), from, to)
			}
		}
	}
}

func TestIDsRefuseLengths(t *testing.T) {
	b, _ := newIDs(t, 2000)
	for _, tokens := range []int{-1, 0, leastIDs - 1, b.Longest() + 1} {
		if s, err := b.Build(tokens, 1); err == nil {
			t.Errorf("Build(%d) gave %d parts and no error", tokens, len(s))
		}
	}
}

func BenchmarkIDsBuild192k(b *testing.B) {
	p, _ := newIDs(b, 196608)
	nonce := uint64(0)
	for b.Loop() {
		nonce++
		if _, err := p.Build(196608, nonce); err != nil {
			b.Fatal(err)
		}
	}
}
