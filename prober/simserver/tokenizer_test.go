package simserver

import (
	"slices"
	"strings"
	"testing"
)

const passage = "The captain looked at the sea for a long time, and nobody spoke. \"It will be here by morning,\" he said; " +
	"then he went below.\n\nIn 1851 the harbour had 1200 houses, a church (rebuilt twice) and no railway at all.\n"

func TestTokenizerIsReversible(t *testing.T) {
	tok := newTokenizer()
	for _, text := range []string{
		passage, "", " ", "  two  spaces ", "a\n\n b", "naïve café 東京 tower", "x\xff\xfey", "12345 67", "supercalifragilisticexpialidocious", "\t\n",
	} {
		ids := tok.encode(text)
		if got := tok.decode(ids); got != text {
			t.Errorf("%q came back as %q", text, got)
		}
		if again := tok.encode(tok.decode(ids)); !slices.Equal(again, ids) {
			t.Errorf("%q: %v, then %v", text, ids, again)
		}
	}
	words := len(strings.Fields(passage))
	if n := len(tok.encode(passage)); n < words || float64(n) > 1.5*float64(words) {
		t.Errorf("%d words gave %d tokens", words, n)
	}
}

// Ids that no text has had get words of their own, which give the same ids again.
func TestUnseenIdsGetWords(t *testing.T) {
	tok := newTokenizer()
	ids := []int32{1000, 1001, 77_777, 149_999, lastWordID, 1020, 1100}
	if again := tok.encode(tok.decode(ids)); !slices.Equal(again, ids) {
		t.Errorf("%v came back as %v by %q", ids, again, tok.decode(ids))
	}
}

func FuzzTokenizer(f *testing.F) {
	f.Add(passage)
	f.Add("a\xffb  c")
	f.Fuzz(func(t *testing.T, text string) {
		tok := newTokenizer()
		ids := tok.encode(text)
		if got := tok.decode(ids); got != text {
			t.Fatalf("%q came back as %q", text, got)
		}
	})
}

func FuzzLiftIDs(f *testing.F) {
	f.Add([]byte(`{"prompt":[1, 2,3],"max_tokens":1}`))
	f.Add([]byte(`{"input_ids" : [ -1 ]}`))
	f.Add([]byte(`{"prompt":["a"]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		ids, rest := liftIDs(raw)
		if ids == nil && string(rest) != string(raw) {
			t.Fatalf("%q was changed to %q", raw, rest)
		}
	})
}

func TestLiftIDs(t *testing.T) {
	for _, c := range []struct {
		in, rest string
		ids      []int32
	}{
		{`{"prompt":[1, 2,3],"n":1}`, `{"prompt":null,"n":1}`, []int32{1, 2, 3}},
		{`{"a":"\"prompt\":[1]","input_ids": [ 7 ]}`, `{"a":"\"prompt\":[1]","input_ids": null}`, []int32{7}},
		{`{"prompt":["x"]}`, `{"prompt":["x"]}`, nil},
		{`{"prompt":"x"}`, `{"prompt":"x"}`, nil},
		{`{"prompt":[99999999999]}`, `{"prompt":[99999999999]}`, nil},
	} {
		ids, rest := liftIDs([]byte(c.in))
		if !slices.Equal(ids, c.ids) || string(rest) != c.rest {
			t.Errorf("%s: %v %s", c.in, ids, rest)
		}
	}
}

func BenchmarkReadLongPrompt(b *testing.B) {
	raw := []byte(`{"input_ids":[` + strings.Repeat("12345,", 196_607) + `1]}`)
	for b.Loop() {
		if ids, _ := liftIDs(raw); len(ids) != 196_608 {
			b.Fatal(len(ids))
		}
	}
}
