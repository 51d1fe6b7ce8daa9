package simserver

import (
	"fmt"
	"strings"
)

// era is one version of a server. What it offers follows from its date: everything that had come by then, and nothing
// that had gone. Dates of patch releases, and the build numbers of llama.cpp between those that are known, are approximate.
type era struct {
	name    string
	version string // as the server tells it
	date    string // YYYY-MM-DD
}

// period is the time in which a server had some property: "from/until" in dates, the second exclusive, either one empty
// for ever.
type period string

func (e era) has(p period) bool {
	from, until, _ := strings.Cut(string(p), "/")
	return e.date >= from && (until == "" || e.date < until)
}

// Eras lists the versions of a shape that can be chosen by name, the default first.
func Eras(shape string) []string {
	var names []string
	for _, e := range eras(shape) {
		names = append(names, e.name)
	}
	return names
}

func findEra(shape, name string) (era, error) {
	for _, e := range eras(shape) {
		if e.name == name || name == "" {
			return e, nil
		}
	}
	return era{}, fmt.Errorf("%s has no era %q; there are %s", shape, name, strings.Join(Eras(shape), ", "))
}

// eras is the table of versions. The default, which is the newest, comes first.
func eras(shape string) []era {
	switch shape {
	case shapeSGLang:
		return []era{
			{"present", "0.5.15.post1", "2026-11-01"}, // built from the main branch, which still calls itself by the last release
			{"0.5.18", "0.5.18", "2026-08-26"},
			{"0.5.15", "0.5.15", "2026-07-10"},
			{"0.5.14", "0.5.14", "2026-06-25"},
			{"0.5.12", "0.5.12", "2026-05-16"},
			{"0.5.10", "0.5.10", "2026-04-06"},
			{"0.5.9", "0.5.9", "2026-02-24"},
			{"0.5.8", "0.5.8", "2026-01-23"},
			{"0.5.6", "0.5.6", "2025-12-02"},
			{"0.5.4", "0.5.4", "2025-10-23"},
			{"0.5.3", "0.5.3", "2025-10-06"},
			{"0.4.10", "0.4.10", "2025-07-31"},
			{"0.4.9.post1", "0.4.9.post1", "2025-07-09"},
			{"0.4.9", "0.4.9", "2025-07-05"},
			{"0.4.6", "0.4.6", "2025-04-27"},
			{"0.4.4", "0.4.4", "2025-03-13"},
			{"0.4.1", "0.4.1", "2025-01-06"},
		}
	case shapeVLLM:
		return []era{
			{"0.32.0", "0.32.0", "2026-08-25"},
			{"0.14.0", "0.14.0", "2026-01-20"},
			{"0.11.0", "0.11.0", "2025-10-02"},
			{"0.10.1", "0.10.1", "2025-08-18"},
			{"0.9.2", "0.9.2", "2025-07-07"},
			{"0.8.5", "0.8.5", "2025-04-28"},
			{"0.8.3", "0.8.3", "2025-04-06"},
			{"v0", "0.6.6", "2025-01-10"},
		}
	case shapeLlama:
		return []era{
			{"b10587", llamaBuild, "2026-08-22"},
			{"b10290", "b10290-0e1f2a3b4", "2026-08-05"},
			{"b9820", "b9820-5c6d7e8f9", "2026-06-29"},
			{"b9690", "b9690-1a2b3c4d5", "2026-06-17"},
			{"b8000", "b8000-6e7f8a9b0", "2026-02-01"},
		}
	case shapeTRTLLM:
		return []era{{"1.2", trtllmVersion, "2026-08-20"}, {"1.0", "1.0.0", "2025-09-24"}}
	case shapeLMDeploy:
		return []era{{"0.16", "0.16.0", "2026-08-21"}, {"0.10", "0.10.0", "2025-09-15"}}
	case shapeOllama:
		return []era{{"0.30", ollamaVersion, "2026-08-21"}}
	}
	return []era{{"present", "", "2026-11-01"}}
}
