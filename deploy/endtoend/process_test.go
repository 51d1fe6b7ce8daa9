package endtoend_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// process is a program that runs until it is stopped, with the test at the latest.
type process struct {
	address string // host:port on which it listens
	stop    func()
}

// start starts a program. address finds the address in its output; until then is waited.
func start(t *testing.T, address *regexp.Regexp, path string, args ...string) process {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) // the context of the test ends before its cleaning up
	command := exec.CommandContext(ctx, path, args...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 20 * time.Second // and then it is killed
	output, writer := io.Pipe()
	command.Stdout, command.Stderr = writer, writer
	if err := command.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	name := strings.Join(command.Args, " ")
	said, found, ended := &lines{}, make(chan string, 1), make(chan struct{})
	go func() { // ends with the program, whose end closes the pipe
		defer close(ended)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			said.add(scanner.Text())
			if m := address.FindStringSubmatch(scanner.Text()); m != nil {
				select {
				case found <- m[1]:
				default:
				}
			}
		}
		_, _ = io.Copy(io.Discard, output) // a line that is too long
	}()
	waited := make(chan struct{})
	go func() { // ends with the program
		defer close(waited)
		_ = command.Wait() // that it ended is told by what is missing
		_ = writer.Close()
	}()
	p := process{stop: sync.OnceFunc(func() {
		cancel()
		<-waited
		<-ended
	})}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("%s said at last:\n%s", name, said)
		}
	})
	select {
	case p.address = <-found:
	case <-waited:
		t.Fatalf("%s ended:\n%s", name, said)
	case <-time.After(patience):
		t.Fatalf("%s does not listen:\n%s", name, said)
	}
	return p
}

// lines are the last lines of an output.
type lines struct {
	mu   sync.Mutex
	last []string
}

func (l *lines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = append(l.last, line)
	l.last = l.last[max(0, len(l.last)-30):]
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.last, "\n")
}
