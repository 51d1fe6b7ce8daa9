package servermetrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/common/config"

	"longctx_exporter/prober"
)

const (
	readTimeout  = 5 * time.Second // for all requests of one reading
	maxBody      = 4 << 20         // bytes; the largest page of a 16-rank server is below 1 MiB
	maxRedirects = 3
	askAgain     = time.Hour // how long an endpoint that the server does not offer is left alone
)

// errNotOffered says that the server does not offer an endpoint, or not to us: a fact, not a fault.
var errNotOffered = errors.New("not offered by the server")

// endpoint is one URL with the client that may speak to it.
type endpoint struct {
	url    string
	client *http.Client
	absent time.Time // when it was last found not to be offered
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

// get fetches the whole body, or nothing. It answers errNotOffered without asking for a while after the server said so.
func (e *endpoint) get(ctx context.Context) ([]byte, error) {
	if !e.absent.IsZero() && time.Since(e.absent) < askAgain {
		return nil, errNotOffered
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for server metrics: %w", err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4, application/json;q=0.9, */*;q=0.1")
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("asking for server metrics: %w", err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotImplemented:
		e.absent = time.Now()
		return nil, errNotOffered
	default:
		return nil, fmt.Errorf("asking for server metrics: GET %s answered %s", e.url, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("reading server metrics of %s: %w", e.url, err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("reading server metrics of %s: more than %d bytes", e.url, maxBody)
	}
	return body, nil
}

// page fetches and parses a page of metrics.
func (e *endpoint) page(ctx context.Context, prefix string, wanted map[string]bool) (page, error) {
	body, err := e.get(ctx)
	if err != nil {
		return page{}, err
	}
	p, err := parsePage(body, prefix, wanted)
	if err != nil {
		return page{}, fmt.Errorf("reading server metrics of %s: %w", e.url, err)
	}
	return p, nil
}
