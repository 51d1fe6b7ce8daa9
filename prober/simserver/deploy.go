package simserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Change makes a server faster or slower: factors of what its profile says now, 0 for as it is.
type Change struct {
	StepBase  float64 `json:"step_base"`
	StepSlope float64 `json:"step_slope"` // attention over the context, in decode
	Prefill   float64 `json:"prefill"`
}

func (c Change) validate() error {
	for _, f := range []float64{c.StepBase, c.StepSlope, c.Prefill} {
		if !(f >= 0 && f <= 1000) {
			return fmt.Errorf("a change is by factors above 0 and up to 1000, not %v", f)
		}
	}
	return nil
}

func (c Change) of(p Profile) Profile {
	scale := func(v *float64, by float64) {
		if by != 0 {
			*v *= by
		}
	}
	scale(&p.StepBase, c.StepBase)
	scale(&p.StepSlope, c.StepSlope)
	scale(&p.PrefillLinear, c.Prefill)
	scale(&p.PrefillQuadratic, c.Prefill)
	return p
}

// Deploy is a restart with another version or other flags. What runs is cut off; then connections are reset, then the
// server loads and says so, then its first requests are slow. Cache, queue and counters begin anew. Times are wall clock.
type Deploy struct {
	At         time.Duration // after the server's start
	Gone       time.Duration // in which connections are reset
	Loading    time.Duration // in which requests get 503
	WarmupSlow int           // so many requests then take three times as long
	Era        string        // version of the shape; "" as before
	Options    *Options      // nil as before
	Change     Change
}

// after is a configuration as a deployment leaves it.
func (d Deploy) after(c Config) (Config, error) {
	if d.Era != "" {
		c.Era = d.Era
	}
	if d.Options != nil {
		c.Options = *d.Options
	}
	if d.At < 0 || d.Gone < 0 || d.Loading < 0 || d.WarmupSlow < 0 {
		return c, errors.New("the times and requests of a deployment must not be negative")
	}
	if err := d.Change.validate(); err != nil {
		return c, err
	}
	c.Faults.Loading, c.Faults.WarmupSlow = d.Loading, d.WarmupSlow
	c.Profile = d.Change.of(c.Profile)
	return c, c.prepare()
}

// checkDeploys sorts deployments by time and tries each of them on paper.
func (c *Config) checkDeploys() error {
	c.Deploys = slices.Clone(c.Deploys)
	slices.SortStableFunc(c.Deploys, func(a, b Deploy) int { return int(a.At - b.At) })
	next := *c
	var err error
	for i, d := range c.Deploys {
		if next, err = d.after(next); err != nil {
			return fmt.Errorf("deployment %d: %w", i+1, err)
		}
	}
	return nil
}

// deployAll carries out deployments at their times until the server is closed.
func (s *Server) deployAll(list []Deploy) {
	for _, d := range list {
		if !s.pause(time.Until(s.started.Add(d.At))) {
			return
		}
		if err := s.Deploy(d); err != nil {
			return // only a closed server refuses what was tried on paper
		}
	}
}

// Deploy restarts the server and returns when it listens again. An error leaves it as it was.
func (s *Server) Deploy(d Deploy) error {
	s.changed.Lock()
	defer s.changed.Unlock()
	s.mu.Lock()
	c, err := d.after(s.config)
	old := s.now
	if err == nil && old != nil {
		s.now = nil
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("deployment: %w", err)
	}
	if old != nil {
		old.close()
	}
	if !s.pause(d.Gone) {
		return errClosed
	}
	next, err := s.newInstance(c)
	if err != nil {
		return fmt.Errorf("deployment: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.config, s.now = c, next
	return nil
}

// pause waits; false when the server is closed.
func (s *Server) pause(d time.Duration) bool {
	return wait(d, s.done)
}

// Adjust changes the server's speed from the next forward pass on, without a restart.
func (s *Server) Adjust(change Change) error {
	if err := change.validate(); err != nil {
		return fmt.Errorf("change of speed: %w", err)
	}
	s.changed.Lock()
	defer s.changed.Unlock()
	s.mu.Lock()
	s.config.Profile = change.of(s.config.Profile)
	now, profile, ranks := s.now, s.config.Profile, s.config.Ranks
	s.mu.Unlock()
	if now != nil {
		for _, e := range now.engines {
			e.setPhysics(ranks.speed(e.rank, profile))
		}
	}
	return nil
}

func (e *engine) physics() Profile {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.profile
}

func (e *engine) setPhysics(p Profile) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.profile = p
}

// serveControl serves those who test a whole program against the simulator:
//
//	POST /sim/physics {"step_slope": 1.3}       Adjust
//	POST /sim/deploy  {"era": "0.5.12", "gone_seconds": 5, "loading_seconds": 10, "warmup_slow": 3, "step_slope": 1.3}
//
// A deployment is answered with 202 when it begins. Both answer 400 with the reason to what they do not take.
func (s *Server) serveControl(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Change
		Era     string  `json:"era"`
		Gone    float64 `json:"gone_seconds"`
		Loading float64 `json:"loading_seconds"`
		Warmup  int     `json:"warmup_slow"`
	}
	read := json.NewDecoder(r.Body)
	read.DisallowUnknownFields()
	err := read.Decode(&in)
	status := http.StatusOK
	switch {
	case err != nil:
	case r.URL.Path == "/sim/physics":
		err = s.Adjust(in.Change)
	default:
		status = http.StatusAccepted
		err = s.beginDeploy(Deploy{
			Gone: seconds(in.Gone), Loading: seconds(in.Loading), WarmupSlow: in.Warmup, Era: in.Era, Change: in.Change,
		})
	}
	if err != nil {
		writeJSON(w, http.StatusBadRequest, object{"error": err.Error()})
		return
	}
	w.WriteHeader(status)
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// beginDeploy checks a deployment and carries it out while the caller goes on.
func (s *Server) beginDeploy(d Deploy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := d.after(s.config); err != nil {
		return err
	}
	select {
	case <-s.done:
		return errClosed
	default:
	}
	s.ended.Go(func() { _ = s.Deploy(d) }) // was tried on paper
	return nil
}
