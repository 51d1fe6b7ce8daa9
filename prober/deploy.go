package prober

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"longctx_exporter/prober/inference"
)

// Deploy is what a target runs, as far as its server tells. The zero value is not known.
type Deploy struct {
	ID       string    // short hash of the settings as they were first told
	Since    time.Time // when it was first seen, by the wall clock
	Settings inference.Settings
}

// notTold stands in the log for a setting that the server does not list.
const notTold = "-"

// next is the deploy once the server has told its settings again, and what has changed, for people. A setting that the server
// only tells now, or no longer, is no change: pages fail, and a newer exporter reads more of them.
func (d Deploy) next(told inference.Settings, now time.Time) (next Deploy, changed []string) {
	if len(told) == 0 {
		return d, nil
	}
	for _, name := range slices.Sorted(maps.Keys(told)) {
		if before, known := d.Settings[name]; known && before != told[name] {
			changed = append(changed, fmt.Sprintf("%s: %s -> %s", name, before, told[name]))
		}
	}
	if d.ID == "" || len(changed) > 0 {
		return Deploy{ID: deployID(told), Since: now, Settings: maps.Clone(told)}, changed
	}
	all := maps.Clone(d.Settings)
	maps.Copy(all, told)
	d.Settings = all
	return d, nil
}

// deployID is a short hash over all settings.
func deployID(s inference.Settings) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(h, "%s=%s\n", name, s[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:10]
}

// listing is what has changed as one bounded line.
func listing(changed []string) string { return bounded(cmp.Or(strings.Join(changed, ", "), notTold)) }
