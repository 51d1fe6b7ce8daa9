package inference

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// seeds adds the bodies of all cases.
func seeds(f *testing.F, add func(body []byte)) {
	f.Helper()
	for _, pattern := range []string{"*.sse", "*.json", "*.txt"} {
		files, err := filepath.Glob(filepath.Join("testdata", "cases", pattern))
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			if len(b) < 8<<10 {
				add(b)
			}
		}
	}
}

// cutReader reads a body in pieces of the given sizes, again and again.
type cutReader struct {
	body *bytes.Reader
	cuts []byte
	i    int
}

func (r *cutReader) Read(p []byte) (int, error) {
	n := 1
	if len(r.cuts) > 0 {
		n += int(r.cuts[r.i%len(r.cuts)])
		r.i++
	}
	return r.body.Read(p[:min(n, len(p))])
}

// FuzzAnswer: no body makes the reader panic, and the outcome does not depend on how the bytes are cut.
func FuzzAnswer(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(b, []byte{0}); f.Add(b, []byte{3, 0, 40}) })
	f.Add([]byte("data: {\"choices\":[{\"text\":\"a\"}]}\r\n\r\ndata: [DONE]\n\r\n"), []byte{6, 1})
	f.Add([]byte("\ufeff\n{\n\"a\":1}\n{}"), []byte{1})
	f.Fuzz(func(t *testing.T, body, cuts []byte) {
		whole, failed := readAnswer(t, bytes.NewReader(body), 1)
		cut, failedCut := readAnswer(t, &cutReader{body: bytes.NewReader(body), cuts: cuts}, 1)
		if diff := cmp.Diff(facts(whole), facts(cut)); diff != "" {
			t.Errorf("the cut changes the response:\n%s", diff)
		}
		if (failed == nil) != (failedCut == nil) || failed != nil && failed.Class != failedCut.Class {
			t.Errorf("the cut changes the verdict: %v, %v", failed, failedCut)
		}
		if failed != nil && (len(failed.Message) > maxMessage || !utf8.ValidString(failed.Message) || strings.ContainsAny(failed.Message, "\n\r")) {
			t.Errorf("message %q", failed.Message)
		}
	})
}

// FuzzEvent: walking over JSON finds what decoding it finds.
func FuzzEvent(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(bytes.TrimSpace(bytes.TrimPrefix(b, []byte("data:")))) })
	f.Add([]byte(` {"a" : [1 , {"b\"\\":"\\\"x"},[],{}] ,"c":null, "d":-1.5e3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := parseEvent(data)
		if (err == nil) != json.Valid(data) {
			t.Fatalf("parsed with %v, valid %v", err, json.Valid(data))
		}
		if err == nil {
			sameTree(t, data)
		}
	})
}

// sameTree compares what members, elements, text and length find with what encoding/json finds.
func sameTree(t *testing.T, data []byte) {
	t.Helper()
	var want any
	if json.Unmarshal(data, &want) != nil {
		return // a number beyond float64
	}
	switch want := want.(type) {
	case map[string]any:
		got := map[string]any{}
		for key, v := range members(data) {
			var k string
			if err := json.Unmarshal([]byte(`"`+key+`"`), &k); err != nil {
				t.Fatalf("key %q: %v", key, err)
			}
			var value any
			if err := json.Unmarshal(v, &value); err != nil {
				t.Fatalf("member %q is %q: %v", key, v, err)
			}
			got[k] = value
			sameTree(t, v)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("members %v, want %v", got, want)
		}
	case []any:
		var got []any
		for v := range elements(data) {
			var value any
			if err := json.Unmarshal(v, &value); err != nil {
				t.Fatalf("element %q: %v", v, err)
			}
			got = append(got, value)
		}
		if len(got) != len(want) || len(got) != length(data) || len(got) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("elements %v, want %v", got, want)
		}
	case string:
		if got := text(bytes.TrimSpace(data)); got != want {
			t.Errorf("text %q, want %q", got, want)
		}
	}
}

// FuzzClassify: every error answer has a class out of the closed set and a limit that makes sense.
func FuzzClassify(f *testing.F) {
	known := map[Class]bool{}
	for _, c := range Classes() {
		known[c] = true
	}
	seeds(f, func(b []byte) { f.Add(400, b); f.Add(503, b); f.Add(0, b) })
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := classify(status, body)
		if !known[e.class] || e.limit < 0 {
			t.Errorf("class %q, limit %d", e.class, e.limit)
		}
		if m := oneLine(e.text, nil); len(m) > maxMessage || !utf8.ValidString(m) || strings.ContainsAny(m, "\n\r") {
			t.Errorf("message %q", m)
		}
	})
}
