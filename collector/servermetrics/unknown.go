package servermetrics

import (
	"bytes"
	"context"
	"encoding/json"

	"longctx_exporter/prober/inference"
)

// unknown is a page that is configured where the target does not tell what its engine is, as behind a gateway. The names of the
// metrics tell.
type unknown struct {
	server server
	page   *endpoint
	engine engine // nil until known
	never  error  // why it is not asked again: what it tells may be gone for whoever asks next
}

const unknownHint = "set metrics.urls to the engines' own pages"

func (u *unknown) read(ctx context.Context) (reading, error) {
	if u.engine != nil {
		return u.engine.read(ctx)
	}
	if u.never != nil {
		return reading{}, u.never
	}
	body, err := u.page.get(ctx)
	if notOffered(err) {
		return reading{missing: err}, nil
	}
	if err != nil {
		return reading{}, err
	}
	dialect, ok := engineOf(body)
	if !ok {
		err := &fault{reason: NotPrometheus, text: "GET " + u.page.url + " answered without metrics of an engine that is known"}
		if json.Valid(body) {
			u.never = err
		}
		return reading{}, err
	}
	u.engine = kinds()[dialect].open(u.server)
	return u.engine.read(ctx)
}

// engineOf finds whose metrics stand on a page.
func engineOf(body []byte) (inference.Dialect, bool) {
	for line := range bytes.Lines(unwrap(body)) {
		line = bytes.TrimPrefix(line, []byte("# TYPE "))
		for dialect := range kinds() { // named like the prefixes of their metrics
			rest, ok := bytes.CutPrefix(line, []byte(dialect))
			if ok && len(rest) > 0 && (rest[0] == ':' || rest[0] == '_') {
				return dialect, true
			}
		}
	}
	return "", false
}
