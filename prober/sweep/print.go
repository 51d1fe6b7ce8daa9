package sweep

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"longctx_exporter/prober"
)

// The outputs.
const (
	outputTable    = "table"
	outputJSON     = "json"
	outputCSV      = "csv"
	outputMarkdown = "markdown"
)

// Outputs lists how a sweep can be printed, the default first.
func Outputs() []string { return []string{outputTable, outputJSON, outputCSV, outputMarkdown} }

func (d document) print(w io.Writer, output string) error {
	switch output {
	case outputJSON:
		return d.write(w)
	case outputCSV:
		return d.printCSV(w)
	case outputMarkdown:
		_, err := io.WriteString(w, d.markdown())
		return err
	}
	_, err := io.WriteString(w, d.table())
	return err
}

// columns are those of the table and of markdown.
var columns = []struct {
	name  string
	right bool
	cell  func(rung) string
}{
	{"context", true, func(r rung) string { return r.Rung }},
	{"prompt tokens", true, func(r rung) string { return known(r.PromptTokens > 0, strconv.Itoa(r.PromptTokens)) }},
	{"TTFT", true, func(r rung) string { return known(r.TTFT > 0, seconds(r.TTFT)) }},
	{"prefill tok/s", true, func(r rung) string { return known(r.Prefill > 0, digits(r.Prefill, r.Prefill)) }},
	{"step", true, func(r rung) string { return known(r.Step > 0, secondsWithin(r.Step, r.StepCI)) }},
	{"τ", true, func(r rung) string { return known(r.AcceptLength > 0, strconv.FormatFloat(r.AcceptLength, 'f', 2, 64)) }},
	{"decode tok/s", true, func(r rung) string { return known(r.DecodeRate > 0, digits(r.DecodeRate, r.DecodeRate)) }},
	{"plan", false, plan},
	{"verdict", false, verdict},
}

// cells are cleaned here too: a rung may come from a file.
func (r rung) cells() []string {
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = clean(c.cell(r), maxName)
	}
	return cells
}

func known(ok bool, s string) string {
	if !ok {
		return "-"
	}
	return s
}

func plan(r rung) string {
	if r.Pairs > 0 {
		return fmt.Sprintf("%s ×%d", r.Plan, r.Pairs)
	}
	return known(r.Plan != "", string(r.Plan))
}

func verdict(r rung) string {
	parts := []string{string(r.Status)}
	if r.Reason != "" {
		parts = append(parts, string(r.Reason))
	}
	if r.Status == prober.Accepted && r.Isolation != "" {
		parts = append(parts, string(r.Isolation))
	}
	if r.Buffered != nil && *r.Buffered {
		parts = append(parts, "buffered")
	}
	return strings.Join(parts, ", ")
}

func (d document) table() string {
	rows := make([][]string, 0, len(d.Rungs)+1)
	header := make([]string, len(columns))
	widths := make([]int, len(columns))
	for i, c := range columns {
		header[i] = c.name
	}
	rows = append(rows, header)
	for _, r := range d.Rungs {
		rows = append(rows, r.cells())
	}
	for _, cells := range rows {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	b.WriteString(strings.Join(d.Target.facts(), ", ") + "\n\n")
	for _, cells := range rows {
		for i := range cells {
			cells[i] = pad(cells[i], widths[i], columns[i].right)
		}
		b.WriteString(strings.TrimRight(strings.Join(cells, "  "), " ") + "\n")
	}
	if d.Fit != nil {
		b.WriteString("\n" + d.Fit.String() + "\n")
	}
	for i, line := range d.messages() {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

func (d document) markdown() string {
	var b strings.Builder
	b.WriteString(escape(strings.Join(d.Target.facts(), ", ")) + "\n\n|")
	for _, c := range columns {
		b.WriteString(" " + c.name + " |")
	}
	b.WriteString("\n|")
	for _, c := range columns {
		b.WriteString(map[bool]string{true: " ---: |", false: " --- |"}[c.right])
	}
	for _, r := range d.Rungs {
		b.WriteString("\n|")
		for _, cell := range r.cells() {
			b.WriteString(" " + escape(cell) + " |")
		}
	}
	b.WriteString("\n")
	if d.Fit != nil {
		b.WriteString("\n" + d.Fit.String() + "\n")
	}
	for i, line := range d.messages() {
		if i == 0 {
			b.WriteString("\n")
		}
		b.WriteString("- " + escape(line) + "\n")
	}
	return b.String()
}

// escape keeps text of a server from becoming markup.
func escape(s string) string {
	return strings.NewReplacer(
		`\`, `\\`, "|", `\|`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "<", "&lt;", "&", "&amp;",
	).Replace(s)
}

// facts describe the target in words; what is not known is left out.
func (t target) facts() []string {
	facts := []string{t.URL, "model " + t.Model}
	if t.Dialect != "" {
		facts = append(facts, strings.TrimSpace(t.Dialect+" "+t.ServerVersion))
	}
	if t.Speculation != "" {
		facts = append(facts, "speculation "+t.Speculation)
	}
	if t.ContextLimit > 0 {
		facts = append(facts, fmt.Sprintf("context limit %d tokens", t.ContextLimit))
	}
	if t.KVPoolTokens > 0 {
		facts = append(facts, fmt.Sprintf("KV pool %d tokens", t.KVPoolTokens))
	}
	return facts
}

// String writes the line per 1,000 tokens: a rung's 1k is 1,024.
func (f fit) String() string {
	slope, sign := f.Slope*1000, "+"
	if slope < 0 {
		slope, sign = -slope, "-"
	}
	return fmt.Sprintf("step = %s %s %s per 1,000 tokens of context (%d rungs)", seconds(f.Intercept), sign, seconds(slope), f.Rungs)
}

// messages has a line for each rung that is not accepted or has something to say.
func (d document) messages() []string {
	var lines []string
	for _, r := range d.Rungs {
		if r.Status == prober.Accepted && r.Message == "" {
			continue
		}
		line := r.Rung + ": " + string(r.Status)
		if r.Reason != "" {
			line += ", " + string(r.Reason)
		}
		if r.Message != "" {
			line += ": " + r.Message
		}
		lines = append(lines, clean(line, maxMessage+maxName))
	}
	return lines
}

func (d document) printCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	records := [][]string{{
		"target", "model", "context", "rung", "status", "reason", "message", "plan", "pairs", "prompt_tokens", "ttft_seconds",
		"prefill_tokens_per_second", "step_seconds", "step_seconds_stream", "step_seconds_ci_low", "step_seconds_ci_high",
		"method", "steps", "steps_source", "decode_tokens_per_second", "accept_length", "accept_histogram", "isolation",
		"buffered", "step_error_ratio",
	}}
	for _, r := range d.Rungs {
		records = append(records, d.record(r))
	}
	return c.WriteAll(records)
}

func (d document) record(r rung) []string {
	var low, high, buffered string
	if len(r.StepCI) == 2 {
		// The lower end may be 0, which is known.
		low, high = strconv.FormatFloat(r.StepCI[0], 'g', -1, 64), number(r.StepCI[1])
	}
	if r.Buffered != nil {
		buffered = strconv.FormatBool(*r.Buffered)
	}
	histogram := make([]string, len(r.Histogram))
	for i, n := range r.Histogram {
		histogram[i] = strconv.Itoa(n)
	}
	return []string{
		d.Target.Name, d.Target.Model, r.Context.Context(), r.Rung, string(r.Status), string(r.Reason), r.Message,
		string(r.Plan), number(float64(r.Pairs)), number(float64(r.PromptTokens)), number(r.TTFT), number(r.Prefill),
		number(r.Step), number(r.StepStream), low, high, r.Method, number(float64(r.Steps)), r.StepsSource,
		number(r.DecodeRate), number(r.AcceptLength), strings.Join(histogram, " "), string(r.Isolation), buffered,
		number(r.StepError),
	}
}

// number is empty for 0, which stands for a value that is not known.
func number(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
