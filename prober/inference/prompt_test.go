package inference

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
)

// written is what a prompt becomes in a body.
func written(t *testing.T, p Prompt) []byte {
	t.Helper()
	body, size := p.body(nil, nil)
	text, err := io.ReadAll(body)
	if err != nil || int64(len(text)) != size {
		t.Fatalf("%d bytes, announced as %d: %v", len(text), size, err)
	}
	return text
}

func TestIDPrompt(t *testing.T) {
	for want, lists := range map[string][]string{"[]": nil, "[-1]": {"-1"}, "[1,2,300,4]": {"1,2", "300", "4"}} {
		if got := string(written(t, IDPrompt(lists...))); got != want {
			t.Errorf("%v became %s", lists, got)
		}
	}
}

// TestPromptFillsPackets reads a body of many small parts.
func TestPromptFillsPackets(t *testing.T) {
	body, size := IDPrompt(strings.Split(strings.Repeat("12345 ", 100)[:599], " ")...).body([]byte("head"), []byte("tail"))
	for left := int(size); left > 0; {
		n, err := body.Read(make([]byte, 64))
		if left -= n; n < 64 && left > 0 || err != nil && left > 0 {
			t.Fatalf("a read of %d bytes with %d left, %v", n, left, err)
		}
	}
}

// FuzzTextPrompt holds a text in parts against what encoding/json makes of all of it.
func FuzzTextPrompt(f *testing.F) {
	f.Add("", "")
	f.Add("a \"b\"\n\\\t\x00\x7f", "é€😀<&>\u2028")
	f.Add(strings.Repeat("é", 1000), "\xff\x80\xf0\x9f")
	f.Fuzz(func(t *testing.T, first, second string) {
		first, second = strings.ToValidUTF8(first, "?"), strings.ToValidUTF8(second, "\xff") // whole characters
		want, err := json.Marshal(first + second)
		if got := written(t, TextPrompt(first, "", second)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q became %q, want %q", first+second, got, want)
		}
	})
}
