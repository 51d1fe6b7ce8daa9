package serverlog

import (
	"bytes"
	"regexp"
	"strings"
)

const (
	longestKept   = 200 // bytes of an unparsed line that are looked at for people
	longestNumber = 12  // bytes; no count or mean of a server is longer, the number of a credit card is
)

// What may be shown of a line is known beforehand, but for digits: the time that it begins with, the words that tell its kind, and
// keys of batches, intervals and timings.
var (
	shownTime = regexp.MustCompile(`^\[?((?:\d{4}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d)`)
	shownKind = regexp.MustCompile(`Decode batch|Prefill batch|Finish: obj=|ddtree_v2 profile|SpecDecoding metrics:|Speculative metrics:|` +
		`Avg prompt throughput:|Avg thr \(in/out\):|Draft acceptance rate:|draft acceptance|prompt eval time =|eval time =|\[spec-decode\]|` +
		`slot +release:`)
	shownKey = regexp.MustCompile(`(#running-req|#queue-req|#(?:full )?token|(?:full )?token usage|accept len|accept rate|` +
		`(?:gen|input) throughput \(token/s\)|#new-seq|#new-token|#cached-token|#pending-token|cache hit rate|mean_accept_len|` +
		`Mean acceptance length|Draft acceptance rate|Accepted|Drafted|Avg (?:prompt|generation) throughput|Running|Waiting|` +
		`GPU KV cache usage|Prefix cache hit rate|draft acceptance(?: rate)?|mean len|mean acceptance length|prompt eval time|eval time|` +
		`truncated|tokens|steps|avg_commit) ?([:=])[ \t]*([^ \t,]*)`)
)

// forPeople makes a line fit to be shown. What users wrote may stand anywhere in one that is broken, with quotes or without: only
// words that the server writes itself are shown, and numbers behind its keys; of a request, whose arguments may be numbers of a
// prompt, its kind alone.
func forPeople(line []byte) string {
	text := line
	if len(text) > longestKept {
		text = text[:bytes.LastIndexByte(text[:longestKept], ' ')+1] // whole words, for a number may be cut
	}
	if i := bytes.IndexAny(text, "\"'{`"); i >= 0 {
		text = text[:i]
	}
	var parts, values []string
	if at := shownTime.FindSubmatch(text); at != nil {
		parts = append(parts, string(at[1]))
	}
	kind := shownKind.Find(text)
	if kind != nil {
		parts = append(parts, string(kind))
	}
	parts = append(parts, "…")
	if kind == nil || string(kind) == "Finish: obj=" {
		return strings.Join(parts, " ")
	}
	for _, m := range shownKey.FindAllSubmatch(text, -1) {
		values = append(values, shownValue(m[1], m[2], m[3]))
	}
	if len(values) > 0 {
		parts = append(parts, strings.Join(values, ", "))
	}
	return strings.Join(parts, " ")
}

// shownValue is "accept len: 3.31", or "accept len: …" for what is no number.
func shownValue(key, sign, value []byte) string {
	shown := "…"
	if _, ok := number(value); ok && len(value) <= longestNumber {
		shown = string(value)
	}
	if string(sign) == "=" {
		return string(key) + " = " + shown
	}
	return string(key) + ": " + shown
}
