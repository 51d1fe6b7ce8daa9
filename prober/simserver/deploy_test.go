package simserver

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// One scripted restart: away, loading, slow, then another version at another speed.
func TestDeploy(t *testing.T) {
	log := &book{}
	inBubble(t, Config{
		Shape: "sglang", Profile: noiseless(profile(t, "")), Era: "0.5.6", Log: log,
		Deploys: []Deploy{{
			At: 10 * time.Minute, Gone: 20 * time.Second, Loading: time.Minute, WarmupSlow: 1, Era: "0.5.12", Change: Change{StepSlope: 1.3},
		}},
	}, func(r *rig) {
		ask := func() answer { return r.post("/generate", native(prompt(100_000, 1), 41, false)) }
		step := func() float64 {
			q, sum := r.lastTruth(), 0.0
			for _, s := range q.StepSeconds {
				sum += s
			}
			return sum / float64(len(q.StepSeconds))
		}
		ask()
		before := step()
		done := make(chan answer)
		go func() {
			time.Sleep(8 * time.Minute)
			done <- r.post("/generate", native(prompt(100_000, 2), 5000, true))
		}()
		if cut := <-done; cut.err == nil || !strings.Contains(fmt.Sprint(cut.err), "EOF") {
			t.Errorf("what ran at the restart: %v", cut.err)
		}
		time.Sleep(5 * time.Second)
		if a := ask(); a.err == nil {
			t.Errorf("away: %+v", a)
		}
		time.Sleep(20 * time.Second)
		if a := ask(); a.status != 503 {
			t.Errorf("loading: %+v", a)
		}
		time.Sleep(time.Minute)
		if v := r.get("/server_info").json(t, 0)["version"]; v != "0.5.12" {
			t.Errorf("version %v", v)
		}
		ask()
		slow := r.lastTruth()
		near(t, "the first request", slow.PrefillSeconds, 3*r.server.live().config.Profile.PrefillSeconds(100_000), 0.01)
		if slow.CachedTokens != 0 || slow.Received < 600 {
			t.Errorf("%d tokens outlived the restart; received at %v", slow.CachedTokens, slow.Received)
		}
		ask()
		near(t, "step", step(), before+0.3*1.4955e-5*100_000, 0.01)
		if n := len(log.matching("The server is fired up")); n != 2 {
			t.Errorf("%d starts in the log", n)
		}
		if c, _ := r.server.live().engine.observe(); c.requests != 2 {
			t.Errorf("counters begin anew: %d", c.requests)
		}
	})
}

// Speed changes without a restart, in the middle of a request too.
func TestAdjust(t *testing.T) {
	inBubble(t, Config{Shape: "vllm", Profile: noiseless(profile(t, "")), Control: true}, func(r *rig) {
		go func() {
			time.Sleep(100 * time.Second)
			if a := r.post("/sim/physics", object{"step_slope": 2}); a.status != 200 {
				t.Errorf("%+v", a)
			}
		}()
		r.post("/v1/completions", object{"prompt": prompt(60_010, 1), "max_tokens": 400, "ignore_eos": true})
		steps := r.lastTruth().StepSeconds
		near(t, "first step", steps[0], 0.0598+1.4955e-5*60_010, 0.01)
		near(t, "last step", steps[len(steps)-1], 0.0598+2*1.4955e-5*60_410, 0.01)
	})
}

func TestControl(t *testing.T) {
	inBubble(t, Config{Shape: "sglang"}, func(r *rig) {
		if a := r.post("/sim/physics", object{"step_slope": 2}); a.status != 404 {
			t.Errorf("control that nobody asked for: %+v", a)
		}
	})
	inBubble(t, Config{Shape: "sglang", Control: true}, func(r *rig) {
		for _, bad := range []struct {
			path string
			ask  object
		}{
			{"/sim/physics", object{"step_slope": -1}},
			{"/sim/physics", object{"slope": 1}},
			{"/sim/deploy", object{"era": "9.9"}},
			{"/sim/deploy", object{"gone_seconds": -1}},
		} {
			if a := r.post(bad.path, bad.ask); a.status != 400 || !strings.Contains(a.events[0], `{"error":"`) {
				t.Errorf("%v: %+v", bad, a)
			}
		}
		if a := r.post("/sim/deploy", object{"era": "0.5.4", "gone_seconds": 5}); a.status != 202 {
			t.Errorf("%+v", a)
		}
		time.Sleep(6 * time.Second)
		if v := r.get("/get_server_info").json(t, 0)["version"]; v != "0.5.4" {
			t.Errorf("version %v", v)
		}
		if a := r.post("/sim/deploy", object{"gone_seconds": 500}); a.status != 202 { // closing does not wait for it
			t.Errorf("%+v", a)
		}
	})
	_, err := New(Config{Shape: "vllm", Deploys: []Deploy{{Era: "0.5.4"}}})
	if !strings.Contains(fmt.Sprint(err), `deployment 1: vllm has no era "0.5.4"; there are 0.32.0, `) {
		t.Errorf("%v", err)
	}
}
