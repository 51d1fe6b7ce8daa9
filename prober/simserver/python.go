package simserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// field is an entry of a Python dictionary, which keeps its order.
type field struct {
	key   string
	value any
}

// ordered lists the entries of an object: those that are named first, the others by their names.
func ordered(o object, first ...string) []field {
	var out []field
	for _, k := range first {
		if v, ok := o[k]; ok {
			out = append(out, field{k, v})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(first, k) {
			out = append(out, field{k, o[k]})
		}
	}
	return out
}

// pyJSON writes a value as Python's json.dumps does, with blanks after commas and colons.
func pyJSON(v any) string {
	return pyWrite(v, func(s string) string {
		data, _ := json.Marshal(s) // a string always marshals
		return string(data)
	}, "null", "true", "false")
}

// pyRepr writes a value as Python's repr does.
func pyRepr(v any) string { return pyWrite(v, pyQuote, "None", "True", "False") }

// pyQuote takes double quotes where there are single ones in the text and no double ones.
func pyQuote(s string) string {
	q := strconv.Quote(s)
	inner := strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		return `"` + inner + `"`
	}
	return "'" + strings.ReplaceAll(inner, "'", `\'`) + "'"
}

func pyWrite(v any, quote func(string) string, none, yes, no string) string {
	write := func(v any) string { return pyWrite(v, quote, none, yes, no) }
	switch v := v.(type) {
	case nil:
		return none
	case bool:
		if v {
			return yes
		}
		return no
	case string:
		return quote(v)
	case object:
		return write(ordered(v, "type"))
	case []field:
		parts := make([]string, len(v))
		for i, f := range v {
			parts[i] = quote(f.key) + ": " + write(f.value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case float64:
		return pyFloat(v)
	}
	if list := reflect.ValueOf(v); list.Kind() == reflect.Slice {
		parts := make([]string, list.Len())
		for i := range parts {
			parts[i] = write(list.Index(i).Interface())
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v)
}

// pyFloat always shows that a number is no integer.
func pyFloat(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
