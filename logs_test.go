package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLogs follows a log through a reload: the target that stays goes on counting, a changed one begins anew, one that is gone
// leaves with its series, and nothing stays open.
func TestLogs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "server.log")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	const line = "[2026-06-03 08:00:01 TP0] Decode batch, #running-req: 1, #token: 5500, token usage: 0.02, accept len: 3.42, accept rate: 0.05, cuda graph: True, gen throughput (token/s): 23.75, #queue-req: 0, \n"
	write(line) // history
	head := "ladder: [1k]\nintervals: 1h\ntargets:\n"
	target := func(name, more string) string {
		return fmt.Sprintf("  - {name: %s, url: '%s', logs: [{path: '%s'}]%s}\n", name, refusing(t), path, more)
	}
	stays := target("stays", "")
	config := file(t, head+stays+target("changes", "")+target("leaves", ""))
	d := startDaemon(t, "--config.file="+config, "--web.enable-lifecycle")
	value := func(name, target string) string {
		t.Helper()
		_, page := do(t, http.DefaultClient, http.MethodGet, d.url+"/metrics", nil)
		m := regexp.MustCompile(name + `\{model="default",target="` + target + `"\} (\S+)`).FindStringSubmatch(page)
		if m == nil {
			return "absent"
		}
		return m[1]
	}
	is := func(name, target, want string) {
		t.Helper()
		wait(t, name+" of "+target+" is "+want, func() bool { return value("longctx_server_log_"+name, target) == want })
	}
	for _, name := range []string{"stays", "changes", "leaves"} {
		is("up", name, "1")
	}
	write(line + "[2026-06-03 08:00:01 TP0] Decode batch, #running-req: <b>, " + line)
	for _, name := range []string{"stays", "changes", "leaves"} {
		is("lines_total", name, "2")
		is("matched_lines_total", name, "1")
		is("unparsed_lines_total", name, "1")
		is("accept_length_tokens_sum", name, "3.42")
	}
	_, page := do(t, http.DefaultClient, http.MethodGet, d.url+"/", nil)
	if !strings.Contains(page, "Decode batch … #running-req: …, ") || strings.Contains(page, "lt;b") {
		t.Errorf("the status page does not show the unparsed line:\n%s", page)
	}

	if err := os.WriteFile(config, []byte(head+stays+target("changes", ", budget: 3%")), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, body := do(t, http.DefaultClient, http.MethodPost, d.url+"/-/reload", nil); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	is("up", "changes", "1")
	is("lines_total", "changes", "0")
	is("lines_total", "leaves", "absent")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(line)
	is("rotations_total", "stays", "1")
	is("lines_total", "stays", "3")
	is("lines_total", "changes", "1")
	d.stop(t)
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("there is no /proc")
	}
	for _, fd := range fds {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.HasPrefix(to, dir) {
			t.Errorf("%s stays open", to)
		}
	}
}
