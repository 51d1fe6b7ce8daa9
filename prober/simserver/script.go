package simserver

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Script is a fault, line by line. Each line of Wire is an instruction; # starts a comment.
//
//	exchange METHOD PATH            begins the answer to the next request with that method and path
//	status N                        without it no response head is ever sent
//	header K: V
//	encode gzip                     the body is compressed and flushed once, at its end
//	assert-request-header K: V      noted by Failures where the request differs
//	fail-test-if-header-present K   noted by Failures where the request has it
//	at T send lines A-B             lines of the body file from A to B, counted from 1
//	at T send bytes A-B             bytes A to B-1, flushed on their own
//	at T send all                   the body file
//	at T send file EXT              another body file
//	at T send text …                literal text; \n is a line feed
//	at T end                        a clean end of the body
//	at T end-without-response       the connection is closed
//	at T reset                      the connection is reset
//	at T hang                       nothing more until the client leaves
//	at T rst_stream CODE            the stream is reset; over HTTP/1.1 the connection is cut
//	at T goaway CODE                the same
//	protocol h2                     said for the test that sets the server up
//	close-idle-on-next-write        the next request on a used connection finds it closed
//
// T is in seconds after the request was read.
type Script struct {
	Wire      string
	Bodies    map[string]string // body files by extension: "sse", "json", "prom", "txt"; @@PAD:n@@ stands for n letters x
	Repeat    bool              // the last exchange of a path answers all further requests
	TimeScale float64           // divides the times; 0 means 1
}

// exchange is the answer to one request.
type exchange struct {
	method, path string
	status       int
	headers      [][2]string
	gzip         bool
	asserted     [][2]string
	forbidden    []string
	closeIdle    bool
	actions      []action
}

// action is something that happens at a time after the request.
type action struct {
	at   time.Duration
	kind string // "send", "end", "end-without-response", "reset", "hang"
	data []byte
}

var padding = regexp.MustCompile(`@@PAD:(\d{1,7})@@`)

// parse reads the instructions.
func (s Script) parse() ([]*exchange, error) {
	p := scriptParser{script: s, bodies: map[string]string{}}
	for ext, text := range s.Bodies {
		p.bodies[ext] = padding.ReplaceAllStringFunc(text, func(m string) string {
			n, _ := strconv.Atoi(padding.FindStringSubmatch(m)[1]) // digits by the pattern
			return strings.Repeat("x", n)
		})
	}
	for i, line := range strings.Split(s.Wire, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("script line %d: %w", i+1, err)
		}
	}
	return p.exchanges, nil
}

type scriptParser struct {
	script    Script
	bodies    map[string]string
	exchanges []*exchange
	closeIdle bool // for the exchange to come
}

func (p *scriptParser) line(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "protocol":
		return nil
	case "close-idle-on-next-write":
		p.closeIdle = true
		return nil
	case "exchange":
		method, path, ok := strings.Cut(rest, " ")
		if !ok {
			return fmt.Errorf("exchange wants a method and a path, not %q", rest)
		}
		p.exchanges = append(p.exchanges, &exchange{method: method, path: path, closeIdle: p.closeIdle})
		p.closeIdle = false
		return nil
	}
	if len(p.exchanges) == 0 {
		return fmt.Errorf("%q comes before the first exchange", word)
	}
	return p.setting(p.exchanges[len(p.exchanges)-1], word, rest)
}

func (p *scriptParser) setting(x *exchange, word, rest string) error {
	key, value, _ := strings.Cut(rest, ": ")
	switch word {
	case "status":
		n, err := strconv.Atoi(rest)
		if err != nil || n < 100 || n > 599 {
			return fmt.Errorf("%q is no HTTP status", rest)
		}
		x.status = n
	case "header":
		x.headers = append(x.headers, [2]string{key, value})
	case "encode":
		if rest != "gzip" {
			return fmt.Errorf("the encoding %q is not known", rest)
		}
		x.gzip = true
	case "assert-request-header":
		x.asserted = append(x.asserted, [2]string{key, value})
	case "fail-test-if-header-present":
		x.forbidden = append(x.forbidden, rest)
	case "at":
		a, err := p.action(rest)
		if err != nil {
			return err
		}
		x.actions = append(x.actions, a)
	default:
		return fmt.Errorf("the instruction %q is not known", word)
	}
	return nil
}

func (p *scriptParser) action(text string) (action, error) {
	when, rest, _ := strings.Cut(text, " ")
	seconds, err := strconv.ParseFloat(when, 64)
	if err != nil || !(seconds >= 0 && seconds < 1e6) {
		return action{}, fmt.Errorf("%q is no time in seconds", when)
	}
	if p.script.TimeScale > 0 {
		seconds /= p.script.TimeScale
	}
	kind, rest, _ := strings.Cut(rest, " ")
	a := action{at: time.Duration(seconds * float64(time.Second)), kind: kind}
	switch kind {
	case "send":
		a.data, err = p.payload(rest)
		return a, err
	case "end", "end-without-response", "reset", "hang":
		return a, nil
	case "rst_stream", "goaway":
		a.kind = "reset"
		return a, nil
	}
	return a, fmt.Errorf("the action %q is not known", kind)
}

func (p *scriptParser) payload(what string) ([]byte, error) {
	kind, rest, _ := strings.Cut(what, " ")
	switch kind {
	case "text":
		return []byte(strings.ReplaceAll(rest, `\n`, "\n")), nil
	case "file":
		body, ok := p.bodies[rest]
		if !ok {
			return nil, fmt.Errorf("there is no body file %q, only %q", rest, slices.Sorted(maps.Keys(p.bodies)))
		}
		return []byte(body), nil
	}
	body, err := p.mainBody()
	if err != nil || kind == "all" {
		return []byte(body), err
	}
	from, to, err := span(rest)
	if err != nil {
		return nil, err
	}
	switch kind {
	case "lines":
		lines := strings.SplitAfter(body, "\n")
		if from < 1 || to < from || to > len(lines) {
			return nil, fmt.Errorf("the body has %d lines, not %s", len(lines), rest)
		}
		return []byte(strings.Join(lines[from-1:to], "")), nil
	case "bytes":
		if to < from || to > len(body) {
			return nil, fmt.Errorf("the body has %d bytes, not %s", len(body), rest)
		}
		return []byte(body[from:to]), nil
	}
	return nil, fmt.Errorf("%q cannot be sent", kind)
}

func (p *scriptParser) mainBody() (string, error) {
	for _, ext := range []string{"sse", "json", "prom", "txt"} {
		if body, ok := p.bodies[ext]; ok {
			return body, nil
		}
	}
	return "", fmt.Errorf("the script sends a body file and has none")
}

// span reads A-B.
func span(text string) (from, to int, err error) {
	a, b, ok := strings.Cut(text, "-")
	from, errFrom := strconv.Atoi(a)
	to, errTo := strconv.Atoi(b)
	if !ok || errFrom != nil || errTo != nil || from < 0 {
		return 0, 0, fmt.Errorf("%q is no span like 1-2", text)
	}
	return from, to, nil
}
