package prober

import (
	"context"
	"hash/fnv"
	"runtime"
	"strings"
	"testing"

	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/prompt"
)

// TestPromptsOfManyTargets holds the longest prompts of many targets at once: apart, they would take megabytes each.
func TestPromptsOfManyTargets(t *testing.T) {
	const targets, tokens, most = 16, 196608, 10 << 20 // bytes
	tokenize := func(_ context.Context, text string) (ids []int32, bos int32, err error) {
		for word := range strings.FieldsSeq(text) {
			h := fnv.New32a()
			h.Write([]byte(word))
			ids = append(ids, int32(h.Sum32()%150_000)+1)
		}
		return ids, 0, nil
	}
	for kind, source := range map[string]func(*prompt.Prose) (*promptSource, error){
		"ids": func(p *prompt.Prose) (*promptSource, error) {
			ids, err := prompt.NewIDs(t.Context(), tokenize, p, tokens)
			return &promptSource{ids: ids}, err
		},
		"text": func(p *prompt.Prose) (*promptSource, error) { return &promptSource{text: prompt.NewText(p)}, nil },
	} {
		t.Run(kind, func(t *testing.T) {
			before := heap()
			prose := NewProse()
			var sources []*promptSource
			var prompts []inference.Prompt
			for range targets {
				s, err := source(prose)
				if err != nil {
					t.Fatal(err)
				}
				b, err := s.build(tokens, nil)
				if err != nil {
					t.Fatal(err)
				}
				sources, prompts = append(sources, s), append(prompts, b.prompt)
			}
			if grew := heap() - before; grew > most {
				t.Errorf("%d MB for %d targets", grew>>20, targets)
			} else {
				t.Logf("%d kB for %d targets", grew>>10, targets)
			}
			runtime.KeepAlive(sources)
			runtime.KeepAlive(prompts)
		})
	}
}

// heap is how many bytes are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one lets what was shared go
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
