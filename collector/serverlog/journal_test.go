package serverlog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-kit/log"

	"longctx_exporter/prober"
)

// fakeJournal writes a program that takes the place of journalctl: it notes its arguments, then does what the script says.
func fakeJournal(t *testing.T, script string) (program, dir string) {
	t.Helper()
	dir = t.TempDir()
	program = filepath.Join(dir, "journalctl")
	text := "#!/bin/sh\ncd " + dir + "\necho \"$@\" >> arguments\necho $$ > pid\n" + script + "\n"
	if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, dir
}

func entry(cursor, message string) string {
	return fmt.Sprintf(`{"__CURSOR":"%s","__REALTIME_TIMESTAMP":"1780473601000000","MESSAGE":%s}`, cursor, message)
}

// TestJournal follows a unit whose journalctl ends after two entries, is started again behind the latest and ended at the end.
func TestJournal(t *testing.T) {
	line := strings.TrimSpace(decodeLine(42))
	bytes := strings.ReplaceAll(fmt.Sprintf("%d", []byte("\x1b[2m"+strings.TrimSpace(decodeLine(43))+"\x1b[0m")), " ", ",")
	program, dir := fakeJournal(t, `
if [ ! -e again ]; then
	touch again
	cat <<'END'
`+entry("s=1;i=1", strconv.Quote(line))+"\n"+entry("s=1;i=2", "null")+`
END
	exit 1
fi
cat <<'END'
`+entry("s=1;i=3", bytes)+`
END
exec sleep 1000`)
	n := &notebook{}
	j := newJournalLog("sglang.service", program, newLineLog("auto", n), log.NewNopLogger())
	j.pause = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.run(ctx)
	}()
	wait(t, "two lines read", func() bool { return slices.Equal(n.lengths(), []float64{3.42, 3.43}) })
	cancel()
	<-done

	b, err := os.ReadFile(filepath.Join(dir, "arguments"))
	if err != nil {
		t.Fatal(err)
	}
	starts := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(starts) != 2 || !strings.Contains(starts[0], "--lines=0") || !strings.Contains(starts[1], "--no-tail --after-cursor=s=1;i=2") {
		t.Errorf("started with %q", starts)
	}
	for _, start := range starts {
		if !strings.Contains(start, "--unit=sglang.service") || !strings.Contains(start, "--all") {
			t.Errorf("started with %q", start)
		}
	}
	if got := n.lines(); got.Read != 3 || got.Matched != 2 || got.Unparsed != 0 {
		t.Errorf("counted %+v", got)
	}
	b, err = os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "the end of the child", func() bool { return syscall.Kill(pid, 0) != nil })
}

// TestJournalctlIsNotThere tells so once and goes on trying.
func TestJournalctlIsNotThere(t *testing.T) {
	told := make(chan string, 100)
	logger := log.LoggerFunc(func(pairs ...any) error {
		told <- fmt.Sprint(pairs...)
		return nil
	})
	n := &notebook{}
	f := Follow(prober.LogSource{Unit: "sglang.service", Format: "auto"}, n, logger, Options{Journalctl: filepath.Join(t.TempDir(), "none")})
	if message := <-told; !strings.Contains(message, "starting journalctl") || !strings.Contains(message, "sglang.service") {
		t.Errorf("told %s", message)
	}
	f.Close()
	if len(told) != 0 {
		t.Errorf("and then %s", <-told)
	}
}

// TestJournalComplains passes on what journalctl says of itself.
func TestJournalComplains(t *testing.T) {
	program, _ := fakeJournal(t, `echo 'Failed to add match: Permission denied' >&2; exit 1`)
	j := newJournalLog("sglang.service", program, newLineLog("auto", &notebook{}), log.NewNopLogger())
	if err := j.follow(t.Context()); err == nil || !strings.Contains(err.Error(), "journalctl ended: Failed to add match: Permission denied") {
		t.Errorf("error %v", err)
	}
}

// TestJournalDoesNotEnd kills a child that does not listen.
func TestJournalDoesNotEnd(t *testing.T) {
	program, dir := fakeJournal(t, `trap '' TERM; touch trapped; while :; do sleep 0.1; done`)
	f := Follow(prober.LogSource{Unit: "u.service"}, &notebook{}, log.NewNopLogger(), Options{Journalctl: program})
	wait(t, "a child that does not listen", func() bool {
		_, err := os.Stat(filepath.Join(dir, "trapped"))
		return err == nil
	})
	f.Close()
}
