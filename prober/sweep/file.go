package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"longctx_exporter/prober"
)

// maxFile is far above the largest sweep: 24 rungs of a few dozen legs.
const maxFile = 16 << 20

// save puts the document in the place of path in one step: a reader sees the old one or the new one, whole.
func (d document) save(path string) (err error) {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("writing the output file: %s is not a regular file", path)
	}
	temporary := fmt.Sprintf("%s.%d.tmp", path, os.Getpid())
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("writing the output file: %w", err)
	}
	f, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("writing the output file: %w", err)
	}
	err = errors.Join(d.write(f), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // the first error says more
		return fmt.Errorf("writing the output file: %w", err)
	}
	return nil
}

// load reads what an earlier sweep left; ok is false where there is no file.
func load(path string) (d document, ok bool, err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return document{}, false, fmt.Errorf("resuming: %s is not a regular file", path) // a pipe would be waited for
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return document{}, false, nil
	}
	if err != nil {
		return document{}, false, fmt.Errorf("resuming: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return document{}, false, fmt.Errorf("resuming: %w", err)
	}
	d, err = parse(b)
	if err != nil {
		return document{}, false, fmt.Errorf(
			"resuming: %s does not hold a sweep to go on from: %w; it is left as it is, name another file or leave out --resume", path, err)
	}
	return d, true, nil
}

// parse reads a document and believes nothing that a sweep would not have written.
func parse(b []byte) (document, error) {
	if len(b) > maxFile {
		return document{}, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	var d document
	decoder := json.NewDecoder(bytes.NewReader(b))
	if err := decoder.Decode(&d); err != nil {
		if _, other := errors.AsType[*json.UnmarshalTypeError](err); other {
			return document{}, errors.New("it is JSON of another kind")
		}
		return document{}, fmt.Errorf("it is not whole JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return document{}, errors.New("something follows its JSON")
	}
	if d.Schema != schema {
		return document{}, fmt.Errorf("its schema is %q instead of %q", clean(d.Schema, maxName), schema)
	}
	seen := map[prober.Rung]bool{}
	for _, r := range d.Rungs {
		if r.Context < 1 || r.Rung != r.Context.String() || seen[r.Context] {
			return document{}, fmt.Errorf("its rung %q is listed twice or does not agree with its context %d", clean(r.Rung, maxName), r.Context)
		}
		seen[r.Context] = true
		if err := r.check(); err != nil {
			return document{}, fmt.Errorf("its rung %s %w", r.Rung, err)
		}
	}
	return d, nil
}

func (r rung) check() error {
	switch r.Status {
	case prober.Accepted:
		if r.Reason != "" {
			return errors.New("is accepted and has a reason against it")
		}
		if r.Step <= 0 && r.DecodeRate <= 0 {
			return errors.New("is accepted without a step time or a decode rate")
		}
	case prober.Rejected, prober.Failed, prober.Skipped:
		if !slices.Contains(prober.Reasons(r.Status), r.Reason) {
			return fmt.Errorf("has the unknown reason %q", clean(string(r.Reason), maxName))
		}
	default:
		return fmt.Errorf("has the unknown status %q", clean(string(r.Status), maxName))
	}
	if low := min(r.TTFT, r.Prefill, r.Step, r.StepStream, r.StepError, r.DecodeRate, r.AcceptLength); low < 0 {
		return errors.New("has a negative value")
	}
	if low := slices.Min(append(slices.Clone(r.Histogram), r.Pairs, r.PromptTokens, r.Steps)); low < 0 {
		return errors.New("has a negative count")
	}
	if n := len(r.StepCI); n != 0 && (n != 2 || r.StepCI[0] < 0 || r.StepCI[1] < r.StepCI[0]) {
		return errors.New("has an interval that is none")
	}
	return nil
}

// accepted are the rungs that need not be measured again.
func (d document) accepted() []rung {
	return slices.DeleteFunc(slices.Clone(d.Rungs), func(r rung) bool { return r.Status != prober.Accepted })
}

// sameTarget says in what an earlier sweep's target differs, if it does.
func (d document) sameTarget(path string, now target) error {
	if d.Target.URL == now.URL && d.Target.Model == now.Model {
		return nil
	}
	return fmt.Errorf(
		"resuming: %s is a sweep of model %q at %s, not of %q at %s; it is left as it is, name another file or leave out --resume",
		path, clean(d.Target.Model, maxName), clean(d.Target.URL, maxName), now.Model, now.URL)
}
