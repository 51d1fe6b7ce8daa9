package inference

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

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
type Client struct {
	base    string // without a trailing slash and /v1
	options Options
	http    *http.Client
	secrets *secrets  // all that were sent so far
	buffers sync.Pool // of *readBuffer

	mu      sync.Mutex
	dialect dialect // nil until it is known
	api     API     // AutoAPI until it is known
	model   string
	liteLLM bool              // that gateway was seen in front of the server
	refused map[string]string // optional fields that the server refuses, and what they are called instead, "" for dropped
}

// New makes a client; it sends nothing.
func New(o Options) (*Client, error) {
	base, err := baseURL(o.URL)
	if err != nil {
		return nil, err
	}
	switch o.API {
	case "":
		o.API = AutoAPI
	case AutoAPI, Completions, Chat, Native:
	default:
		return nil, fmt.Errorf("api %q is none of auto, completions, chat, native", o.API)
	}
	d := dialectNamed(o.Dialect)
	if d == nil && o.Dialect != Auto && o.Dialect != "" {
		return nil, fmt.Errorf("dialect %q is none of auto, sglang, vllm, llamacpp, trtllm, lmdeploy, ollama, openai", o.Dialect)
	}
	if d != nil && o.API == Native && !slices.Contains(d.apis(), Native) {
		return nil, fmt.Errorf("dialect %s has no native api", d.name())
	}
	client, err := newHTTPClient(o)
	if err != nil {
		return nil, err
	}
	return &Client{
		base: base, options: o, http: client, secrets: newSecrets(unseenSecrets(o.HTTP, base)),
		buffers: sync.Pool{New: func() any { return new(readBuffer) }},
		dialect: d, api: o.API, model: o.Model, refused: map[string]string{},
	}, nil
}

func (c *Client) exchange() *exchange { return &exchange{secrets: c.secrets} }

// baseURL checks a configured URL and cuts off what the paths of requests begin with.
func baseURL(configured string) (string, error) {
	u, err := url.Parse(configured)
	if err != nil {
		return "", errors.New("the url cannot be parsed: it must look like http://host:port")
	}
	switch {
	case u.User != nil:
		return "", fmt.Errorf("the url of %s must not hold credentials: put them under http", u.Host)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "", fmt.Errorf("url %.100q must begin with http:// or https:// and name a host", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("the url of %s must not have a query or a fragment", u.Host)
	}
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.String(), "/"), "/v1"), "/"), nil
}

// Complete sends one leg on a fresh connection. An optional field that the server refuses is dropped or renamed, once, and
// the leg is sent again. A Response comes with errors too, as far as it got. Errors are *Error.
func (c *Client) Complete(ctx context.Context, r Request) (Response, error) {
	d, api, s, err := c.ready(ctx)
	if err != nil {
		return Response{}, err
	}
	for {
		if !r.Prompt.text && !d.takesIDs(api) {
			return Response{}, &Error{Class: BadRequest, Message: fmt.Sprintf("the prompt is made of token ids, and the %s api of dialect %s takes text only", api, d.name())}
		}
		leg, err := d.leg(api, s, r)
		if err != nil {
			return Response{}, &Error{Class: BadRequest, Message: err.Error(), Err: err}
		}
		leg = c.plain(leg)
		refused := c.refusals()
		resp, said, failed := c.send(ctx, leg, refused, r)
		if failed == nil {
			return resp, nil
		}
		if said == nil || ctx.Err() != nil {
			return resp, failed
		}
		// Each way round ends: a refusal is of a field that was sent, and there are finitely many of those and of endpoint families.
		if name, to, ok := leg.refusal(*said, refused); ok {
			c.refuse(name, to)
			continue
		}
		next, ok := c.fallBack(d, api, failed)
		if !ok {
			return resp, failed
		}
		api = next
	}
}

// ready is what a leg needs to know; it identifies the server where the configuration does not say enough.
func (c *Client) ready(ctx context.Context) (dialect, API, session, error) {
	c.mu.Lock()
	known := c.dialect != nil && c.model != ""
	c.mu.Unlock()
	if !known {
		if _, err := c.Identify(ctx); err != nil {
			return nil, "", session{}, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.api == AutoAPI {
		c.api = c.dialect.apis()[0]
	}
	return c.dialect, c.api, session{model: c.model, replica: c.options.Replica}, nil
}

func (c *Client) refusals() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.refused)
}

func (c *Client) refuse(name, to string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[name] = to
}

// fallBack goes over to the next endpoint family, where the configuration leaves the choice and the server has not got the
// one that was asked.
func (c *Client) fallBack(d dialect, from API, failed *Error) (API, bool) {
	missing := failed.Status == http.StatusNotFound || failed.Status == http.StatusMethodNotAllowed || failed.Status == http.StatusNotImplemented
	i := slices.Index(d.apis(), from)
	if c.options.API != AutoAPI || failed.Class != Protocol || !missing || i < 0 || i+1 == len(d.apis()) {
		return from, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.api = d.apis()[i+1]
	return c.api, true
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }
