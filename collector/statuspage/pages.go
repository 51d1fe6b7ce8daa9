package statuspage

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"longctx_exporter/prober"
)

// maxListed is the largest number of runs on one page.
const maxListed = 500

//go:embed page.html status.html runs.html run.html style.css
var files embed.FS

// Values gives the clean values that are exported of a rung, and since when.
type Values interface {
	Latest(target string, rung prober.Rung) (s prober.Sample, at time.Time, ok bool)
}

// Logs gives the latest lines of a target's logs that could not be read.
type Logs interface {
	UnparsedLines(target string) []string
}

// Options say what the pages show.
type Options struct {
	Version string
	Metrics string // path of the metrics, from the root
	History int    // number of runs that are kept; 0 keeps none
	Values  Values
	Logs    Logs // may be nil
}

// Pages are the pages for people. All their links are relative, so that they work behind any prefix. It is safe for
// concurrent use.
type Pages struct {
	options   Options
	history   *History
	board     board
	templates map[string]*template.Template
	style     template.CSS
}

var _ prober.RunObserver = (*Pages)(nil)

// New makes the pages, without targets.
func New(o Options) (*Pages, error) {
	p := &Pages{options: o, history: NewHistory(o.History), templates: map[string]*template.Template{}}
	p.board.last = map[place]Summary{}
	style, err := files.ReadFile("style.css")
	if err != nil {
		return nil, fmt.Errorf("reading the style sheet: %w", err)
	}
	p.style = template.CSS(style)
	for _, name := range []string{"status", "runs", "run"} {
		t, err := template.New("page.html").Funcs(functions()).ParseFS(files, "page.html", name+".html")
		if err != nil {
			return nil, fmt.Errorf("reading the %s page: %w", name, err)
		}
		p.templates[name] = t
	}
	return p, nil
}

// SetTargets tells which targets are probed from now on.
func (p *Pages) SetTargets(targets []prober.Target) { p.board.setTargets(targets) }

// ObserveRun keeps a run to show it, unless it is a due time that passed while the server rested or was being probed: that
// says nothing of the server, and often comes.
func (p *Pages) ObserveRun(run prober.Run) {
	if run.Reason == prober.OverBudget || run.Reason == prober.PreviousRunning {
		return
	}
	p.board.observe(run)
	p.history.ObserveRun(run)
}

// Status is the first page: every rung of every target.
func (p *Pages) Status(w http.ResponseWriter, _ *http.Request) {
	states := p.board.states(p.options.Values)
	if p.options.Logs != nil {
		for i := range states {
			for _, line := range p.options.Logs.UnparsedLines(states[i].Name) {
				states[i].Unparsed = append(states[i].Unparsed, clean(line))
			}
		}
	}
	p.show(w, "status", "", "Status", struct {
		Targets []state
		Counts  []count
		Kept    bool
	}{states, counts(states), p.options.History > 0})
}

// Runs lists the runs that are kept, newest first, those that the query chooses by target, rung and status.
func (p *Pages) Runs(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	match, err := filter(query)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	runs, more := p.history.list(match, maxListed)
	if wantsJSON(r) {
		p.json(w, struct {
			Runs []Summary `json:"runs"`
			More int       `json:"more"` // match too, but are not listed
		}{runs, more})
		return
	}
	p.show(w, "runs", "", "Runs", struct {
		Runs                 []Summary
		More                 int
		Kept                 bool
		Target, Rung, Status string
		Targets              []string
		Statuses             []prober.Status
	}{
		runs, more, p.options.History > 0, query.Get("target"), query.Get("rung"), query.Get("status"), p.board.names(), statuses(),
	})
}

func statuses() []prober.Status {
	return []prober.Status{prober.Accepted, prober.Rejected, prober.Failed, prober.Skipped}
}

// filter makes the choice of runs out of a query; what is left empty chooses all.
func filter(query url.Values) (func(Summary) bool, error) {
	target, status := query.Get("target"), prober.Status(query.Get("status"))
	known := status == ""
	for _, s := range statuses() {
		known = known || s == status
	}
	if !known {
		return nil, fmt.Errorf("status %.40q is none of accepted, rejected, failed, skipped", string(status))
	}
	var rung prober.Rung
	if text := query.Get("rung"); text != "" {
		var err error
		if rung, err = prober.ParseRung(text); err != nil || len(text) > 40 {
			return nil, fmt.Errorf("rung %.40q is neither a number of tokens nor like 8k", text)
		}
	}
	return func(s Summary) bool {
		return (target == "" || s.Target == target) && (rung == 0 || s.Context == rung) && (status == "" || s.Status == status)
	}, nil
}

// Run shows one run, whose ID is the path's last part, with all that is kept of it.
func (p *Pages) Run(w http.ResponseWriter, r *http.Request) {
	run, known, err := p.history.run(r.PathValue("id"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if !known {
		http.Error(w, "There is no such run, or it is no longer kept: see /runs.", http.StatusNotFound)
		return
	}
	if wantsJSON(r) {
		p.json(w, run)
		return
	}
	p.show(w, "run", "../", "Run "+run.ID, run)
}

// wantsJSON tells whether a program asks rather than a browser.
func wantsJSON(r *http.Request) bool {
	if format := r.URL.Query().Get("format"); format != "" {
		return format == "json"
	}
	return strings.Contains(r.Header.Get("Accept"), "application/json")
}

func (p *Pages) json(w http.ResponseWriter, v any) {
	header(w, "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // whoever asked has gone
}

// show writes a page, whole or not at all. root leads to the first page.
func (p *Pages) show(w http.ResponseWriter, name, root, title string, content any) {
	var page bytes.Buffer
	err := p.templates[name].Execute(&page, struct {
		Root, Title, Version, Metrics string
		Style                         template.CSS
		Content                       any
	}{root, title, p.options.Version, strings.TrimPrefix(p.options.Metrics, "/"), p.style, content})
	if err != nil {
		http.Error(w, "The page cannot be made: "+clean(err.Error()), http.StatusInternalServerError)
		return
	}
	header(w, "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	_, _ = w.Write(page.Bytes()) // whoever asked has gone
}

func header(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Vary", "Accept")
}
