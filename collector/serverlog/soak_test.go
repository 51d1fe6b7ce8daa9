package serverlog

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/go-kit/log"
)

// late is how many lines of each file are written about when it is rotated.
const late = 10

var soak = flag.Bool("soak", false, "a million lines through a thousand rotations of each kind")

// tally is a sink that holds that every line comes once. Lines carry their number as tokens in use.
type tally struct {
	seen  []uint8
	lines Lines
}

func (a *tally) ObserveRecord(r *Record) {
	if n, known := r.Value(TokensInUse); known {
		a.seen[int(n)]++
	}
}

func (a *tally) ObserveLines(l Lines) {
	a.lines.Read += l.Read
	a.lines.Rotations += l.Rotations
	a.lines.Truncations += l.Truncations
}

func (*tally) SetReading(bool) {}

// TestSoak writes lines through rotations of every kind, looking at random moments, and holds that each line comes exactly
// once. Before a truncation there is a look: what is cut before anybody could read it is lost to everybody.
func TestSoak(t *testing.T) {
	rotations, lines := 40, 50
	if *soak {
		rotations, lines = 1000, 200
	}
	// A file that is made is seen once before it is rotated away again.
	kinds := map[string]func(f *followed, s *soaking){
		"rename": func(f *followed, s *soaking) {
			s.write(f, late)
			f.must(os.Rename(f.path, f.path+".1"))
			s.reopen(f)
			f.looks()
		},
		"slow writer": func(f *followed, s *soaking) {
			f.must(os.Rename(f.path, f.path+".1"))
			f.append("")
			f.looks()
			s.write(f, late)
			s.reopen(f)
		},
		"delete": func(f *followed, s *soaking) {
			s.write(f, late)
			f.must(os.Remove(f.path))
			s.reopen(f)
			f.looks()
		},
		"copytruncate": func(f *followed, s *soaking) {
			s.write(f, late)
			f.looks()
			f.must(os.Truncate(f.path, 0))
		},
		"symbolic link": func(f *followed, s *soaking) {
			s.write(f, late)
			fresh := fmt.Sprintf("%s.%d", f.path, s.next)
			appendTo(f.t, fresh, "")
			f.must(os.Symlink(fresh, f.path+".link"))
			f.must(os.Rename(f.path+".link", f.path))
			s.reopen(f)
			f.looks()
		},
	}
	for name, rotate := range kinds {
		t.Run(name, func(t *testing.T) {
			a := &tally{seen: make([]uint8, rotations*lines)}
			f := &followed{fileLog: newFileLog(t.TempDir()+"/server.log", newLineLog("auto", a), log.NewNopLogger()), t: t}
			defer f.close()
			s := &soaking{draw: rand.New(rand.NewPCG(1, 2))}
			f.append("")
			f.looks()
			s.reopen(f)
			for range rotations {
				s.write(f, lines-late)
				rotate(f, s)
			}
			f.looks()
			f.looks()
			_ = s.file.Close()
			for n, times := range a.seen {
				if times != 1 {
					t.Fatalf("line %d of %d came %d times", n, len(a.seen), times)
				}
			}
			if a.lines.Read != rotations*lines || a.lines.Rotations+a.lines.Truncations != rotations {
				t.Errorf("%d lines, counted %+v", rotations*lines, a.lines)
			}
			if got := descriptors(t, f.path); got > oldAtOnce+2 {
				t.Errorf("%d descriptors", got)
			}
		})
	}
}

// soaking is the writer.
type soaking struct {
	draw *rand.Rand
	file *os.File
	next int // number of the next line
}

// write writes lines in uneven parts, looking between some of them.
func (s *soaking) write(f *followed, lines int) {
	f.t.Helper()
	var b strings.Builder
	for range lines {
		fmt.Fprintf(&b, "[2026-06-03 08:00:01 TP0] Decode batch, #running-req: 1, #token: %d, token usage: 0.02, accept len: 3.42, gen throughput (token/s): 23.75, #queue-req: 0\n", s.next)
		s.next++
	}
	for text := b.String(); text != ""; {
		n := min(len(text), 1+s.draw.IntN(len(text)))
		_, err := s.file.WriteString(text[:n])
		f.must(err)
		text = text[n:]
		if s.draw.IntN(3) == 0 {
			f.looks()
		}
	}
}

// reopen goes on in the file that is at the path, made if need be.
func (s *soaking) reopen(f *followed) {
	if s.file != nil {
		f.must(s.file.Close())
	}
	var err error
	s.file, err = os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	f.must(err)
}
