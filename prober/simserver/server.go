package simserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Server is a simulated inference server, through all its restarts.
type Server struct {
	tok     *tokenizer
	script  *Player
	started time.Time
	past    history
	control bool

	mu      sync.Mutex
	config  Config
	now     *instance  // nil while the server is away
	changed sync.Mutex // held while a deployment runs

	done  chan struct{}
	ended sync.WaitGroup
	once  sync.Once // of Close
}

// New checks the configuration and starts a server; Close ends it.
func New(c Config) (*Server, error) {
	s, err := newServer(c)
	if err != nil {
		return nil, fmt.Errorf("simulated server: %w", err)
	}
	return s, nil
}

func newServer(c Config) (*Server, error) {
	if err := c.prepare(); err != nil {
		return nil, err
	}
	if err := c.checkDeploys(); err != nil {
		return nil, err
	}
	player, err := NewPlayer(c.Faults.Script)
	if err != nil {
		return nil, err
	}
	s := &Server{config: c, tok: newTokenizer(), script: player, started: time.Now(), control: c.Control, done: make(chan struct{})}
	if s.now, err = s.newInstance(c); err != nil {
		return nil, err
	}
	if len(c.Deploys) > 0 {
		s.ended.Go(func() { s.deployAll(c.Deploys) })
	}
	return s, nil
}

// Handler serves the API of the shape, GET /truth and, where it was asked for, what controls the simulation.
func (s *Server) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Requests are read before they are judged: a refusal that comes while the client still writes may be lost.
		whole, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
		if err != nil {
			writeJSON(w, http.StatusBadRequest, object{"error": fmt.Sprintf("the body cannot be read: %v", err)})
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(whole))
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/truth":
			s.serveTruth(w)
		case s.control && r.Method == http.MethodPost && (r.URL.Path == "/sim/physics" || r.URL.Path == "/sim/deploy"):
			s.serveControl(w, r)
		default:
			now := s.live()
			if now == nil {
				resetConnection(w)
				return
			}
			now.serve(w, r)
		}
	})
}

// live is the instance that runs, nil while there is none.
func (s *Server) live() *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Truth lists what happened to the last requests that ended, the oldest first.
func (s *Server) Truth() []TruthRequest { return s.past.all() }

func (s *Server) serveTruth(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s.Truth()) // the client's going away is no concern of ours
}

// Close ends the server's goroutines; requests that run are cut off. It may be called again.
func (s *Server) Close() {
	s.once.Do(func() {
		s.mu.Lock()
		close(s.done)
		s.mu.Unlock()
		s.ended.Wait()
		s.changed.Lock() // a deployment that was asked for over the wire ends first
		defer s.changed.Unlock()
		if now := s.live(); now != nil {
			now.close()
		}
	})
}
