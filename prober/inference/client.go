package inference

import (
	"context"
	"errors"
	"net"

	"github.com/prometheus/common/config"
)

// Options are how a server is reached.
type Options struct {
	URL     string // base URL, with or without a trailing slash or /v1
	Dialect Dialect
	API     API
	Model   string // "" for the first that the server lists
	Replica string // pins a data-parallel rank or slot where the dialect can
	HTTP    config.HTTPClientConfig
	// Dial, where set, replaces the dialer: tests speak over pipes.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client sends legs to one server and remembers which optional fields it refuses.
type Client struct{}

// New makes a client; it sends nothing.
func New(o Options) (*Client, error) { return nil, errors.New("under construction") }

// Identify finds out what the server is and what it offers, never by overflowing it. Errors are *Error.
func (c *Client) Identify(ctx context.Context) (Facts, error) {
	return Facts{}, errors.New("under construction")
}

// Tokenize gives the ids of text by the server's own tokenizer, without special tokens, and the id of the beginning-of-sequence token
// that the server puts before a text prompt, -1 where it puts none.
func (c *Client) Tokenize(ctx context.Context, text string) (ids []int32, bos int32, err error) {
	return nil, 0, errors.New("under construction")
}

// Complete sends one leg on a fresh connection. An optional field that the server refuses is dropped or renamed, once, and
// the leg is sent again. A Response comes with errors too, as far as it got. Errors are *Error.
func (c *Client) Complete(ctx context.Context, r Request) (Response, error) {
	return Response{}, errors.New("under construction")
}

// Close closes idle connections.
func (c *Client) Close() {}
