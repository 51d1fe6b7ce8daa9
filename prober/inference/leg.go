package inference

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// maxErrorBody bounds what is read of an error answer and maxExcerpt what is kept of an answer that is none, in bytes: more
// than is shown, so that a secret in it is whole. lingering is what is waited for the end of a body that is whole.
const (
	maxErrorBody = 64 << 10
	maxExcerpt   = 8 << 10
	lingering    = 2 * time.Second
)

// send carries one leg out on a fresh connection. The refusal is set where the server answered with an error of its own.
func (c *Client) send(ctx context.Context, leg legRequest, refused map[string]string, r Request) (Response, *serverError, *Error) {
	wire, cancel := context.WithCancel(ctx)
	defer cancel()
	x := c.exchange()
	resp := Response{}
	body, size, err := leg.body(r.Prompt, refused)
	if err != nil {
		return resp, nil, x.fail(BadRequest, 0, err, "%v", err)
	}
	req, err := http.NewRequestWithContext(x.trace(wire), http.MethodPost, c.base+leg.path, io.NopCloser(body))
	if err != nil {
		return resp, nil, x.fail(BadRequest, 0, err, "%v", err)
	}
	for key, values := range leg.header {
		req.Header[key] = values
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	answered, err := c.http.Do(req)
	connect, start, _ := x.clock()
	resp.Connect = connect
	if err != nil {
		resp.Total = time.Since(start)
		return resp, nil, x.broken(ctx, 0, err)
	}
	defer answered.Body.Close()
	resp.HTTPStatus, resp.Headers = answered.StatusCode, time.Since(start)
	c.notice(answered.Header)
	resp.Replica = c.secrets.hide(answered.Header.Get("X-Gateway-Destination-Endpoint-Served"))
	stream, encoded, err := decoded(answered.Body, answered.Header.Get("Content-Encoding"))
	resp.Encoded = encoded
	if err != nil {
		resp.Total = time.Since(start)
		return resp, nil, x.broken(ctx, resp.HTTPStatus, err)
	}
	if answered.StatusCode < 200 || answered.StatusCode > 299 {
		said, _ := io.ReadAll(io.LimitReader(stream, maxErrorBody))
		resp.Total = time.Since(start)
		e := classify(answered.StatusCode, said)
		return resp, &e, x.refused(e, answered)
	}
	if resp.Retried = retried(answered.Header); resp.Retried {
		resp.Total = time.Since(start)
		return resp, nil, x.fail(GatewayError, resp.HTTPStatus, nil, "the gateway tried more than once before it had an answer: no duration is that of one request")
	}
	a := newAnswer(&resp, r.MaxTokens)
	reader := bodyReader{answer: a, start: start, progress: r.Progress, done: cancel}
	buffer := c.buffers.Get().(*readBuffer)
	readErr := reader.read(stream, buffer[:])
	c.buffers.Put(buffer)
	resp.FinishReason = x.secrets.hide(resp.FinishReason)
	fault, failed := reader.verdict(ctx, x, readErr)
	return resp, fault, failed
}

// bodyReader reads the body of an answer and stamps each read when it returns, before anything is parsed.
type bodyReader struct {
	answer   *answer
	split    splitter
	start    time.Time
	progress func(chunks int)
	done     func() // ends the request
	excerpt  []byte // the first bytes, for people
}

// waited is the time from which on a read counts as one that had to wait for the server. One that returns sooner found its
// bytes already there: they came together with those before.
const waited = 100 * time.Microsecond

// readBuffer holds what one read brought.
type readBuffer [64 << 10]byte

// read takes the body to its end; nil is a clean end.
func (b *bodyReader) read(body io.Reader, buf []byte) error {
	a := b.answer
	var linger *time.Timer
	var last time.Duration // when the last bytes came
	for {
		asked := time.Now()
		n, err := body.Read(buf)
		now := time.Now()
		at := now.Sub(b.start)
		if a.arrivals == 0 || now.Sub(asked) >= waited {
			a.arrivals++
		}
		if n > 0 {
			last = at
		}
		if n > 0 && len(b.excerpt) < maxExcerpt {
			b.excerpt = append(b.excerpt, buf[:min(n, maxExcerpt)]...)
		}
		chunks := len(a.resp.Chunks)
		emit := func(data []byte, fault bool) { a.event(data, fault, at) }
		if tooLong := b.split.feed(buf[:n], emit); tooLong != nil {
			err = tooLong
		}
		if errors.Is(err, io.EOF) {
			b.split.end(emit)
		}
		if a.endless() {
			err = errEndless
		}
		if b.progress != nil && len(a.resp.Chunks) > chunks {
			b.progress(len(a.resp.Chunks))
		}
		if err != nil {
			if linger != nil {
				linger.Stop()
			}
			if linger != nil && !errors.Is(err, io.EOF) {
				at = last // what was waited for in vain is not the server's time
			}
			a.close(!b.split.plain || a.events > 1, at)
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if linger == nil && a.whole() {
			linger = time.AfterFunc(lingering, b.done) // some servers leave the connection open
		}
	}
}

// verdict says what became of an answer under status 200 whose body ended with err.
func (b *bodyReader) verdict(ctx context.Context, x *exchange, err error) (*serverError, *Error) {
	a := b.answer
	status := a.resp.HTTPStatus
	if fault := a.fault(); fault != nil {
		e := x.fail(fault.class, status, nil, "the server broke the request off: %s", fault.text)
		e.Limit = fault.limit
		return fault, e
	}
	switch {
	case a.complete(err != nil):
		return nil, nil
	case err != nil && !a.resp.Done:
		return nil, x.broken(ctx, status, err)
	case b.split.other && a.events == 0 || b.split.plain && a.events == 0:
		return nil, x.fail(Protocol, status, nil, "the answer is %s", x.describe(b.excerpt))
	case len(a.resp.Chunks) == 0:
		return nil, x.fail(StreamTruncated, status, nil, "the answer ended without a token")
	}
	return nil, x.fail(StreamTruncated, status, nil, "the answer ended after %d chunks without a finish reason", len(a.resp.Chunks))
}
