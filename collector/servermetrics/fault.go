package servermetrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// Reason is why a server's own page could not be read: a closed set.
type Reason string

// The reasons.
const (
	NotFound      Reason = "not_found"      // there is no such page: it is not switched on, or it is elsewhere
	Disabled      Reason = "disabled"       // the server says that it is switched off
	Denied        Reason = "denied"         // the credentials do not suffice
	Timeout       Reason = "timeout"        // not all of it came in time
	Unreachable   Reason = "unreachable"    // no connection, or a broken one
	HTTPError     Reason = "http_error"     // another status than 200
	NotPrometheus Reason = "not_prometheus" // something else than a page of metrics
	TooLarge      Reason = "too_large"
)

// fault is an error with its reason.
type fault struct {
	reason Reason
	text   string
}

func (f *fault) Error() string { return f.text }

// notOffered says whether the server does not offer this, or not to us: a fact that lasts, not a failure that passes.
func (f *fault) notOffered() bool {
	return f.reason == NotFound || f.reason == Disabled || f.reason == Denied
}

// notOffered says so of any error.
func notOffered(err error) bool {
	f, ok := errors.AsType[*fault](err)
	return ok && f.notOffered()
}

var errNotPrometheus = &fault{reason: NotPrometheus, text: "the answer is not a page of Prometheus metrics"}

// refusal is what another status than 200 means.
func refusal(url string, resp *http.Response) *fault {
	f := &fault{reason: HTTPError, text: fmt.Sprintf("GET %s answered %d", url, resp.StatusCode)}
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		f.reason = NotFound
	case http.StatusNotImplemented:
		f.reason = Disabled
	case http.StatusUnauthorized, http.StatusForbidden:
		f.reason = Denied
	}
	return f
}

// reasonOf finds the reason of any error of reading.
func reasonOf(err error) Reason {
	if f, ok := errors.AsType[*fault](err); ok {
		return f.reason
	}
	if timeout, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || ok && timeout.Timeout() {
		return Timeout
	}
	return Unreachable
}
