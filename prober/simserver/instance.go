package simserver

import (
	"cmp"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// protocol is one shape: its routes and how it says no.
type protocol interface {
	routes(mux *http.ServeMux)
	// problem is the body of a refusal.
	problem(p *problem) any
	// guarded tells whether a path needs the API key.
	guarded(path string) bool
	// unauthorized is the body of a 401.
	unauthorized() any
}

// instance is one run of the server, from one start to the next.
type instance struct {
	config   Config
	era      era
	engine   *engine   // the first one
	engines  []*engine // one for each rank of data parallelism
	turn     atomic.Uint64
	tok      *tokenizer
	mux      *http.ServeMux
	script   *Player
	lines    *lineWriter
	proto    protocol
	started  time.Time
	requests atomic.Int64 // generation requests, for faults that come every so often
	load     *background
	ids      atomic.Uint32 // requests that were given an id
}

// newInstance starts one with a checked configuration; close ends it.
func (s *Server) newInstance(c Config) (*instance, error) {
	version, err := findEra(c.Shape, c.Era)
	if err != nil {
		return nil, err
	}
	i := &instance{config: c, era: version, tok: s.tok, script: s.script, mux: http.NewServeMux(), started: time.Now()}
	i.lines = &lineWriter{w: c.Log, wrap: c.LogWrap, shape: c.Shape}
	for rank := range c.Ranks.DP {
		own := c
		own.Seed += uint64(rank) << 32
		own.Profile = c.Ranks.speed(rank, c.Profile)
		e := newEngine(own, continuationWords(s.tok))
		e.rank, e.uncut = rank, c.Shape == shapeSGLang && version.has(sglangOvershoot)
		e.epoch, e.truth = s.started, &s.past
		i.engines = append(i.engines, e)
	}
	i.engine = i.engines[0]
	i.proto = i.protocol()
	i.proto.routes(i.mux)
	for _, e := range i.engines {
		e.start(newJournal(i))
	}
	i.load = startBackground(i.engines, c)
	return i, nil
}

func (i *instance) protocol() protocol {
	switch i.config.Shape {
	case shapeSGLang:
		return sglang{i}
	case shapeVLLM:
		return vllm{i}
	case shapeLlama:
		return llama{i}
	case shapeTRTLLM:
		return trtllm{i}
	case shapeLMDeploy:
		return lmdeploy{i}
	case shapeOllama:
		return ollama{i}
	}
	return openai{i}
}

// close cuts off what runs.
func (i *instance) close() {
	i.load.close()
	for _, e := range i.engines {
		e.close()
	}
}

func (i *instance) serve(w http.ResponseWriter, r *http.Request) {
	if i.config.Log != nil {
		began, seen := time.Now(), &watched{ResponseWriter: w}
		defer func() { i.engine.journal.access(r, cmp.Or(seen.status, http.StatusOK), began, time.Now()) }()
		w = seen
	}
	if i.script.play(w, r) {
		return
	}
	if !authorized(r, i.config.APIKey) && i.proto.guarded(r.URL.Path) {
		writeJSON(w, http.StatusUnauthorized, i.proto.unauthorized())
		return
	}
	i.mux.ServeHTTP(w, r)
}

// authorized tells whether a request brings the key, where there is one.
func authorized(r *http.Request, key string) bool {
	return key == "" || r.Header.Get("Authorization") == "Bearer "+key
}

// loading tells whether the model still loads.
func (i *instance) loading() bool { return time.Since(i.started) < i.config.Faults.Loading }

// newID is a fresh part of a request's id.
func (i *instance) newID() string {
	return fmt.Sprintf("%016x%08x", splitmix(i.config.Seed^uint64(i.requests.Load())<<20), i.ids.Add(1))
}
