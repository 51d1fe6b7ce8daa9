package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// The names of the files in the directory of a store, and the versions of their formats.
const (
	stateName     = "state"
	pinnedName    = "pinned"
	stateVersion  = 1
	pinnedVersion = 1
	aside         = ".bad"   // after the name of a file that cannot be used
	mostBytes     = 64 << 20 // of a file; a hundred targets need two million
)

// snapshot is the content of the file `state`.
type snapshot struct {
	Saved   time.Time         `json:"saved"`
	Boot    string            `json:"boot,omitempty"` // of the machine; "" where it does not tell
	Uptime  float64           `json:"uptime,omitempty"`
	Targets map[string]Target `json:"targets"`
}

// seal writes content as a file: a line with the kind, its version and the checksum of the rest, then JSON.
func seal(kind string, version int, content any) ([]byte, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encoding the %s: %w", kind, err)
	}
	body = append(body, '\n')
	sum := sha256.Sum256(body)
	return append([]byte(header(kind, version, sum[:])), body...), nil
}

func header(kind string, version int, sum []byte) string {
	return "longctx-" + kind + " " + strconv.Itoa(version) + " " + hex.EncodeToString(sum) + "\n"
}

// unseal reads what seal wrote, and refuses everything else.
func unseal(file []byte, kind string, version int, content any) error {
	head, body, ok := bytes.Cut(file, []byte("\n"))
	fields := bytes.Fields(head)
	if !ok || len(fields) != 3 || string(fields[0]) != "longctx-"+kind {
		return errors.New("it is no such file, or its beginning is lost")
	}
	if string(fields[1]) != strconv.Itoa(version) {
		return fmt.Errorf("it has format %.20q, and this version of the exporter reads format %d", fields[1], version)
	}
	sum := sha256.Sum256(body)
	if string(head)+"\n" != header(kind, version, sum[:]) {
		return errors.New("it is damaged: its checksum is not that of its content")
	}
	if err := json.Unmarshal(body, content); err != nil {
		return fmt.Errorf("its content cannot be read: %w", err)
	}
	return nil
}

// decode reads the file `state` as it is at a time. What could not have been written is left out and counted.
func decode(file []byte, now time.Time) (s snapshot, dropped int, err error) {
	if err := unseal(file, stateName, stateVersion, &s); err != nil {
		return snapshot{}, 0, err
	}
	j := newJudge(s.Saved, now)
	j.snapshot(&s)
	return s, j.dropped, nil
}

// disk is what a store needs of a file system.
type disk interface {
	read(path string) ([]byte, error)
	// write replaces a file at once: whoever reads it, or starts after a crash, finds the old content or the new one.
	write(path string, content []byte, mode os.FileMode) error
	rename(from, to string) error
}

// realDisk is the operating system's.
type realDisk struct{}

func (realDisk) read(path string) ([]byte, error) { return ReadFile(path, mostBytes) }

func (realDisk) rename(from, to string) error {
	return os.Rename(from, to)
}

func (realDisk) write(path string, content []byte, mode os.FileMode) error {
	next := path + ".new"
	if err := writeSynced(next, content, mode); err != nil {
		_ = os.Remove(next) // half of it would only fill a disk that may be full
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

// writeSynced writes a file that is not there yet. What a crash left there goes, and a link is not followed.
func writeSynced(path string, content []byte, mode os.FileMode) (err error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(content); err != nil {
		return err
	}
	return f.Sync()
}

// syncDirectory makes a rename last.
func syncDirectory(path string) (err error) {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}
