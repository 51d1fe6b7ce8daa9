package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestNewRoutes(t *testing.T) {
	for _, tt := range []struct {
		externalURL, routePrefix string
		want                     routes
	}{
		{"", "", routes{}},
		{"", "/", routes{}},
		{"http://host:10430", "", routes{}},
		{"https://host/", "", routes{}},
		{"https://host/a/b/", "", routes{"/a/b", "/a/b"}},
		{"/a", "", routes{"/a", "/a"}},
		{"https://host/a", "/", routes{"/a", ""}},
		{"https://host/a", "b", routes{"/a", "/b"}},
		{"", "/a/b/", routes{"", "/a/b"}},
	} {
		got, err := newRoutes(tt.externalURL, tt.routePrefix)
		if err != nil || got != tt.want {
			t.Errorf("%q, %q: %+v, %v", tt.externalURL, tt.routePrefix, got, err)
		}
	}
}

// behindProxy is a reverse proxy that shows a daemon under /out, and asks it under a prefix.
func behindProxy(t *testing.T, d daemon, prefix string) string {
	t.Helper()
	to, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.URL.Path = prefix + strings.TrimPrefix(r.In.URL.Path, "/out")
	}})
	t.Cleanup(s.Close)
	return s.URL + "/out/"
}

// TestBehindProxy follows every link and redirect of the pages, as people see them.
func TestBehindProxy(t *testing.T) {
	config := file(t, fmt.Sprintf("ladder: [1k]\nintervals: 1s\nbudget: 100%%\ntargets: [{name: a, url: '%s'}]\n", refusing(t)))
	for _, tt := range []struct {
		name, prefix string
		flags        []string
	}{
		{"path of the external URL", "/out", []string{"--web.external-url=https://example.org/out"}},
		{"prefix stripped", "", []string{"--web.external-url=https://example.org/out/", "--web.route-prefix=/"}},
		{"prefix replaced", "/in", []string{"--web.external-url=https://example.org/out", "--web.route-prefix=/in"}},
		{"prefix stripped without a word", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := startDaemonAt(t, tt.prefix, append(tt.flags, "--config.file="+config, "--web.enable-lifecycle", "--web.enable-pprof")...)
			root := behindProxy(t, d, tt.prefix)
			wait(t, "a run", func() bool {
				_, page := do(t, http.DefaultClient, http.MethodGet, root+"runs", nil)
				return strings.Contains(page, `class="failed"`)
			})
			visited := crawl(t, root)
			for _, path := range []string{"", "runs", "config", "metrics", "-/healthy", "-/ready"} {
				if !slices.Contains(visited, root+path) {
					t.Errorf("no link leads to %q: %v", path, visited)
				}
			}
			if !slices.ContainsFunc(visited, func(u string) bool { return regexp.MustCompile(`/runs/[^/?]+$`).MatchString(u) }) {
				t.Error("no link leads to a run")
			}
			if status, body := do(t, http.DefaultClient, http.MethodPost, root+"-/reload", nil); status != http.StatusOK {
				t.Errorf("reload: %d %s", status, body)
			}
			if status, body := do(t, http.DefaultClient, http.MethodGet, root+"debug/pprof/goroutine?debug=1", nil); status != http.StatusOK {
				t.Errorf("pprof: %d %s", status, body)
			}
			if tt.flags != nil {
				checkRedirects(t, d, root, tt.prefix)
			}
			d.stop(t)
		})
	}
}

// crawl visits every link from a page on that stays under it.
func crawl(t *testing.T, root string) (visited []string) {
	t.Helper()
	links := regexp.MustCompile(`(?:href|action)="([^"]*)"`)
	for next := []string{root}; len(next) > 0 && len(visited) < 60; next = next[1:] {
		if slices.Contains(visited, next[0]) {
			continue
		}
		visited = append(visited, next[0])
		status, body := do(t, http.DefaultClient, http.MethodGet, next[0], func(r *http.Request) { r.Header.Set("Accept", "text/html") })
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", next[0], status, body)
		}
		base, err := url.Parse(next[0])
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range links.FindAllStringSubmatch(body, -1) {
			to, err := base.Parse(strings.ReplaceAll(link[1], "&amp;", "&"))
			if err != nil || !strings.HasPrefix(to.String(), root) {
				t.Errorf("%s leads to %s, %v", next[0], link[1], err)
				continue
			}
			next = append(next, to.String())
		}
	}
	return visited
}

// checkRedirects asks for paths that are not quite those of pages, by the proxy and at the daemon itself.
func checkRedirects(t *testing.T, d daemon, root, prefix string) {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	redirects := map[string]string{root + "/runs": "/out/runs", root + "debug/pprof": "/out/debug/pprof/", root + "-/../runs": "/out/runs"}
	if prefix != "" {
		redirects[d.url+"/"] = prefix + "/"
		redirects[d.url+prefix] = "/out/"
		if status, _ := do(t, client, http.MethodGet, d.url+"/metrics", nil); status != http.StatusNotFound {
			t.Errorf("/metrics outside the prefix: %d", status)
		}
	}
	for from, want := range redirects {
		response, err := client.Get(from)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if got := response.Header.Get("Location"); response.StatusCode/100 != 3 || got != want {
			t.Errorf("%s: %s to %q, want %q", from, response.Status, got, want)
		}
	}
}

// TestMetricsPath: metrics cannot have the path of any page that is served.
func TestMetricsPath(t *testing.T) {
	source, err := os.ReadFile("routes.go")
	if err != nil {
		t.Fatal(err)
	}
	pages := regexp.MustCompile(`mux\.HandleFunc\("(?:[A-Z]+ )?(/[a-z./-]+)`).FindAllStringSubmatch(string(source), -1)
	for _, page := range pages {
		if p := strings.TrimSuffix(page[1], "/"); checkMetricsPath(p) == nil {
			t.Errorf("metrics may have the path %s", p)
		}
	}
	for _, p := range []string{"/metrics", "/runs2", "/debug/metrics", "/favicon.icon"} {
		if err := checkMetricsPath(p); err != nil {
			t.Error(err)
		}
	}
	if len(pages) < 10 {
		t.Errorf("found only %q", pages)
	}
}
