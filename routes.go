package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/klauspost/compress/gzhttp"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

var (
	plainPath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)+$`)                           // nothing that a multiplexer takes for a pattern
	ownPath   = regexp.MustCompile(`^/(-|config|runs|debug/pprof|favicon[.]ico)(/|$)`) // of the other pages
)

// routes say where the pages are: a visitor asks for external + "/runs", which arrives as prefix + "/runs". Both are empty
// or begin with a slash, and end without one.
type routes struct{ external, prefix string }

// newRoutes reads --web.external-url and --web.route-prefix, which mean what they mean to Prometheus.
func newRoutes(externalURL, routePrefix string) (routes, error) {
	var r routes
	if externalURL != "" {
		u, err := url.Parse(externalURL)
		if err != nil {
			return r, errors.New("--web.external-url is not a URL like https://host/path") // why not may tell a password
		}
		web := (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" || u.Scheme == "" && u.Host == "" && strings.HasPrefix(u.Path, "/")
		if !web || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return r, fmt.Errorf("--web.external-url=%s is not a URL like https://host/path", u.Redacted())
		}
		if r.external, err = routeRoot("--web.external-url", u.EscapedPath()); err != nil {
			return r, err
		}
	}
	r.prefix = r.external
	if routePrefix != "" {
		var err error
		if r.prefix, err = routeRoot("--web.route-prefix", routePrefix); err != nil {
			return r, err
		}
	}
	return r, nil
}

// routeRoot is a path of a flag without slashes at its end, empty for the root.
func routeRoot(flag, text string) (string, error) {
	root := strings.Trim(text, "/")
	if root == "" {
		return "", nil
	}
	root = "/" + root
	if !plainPath.MatchString(root) || path.Clean(root) != root {
		return "", fmt.Errorf("%s=%q has no path like /longctx", flag, text)
	}
	return root, nil
}

// handler serves pages under the prefix. Redirects lead to where the visitor sees them.
func (r routes) handler(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		rest, under := strings.CutPrefix(request.URL.Path, r.prefix)
		switch {
		case under && strings.HasPrefix(rest, "/"):
			http.StripPrefix(r.prefix, pages).ServeHTTP(rooted{w, r.external}, request)
		case under && rest == "":
			http.Redirect(w, request, r.external+"/", http.StatusFound)
		case request.URL.Path == "/":
			http.Redirect(w, request, r.prefix+"/", http.StatusFound)
		default:
			http.NotFound(w, request)
		}
	})
}

// rooted puts a root before the redirects of pages that do not know it.
type rooted struct {
	http.ResponseWriter
	root string
}

func (w rooted) WriteHeader(status int) {
	if to := w.Header().Get("Location"); strings.HasPrefix(to, "/") {
		w.Header().Set("Location", w.root+to)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets handlers reach what the writer can do besides.
func (w rooted) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// checkMetricsPath refuses what the multiplexer would take for a pattern, and the paths of other pages.
func checkMetricsPath(p string) error {
	if !plainPath.MatchString(p) || path.Clean(p) != p {
		return fmt.Errorf("--web.telemetry-path=%q is not a path like /metrics", p)
	}
	if ownPath.MatchString(p) {
		return fmt.Errorf("--web.telemetry-path=%s is the path of another page; choose another", p)
	}
	return nil
}

// pages is every page of the daemon.
func (c *serveCommand) pages(s *service, lib *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	// promhttp's own compression leaves a fifth less of a page and takes four times as long, which runs that go on would feel.
	compressed, _ := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed), gzhttp.EnableZstd(false)) // fails for other levels
	mux.Handle(c.metrics, promhttp.InstrumentMetricHandler(s.process, compressed(promhttp.HandlerFor(s.series.Gatherer(s.process), promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(lib.Handler(), slog.LevelError),
		EnableOpenMetrics:   true,
		DisableCompression:  true,
		MaxRequestsInFlight: 40,
	}))))
	mux.HandleFunc("GET /{$}", s.pages.Status)
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }) // browsers ask
	mux.HandleFunc("GET /runs", s.pages.Runs)
	mux.HandleFunc("GET /runs/{id}", s.pages.Run)
	mux.HandleFunc("GET /config", s.serveConfig)
	mux.HandleFunc("GET /-/healthy", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, program+" is healthy.") })
	mux.HandleFunc("GET /-/ready", s.serveReady)
	reload := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Reloading over HTTP is off: start with --web.enable-lifecycle, or send SIGHUP.", http.StatusForbidden)
	}
	if c.lifecycle {
		reload = s.serveReload
	}
	mux.HandleFunc("POST /-/reload", reload)
	mux.HandleFunc("PUT /-/reload", reload)
	if c.pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return http.NewCrossOriginProtection().Handler(mux) // a web page elsewhere must not reload by a visitor's browser
}
