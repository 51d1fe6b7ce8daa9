package serverlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

const (
	firstPause = time.Second // before a journalctl that ended is started again; doubled each time
	longPause  = time.Minute // at most, and how long one must live to be forgiven its predecessors
	endOfChild = 2 * time.Second
)

// journalLog follows a systemd unit by a journalctl of its own.
type journalLog struct {
	unit       string
	journalctl string
	pause      time.Duration // before the first new start
	log        *lineLog
	logger     log.Logger

	lines  lineBuffer
	unwrap unwrapper
	cursor string // of the latest entry
	told   bool
}

func newJournalLog(unit, journalctl string, l *lineLog, logger log.Logger) *journalLog {
	return &journalLog{unit: unit, journalctl: journalctl, pause: firstPause, log: l, logger: log.With(logger, "log", unit)}
}

// run follows until ctx ends.
func (j *journalLog) run(ctx context.Context) {
	pause := j.pause
	for {
		began := time.Now()
		err := j.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		j.log.sink.SetReading(false)
		if time.Since(began) > longPause {
			pause = j.pause
		}
		if !j.told {
			j.told = true
			level.Warn(j.logger).Log("msg", unreachable, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longPause)
	}
}

// arguments go on behind the latest entry, or begin with what comes.
func (j *journalLog) arguments() []string {
	arguments := []string{
		"--follow", "--output=json", "--all", "--no-pager", "--unit=" + j.unit,
		"--output-fields=MESSAGE,CONTAINER_PARTIAL_MESSAGE",
	}
	if j.cursor != "" {
		return append(arguments, "--no-tail", "--after-cursor="+j.cursor)
	}
	return append(arguments, "--lines=0")
}

// follow runs one journalctl until it or ctx ends.
func (j *journalLog) follow(ctx context.Context) error {
	var complaint firstBytes
	command := exec.CommandContext(ctx, j.journalctl, j.arguments()...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = endOfChild
	command.Stderr = &complaint
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		return fmt.Errorf("starting journalctl: %w", err)
	}
	read := j.read(out)
	err = command.Wait()
	switch {
	case len(complaint) > 0:
		return fmt.Errorf("journalctl ended: %s", bytes.ToValidUTF8(bytes.TrimSpace(complaint), nil))
	case err != nil:
		return fmt.Errorf("journalctl ended: %w", err)
	case read != nil:
		return fmt.Errorf("reading from journalctl: %w", read)
	}
	return errors.New("journalctl ended by itself")
}

// read takes entries until there are no more.
func (j *journalLog) read(out io.Reader) error {
	j.lines = lineBuffer{}
	j.log.sink.SetReading(true)
	buffer := make([]byte, chunkSize)
	for {
		n, err := out.Read(buffer)
		if n > 0 {
			j.lines.feed(buffer[:n], j.entry, j.log.over)
			j.log.flush()
			if j.told {
				j.told = false
				level.Info(j.logger).Log("msg", "the log can be read again")
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// entry takes one entry.
func (j *journalLog) entry(line []byte) {
	if cursor := cursorOf(line); cursor != nil {
		j.cursor = string(cursor)
	}
	j.log.line(&j.unwrap, line)
}

// cursorOf finds where an entry stands in the journal; nil where it does not say.
func cursorOf(line []byte) []byte {
	const key, longest = `"__CURSOR":"`, 256
	i := bytes.Index(line, []byte(key))
	if i < 0 {
		return nil
	}
	cursor := line[i+len(key):]
	end := bytes.IndexByte(cursor[:min(len(cursor), longest)], '"')
	if end < 0 || bytes.ContainsAny(cursor[:end], `\ `) {
		return nil
	}
	return cursor[:end]
}

// firstBytes keeps the beginning of what is written to it.
type firstBytes []byte

func (b *firstBytes) Write(p []byte) (int, error) {
	*b = append(*b, p[:min(len(p), longestKept-len(*b))]...)
	return len(p), nil
}
