package inference

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"strconv"
	"unicode/utf8"
)

// The functions here walk over JSON that json.Valid has passed, without decoding what nobody asks for: a stream has a small
// event for each step of the server, and decoding must not delay the next read.

// members yields the members of an object: the key as it is written, and the value. Anything else has none.
func members(b []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		i := blank(b, 0)
		if i == len(b) || b[i] != '{' {
			return
		}
		for i = blank(b, i+1); i < len(b) && b[i] == '"'; {
			end := skip(b, i)
			key := b[i+1 : end-1]
			i = blank(b, blank(b, end)+1) // over the colon
			end = skip(b, i)
			if !yield(string(key), b[i:end]) {
				return
			}
			i = blank(b, end)
			if i < len(b) && b[i] == ',' {
				i = blank(b, i+1)
			}
		}
	}
}

// elements yields the elements of a list. Anything else has none.
func elements(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := blank(b, 0)
		if i == len(b) || b[i] != '[' {
			return
		}
		for i = blank(b, i+1); i < len(b) && b[i] != ']'; {
			end := skip(b, i)
			if !yield(b[i:end]) {
				return
			}
			i = blank(b, end)
			if i < len(b) && b[i] == ',' {
				i = blank(b, i+1)
			}
		}
	}
}

// blank is the first index from i on that is no white space.
func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skip is the index after the value that begins at i.
func skip(b []byte, i int) int {
	end, _ := skipOpen(b, i)
	return end
}

// closed says whether text begins an object and ends with its closing brace. It need not be JSON.
func closed(text []byte) bool {
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	end, open := skipOpen(text, 0)
	return end == len(text) && open == 0
}

// skipOpen also says how many objects and lists are open still, where the text ends before the value does.
func skipOpen(b []byte, i int) (end, depth int) {
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			i++
		default: // a number, true, false or null
			for i < len(b) && !delimiter(b[i]) {
				i++
			}
		}
		if depth <= 0 {
			return i, depth
		}
	}
	return i, depth
}

func delimiter(c byte) bool {
	switch c {
	case ',', ':', '}', ']', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}

// skipString is the index after the string whose opening quote stands at i.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		next := bytes.IndexByte(b[i:], '"')
		if next < 0 {
			return len(b)
		}
		escape := bytes.IndexByte(b[i:i+next], '\\')
		if escape < 0 {
			return i + next + 1
		}
		i += escape + 1 // what is escaped cannot end the string
	}
	return len(b)
}

// text is a string value; "" for null, and for values of any other kind as they are written.
func text(v []byte) string {
	if null(v) {
		return ""
	}
	if v[0] != '"' {
		return string(v)
	}
	if inner := v[1 : len(v)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// mostCount is more than any server counts in one answer; what is larger is corrupt, and its sums could overflow.
const mostCount = 1<<31 - 1

// count is a number that counts something, however it is written; nil for anything else.
func count(v []byte) *int {
	n, err := strconv.Atoi(string(v))
	if err != nil {
		f, err := strconv.ParseFloat(string(v), 64)
		if err != nil || f != math.Trunc(f) || f < 0 || f > mostCount {
			return nil
		}
		n = int(f)
	}
	if n < 0 || n > mostCount {
		return nil
	}
	return &n
}

func null(v []byte) bool { return len(v) == 0 || v[0] == 'n' }

// nothing says whether a value is null or as good as that.
func nothing(v []byte) bool {
	switch string(v) {
	case `""`, "{}", "[]", "false", "0":
		return true
	}
	return null(v)
}

// length is the number of elements of a list.
func length(v []byte) (n int) {
	for range elements(v) {
		n++
	}
	return n
}
