// Package grafana builds the dashboards. They are generated, so that each query, unit and threshold has one source, and committed,
// so that Grafana reads them without a tool.
package grafana

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

//go:generate go test -run ^TestCommittedDashboardsAreCurrent$ . -update

// Dashboard is a dashboard of the schema that Grafana 9 and all newer ones read.
type Dashboard = dashboard.Dashboard //nolint:staticcheck // its successor is read by the newest Grafanas only

// Dashboards are all dashboards. The file of each is named by its uid.
func Dashboards() []Dashboard {
	return []Dashboard{fleet(), longContext(), speculation(), probes()}
}

// Encode writes a dashboard as Grafana's JSON, the same bytes each time.
func Encode(d Dashboard) ([]byte, error) {
	compact, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encoding dashboard %s: %w", *d.Uid, err)
	}
	// Once more, for the types inside would escape what a reader of a query wants to see: > and &.
	var tree any
	if err := json.Unmarshal(compact, &tree); err != nil {
		return nil, fmt.Errorf("encoding dashboard %s: %w", *d.Uid, err)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(tree); err != nil {
		return nil, fmt.Errorf("encoding dashboard %s: %w", *d.Uid, err)
	}
	return out.Bytes(), nil
}
