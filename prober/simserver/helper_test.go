package simserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a server behind a pipe and a client that opens a connection a request.
type rig struct {
	t      *testing.T
	server *Server
	client *http.Client
}

// inBubble runs a test on virtual time against a server.
func inBubble(t *testing.T, c Config, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		l := NewPipeListener()
		hs := &http.Server{Handler: s.Handler()}
		ended := make(chan struct{})
		go func() { defer close(ended); _ = hs.Serve(l) }()
		tr := &http.Transport{DialContext: l.Dial, DisableKeepAlives: true, DisableCompression: true}
		test(&rig{t: t, server: s, client: &http.Client{Transport: tr}})
		tr.CloseIdleConnections()
		_ = hs.Close()
		s.Close()
		<-ended
	})
}

func profile(t *testing.T, name string) Profile {
	t.Helper()
	p, err := ProfileByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// noiseless is a profile without luck.
func noiseless(p Profile) Profile {
	p.PrefillSD, p.ResidualSD, p.StepSD, p.FirstStepExtra = 0, 0, 0, 0
	return p
}

// prompt is n ids of which the first is made of the salt.
func prompt(n int, salt int32) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = firstWordID + int32(i*7%90_000)
	}
	ids[0] = firstWordID + salt
	return ids
}

// answer is what came back, and when.
type answer struct {
	status int
	header http.Header
	events []string    // data of each event, or the whole body as one
	at     []time.Time // when each event came
	headAt time.Time
	err    error
}

func (a answer) json(t *testing.T, i int) map[string]any {
	t.Helper()
	if i < 0 {
		i += len(a.events)
	}
	if i < 0 || i >= len(a.events) {
		t.Fatalf("no event %d among %d", i, len(a.events))
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(a.events[i]), &v); err != nil {
		t.Fatalf("event %d: %v in %q", i, err, a.events[i])
	}
	return v
}

func (r *rig) post(path string, in any) answer { return r.postCtx(context.Background(), path, in) }

func (r *rig) postCtx(ctx context.Context, path string, in any) answer {
	r.t.Helper()
	data, err := json.Marshal(in)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.send(ctx, http.MethodPost, path, data)
}

func (r *rig) get(path string) answer { return r.send(context.Background(), http.MethodGet, path, nil) }

func (r *rig) send(ctx context.Context, method, path string, data []byte) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://sim"+path, bytes.NewReader(data))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header, headAt: time.Now()}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(resp.Body)
		a.events, a.at, a.err = []string{string(body)}, []time.Time{time.Now()}, err
		return a
	}
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadString('\n')
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			a.events = append(a.events, strings.TrimSuffix(data, "\n"))
			a.at = append(a.at, time.Now())
		}
		if err != nil {
			if err != io.EOF {
				a.err = err
			}
			return a
		}
	}
}

func native(ids []int32, tokens int, stream bool) object {
	return object{
		"input_ids": ids, "stream": stream,
		"sampling_params": object{"max_new_tokens": tokens, "temperature": 0, "ignore_eos": true},
	}
}

func (r *rig) lastTruth() TruthRequest {
	r.t.Helper()
	all := r.server.Truth()
	if len(all) == 0 {
		r.t.Fatal("no truth")
	}
	return all[len(all)-1]
}

func near(t *testing.T, what string, got, want, relative float64) {
	t.Helper()
	if d := got - want; d > want*relative || -d > want*relative {
		t.Errorf("%s: got %v, want %v within %v %%", what, got, want, relative*100)
	}
}
