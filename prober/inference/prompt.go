package inference

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unique"
)

// Prompt is a prompt as it stands in a request body: a JSON array of token ids or a JSON string, marshalled once, in parts. Every
// leg that sends it shares them, and so do the prompts of other targets: in one piece each, the longest ones of a fleet would
// take most of its memory.
type Prompt struct {
	json   []string
	shared []unique.Handle[string] // what keeps the parts of a text shared
	text   bool
}

// IDPrompt is a prompt of token ids: lists of decimal numbers with commas between them, none of which is empty.
func IDPrompt(lists ...string) Prompt {
	p := Prompt{json: []string{"["}}
	for i, list := range lists {
		if i > 0 {
			p.json = append(p.json, ",")
		}
		p.json = append(p.json, list)
	}
	p.json = append(p.json, "]")
	return p
}

// TextPrompt is a prompt of text, in parts of whole characters. Bytes that are not UTF-8 become U+FFFD.
func TextPrompt(parts ...string) Prompt {
	p := Prompt{json: []string{`"`}, text: true}
	for _, part := range parts {
		quoted, err := json.Marshal(part)
		if err != nil { // a string always marshals
			continue
		}
		shared := unique.Make(string(quoted[1 : len(quoted)-1]))
		p.shared = append(p.shared, shared)
		p.json = append(p.json, shared.Value())
	}
	p.json = append(p.json, `"`)
	return p
}

// body reads the prompt between what stands before and after it, and says how long all of it is.
func (p Prompt) body(head, tail []byte) (io.Reader, int64) {
	readers := []io.Reader{bytes.NewReader(head)}
	size := len(head) + len(tail)
	for _, part := range p.json {
		readers = append(readers, strings.NewReader(part))
		size += len(part)
	}
	return whole{io.MultiReader(append(readers, bytes.NewReader(tail))...)}, int64(size)
}

// whole fills what it is given to read into: every read is a packet, and some parts of a prompt are a single byte.
type whole struct{ parts io.Reader }

func (w whole) Read(to []byte) (int, error) {
	n, err := io.ReadFull(w.parts, to)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}
