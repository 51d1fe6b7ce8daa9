// Package statuspage is what a person looks at: how every rung of every target does now, and the runs of late with their
// requests and raw timings, as HTML and as JSON. It shows neither prompts nor generated text nor credentials.
package statuspage

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"longctx_exporter/prober"
)

// maxBytes bounds the memory of a history; overhead is what a run takes besides its document.
const (
	maxBytes = 16 << 20
	overhead = 512
)

// History keeps the runs of late, within a number and within a size. What failed or was rejected is kept longer than what
// went well: it is what a person looks for. It is safe for concurrent use.
type History struct {
	limit, bytes int

	mu   sync.Mutex
	size int
	runs []record // oldest first
	held [3]int   // number of runs by group
}

// record is a run as it is kept: its document is JSON, so that its size is known.
type record struct {
	Summary
	document []byte
	group    group
}

func (r record) size() int {
	return overhead + len(r.document) + len(r.ID) + len(r.Target) + len(r.Model) + len(r.Message)
}

// group says how long a run is worth keeping.
type group int

const (
	skipped  group = iota // was not sent
	accepted              // says what the metrics say
	trouble               // failed or rejected
)

// share is the part of a full history that is left to the group, in tenths, when the others want more room.
func (g group) share() int { return []int{skipped: 1, accepted: 3, trouble: 6}[g] }

func groupOf(s prober.Status) group {
	switch s {
	case prober.Skipped:
		return skipped
	case prober.Accepted:
		return accepted
	}
	return trouble
}

// NewHistory makes a history of limit runs at most; with 0 it keeps none.
func NewHistory(limit int) *History { return &History{limit: limit, bytes: maxBytes} }

// ObserveRun keeps a run.
func (h *History) ObserveRun(run prober.Run) {
	if h.limit <= 0 {
		return
	}
	document, err := json.Marshal(newDocument(run))
	if err != nil {
		return // a document has nothing that JSON cannot hold
	}
	r := record{Summary: newSummary(run), document: document, group: groupOf(run.Status)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = append(h.runs, r)
	h.size += r.size()
	h.held[r.group]++
	for len(h.runs) > h.limit || h.size > h.bytes {
		h.forget()
	}
}

// forget drops the oldest run of the group that is furthest above its share.
func (h *History) forget() {
	worst := skipped
	for _, g := range []group{accepted, trouble} {
		if h.held[g]*worst.share() > h.held[worst]*g.share() {
			worst = g
		}
	}
	i := slices.IndexFunc(h.runs, func(r record) bool { return r.group == worst })
	h.size -= h.runs[i].size()
	h.held[worst]--
	h.runs = slices.Delete(h.runs, i, i+1)
}

// list gives the newest runs that match, most of them at most, and how many more match.
func (h *History) list(match func(Summary) bool, most int) (newest []Summary, more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	newest = []Summary{}
	for _, r := range slices.Backward(h.runs) {
		switch {
		case !match(r.Summary):
		case len(newest) < most:
			newest = append(newest, r.Summary)
		default:
			more++
		}
	}
	return newest, more
}

// run finds a run that is still kept.
func (h *History) run(id string) (Document, bool, error) {
	h.mu.Lock()
	i := slices.IndexFunc(h.runs, func(r record) bool { return r.ID == id })
	var text []byte
	if i >= 0 {
		text = h.runs[i].document
	}
	h.mu.Unlock()
	if text == nil {
		return Document{}, false, nil
	}
	var d Document
	if err := json.Unmarshal(text, &d); err != nil {
		return Document{}, false, fmt.Errorf("reading run %s: %w", id, err)
	}
	return d, true, nil
}
