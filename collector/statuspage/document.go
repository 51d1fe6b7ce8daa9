package statuspage

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

// Bounds of what is kept of one run: characters of text that servers have a hand in, legs, and time stamps of all legs.
const (
	maxText   = 500
	maxLegs   = 64
	maxStamps = 4096
)

// Summary is a run in a list. What is not known is absent.
type Summary struct {
	ID           string        `json:"id"`
	Target       string        `json:"target"`
	Model        string        `json:"model"`
	Context      prober.Rung   `json:"context"`
	Rung         string        `json:"rung"`
	Started      time.Time     `json:"started"`
	Duration     float64       `json:"duration_seconds"`
	Status       prober.Status `json:"status"`
	Reason       prober.Reason `json:"reason"`
	Message      string        `json:"message"`
	Step         float64       `json:"step_seconds,omitempty"`
	AcceptLength float64       `json:"accept_length,omitempty"`
}

// Document is everything that is kept of a run. Prompts and generated text are not.
type Document struct {
	Summary
	Plan         prober.Plan      `json:"plan,omitempty"`
	Pairs        int              `json:"pairs,omitempty"`
	PromptTokens int              `json:"prompt_tokens,omitempty"`
	TTFT         float64          `json:"ttft_seconds,omitempty"`
	Prefill      float64          `json:"prefill_tokens_per_second,omitempty"`
	StepStream   float64          `json:"step_seconds_stream,omitempty"`
	StepError    float64          `json:"step_error_ratio,omitempty"`
	Method       string           `json:"method,omitempty"`
	Steps        int              `json:"steps,omitempty"`
	StepsSource  string           `json:"steps_source,omitempty"`
	DecodeRate   float64          `json:"decode_tokens_per_second,omitempty"`
	Histogram    []int            `json:"accept_histogram,omitempty"`
	Isolation    prober.Isolation `json:"isolation,omitempty"`
	Contended    *Contention      `json:"contended,omitempty"` // what a run felt that was rejected for other requests
	Buffered     bool             `json:"buffered"`
	Legs         []Leg            `json:"legs"`
	MoreLegs     int              `json:"more_legs,omitempty"` // sent, but not kept
}

// Contention is what the requests of a contended run felt.
type Contention struct {
	TTFT       float64 `json:"ttft_seconds,omitempty"`
	Step       float64 `json:"step_seconds,omitempty"`
	DecodeRate float64 `json:"decode_tokens_per_second,omitempty"`
	Running    int     `json:"running_requests,omitempty"`
}

// Leg is one request of a run. Times count from the first request byte.
type Leg struct {
	Run              int             `json:"run"`
	Leg              string          `json:"leg"`
	MaxTokens        int             `json:"max_tokens"`
	Discarded        bool            `json:"discarded,omitempty"`
	HTTPStatus       int             `json:"http_status,omitempty"`
	Streamed         bool            `json:"streamed"`
	PromptTokens     *int            `json:"prompt_tokens,omitempty"`
	CompletionTokens *int            `json:"completion_tokens,omitempty"`
	CachedTokens     *int            `json:"cached_tokens,omitempty"`
	Steps            int             `json:"steps,omitempty"`
	Connect          float64         `json:"connect_seconds,omitempty"`
	Headers          float64         `json:"headers_seconds,omitempty"`
	TTFT             float64         `json:"ttft_seconds,omitempty"`
	LastToken        float64         `json:"last_token_seconds,omitempty"`
	Total            float64         `json:"total_seconds,omitempty"`
	Queued           float64         `json:"queued_seconds,omitempty"`
	Chunks           int             `json:"chunks"`
	Reads            int             `json:"reads,omitempty"`
	Stamps           []float64       `json:"chunk_seconds,omitempty"` // when each chunk came; the first ones, where there are many
	FinishReason     string          `json:"finish_reason,omitempty"`
	Replica          string          `json:"replica,omitempty"`
	ErrorClass       inference.Class `json:"error_class"`
	Error            string          `json:"error"`
}

func newSummary(run prober.Run) Summary {
	s := Summary{
		ID: run.ID, Target: run.Target, Model: clean(run.Model), Context: run.Rung, Rung: run.Rung.String(),
		Started: run.Started.UTC(), Duration: seconds(run.Duration), Status: run.Status, Reason: run.Reason,
		Message: clean(run.Message),
	}
	if run.Status == prober.Accepted {
		s.Step, s.AcceptLength = positive(run.Sample.Step), positive(run.Sample.AcceptLength)
	}
	return s
}

func newDocument(run prober.Run) Document {
	s := run.Sample
	d := Document{
		Summary: newSummary(run), Plan: run.Plan, PromptTokens: max(s.PromptTokens, 0), TTFT: positive(s.TTFT),
		Prefill: positive(s.Prefill), Isolation: s.Isolation, Buffered: s.Buffered, Legs: []Leg{},
	}
	if s.Buffered {
		d.TTFT, s.StepStream = 0, 0 // the stamps of what was held back mean nothing
	}
	stamps := maxStamps
	for _, leg := range run.Legs[:min(len(run.Legs), maxLegs)] {
		d.Legs = append(d.Legs, newLeg(leg, &stamps))
	}
	d.MoreLegs = len(run.Legs) - len(d.Legs)
	if c := run.Contended; c != nil {
		d.Contended = &Contention{TTFT: positive(c.TTFT), Step: positive(c.Step), DecodeRate: positive(c.DecodeRate), Running: max(c.Running, 0)}
	}
	if run.Status != prober.Accepted {
		return d
	}
	d.Pairs, d.Method, d.StepStream, d.StepError = max(s.Pairs, 0), s.Method, positive(s.StepStream), positive(s.StepError)
	d.Steps, d.StepsSource, d.DecodeRate = max(s.Steps, 0), s.StepsSource, positive(s.DecodeRate)
	d.Histogram = s.AcceptHistogram[:min(len(s.AcceptHistogram), maxStamps)]
	return d
}

// newLeg keeps as many time stamps as are left.
func newLeg(l prober.Leg, left *int) Leg {
	answer := l.Response
	out := Leg{
		Run: l.Run, Leg: l.Kind, MaxTokens: l.MaxTokens, Discarded: l.Discarded, HTTPStatus: answer.HTTPStatus,
		Streamed: answer.Streamed, PromptTokens: answer.PromptTokens, CompletionTokens: answer.CompletionTokens,
		CachedTokens: answer.CachedTokens, Connect: seconds(answer.Connect), Headers: seconds(answer.Headers),
		TTFT: seconds(answer.TTFT), LastToken: seconds(answer.LastToken), Total: seconds(answer.Total),
		Queued: seconds(answer.Queued), Chunks: len(answer.Chunks), Reads: answer.Reads,
		FinishReason: clean(answer.FinishReason), Replica: clean(answer.Replica), ErrorClass: l.ErrorClass, Error: clean(l.Error),
	}
	if answer.Spec != nil {
		out.Steps = max(answer.Spec.Steps, 0)
	}
	for _, chunk := range answer.Chunks[:min(len(answer.Chunks), *left)] {
		out.Stamps = append(out.Stamps, seconds(chunk.At))
		*left--
	}
	return out
}

// clean makes text that a server had a hand in fit for a page: bounded, on one line, of visible characters alone.
func clean(s string) string {
	s = strings.TrimSpace(s)
	s = s[:min(len(s), (maxText+1)*utf8.UTFMax)] // the rest would be dropped
	n := 0
	return strings.Map(func(r rune) rune {
		switch n++; {
		case n == maxText+1:
			return '…'
		case n > maxText:
			return -1
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsPrint(r):
			return r
		}
		return utf8.RuneError
	}, s)
}

// seconds are those of a duration to the microsecond, 0 for one below.
func seconds(d time.Duration) float64 {
	return float64(max(d, 0).Round(time.Microsecond)) / float64(time.Second)
}

// positive is v to six digits, and 0 for everything that is no positive number.
func positive(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 0
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 5, 64), 64) // reads what was just written
	return rounded
}
