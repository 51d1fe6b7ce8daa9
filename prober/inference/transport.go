package inference

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/common/config"
	"golang.org/x/oauth2"
)

// newHTTPClient makes the client of one server. Every request gets a connection of its own: a server that closes an idle
// connection while a request is on its way would look like a failure, and connecting is timed apart. There is no timeout
// but the context's: a long prefill sends no byte for minutes.
func newHTTPClient(o Options) (*http.Client, error) {
	cfg := o.HTTP
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("HTTP client configuration: %w", err)
	}
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	client, err := config.NewClientFromConfig(cfg, "inference",
		config.WithKeepAlivesDisabled(), config.WithDialContextFunc(dial), config.WithUserAgent("longctx_exporter"))
	if err != nil {
		return nil, fmt.Errorf("HTTP client configuration: %w", err)
	}
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		first := via[0]
		same := next.URL.Host == first.URL.Host && next.URL.Scheme == first.URL.Scheme
		if !cfg.FollowRedirects || first.Method != http.MethodGet || !same || len(via) > 5 {
			return http.ErrUseLastResponse
		}
		return nil
	}
	return client, nil
}

// exchange watches one request on the wire: its clock, and the secrets that its client sends.
type exchange struct {
	mu        sync.Mutex
	began     time.Time // the connection was asked for
	start     time.Time // the connection was ready
	connected bool
	secrets   *secrets
}

// trace makes x watch the requests of the returned context. Where a proxy or a token endpoint adds requests of its own, the
// last connection counts.
func (x *exchange) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.began, x.connected = time.Now(), false
		},
		GotConn: func(httptrace.GotConnInfo) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.start, x.connected = time.Now(), true
		},
		WroteHeaderField: func(key string, values []string) {
			if !ownHeader(key) {
				x.secrets.see(values)
			}
		},
	})
}

// connect is how long the connection took, start when it was ready.
func (x *exchange) clock() (connect time.Duration, start time.Time, connected bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.connected {
		return 0, time.Now(), false
	}
	return x.start.Sub(x.began), x.start, true
}

// fail makes an Error with a bounded message that holds no secret.
func (x *exchange) fail(class Class, status int, cause error, format string, args ...any) *Error {
	return &Error{Class: class, Status: status, Message: oneLine(fmt.Sprintf(format, args...), x.secrets), Err: cause}
}

// describe says in words what a body is that is not what was asked for. Secrets go before it is cut.
func (x *exchange) describe(body []byte) string {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return "an empty body, not JSON"
	case body[0] == '<':
		return "HTML, not JSON: is this the API's base URL?"
	}
	shown := x.secrets.hide(string(body[:min(len(body), maxExcerpt)]))
	return fmt.Sprintf("neither JSON nor an event stream: is this the API's base URL? It begins %.60q", shown)
}

// broken classifies an error of the transport. status is 0 where no response head came.
func (x *exchange) broken(ctx context.Context, status int, err error) *Error {
	_, _, connected := x.clock()
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return x.fail(Aborted, status, context.Canceled, "the request was cancelled on our side")
	case ctx.Err() != nil && !connected:
		return x.fail(Connect, status, ctx.Err(), "no connection before the deadline: is the address right, and does a firewall drop packets?")
	case ctx.Err() != nil:
		return x.fail(Timeout, status, ctx.Err(), "no complete answer before the deadline")
	case isTLS(err):
		return x.fail(TLS, status, err, "%s", tlsSentence(err))
	case as[*oauth2.RetrieveError](err):
		return x.fail(Auth, status, err, "no token: %s", tokenSentence(err))
	case !connected:
		return x.fail(connectClass(err), status, err, "no connection: %v", err)
	case isReset(err):
		return x.fail(ConnReset, status, err, "the connection broke before the answer was complete: %v", err)
	}
	if status == 0 {
		return x.fail(Protocol, status, err, "the answer is not HTTP: is this the right port? (%v)", err)
	}
	return x.fail(Protocol, status, err, "the answer cannot be read: %v", err)
}

// connectClass is the class of an error before there was a connection: credentials that cannot be read or fetched, or the
// connection itself.
func connectClass(err error) Class {
	if _, ok := errors.AsType[*net.OpError](err); !ok && containsAny(err.Error(), "credentials", "oauth2", "password", "username") {
		return Auth
	}
	return Connect
}

func isTLS(err error) bool {
	if errors.Is(err, http.ErrSchemeMismatch) || speaksTLS(err) {
		return true
	}
	for _, found := range []bool{
		as[tls.RecordHeaderError](err), as[tls.AlertError](err), as[*tls.CertificateVerificationError](err),
		as[x509.UnknownAuthorityError](err), as[x509.HostnameError](err), as[x509.CertificateInvalidError](err),
	} {
		if found {
			return true
		}
	}
	return containsAny(err.Error(), "tls: ", "TLS handshake")
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// speaksTLS says whether a plain HTTP request was answered with a TLS record: an alert is 0x15 0x03.
func speaksTLS(err error) bool {
	return strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`)
}

func tlsSentence(err error) string {
	switch {
	case speaksTLS(err):
		return "the port speaks TLS: use an https:// URL"
	case errors.Is(err, http.ErrSchemeMismatch) || as[tls.RecordHeaderError](err):
		return "the port does not speak TLS: use an http:// URL"
	}
	return "TLS: " + err.Error()
}

// tokenSentence leaves out what a token endpoint says: it was sent secrets that are not known here.
func tokenSentence(err error) string {
	refused, _ := errors.AsType[*oauth2.RetrieveError](err)
	if refused.Response == nil {
		return "the OAuth2 token endpoint did not give one"
	}
	return fmt.Sprintf("the OAuth2 token endpoint answered HTTP %d", refused.Response.StatusCode)
}

func isReset(err error) bool {
	for _, target := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED} {
		if errors.Is(err, target) {
			return true
		}
	}
	if as[*net.OpError](err) {
		return true
	}
	return containsAny(err.Error(), "EOF", "http2: ", "GOAWAY", "stream error", "connection reset", "server closed")
}

// decoded undoes a content coding that came though none was asked for.
func decoded(body io.Reader, coding string) (r io.Reader, encoded bool, err error) {
	switch strings.ToLower(strings.TrimSpace(coding)) {
	case "", "identity":
		return body, false, nil
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(body)
		return r, true, err
	case "deflate":
		r, err = inflated(body)
		return r, true, err
	}
	return nil, true, fmt.Errorf("content coding %.40q is not understood and was not asked for", coding)
}

// inflated reads deflate as it should be, inside zlib, and as it often is, bare.
func inflated(body io.Reader) (io.Reader, error) {
	var head [2]byte
	n, err := io.ReadFull(body, head[:])
	if err != nil {
		return nil, fmt.Errorf("reading the deflate header: %w", err)
	}
	whole := io.MultiReader(strings.NewReader(string(head[:n])), body)
	if head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return zlib.NewReader(whole)
	}
	return flate.NewReader(whole), nil
}
