package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestEachRungIsOnDiskAtOnce(t *testing.T) {
	o := testOptions(1024, 4096, 16384)
	o.OutputFile = filepath.Join(t.TempDir(), "sweep.json")
	var seen []int
	r := &fakeRunner{facts: seedFacts, hook: func(context.Context, prober.Rung, func(prober.Progress)) {
		d, err := parse([]byte(read(t, o.OutputFile)))
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, len(d.Rungs))
	}}
	if got := do(t.Context(), o, r); got.code != 0 {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	if diff := cmp.Diff([]int{0, 1, 2}, seen); diff != "" {
		t.Errorf("rungs on disk before each run (-want +got):\n%s", diff)
	}
	entries, err := os.ReadDir(filepath.Dir(o.OutputFile))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestResume(t *testing.T) {
	o := testOptions(1024, 4096, 16384)
	o.OutputFile = filepath.Join(t.TempDir(), "sweep.json")
	o.Resume = true // without a file it simply begins
	first := &fakeRunner{facts: seedFacts, runs: map[prober.Rung]prober.Run{
		4096: notAccepted(4096, prober.Failed, prober.Reason(inference.Overloaded), "the queue is full"),
	}}
	if got := do(t.Context(), o, first); got.code != 2 {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}

	o.Target.Ladder = []prober.Rung{65536, 4096, 16384}
	o.Output = outputJSON
	second := &fakeRunner{facts: seedFacts}
	got := do(t.Context(), o, second)
	if got.code != 0 || got.stderr != "" {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	if diff := cmp.Diff([]prober.Rung{65536, 4096}, second.asked); diff != "" {
		t.Errorf("measured again (-want +got):\n%s", diff)
	}
	d, err := parse([]byte(got.stdout))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range d.Rungs {
		names = append(names, r.Rung)
	}
	if got := strings.Join(names, " "); got != "64k 4k 16k 1k" {
		t.Errorf("rungs %s", got)
	}
	if d.Fit == nil || d.Fit.Rungs != 4 {
		t.Errorf("fit %+v over kept and new rungs", d.Fit)
	}
	if read(t, o.OutputFile) != got.stdout {
		t.Error("the file differs from stdout")
	}
}

func TestResumeTellsOfAnotherBuild(t *testing.T) {
	o := testOptions(1024)
	o.OutputFile = filepath.Join(t.TempDir(), "sweep.json")
	do(t.Context(), o, &fakeRunner{facts: seedFacts})
	o.Resume = true
	later := seedFacts
	later.ServerVersion = "0.6.0"
	got := do(t.Context(), o, &fakeRunner{facts: later})
	if got.code != 0 || !strings.Contains(got.stderr, `version "0.5.15"`) || !strings.Contains(got.stderr, `version "0.6.0"`) {
		t.Errorf("exit %d: %q", got.code, got.stderr)
	}
}

func TestResumeRefuses(t *testing.T) {
	var b bytes.Buffer
	if err := goldenDocument().write(&b); err != nil {
		t.Fatal(err)
	}
	good := b.String()
	for _, test := range []struct {
		name, content, want string
	}{
		{"another model", strings.Replace(good, `"model": "kimi-k2.6"`, `"model": "other"`, 1), `is a sweep of model "other" at http://10.0.0.5:30000`},
		{"another url", strings.Replace(good, "10.0.0.5:30000", "10.0.0.6:30000", 1), "http://10.0.0.6:30000"},
		{"empty", "", "not whole JSON"},
		{"cut short", good[:len(good)/2], "not whole JSON"},
		{"followed by something", good + "{}", "something follows its JSON"},
		{"another schema", strings.Replace(good, "sweep/v1", "sweep/v9", 1), `schema is "longctx/sweep/v9"`},
		{"a table", "context  prompt tokens\n", "not whole JSON"},
		{"a rung twice", strings.Replace(strings.Replace(good, `"context": 4096`, `"context": 1024`, 1), `"rung": "4k"`, `"rung": "1k"`, 1), "listed twice"},
		{"a rung with another label", strings.Replace(good, `"rung": "4k"`, `"rung": "5k"`, 1), "does not agree"},
		{"an unknown status", strings.Replace(good, `"accepted"`, `"fine"`, 1), `unknown status "fine"`},
		{"an unknown reason", strings.Replace(good, `"contended"`, `"because"`, 1), `unknown reason "because"`},
		{"accepted against a reason", strings.Replace(good, `"reason": ""`, `"reason": "contended"`, 1), "has a reason against it"},
		{"a negative step", strings.Replace(good, `"step_seconds": `, `"step_seconds": -`, 1), "negative value"},
		{"a list", "[]", "JSON of another kind"},
		{"a negative error", strings.Replace(good, `"step_error_ratio": `, `"step_error_ratio": -`, 1), "negative value"},
		{"negative pairs", strings.Replace(good, `"pairs": `, `"pairs": -`, 1), "negative count"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.content == good {
				t.Fatal("the file was not changed")
			}
			o := testOptions(1024)
			o.Resume, o.OutputFile = true, filepath.Join(t.TempDir(), "sweep.json")
			if err := os.WriteFile(o.OutputFile, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			r := &fakeRunner{facts: seedFacts}
			got := do(t.Context(), o, r)
			if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, test.want) || strings.Count(got.stderr, "\n") != 1 {
				t.Errorf("exit %d, stdout %q, stderr %q, want %q", got.code, got.stdout, got.stderr, test.want)
			}
			if len(r.asked) != 0 || read(t, o.OutputFile) != test.content {
				t.Error("the file was touched or a rung was sent")
			}
		})
	}
}

// TestResumeFromAPipe: what never ends is not waited for.
func TestResumeFromAPipe(t *testing.T) {
	o := testOptions(1024)
	o.Resume, o.OutputFile = true, filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(o.OutputFile, 0o600); err != nil {
		t.Fatal(err)
	}
	got := do(t.Context(), o, &fakeRunner{facts: seedFacts})
	if got.code != 1 || !strings.Contains(got.stderr, "is not a regular file") {
		t.Errorf("exit %d, %q", got.code, got.stderr)
	}
}

func TestOutputFileThatCannotBeWritten(t *testing.T) {
	for name, path := range map[string]string{
		"no such folder": filepath.Join(t.TempDir(), "missing", "sweep.json"),
		"a folder":       t.TempDir(),
		"a device":       os.DevNull,
	} {
		o := testOptions(1024)
		o.OutputFile = path
		r := &fakeRunner{facts: seedFacts}
		got := do(t.Context(), o, r)
		if got.code != 1 || !strings.Contains(got.stderr, "writing the output file: ") || len(r.asked) != 0 {
			t.Errorf("%s: exit %d, %q, %d rungs sent", name, got.code, got.stderr, len(r.asked))
		}
	}
	if info, err := os.Lstat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Error("the device is gone")
	}
}

func TestOutputFileLostOnTheWay(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	o := testOptions(1024, 4096)
	o.OutputFile = filepath.Join(folder, "sweep.json")
	r := &fakeRunner{facts: seedFacts, hook: func(context.Context, prober.Rung, func(prober.Progress)) { _ = os.RemoveAll(folder) }}
	got := do(t.Context(), o, r)
	if got.code != 2 || strings.Count(got.stderr, "the sweep goes on") != 1 || len(r.asked) != 2 || !strings.Contains(got.stdout, "4k") {
		t.Errorf("exit %d, stderr %q, stdout %q", got.code, got.stderr, got.stdout)
	}
}

func TestOutputFileThroughALink(t *testing.T) {
	folder := t.TempDir()
	file, link := filepath.Join(folder, "real.json"), filepath.Join(folder, "link.json")
	if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if err := goldenDocument().save(link); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 || !strings.Contains(read(t, file), schema) {
		t.Errorf("the link was replaced: %v %v", info, err)
	}
}

// FuzzParse: whatever parses is written again as something that parses to the same, and prints in every form.
func FuzzParse(f *testing.F) {
	var b bytes.Buffer
	if err := goldenDocument().write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema":"longctx/sweep/v1","rungs":[{"context":1,"rung":"1","status":"accepted","step_seconds":1e300,"legs":[{"max_tokens":3}]}]}`))
	f.Add([]byte(`{"schema":"longctx/sweep/v1","rungs":null}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, in []byte) {
		d, err := parse(in)
		if err != nil {
			return
		}
		d.Fit = fitLine(d.Rungs)
		var first, second bytes.Buffer
		if err := d.write(&first); err != nil {
			t.Fatal(err)
		}
		again, err := parse(first.Bytes())
		if err != nil {
			t.Fatalf("what was written does not parse: %v\n%s", err, first.Bytes())
		}
		if err := again.write(&second); err != nil || !json.Valid(second.Bytes()) || first.String() != second.String() {
			t.Fatalf("not stable: %v", err)
		}
		for _, output := range Outputs() {
			if err := d.print(&second, output); err != nil {
				t.Fatal(err)
			}
		}
	})
}
