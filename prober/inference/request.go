package inference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// field is one member of a request body. Optional ones are dropped where the server refuses them.
type field struct {
	parent   string // the object that it stands in, "" at the top
	name     string
	value    any
	optional bool
	whole    bool // sent only where the answer comes in one piece
}

// legRequest is one leg as a dialect wants it: everything but the prompt, which comes last in the body.
type legRequest struct {
	path   string
	header http.Header
	fields []field
	open   string // what stands between the other fields and the prompt, such as `"prompt":`
	close  string // what follows the prompt inside the outermost braces
}

// must and may make fields at the top of the body.
func must(name string, value any) field { return field{name: name, value: value} }
func may(name string, value any) field  { return field{name: name, value: value, optional: true} }

// frame is the body around the prompt: everything before it and everything after it. Fields in refused are left out or,
// where it names another field, renamed.
func (l legRequest) frame(refused map[string]string) (head, tail []byte, err error) {
	var b bytes.Buffer
	b.WriteByte('{')
	done := map[string]bool{}
	for _, f := range l.fields {
		if f.whole && !dropped("stream", refused) {
			continue
		}
		if f.parent == "" {
			if err := appendField(&b, f, refused); err != nil {
				return nil, nil, err
			}
			continue
		}
		if done[f.parent] || f.inDropped(refused) {
			continue
		}
		done[f.parent] = true
		if err := appendGroup(&b, l.fields, f.parent, refused); err != nil {
			return nil, nil, err
		}
	}
	b.WriteString(l.open)
	return b.Bytes(), []byte(l.close + "}"), nil
}

// appendGroup writes the object parent with those of its members that are not refused, or nothing where none is left.
func appendGroup(b *bytes.Buffer, fields []field, parent string, refused map[string]string) error {
	var group bytes.Buffer
	for _, f := range fields {
		if f.parent != parent {
			continue
		}
		if err := appendField(&group, f, refused); err != nil {
			return err
		}
	}
	if group.Len() > 0 {
		fmt.Fprintf(b, "%q:{%s},", parent, bytes.TrimSuffix(group.Bytes(), []byte(",")))
	}
	return nil
}

func appendField(b *bytes.Buffer, f field, refused map[string]string) error {
	name := f.name
	if to, ok := refused[name]; ok {
		if to == "" {
			return nil
		}
		name = to
	}
	v, err := json.Marshal(f.value)
	if err != nil {
		return fmt.Errorf("marshalling %s: %w", f.name, err)
	}
	fmt.Fprintf(b, "%q:%s,", name, v)
	return nil
}

// inDropped says whether a field or the object that it stands in is not sent for the sake of another one: an answer in one
// piece has no stream to set options of.
func (f field) inDropped(refused map[string]string) bool {
	return f.whole && !dropped("stream", refused) || dropped(f.parent, refused) || f.parent == "stream_options" && dropped("stream", refused)
}

func dropped(name string, refused map[string]string) bool {
	to, ok := refused[name]
	return ok && to == ""
}

// body streams the frame around the prompt, and says how long it is.
func (l legRequest) body(p Prompt, refused map[string]string) (io.Reader, int64, error) {
	head, tail, err := l.frame(refused)
	if err != nil {
		return nil, 0, err
	}
	body, size := p.body(head, tail)
	return body, size, nil
}

// refusal finds the optional field that a refused request owes its refusal to: its name and, where the server wants another
// name for it, that one. Only fields that were sent count.
func (l legRequest) refusal(e serverError, refused map[string]string) (name, to string, ok bool) {
	if e.class != BadRequest || (e.status != http.StatusBadRequest && e.status != http.StatusUnprocessableEntity) {
		return "", "", false
	}
	first := len(e.text)
	for _, candidate := range l.optional(refused) {
		at := wordIndex(e.text, candidate)
		if candidate == e.param {
			at = -1 // better than any place in the text
		} else if at < 0 {
			continue
		}
		if name == "" || at < first {
			name, first = candidate, at
		}
	}
	if name == "" && wordIndex(e.text, "max_tokens") >= 0 && wordIndex(e.text, "max_completion_tokens") >= 0 && l.sends("max_tokens", refused) {
		return "max_tokens", "max_completion_tokens", true
	}
	if name == "" && l.sends("stream", refused) && (e.param == "stream" || unstreamed.MatchString(strings.ToLower(e.text))) {
		return "stream", "", true
	}
	if member := l.memberAt(e.text, name, first, refused); member != "" {
		name = member
	}
	return name, "", name != ""
}

// unstreamed is how servers say that they answer in one piece only. The word alone stands in many other texts.
var unstreamed = regexp.MustCompile(`\bstream(?:ing)?['"]?(?: mode)?(?: is| are)? (?:not (?:yet )?(?:supported|allowed|available)|unsupported|disabled|must be false)`)

// optional are the names of the optional fields that are sent, and of the objects that hold only such.
func (l legRequest) optional(refused map[string]string) []string {
	var names []string
	for _, f := range l.fields {
		if !f.optional || !l.sends(f.name, refused) {
			continue
		}
		names = append(names, f.name)
		if f.parent != "" && !slices.ContainsFunc(l.fields, func(o field) bool { return o.parent == f.parent && !o.optional }) {
			names = append(names, f.parent)
		}
	}
	return names
}

// sends says whether a field goes out under its own name.
func (l legRequest) sends(name string, refused map[string]string) bool {
	return slices.ContainsFunc(l.fields, func(f field) bool {
		_, gone := refused[f.name]
		return f.name == name && !gone && !f.inDropped(refused)
	})
}

// memberAt is the member of an object that text names right after the object: `('body', 'stream_options', 'include_usage')`
// or `stream_options.include_usage` complain about the member only.
func (l legRequest) memberAt(text, object string, at int, refused map[string]string) string {
	if object == "" || at < 0 {
		return ""
	}
	rest := strings.TrimLeft(text[at+len(object):], `'", .[`)
	for _, f := range l.fields {
		if f.parent == object && f.optional && l.sends(f.name, refused) && wordIndex(rest, f.name) == 0 {
			return f.name
		}
	}
	return ""
}

// wordIndex is where name stands in text as a word of its own, -1 where it does not.
func wordIndex(text, name string) int {
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 {
			return -1
		}
		i += from
		end := i + len(name)
		if (i == 0 || !wordByte(text[i-1])) && (end == len(text) || !wordByte(text[end])) {
			return i
		}
		from = end
	}
}

func wordByte(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}
