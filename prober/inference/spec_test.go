package inference

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSpeculationSources reads what each kind and age of server tells of speculation in an answer.
func TestSpeculationSources(t *testing.T) {
	eighth := []int{3, 4, 4, 2, 2, 1, 1, 2}
	sixth := []int{11, 14, 11, 4, 0, 3}
	for name, want := range map[string]struct {
		spec  *Spec
		clash string
	}{
		"sglang-generate-2026-05.sse":            {spec: &Spec{Steps: 19, Drafts: 51, Histogram: eighth, Source: "meta_info"}},
		"sglang-generate-2026-04.json":           {spec: &Spec{Steps: 19, Drafts: 51, Histogram: eighth, Source: "meta_info"}},
		"sglang-generate-2025-11.json":           {spec: &Spec{Steps: 19, Drafts: 51, Source: "meta_info"}},
		"sglang-generate-2025-10.json":           {spec: &Spec{Steps: 19, Drafts: -1, Source: "meta_info"}},
		"sglang-generate-histogram-alone.json":   {spec: &Spec{Steps: 19, Drafts: 51, Histogram: eighth, Source: "meta_info"}},
		"sglang-generate-names-differ.json":      {&Spec{Steps: 19, Drafts: 51, Source: "meta_info"}, "meta_info tells of 51 accepted drafts and of 46"},
		"sglang-generate-histogram-differs.json": {&Spec{Steps: 19, Drafts: 51, Source: "meta_info"}, "meta_info counts 51 accepted drafts, its histogram 37"},
		"sglang-sglext.sse":                      {spec: &Spec{Steps: 43, Drafts: 63, Histogram: sixth, Source: "sglext"}},
		"sglang-sglext-list.json":                {spec: &Spec{Steps: 43, Drafts: 63, Histogram: sixth, Source: "sglext"}},
		"sglang-sglext-list-of-two.json":         {},
		"sglang-chat-meta-info.json":             {spec: &Spec{Steps: 19, Drafts: 51, Histogram: eighth, Source: "meta_info"}},
		"sglang-chat-sources-differ.json":        {&Spec{Steps: 19, Drafts: 51, Source: "meta_info"}, "meta_info tells of 19 verify passes, sglext of 25"},
		"vllm-metrics.sse":                       {spec: &Spec{Steps: 43, Drafts: 10, Histogram: []int{39, 1, 0, 3}, Block: 4, Source: "metrics"}},
		"vllm-metrics-detailed.json":             {spec: &Spec{Steps: 3, Drafts: 4, Histogram: []int{1, 1, 0, 1}, Block: 4, Source: "metrics"}},
		"trtllm-choice.sse":                      {spec: &Spec{Steps: 2, Drafts: 3, Histogram: []int{0, 1, 1, 0}, Block: 4, Source: "choice"}},
		"trtllm-mean.json":                       {spec: &Spec{Steps: 2, Drafts: -1, Source: "iterations", AtLeast: true}},
		"llamacpp-timings.json":                  {spec: &Spec{Steps: 24, Drafts: 40, Source: "timings", AtLeast: true}},
	} {
		t.Run(name, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join("testdata", "spec", name))
			if err != nil {
				t.Fatal(err)
			}
			r, failed := readAnswer(t, strings.NewReader(string(body)), 65)
			if failed != nil {
				t.Fatal(failed)
			}
			if d := cmp.Diff(want.spec, r.Spec); d != "" {
				t.Errorf("speculation (-want +got):\n%s", d)
			}
			if r.Clash != want.clash {
				t.Errorf("clash %q, want %q", r.Clash, want.clash)
			}
		})
	}
}

// TestMetaInfoIsNotAskedForInStreams: SGLang refuses it there, and tells by it where an answer comes in one piece.
func TestMetaInfoIsNotAskedForInStreams(t *testing.T) {
	for _, c := range []struct {
		api     API
		refused map[string]string
		want    bool
	}{
		{Chat, nil, false},
		{Chat, map[string]string{"stream": ""}, true},
		{Chat, map[string]string{"stream": "", "return_meta_info": ""}, false},
		{Completions, map[string]string{"stream": ""}, false},
	} {
		leg, err := sglang{}.leg(c.api, session{}, Request{MaxTokens: 1})
		if err != nil {
			t.Fatal(err)
		}
		head, _, err := leg.frame(c.refused)
		if err != nil {
			t.Fatal(err)
		}
		if asks := strings.Contains(string(head), `"return_meta_info":true`); asks != c.want {
			t.Errorf("%s, refused %v: %s", c.api, c.refused, head)
		}
		if !strings.Contains(string(head), `"return_spec_tokens_details":true`) {
			t.Errorf("%s does not ask for sglext: %s", c.api, head)
		}
	}
}
