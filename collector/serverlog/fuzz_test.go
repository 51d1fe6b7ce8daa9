package serverlog

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// addCases seeds a fuzzer with the cases.
func addCases(f *testing.F, add func(content []byte)) {
	f.Helper()
	paths, err := filepath.Glob("testdata/cases/*.log")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		if len(b) < 8<<10 {
			add(b)
		}
	}
}

// FuzzParse holds what a line may give against what may be exported.
func FuzzParse(f *testing.F) {
	addCases(f, func(content []byte) {
		for line := range bytes.SplitSeq(content, []byte("\n")) {
			f.Add(line)
		}
	})
	f.Add([]byte(`{"event": "request.finished", "out": [{"meta_info": {"prompt_tokens": 10, "spec_correct_drafts_histogram": [1]}}]}`))
	f.Add([]byte(`Finish: obj=X(text='a' ... "b"), out={'meta_info': {'prompt_tokens': 10, 'spec_accept_histogram': [1, 1]}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		records, outcome := NewParser("auto").Parse(line)
		if !bytes.Equal(before, line) {
			t.Error("the line was changed")
		}
		if (outcome == Matched) != (len(records) > 0) {
			t.Errorf("outcome %d with %d records", outcome, len(records))
		}
		for i := range records {
			check(t, &records[i])
		}
	})
}

func check(t *testing.T, r *Record) {
	t.Helper()
	for field := range numFields {
		if v, known := r.Value(field); known && (math.IsNaN(v) || math.IsInf(v, 0) || v < 0) {
			t.Errorf("%s is %v", fieldName(field), v)
		}
	}
	if v, known := r.Value(AcceptLength); known && (v < 1 || v > mostAccepted) {
		t.Errorf("acceptance length %v", v)
	}
	passes := 0
	for _, n := range r.Steps {
		if passes += n; passes > mostPasses || n < 0 || len(r.Steps) > mostAccepted {
			t.Errorf("steps %v", r.Steps)
		}
	}
}

// FuzzFile feeds a file whole and in two parts: where it is cut must not matter.
func FuzzFile(f *testing.F) {
	addCases(f, func(content []byte) { f.Add(content, 100) })
	f.Add([]byte("{\"log\":\"a\",\"stream\":\"stderr\"}\n{\"log\":\"b\\n\"}\n2026-06-03T08:00:01.1Z stderr P x\n"), 7)
	f.Fuzz(func(t *testing.T, content []byte, cut int) {
		cut = max(0, min(cut, len(content)))
		var sums [2]Lines
		var records [2][]string
		for i, parts := range [][][]byte{{content}, {content[:cut], content[cut:]}} {
			n := &notebook{}
			l := newLineLog("auto", n)
			var buffer lineBuffer
			var u unwrapper
			for _, part := range parts {
				l.feed(&buffer, &u, bytes.Clone(part))
			}
			sums[i], records[i] = n.sum, n.records
		}
		a, b := sums[0], sums[1]
		if a.Read != b.Read || a.Matched != b.Matched || a.Unparsed != b.Unparsed || len(records[0]) != len(records[1]) {
			t.Errorf("cut at %d: %+v, whole: %+v", cut, b, a)
		}
		if a.Matched+a.Unparsed > a.Read {
			t.Errorf("counted %+v", a)
		}
		for i := range records[0] {
			if records[0][i] != records[1][i] {
				t.Errorf("%s, then %s", records[0][i], records[1][i])
			}
		}
	})
}

// FuzzJSON holds the scanner and the decoder of texts against the library.
func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"log":"a\n\u00e4\ud83d\ude00\ud83d","n":[1,{"a":"}"}],"":null}`))
	f.Add([]byte(`{"a":"\"","b":1e5 , "c" : true }`))
	f.Fuzz(func(t *testing.T, object []byte) {
		s := scanner{b: object, quotes: jsonQuotes}
		if !s.take('{') {
			return
		}
		got := map[string][]byte{}
		whole := s.members(func(key, value []byte) { got[string(key)] = value })
		var want map[string]json.RawMessage
		if bytes.ContainsAny(object, "\n\r") || json.Unmarshal(object, &want) != nil {
			return
		}
		if !whole {
			t.Fatalf("%q is broken, it is said", object)
		}
		for key, value := range want {
			if raw, known := got[key]; known && !bytes.Equal(bytes.TrimSpace(raw), bytes.TrimSpace(value)) {
				t.Errorf("%q has %q, not %q", key, raw, value)
			}
			var text string
			if json.Unmarshal(value, &text) != nil || value[0] != '"' {
				continue
			}
			if decoded, ok := appendDecoded(nil, value[1:len(value)-1]); !ok || string(bytes.ToValidUTF8(decoded, []byte("\uFFFD"))) != string(bytes.ToValidUTF8([]byte(text), []byte("\uFFFD"))) {
				if !bytes.Contains([]byte(text), []byte("\uFFFD")) { // the library has its own way with bytes that are no text
					t.Errorf("%q is decoded as %q, not %q", value, decoded, text)
				}
			}
		}
	})
}
