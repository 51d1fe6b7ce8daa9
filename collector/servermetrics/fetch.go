package servermetrics

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"longctx_exporter/prober"
)

const (
	readTimeout  = 5 * time.Second // for all requests of one reading
	maxBody      = 4 << 20         // bytes; the largest page of a 16-rank server is below 1 MiB
	maxRedirects = 3
	askAgain     = 10 * time.Minute // how long an endpoint that the server does not offer is left alone
)

// endpoint is one URL with the client that may speak to it.
type endpoint struct {
	url    string
	client *http.Client
	absent time.Time // when it was last found not to be offered
	why    *fault    // of that
	kind   string    // media type of the latest answer
	size   int       // of its body, in bytes
}

// newClient makes the client for one page. The target's credentials go to the target's own host and nowhere else.
func newClient(t prober.Target, page *url.URL, options []config.HTTPClientOption) (*http.Client, error) {
	settings := t.HTTP
	base, err := url.Parse(t.URL)
	switch {
	case t.MetricsHTTP != nil:
		settings = *t.MetricsHTTP
	case err != nil || base.Host != page.Host || base.Scheme != page.Scheme:
		settings = withoutCredentials(settings)
	}
	// A fresh connection per reading: servers close idle ones after a few seconds, and nothing stays open behind us.
	options = append([]config.HTTPClientOption{
		config.WithKeepAlivesDisabled(), config.WithUserAgent("longctx_exporter"),
	}, options...)
	client, err := config.NewClientFromConfig(settings, "servermetrics", options...)
	if err != nil {
		return nil, fmt.Errorf("making the HTTP client for server metrics: %w", err)
	}
	client.CheckRedirect = sameHost
	return client, nil
}

// withoutCredentials keeps how to connect and drops who we are.
func withoutCredentials(c config.HTTPClientConfig) config.HTTPClientConfig {
	c.BasicAuth, c.Authorization, c.OAuth2 = nil, nil, nil
	c.BearerToken, c.BearerTokenFile = "", ""
	c.HTTPHeaders = nil
	c.TLSConfig.Cert, c.TLSConfig.CertFile, c.TLSConfig.CertRef = "", "", ""
	c.TLSConfig.Key, c.TLSConfig.KeyFile, c.TLSConfig.KeyRef = "", "", ""
	return c
}

// sameHost follows redirects such as /metrics to /metrics/, and none that leaves the server.
func sameHost(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
		return errors.New("redirect to another host is not followed")
	}
	return nil
}

// get fetches the whole body, or nothing. It answers what the server said before, without asking, for a while after the server
// said that it does not offer this.
func (e *endpoint) get(ctx context.Context) ([]byte, error) {
	if e.why != nil && time.Since(e.absent) < askAgain {
		return nil, e.why
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for server metrics: %w", err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4, application/openmetrics-text;version=1.0.0;q=0.9, application/json;q=0.8, */*;q=0.1")
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking for server metrics: %w", err)
	}
	defer resp.Body.Close()
	e.kind = resp.Header.Get("Content-Type")
	e.why = nil
	if resp.StatusCode != http.StatusOK {
		told := refusal(e.url, resp)
		if told.notOffered() {
			e.absent, e.why = time.Now(), told
		}
		return nil, told
	}
	body, err := readAll(resp.Body, e.size)
	if err != nil {
		return nil, fmt.Errorf("reading server metrics of %s: %w", e.url, err)
	}
	e.size = len(body)
	return body, nil
}

// readAll reads a body, compressed or not, of a bounded size. Nobody asked for compression, but some gateways compress
// whatever they pass on, and some do not say so. The size is the one to expect.
func readAll(r io.Reader, size int) ([]byte, error) {
	head := bufio.NewReader(r)
	r = head
	if magic, _ := head.Peek(2); string(magic) == "\x1f\x8b" {
		unpacked, err := gzip.NewReader(head)
		if err != nil {
			return nil, fmt.Errorf("unpacking: %w", err)
		}
		r = unpacked
	}
	var body bytes.Buffer
	body.Grow(size + size/8 + bytes.MinRead) // pages grow slowly, and what is too small is copied
	if _, err := body.ReadFrom(io.LimitReader(r, maxBody+1)); err != nil {
		return nil, err
	}
	if body.Len() > maxBody {
		return nil, &fault{reason: TooLarge, text: fmt.Sprintf("more than %d bytes", maxBody)}
	}
	return body.Bytes(), nil
}

// page fetches and parses a page of metrics.
func (e *endpoint) page(ctx context.Context, prefix string, wanted map[string]bool) (page, error) {
	body, err := e.get(ctx)
	if err != nil {
		return page{}, err
	}
	p, err := parsePage(body, prefix, wanted)
	if err == nil && strings.Contains(e.kind, "json") {
		p.odd = "it is declared as JSON"
	}
	if err != nil {
		return page{}, fmt.Errorf("reading server metrics of %s: %w", e.url, err)
	}
	return p, nil
}
