package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/prober"
	"longctx_exporter/prober/state"
)

// stored makes a directory with the state of targets at one address: eight samples at 1k, two at 2k.
func stored(t *testing.T, url string, names ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	store, err := state.Open(state.Options{Dir: dir, Logger: log.NewNopLogger()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	active := map[string]string{}
	for i, name := range names {
		target, err := prober.TargetConfig{Name: name, URL: url, ProbeConfig: prober.ProbeConfig{Ladder: []prober.Rung{1024, 2048}}}.Target()
		if err != nil {
			t.Fatal(err)
		}
		active[target.StateKey()] = name
		server := state.Server{Deploy: state.Deploy{ID: "new", Since: time.Now()}}
		store.SetServer(target.StateKey(), server)
		var short, long state.Rung
		short.Attempted = time.Now()
		for n := range 4 {
			short.AddStep("old", 0.1*float64(i+1)+float64(n)/1000)
		}
		for n := range 4 {
			step := 0.2*float64(i+1) + float64(n)/1000
			short.AddStep("new", step)
			short.Samples = append(short.Samples, state.Sample{At: time.Now(), Step: step})
		}
		long.AddStep("new", 0.3)
		long.AddStep("new", 0.3)
		store.SetRung(target.StateKey(), 1024, short)
		store.SetRung(target.StateKey(), 2048, long)
	}
	store.SetActive(active)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	store.Run(ended) // saves once
	return dir
}

func TestBaselineCommands(t *testing.T) {
	dir := stored(t, "http://127.0.0.1:1", "a", "b")
	for _, test := range []struct {
		args         string
		code         int
		want, refuse string // parts of what is printed
	}{
		{"show", 0, "a       1k    new     0.203 s  -       -      0.2015 s       0.1015 s", ""},
		{"show --rung=2k --target=b", 0, "b       2k    new     -       -       -      -              -", "\na "},
		{"pin --target=c", 1, `nothing is known of a target "c": known are ["a" "b"]`, ""},
		{"pin --rung=huge", 1, "--rung: context length", ""},
		{"pin --rung=4k", 1, "no such rung was measured", ""},
		{"pin --rung=2k", 1, "nothing was pinned", ""},
		{"pin --target=a", 0, "a 1k: pinned at 0.2015 s\na 2k: not pinned, for it has fewer than 3 clean step times\n", "b 1k"},
		{"show --target=a", 0, "0.2015 s  20", ""},
		{"pin", 0, "b 1k: pinned at 0.4015 s", ""},
		{"unpin --target=a", 0, "a 1k: unpinned\n", "b 1k"},
		{"show --target=a", 0, "0.203 s  -       -", ""},
		{"unpin", 0, "b 1k: unpinned\n", "a 1k"},
	} {
		args := append([]string{"baseline"}, strings.Fields(test.args)...)
		code, stdout, stderr := exec(append(args, "--storage.path="+dir)...)
		said := stdout + stderr
		if code != test.code || !strings.Contains(said, test.want) || test.refuse != "" && strings.Contains(said, test.refuse) {
			t.Errorf("baseline %s: %d\n%s", test.args, code, said)
		}
	}
	if code, _, stderr := exec("baseline", "pin", "--storage.path="+t.TempDir()); code != 1 || !strings.Contains(stderr, "no state is stored here") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("%d %s", code, stderr)
	}
	lock, err := os.Open(filepath.Join(dir, "pinned.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil { // as another command that does not end
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	var stderr strings.Builder
	if code := run(ended, []string{"baseline", "pin", "--storage.path=" + dir}, io.Discard, &stderr); code != 1 || !strings.Contains(stderr.String(), "pinned.lock is in use") || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("%d %s", code, stderr.String())
	}
	lock.Close()
	if err := os.WriteFile(filepath.Join(dir, "pinned"), []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := exec("baseline", "pin", "--storage.path="+dir); code != 1 || !strings.Contains(stderr, "its beginning is lost") {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestDaemonState restarts a daemon: it shows what the one before measured, and takes in what is pinned while it runs.
func TestDaemonState(t *testing.T) {
	slow, _, _ := hanging(t)
	dir := stored(t, slow, "a")
	config := file(t, fmt.Sprintf("ladder: [1k, 2k]\nintervals: 4h\ntargets: [{name: a, url: '%s'}]\n", slow))
	d := startDaemon(t, "--config.file="+config, "--storage.path="+dir)
	page := func() string {
		_, body := do(t, http.DefaultClient, http.MethodGet, d.url+"/metrics", nil)
		return body
	}
	value := func(series string) string {
		m := regexp.MustCompile(`(?m)^` + series + ` (\S+)$`).FindStringSubmatch(page())
		if m == nil {
			return ""
		}
		return m[1]
	}
	for series, want := range map[string]string{
		`longctx_step_seconds\{context="1024".*\}`:                                          "0.203",
		`longctx_step_baseline_seconds\{baseline="deploy",context="1024".*\}`:               "0.2015",
		`longctx_step_baseline_seconds\{baseline="previous_deploy",context="1024".*\}`:      "0.1015",
		`longctx_step_baseline_seconds\{baseline="pinned",context="1024".*\}`:               "",
		`longctx_probe_runs_total\{context="1024".*\}`:                                      "0",
		`longctx_state_save_failures_total`:                                                 "0",
		`longctx_target_info\{.*\}`:                                                         "",
		`longctx_step_seconds\{context="2048".*\}`:                                          "",
		`longctx_step_baseline_seconds\{baseline="(deploy|previous_deploy)",context="2048"`: "",
	} {
		if got := value(series); got != want {
			t.Errorf("%s is %q, want %q", series, got, want)
		}
	}
	for _, name := range []string{"longctx_target_deploy_timestamp_seconds{", "longctx_state_last_save_timestamp_seconds ", `longctx_probe_last_attempt_timestamp_seconds{context="1024"`} {
		if !strings.Contains(page(), "\n"+name) {
			t.Errorf("%s is absent", name)
		}
	}
	if code, stdout, stderr := exec("baseline", "pin", "--storage.path="+dir); code != 0 {
		t.Fatalf("%d %s %s", code, stdout, stderr)
	}
	wait(t, "the pinned baseline", func() bool {
		return value(`longctx_step_baseline_seconds\{baseline="pinned",context="1024".*\}`) == "0.2015"
	})
	if code, _, stderr := exec("serve", "--config.file="+config, "--storage.path="+dir, "--web.listen-address=127.0.0.1:0"); code != 1 || !strings.Contains(stderr, "another exporter keeps its state in") {
		t.Errorf("a second daemon on the same state: %d %s", code, stderr)
	}
	d.stop(t)

	moved := file(t, "ladder: [1k, 2k]\nintervals: 4h\ntargets: [{name: a, url: 'http://127.0.0.1:1'}]\n")
	d = startDaemon(t, "--config.file="+moved, "--storage.path="+dir)
	if text := page(); strings.Contains(text, "longctx_step_seconds{") || strings.Contains(text, "longctx_step_baseline_seconds{") {
		t.Error("a target at another address inherits")
	}
	d.stop(t)

	d = startDaemon(t, "--config.file="+moved)
	if !strings.Contains(d.stderr.String(), "state is kept in memory only") || strings.Contains(page(), "longctx_state_") {
		t.Errorf("%s", d.stderr)
	}
	d.stop(t)
}
