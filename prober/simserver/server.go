package simserver

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The shapes.
const (
	shapeSGLang   = "sglang"
	shapeVLLM     = "vllm"
	shapeLlama    = "llamacpp"
	shapeTRTLLM   = "trtllm"
	shapeLMDeploy = "lmdeploy"
	shapeOllama   = "ollama"
	shapeOpenAI   = "openai"
)

func shapes() []string {
	return []string{shapeSGLang, shapeVLLM, shapeLlama, shapeTRTLLM, shapeLMDeploy, shapeOllama, shapeOpenAI}
}

// Config is what a simulated server is made of.
type Config struct {
	Era        string       // version of the shape, one of Eras; "" the newest
	Shape      string       // "sglang", "vllm", "llamacpp", "trtllm", "lmdeploy", "ollama" or "openai": which server it looks like
	Profile    Profile      // physics
	TimeScale  float64      // 100: everything takes a hundredth of the time; 0 means 1
	Seed       uint64       // of all randomness
	APIKey     string       // that clients must send; "" none
	Options    Options      // how the server was started
	Faults     Faults       // zero is clean
	Background Background   // other people's requests
	Traffic    []Background // more kinds of them

	Log     io.Writer // takes what the server logs, line by line; nil nothing. A slow one slows the server.
	LogWrap string    // how its lines are wrapped, one of LogWraps; "" not at all
}

// Options are command-line options of the real servers that change what an answer tells.
type Options struct {
	CacheReport    bool // cached tokens in usage: SGLang's --enable-cache-report, vLLM's --enable-prompt-tokens-details
	SpecMetrics    bool // speculation facts on the OpenAI surface: new SGLang, vLLM's --per-request-spec-decode-metrics
	NoMetrics      bool // no /metrics page
	NoTokenizer    bool // no tokenize endpoint, as in older versions
	FlatNames      bool // metrics under sglang_ instead of sglang:, as gateways and pipelines re-export them
	StreamInterval int  // tokens between SGLang's chunks; 0 means 1

	LogRequests  string // SGLang's --log-requests: "text", "json" or "" for not
	LogTimeStats bool   // SGLang's --enable-request-time-stats-logging
}

// Server is a simulated inference server.
type Server struct {
	config   Config
	era      era
	engine   *engine
	tok      *tokenizer
	mux      *http.ServeMux
	script   *Player
	proto    protocol
	started  time.Time
	requests atomic.Int64 // generation requests, for faults that come every so often
	load     *background
	once     sync.Once     // of Close
	ids      atomic.Uint32 // requests that were given an id
}

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

// New checks the configuration and starts a server; Close ends it.
func New(c Config) (*Server, error) {
	if err := c.prepare(); err != nil {
		return nil, fmt.Errorf("simulated server: %w", err)
	}
	player, err := NewPlayer(c.Faults.Script)
	if err != nil {
		return nil, fmt.Errorf("simulated server: %w", err)
	}
	tok := newTokenizer()
	s := &Server{config: c, tok: tok, script: player, mux: http.NewServeMux(), started: time.Now()}
	if s.era, err = findEra(c.Shape, c.Era); err != nil {
		return nil, fmt.Errorf("simulated server: %w", err)
	}
	s.engine = newEngine(c, continuationWords(tok))
	s.engine.uncut = c.Shape == shapeSGLang && s.era.has(sglangOvershoot)
	switch c.Shape {
	case shapeSGLang:
		s.proto = sglang{s}
	case shapeVLLM:
		s.proto = vllm{s}
	case shapeLlama:
		s.proto = llama{s}
	case shapeTRTLLM:
		s.proto = trtllm{s}
	case shapeLMDeploy:
		s.proto = lmdeploy{s}
	case shapeOllama:
		s.proto = ollama{s}
	default:
		s.proto = openai{s}
	}
	s.proto.routes(s.mux)
	s.mux.HandleFunc("GET /truth", s.serveTruth)
	s.engine.start(newJournal(s))
	s.load = startBackground(s.engine, c)
	return s, nil
}

// prepare fills in defaults and what a shape brings with it, and checks the rest.
func (c *Config) prepare() error {
	if !slices.Contains(shapes(), c.Shape) {
		return fmt.Errorf("shape %q is not one of %s", c.Shape, strings.Join(shapes(), ", "))
	}
	if c.TimeScale == 0 {
		c.TimeScale = 1
	}
	if !(c.TimeScale > 0 && c.TimeScale <= 1e6) {
		return errors.New("the time scale must be above 0 and at most a million")
	}
	if c.Profile.Name == "" {
		c.Profile, _ = ProfileByName("")
	}
	switch c.Shape {
	case shapeVLLM:
		c.Profile.PageSize = max(c.Profile.PageSize, 16)
	case shapeTRTLLM:
		c.Profile.PageSize = max(c.Profile.PageSize, 32)
	case shapeLlama, shapeOllama:
		c.Profile.MaxRunning, c.Profile.PageSize, c.Profile.BOS = 1, 1, 1
	}
	if c.Options.StreamInterval < 1 {
		c.Options.StreamInterval = 1
	}
	if err := c.checkLog(); err != nil {
		return err
	}
	if err := c.Faults.validate(); err != nil {
		return err
	}
	for _, load := range append([]Background{c.Background}, c.Traffic...) {
		if err := load.validate(c.Profile.ContextLimit); err != nil {
			return err
		}
	}
	return c.Profile.validate()
}

// Handler serves the API of the shape and GET /truth.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Requests are read before they are judged: a refusal that comes while the client still writes may be lost.
		whole, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
		if err != nil {
			writeJSON(w, http.StatusBadRequest, s.proto.problem(badRequest("the body cannot be read: %v", err)))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(whole))
		if s.config.Log != nil {
			began, seen := time.Now(), &watched{ResponseWriter: w}
			defer func() { s.engine.journal.access(r, cmp.Or(seen.status, http.StatusOK), began, time.Now()) }()
			w = seen
		}
		if s.script.play(w, r) {
			return
		}
		if !s.authorized(r) {
			writeJSON(w, http.StatusUnauthorized, s.proto.unauthorized())
			return
		}
		s.mux.ServeHTTP(w, r)
	})
}

func (s *Server) authorized(r *http.Request) bool {
	if s.config.APIKey == "" || r.URL.Path == "/truth" || !s.proto.guarded(r.URL.Path) {
		return true
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && key == s.config.APIKey
}

// Close ends the server's goroutines; requests that run are cut off. It may be called again.
func (s *Server) Close() {
	s.once.Do(func() {
		s.load.close()
		s.engine.close()
	})
}

// loading tells whether the model still loads.
func (s *Server) loading() bool { return time.Since(s.started) < s.config.Faults.Loading }

// newID is a fresh part of a request's id.
func (s *Server) newID() string {
	return fmt.Sprintf("%016x%08x", splitmix(s.config.Seed^uint64(s.requests.Load())<<20), s.ids.Add(1))
}

func (c *Config) checkLog() error {
	if c.LogWrap != "" && !slices.Contains(LogWraps(), c.LogWrap) {
		return fmt.Errorf("lines of a log are not wrapped as %q; there are %s", c.LogWrap, strings.Join(LogWraps(), ", "))
	}
	v, err := findEra(c.Shape, c.Era)
	switch format := c.Options.LogRequests; {
	case err != nil || format == "" || format == "text":
		return err
	case format != "json":
		return fmt.Errorf("requests are logged as text or json, not as %q", format)
	case c.Shape == shapeSGLang && !v.has(logRequestsJSON):
		return fmt.Errorf("%s %s logs requests as text only", c.Shape, v.name)
	}
	return nil
}
