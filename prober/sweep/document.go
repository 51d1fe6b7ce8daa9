package sweep

import (
	"encoding/json"
	"io"
	"math"
	"net/url"
	"strconv"
	"time"

	"longctx_exporter/prober"
	"longctx_exporter/prober/estimate"
	"longctx_exporter/prober/inference"
)

// schema names the JSON of a sweep; its field names are stable.
const schema = "longctx/sweep/v1"

// Bounds of text that servers have a hand in, in characters.
const (
	maxName    = 200
	maxMessage = 500
)

// document is the JSON of a sweep. A value that is not known is absent; none that is there is negative, infinite or NaN,
// but for the fit's two.
type document struct {
	Schema          string    `json:"schema"`
	Started         time.Time `json:"started"`
	ExporterVersion string    `json:"exporter_version"`
	Target          target    `json:"target"`
	Rungs           []rung    `json:"rungs"`
	Fit             *fit      `json:"fit,omitempty"`
}

type target struct {
	Name          string `json:"name"`
	URL           string `json:"url"`
	Model         string `json:"model"`
	Dialect       string `json:"dialect,omitempty"`
	ServerVersion string `json:"server_version,omitempty"`
	Speculation   string `json:"speculation,omitempty"`
	ContextLimit  int    `json:"context_limit,omitempty"`
	KVPoolTokens  int    `json:"kv_pool_tokens,omitempty"`
}

type rung struct {
	Context      prober.Rung      `json:"context"`
	Rung         string           `json:"rung"`
	Status       prober.Status    `json:"status"`
	Reason       prober.Reason    `json:"reason"`
	Message      string           `json:"message"`
	Plan         prober.Plan      `json:"plan,omitempty"`
	Pairs        int              `json:"pairs,omitempty"`
	PromptTokens int              `json:"prompt_tokens,omitempty"`
	TTFT         float64          `json:"ttft_seconds,omitempty"`
	Prefill      float64          `json:"prefill_tokens_per_second,omitempty"`
	Step         float64          `json:"step_seconds,omitempty"`
	StepStream   float64          `json:"step_seconds_stream,omitempty"`
	StepCI       []float64        `json:"step_seconds_ci,omitempty"`
	StepError    float64          `json:"step_error_ratio,omitempty"`
	Method       string           `json:"method,omitempty"`
	Steps        int              `json:"steps,omitempty"`
	StepsSource  string           `json:"steps_source,omitempty"`
	DecodeRate   float64          `json:"decode_tokens_per_second,omitempty"`
	AcceptLength float64          `json:"accept_length,omitempty"`
	Histogram    []int            `json:"accept_histogram,omitempty"`
	Isolation    prober.Isolation `json:"isolation,omitempty"`
	Buffered     *bool            `json:"buffered,omitempty"`
	Legs         []leg            `json:"legs"`

	decoded float64 // mean tokens decoded per long leg; 0 where the rung was read from a file
}

type leg struct {
	Run              int             `json:"run"`
	Leg              string          `json:"leg"`
	MaxTokens        int             `json:"max_tokens"`
	HTTPStatus       int             `json:"http_status,omitempty"`
	PromptTokens     *int            `json:"prompt_tokens,omitempty"`
	CompletionTokens *int            `json:"completion_tokens,omitempty"`
	CachedTokens     *int            `json:"cached_tokens,omitempty"`
	TTFT             float64         `json:"ttft_seconds,omitempty"`
	Total            float64         `json:"total_seconds,omitempty"`
	Chunks           *int            `json:"chunks,omitempty"`
	FinishReason     string          `json:"finish_reason,omitempty"`
	ErrorClass       inference.Class `json:"error_class"`
	Error            string          `json:"error"`
	Discarded        bool            `json:"discarded,omitempty"` // not part of the sample
}

// fit is the line of step time over context.
type fit struct {
	Intercept float64 `json:"intercept_seconds"`
	Slope     float64 `json:"slope_seconds_per_token"`
	Rungs     int     `json:"rungs"`
}

func newTarget(t prober.Target, f inference.Facts) target {
	model := f.Model
	if model == "" {
		model = t.ModelLabel()
	}
	return target{
		Name:          clean(t.Name, maxName),
		URL:           bareURL(t.URL),
		Model:         clean(model, maxName),
		Dialect:       string(f.Dialect),
		ServerVersion: clean(f.ServerVersion, maxName),
		Speculation:   clean(f.Speculation, maxName),
		ContextLimit:  max(f.ContextLimit, 0),
		KVPoolTokens:  max(f.KVPoolTokens, 0),
	}
}

// bareURL leaves out user, password and query: results are passed around.
func bareURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// newRung keeps of a run that was not accepted only what its cold leg says.
func newRung(run prober.Run) rung {
	s := run.Sample
	r := rung{
		Context:      run.Rung,
		Rung:         run.Rung.String(),
		Status:       run.Status,
		Message:      clean(run.Message, maxMessage),
		Plan:         run.Plan,
		PromptTokens: max(s.PromptTokens, 0),
		TTFT:         positive(s.TTFT),
		Prefill:      positive(s.Prefill),
		Isolation:    s.Isolation,
		Legs:         make([]leg, 0, len(run.Legs)),
	}
	for _, l := range run.Legs {
		r.Legs = append(r.Legs, newLeg(l))
		if l.Response.HTTPStatus == 200 {
			r.Buffered = &s.Buffered
		}
	}
	if s.Buffered {
		s.StepStream, r.TTFT = 0, 0 // the stamps of what was held back mean nothing
	}
	if run.Status != prober.Accepted {
		r.Reason = run.Reason
		return r
	}
	r.Pairs, r.Method = max(s.Pairs, 0), s.Method
	r.Step, r.StepStream = positive(s.Step), positive(s.StepStream)
	if r.Step > 0 {
		r.StepError = positive(s.StepError)
	}
	if low, high := s.StepCI[0], positive(s.StepCI[1]); r.Step > 0 && high > 0 {
		r.StepCI = []float64{positive(low), high}
	}
	r.Steps, r.StepsSource = max(s.Steps, 0), s.StepsSource
	r.DecodeRate, r.AcceptLength = positive(s.DecodeRate), positive(s.AcceptLength)
	r.Histogram = s.AcceptHistogram
	r.decoded = positive(s.DecodeTokens)
	return r
}

func newLeg(l prober.Leg) leg {
	answer := l.Response
	out := leg{
		Run:              l.Run,
		Leg:              l.Kind,
		MaxTokens:        l.MaxTokens,
		HTTPStatus:       answer.HTTPStatus,
		PromptTokens:     answer.PromptTokens,
		CompletionTokens: answer.CompletionTokens,
		CachedTokens:     answer.CachedTokens,
		TTFT:             positive(answer.TTFT.Seconds()),
		Total:            positive(answer.Total.Seconds()),
		FinishReason:     clean(answer.FinishReason, maxName),
		ErrorClass:       l.ErrorClass,
		Error:            clean(l.Error, maxMessage),
		Discarded:        l.Discarded,
	}
	if chunks := len(answer.Chunks); answer.Streamed {
		out.Chunks = &chunks
	}
	return out
}

// depth is the mean context of the decoded tokens: a step in the middle of the answer sees half of it.
func (r rung) depth() float64 {
	prompt := float64(r.PromptTokens)
	if prompt == 0 {
		prompt = float64(r.Context)
	}
	decoded := r.decoded
	if decoded == 0 {
		decoded = decodedTokens(r.Legs)
	}
	return prompt + decoded/2
}

// decodedTokens is the mean number of tokens that long legs decoded after their first.
func decodedTokens(legs []leg) float64 {
	shortest := math.MaxInt
	for _, l := range legs {
		shortest = min(shortest, l.MaxTokens)
	}
	sum, n := 0, 0
	for _, l := range legs {
		if l.MaxTokens > shortest && l.ErrorClass == "" && l.CompletionTokens != nil {
			sum += *l.CompletionTokens - 1
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return float64(sum) / float64(n)
}

// fitLine is nil where fewer than three accepted rungs have a step time.
func fitLine(rungs []rung) *fit {
	var x, y []float64
	for _, r := range rungs {
		if r.Status == prober.Accepted && r.Step > 0 {
			x, y = append(x, r.depth()), append(y, r.Step)
		}
	}
	intercept, slope, ok := estimate.TheilSen(x, y)
	if !ok || intercept != finite(intercept) || slope != finite(slope) {
		return nil
	}
	return &fit{Intercept: six(intercept), Slope: six(slope), Rungs: len(x)}
}

func (d document) write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// positive is v to six digits, and 0, which JSON leaves out, for everything that is no positive number.
func positive(v float64) float64 {
	if v = finite(v); v <= 0 {
		return 0
	}
	return six(v)
}

func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// six rounds to six significant digits: more is noise that looks like knowledge.
func six(v float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 5, 64), 64) // reads what was just written
	return rounded
}
