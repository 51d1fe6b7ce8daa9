package main

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestQuickGzip(t *testing.T) {
	page := strings.Repeat("longctx_ttft_seconds 1\n", 10_000)
	handler := quickGzip(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/busy" {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		io.WriteString(w, page)
	}))
	for accepted, want := range map[string]bool{
		"": false, "gzip": true, "deflate, GZIP;q=0.5": true, "br,gzip ; q=1": true, "gzip;q=0": false, "gzip; q=0.00": false, "gzipped": false, "*": false,
	} {
		for path, body := range map[string]string{"/": page, "/busy": "busy\n"} {
			want := want && path == "/"
			request := httptest.NewRequest(http.MethodGet, path, nil)
			request.Header.Set("Accept-Encoding", accepted)
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, request)
			var read io.Reader = answer.Body
			if compressed := answer.Header().Get("Content-Encoding") == "gzip"; compressed != want || answer.Header().Get("Vary") != "Accept-Encoding" {
				t.Errorf("%s to %q: %v", path, accepted, answer.Header())
			}
			if want {
				if answer.Body.Len() > len(page)/10 {
					t.Errorf("%d bytes of %d", answer.Body.Len(), len(page))
				}
				var err error
				if read, err = gzip.NewReader(answer.Body); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := io.ReadAll(read); err != nil || string(got) != body {
				t.Errorf("%s to %q: %d bytes, %v", path, accepted, len(got), err)
			}
		}
	}
}
