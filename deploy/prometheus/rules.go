// Package prometheus holds what Prometheus needs beside the exporter: a scrape configuration, recording rules, alerts and
// their unit tests. The tests are promtool's, written by this package's own tests from a model of the exporter.
package prometheus

// RunbookBase is what every alert's runbook_url begins with; the alert's name in lower case follows. Whoever publishes the
// runbooks elsewhere changes it here and in the rules.
const RunbookBase = "RUNBOOKS.md#"

//go:generate go test -run ^TestUnitTestsAreCurrent$ . -args -update
