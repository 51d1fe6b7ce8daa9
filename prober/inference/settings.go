package inference

import (
	"encoding/json"
	"net/url"
	"strings"
)

// Settings are what a server says of how it was started, by name. Names come from lists of ours, which hold nothing secret and
// nothing that changes while a server runs or between two starts alike: no ports, seeds, sizes of pools, times or loads.
type Settings map[string]string

// notSet is the value of a setting that a server lists without a value: that it has none says something too.
const notSet = "null"

// put takes a setting that is known.
func (s Settings) put(name, value string) {
	if value = tidy(value); value != "" {
		s[name] = value
	}
}

// pick takes the settings of a list from a JSON object, those that are plain values. Nothing else of it is decoded.
func (s Settings) pick(object []byte, names []string) {
	var all map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil {
		return
	}
	for _, name := range names {
		raw := all[name]
		if len(raw) == 0 || raw[0] == '{' || raw[0] == '[' {
			continue
		}
		var text string
		if json.Unmarshal(raw, &text) == nil && raw[0] == '"' {
			s.put(name, text)
			continue
		}
		s.put(name, string(raw))
	}
}

// tidy makes a value one line, and takes out of an address what may let somebody in.
func tidy(value string) string {
	if strings.Contains(value, "://") {
		u, err := url.Parse(value)
		if err != nil {
			return ""
		}
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		value = u.String()
	}
	return clean(value)
}

// listed takes what the list of models says of the one in use.
func (s Settings) listed(m modelCard) {
	if m == (modelCard{ID: m.ID}) {
		return // a name alone is ours rather than the server's
	}
	s.put("model", m.ID)
	s.put("model_root", m.Root)
}
