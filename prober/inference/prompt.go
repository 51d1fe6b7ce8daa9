package inference

import (
	"encoding/json"
	"strconv"
)

// Prompt is a prompt as it stands in a request body: a JSON array of token ids or a JSON string, marshalled once and shared
// by every leg that sends it.
type Prompt struct {
	json []byte
	text bool
}

// IDPrompt is a prompt of token ids.
func IDPrompt(ids []int32) Prompt {
	size := 2 + len(ids) // brackets, commas
	for _, id := range ids {
		size += digits(id)
	}
	b := make([]byte, 0, size)
	b = append(b, '[')
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	return Prompt{json: append(b, ']')}
}

// TextPrompt is a prompt of text. Bytes that are not UTF-8 become U+FFFD.
func TextPrompt(text string) Prompt {
	b, err := json.Marshal(text)
	if err != nil { // a string always marshals
		b = []byte(`""`)
	}
	return Prompt{json: b, text: true}
}

// digits is the length of id as a decimal number.
func digits(id int32) int {
	n, v := 1, int64(id)
	if v < 0 {
		n, v = 2, -v
	}
	for power := int64(10); v >= power; power *= 10 {
		n++
	}
	return n
}
