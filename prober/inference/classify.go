package inference

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxMessage bounds the text of a server in a message, in bytes.
const maxMessage = 300

// serverError is a server's refusal, understood.
type serverError struct {
	status int
	class  Class
	text   string // the whole message, to search in; never shown
	param  string // the request field that it complains about, "" where it names none
	limit  int    // tokens
}

// classify finds out what an error answer means: by its text where that is telling, else by its status. The status 0
// stands for an error inside a stream, which carries a status of its own.
func classify(status int, body []byte) serverError {
	d := parseErrorBody(body)
	if status == 0 {
		status = d.code
	}
	e := serverError{status: status, text: d.message, param: d.param}
	e.class, e.limit = classOf(status, d)
	return e
}

func classOf(status int, d errorBody) (Class, int) {
	lower := strings.ToLower(d.message)
	limit, overflow := contextLimit(d)
	proxy := containsAny(lower, "upstream connect error", "disconnect/reset before headers", "reset reason: ", "no healthy upstream", "bad gateway")
	switch {
	case status == http.StatusBadRequest && containsAny(lower, "http request to an https server", "request was sent to https port"):
		return TLS, 0
	case status == http.StatusGatewayTimeout || status == http.StatusRequestTimeout || status == 524:
		return GatewayTimeout, 0
	case proxy || status == http.StatusBadGateway || 520 <= status && status <= 530 && status != 529:
		return GatewayError, 0
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired || d.word == "invalid_api_key":
		return Auth, 0
	case overflow:
		return ContextOverflow, limit
	case status == http.StatusRequestEntityTooLarge:
		return GatewayError, 0
	case modelMissing(status, lower, d):
		return ModelNotFound, 0
	case loading.MatchString(lower):
		return Loading, 0
	case status == http.StatusTooManyRequests && !strings.Contains(lower, "overloaded"):
		return RateLimited, 0
	case status == http.StatusTooManyRequests || status == 529:
		return Overloaded, 0
	case status == http.StatusServiceUnavailable:
		return unavailable(lower, d), 0
	case status == http.StatusNotImplemented || status == http.StatusNotFound || status == http.StatusMethodNotAllowed || 300 <= status && status < 400:
		return Protocol, 0
	case status >= 500:
		return ServerError, 0
	case status >= 400:
		return BadRequest, 0
	case containsAny(lower, "queue is full", "server busy", "overloaded"):
		return Overloaded, 0
	}
	return StreamError, 0
}

// unavailable tells the meanings of a 503 apart.
func unavailable(lower string, d errorBody) Class {
	switch {
	case containsAny(lower, "enginecore", "engine is dead", "engine dead", "engine loop"):
		return ServerError
	case containsAny(lower, "overload", "busy", "queue", "capacity", "too many", "timeout reached"):
		return Overloaded
	case containsAny(lower, "loading", "starting", "not ready", "being loaded", "not loaded", "initializing", "initialising", "warming", "warmup", "warm-up", "sleeping"):
		return Loading
	case d.html:
		return GatewayError
	}
	return Overloaded
}

// loading is how servers say so whatever the status: of a model, not of a failure to load one.
var loading = regexp.MustCompile(`(?:^|server )loading model|model (?:\S+ )?is (?:currently |still )?(?:loading|being loaded)`)

// missing is how servers speak of a model that they do not have.
var missing = regexp.MustCompile(`^(?:the )?model\b(?:s|:)? *[^ ]* *(?:does not exist|not found|is not found|not exist)`)

func modelMissing(status int, lower string, d errorBody) bool {
	if d.word == "model_not_found" || d.kind == "model_not_found" {
		return true
	}
	if containsAny(lower, "invalid model name", "lora is not enabled", "could not find real modelid") || missing.MatchString(lower) {
		return true
	}
	return status == http.StatusNotFound && strings.Contains(lower, "model") && containsAny(lower, "not exist", "not found", "no such", "unknown")
}

// errorBody is an error answer, whatever its shape: {"error":{…}}, {"error":"…"}, {"message":…}, {"detail":…}, HTML or text.
type errorBody struct {
	message string
	kind    string // type or code as a word
	param   string
	code    int    // the status that stands in the body, 0 where none does
	limit   int    // n_ctx
	word    string // the code, where it is a word
	html    bool
}

func parseErrorBody(body []byte) errorBody {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return errorBody{}
	}
	switch body[0] {
	case '{':
		return parseErrorObject(body)
	case '"':
		var s string
		if json.Unmarshal(body, &s) == nil {
			return errorBody{message: s}
		}
	case '<':
		return errorBody{message: htmlText(body), html: true}
	}
	return errorBody{message: string(body)}
}

func parseErrorObject(body []byte) errorBody {
	if !json.Valid(body) {
		return errorBody{message: string(body)}
	}
	d := errorBody{}
	var detail, code string
	var inner []byte
	for key, v := range members(body) {
		switch key {
		case "error":
			inner = v
		case "message":
			d.message = text(v)
		case "detail":
			detail = text(v)
		case "type":
			d.kind = text(v)
		case "code":
			code = text(v)
		case "param":
			d.param = text(v)
		case "n_ctx":
			d.limit = value(count(v))
		}
	}
	switch {
	case null(inner):
	case inner[0] == '{':
		return parseErrorObject(inner)
	default:
		d.message = text(inner)
	}
	if d.message == "" {
		d.message = detail
	}
	if d.message == "" {
		d.message = string(body)
	}
	n, err := strconv.Atoi(code)
	if err == nil {
		d.code = n
		return d
	}
	d.word = code
	if d.kind == "" || code == "context_length_exceeded" {
		d.kind = code
	}
	return d
}

// overflows are the ways in which servers say that a prompt is too long. A group that matched is the limit.
var overflows = []*regexp.Regexp{
	regexp.MustCompile(`max(?:imum)? context length(?: (?:is|of) (\d+)| \((\d+)\))?`),
	regexp.MustCompile(`context length (?:\((\d+)(?: tokens)?\)|(?:is|of) only (\d+))`),
	regexp.MustCompile(`smaller than the model context length (\d+)`),
	regexp.MustCompile(`(?:greater|longer) than the context (?:length|size|window)(?:.*n_ctx: (\d+))?`),
	regexp.MustCompile(`maximum allowed length \((\d+) tokens\)`),
	regexp.MustCompile(`available context size(?: \((\d+) tokens\))?`),
	regexp.MustCompile("`inputs` tokens \\+ `max_new_tokens` must be <= (\\d+)"),
	regexp.MustCompile("`inputs` must have less than (\\d+) tokens"),
	regexp.MustCompile(`(?:longer than|exceeds) the maximum model length(?: of (\d+))?`),
	regexp.MustCompile(`(?:exceeds?|exceed(?:ed|ing)) (?:the |this |its |your )?\S* ?(?:context|session|sequence|input) (?:length|limit|size|window)(?:(?: of)? \(?(\d+))?`),
	regexp.MustCompile(`exceeds?\b.*\bmax_(?:num_tokens|seq_len|model_len|input_len|total_tokens)\D{0,4}(\d+)`),
	regexp.MustCompile(`default_max_tokens.* max_seq_len \((\d+)\)`),
	regexp.MustCompile(`max_(?:new_|completion_)?tokens must be (?:at least|greater than(?: or equal to)?) \d+, (?:but )?got -\d+`),
	regexp.MustCompile(`(?:prompt|input)(?: \(.*\))? is too long(?: to fit into the model \(maximum length (\d+)\))?`),
	regexp.MustCompile(`(?:prompt|input) too long`),
	regexp.MustCompile(`context window`),
}

// contextLimit says whether an error means that prompt or prompt plus output are too long, and the limit in tokens that it
// names, 0 where it names none.
func contextLimit(d errorBody) (limit int, overflow bool) {
	lower := strings.ToLower(d.message)
	if d.kind == "exceed_context_size_error" || d.kind == "context_length_exceeded" {
		limit, overflow = d.limit, true
	}
	for _, re := range overflows {
		m := re.FindStringSubmatch(lower)
		if m == nil {
			continue
		}
		overflow = true
		for _, named := range m[1:] {
			if limit <= 0 {
				limit, _ = strconv.Atoi(named)
			}
		}
		if limit > 0 {
			break
		}
	}
	if limit < 0 || limit > 1<<31-1 {
		limit = 0
	}
	return limit, overflow
}

// htmlText is the visible text of a page of HTML.
func htmlText(page []byte) string {
	var b strings.Builder
	inside := false
	for _, r := range string(page[:min(len(page), 4096)]) {
		switch {
		case r == '<':
			inside = true
			b.WriteByte(' ')
		case r == '>':
			inside = false
		case !inside:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// oneLine makes text fit for a message: valid UTF-8, one line, bounded, free of secrets.
func oneLine(text string, s *secrets) string {
	text = s.hide(text)
	if len(text) <= maxMessage {
		return text
	}
	cut := maxMessage - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

func containsAny(s string, subs ...string) bool {
	for _, sub := range subs {
		if strings.Contains(s, sub) {
			return true
		}
	}
	return false
}
