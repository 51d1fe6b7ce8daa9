package state

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAbsurd opens files whose checksums are right and whose values cannot be: the entry goes, is counted in one warning, and what
// stands beside it stays.
func TestAbsurd(t *testing.T) {
	never := time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
	sample := func(edit func(*Sample)) func(*Target) {
		return func(t *Target) {
			r := t.Rungs[8192]
			s := r.Samples[0]
			edit(&s)
			r.Samples, r.Unbroken = append([]Sample{s}, r.Samples...), 2
			t.Rungs[8192] = r
		}
	}
	rung := func(edit func(*Rung)) func(*Target) {
		return func(t *Target) { r := t.Rungs[8192]; edit(&r); t.Rungs[8192] = r }
	}
	learnt := func(l Learnt) func(*Target) { return func(t *Target) { t.Server.Learnt[4096] = l } }
	for name, test := range map[string]struct {
		edit, left func(*Target) // what is in the file, and what is missing of the good target; nil for nothing
	}{
		"good":                    {nil, nil},
		"negative step":           {sample(func(s *Sample) { s.Step = -1 }), nil},
		"enormous step":           {sample(func(s *Sample) { s.Step = 1e300 }), nil},
		"enormous prefill":        {sample(func(s *Sample) { s.Prefill = 1e300 }), nil},
		"negative spread":         {sample(func(s *Sample) { v := -0.1; s.Spread = &v }), nil},
		"enormous spread":         {sample(func(s *Sample) { v := 1e300; s.Spread = &v }), nil},
		"enormous p99":            {sample(func(s *Sample) { s.StepP99 = 1e300 }), nil},
		"share above 1":           {sample(func(s *Sample) { v := 1.5; s.AcceptCap = &v }), nil},
		"sample of the future":    {sample(func(s *Sample) { s.At = never }), nil},
		"negative length":         {func(t *Target) { t.Rungs[-1] = someRung() }, nil},
		"enormous plans":          {rung(func(r *Rung) { r.Plans = &Plans{At: at, Step: 1e300} }), rung(func(r *Rung) { r.Plans = nil })},
		"plans of the future":     {rung(func(r *Rung) { r.Plans = &Plans{At: never} }), rung(func(r *Rung) { r.Plans = nil })},
		"facts missed below none": {rung(func(r *Rung) { r.Needle = &Needle{At: at, Missing: -1} }), rung(func(r *Rung) { r.Needle = nil })},
		"enormous duration":       {rung(func(r *Rung) { r.Duration = 1e300 }), rung(func(r *Rung) { r.Duration = 0 })},
		"attempt of the future":   {rung(func(r *Rung) { r.Attempted = never }), rung(func(r *Rung) { r.Attempted = time.Time{} })},
		"negative failing":        {rung(func(r *Rung) { r.Failing = -1 }), rung(func(r *Rung) { r.Failing = 0 })},
		"step of a baseline":      {rung(func(r *Rung) { r.Deploys[0].Steps = append(r.Deploys[0].Steps, 1e300) }), nil},
		"baseline that stands":    {rung(func(r *Rung) { r.Deploys[0].Passed = -5 }), nil},
		"enormous time, learnt":   {learnt(Learnt{Cold: 1e300}), nil},
		"negative jitter":         {learnt(Learnt{Step: 1, Tau: 1, Jitter: -1}), nil},
		"no warm legs for ever":   {learnt(Learnt{NoWarm: never}), nil},
		"no cache for ever":       {func(t *Target) { t.Server.NoCache = never }, func(t *Target) { t.Server.NoCache = time.Time{} }},
		"deploy of the future":    {func(t *Target) { t.Server.Deploy.Since = never }, func(t *Target) { t.Server.Deploy.Since = time.Time{} }},
		"counters below none":     {func(t *Target) { t.Server.Counters[1] = -2 }, func(t *Target) { t.Server.Counters = nil }},
		"started at no time":      {func(t *Target) { t.Server.Started = 1e300 }, func(t *Target) { t.Server.Started = 0 }},
		"last seen in the future": {func(t *Target) { t.Seen = never }, func(t *Target) { t.Seen = time.Time{} }},
		"set back by a few hours": {rung(func(r *Rung) { r.Attempted = at.Add(5 * time.Hour) }), rung(func(r *Rung) { r.Attempted = at.Add(5 * time.Hour) })},
	} {
		t.Run(name, func(t *testing.T) {
			saved, want := someTarget(), someTarget()
			if test.edit != nil {
				test.edit(&saved)
			}
			if test.left != nil {
				test.left(&want)
			}
			complaints := 1
			if cmp.Equal(saved, want) {
				complaints = 0
			}
			content, err := seal(stateName, stateVersion, snapshot{Saved: at, Boot: "b", Uptime: 5, Targets: map[string]Target{"k": saved}})
			if err != nil {
				t.Fatal(err)
			}
			for _, now := range []time.Time{at, time.Unix(0, 0)} { // the second as a machine without a clock begins
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, stateName), content, 0o600); err != nil {
					t.Fatal(err)
				}
				s, out := open(t, Options{Dir: dir, clock: &fakeClock{boot: "b", wall: now, up: time.Hour}})
				if d := cmp.Diff(want, s.Target("k")); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
				if out.count("cannot be true") != complaints || out.count("entries=1") != complaints {
					t.Errorf("the log says %s", out)
				}
			}
		})
	}
}

func someTarget() Target {
	return Target{Name: "a", Seen: at, Server: someServer(), Rungs: map[int]Rung{8192: someRung()}}
}

func FuzzDecode(f *testing.F) {
	good, err := seal(stateName, stateVersion, snapshot{Saved: at, Boot: "b", Uptime: 5, Targets: map[string]Target{"k": someTarget()}})
	if err != nil {
		f.Fatal(err)
	}
	_, body, _ := bytes.Cut(good, []byte("\n"))
	f.Add(good, false)
	f.Add(body, true)
	f.Add([]byte(`{"targets":{"k":{"rungs":{"1":{"duration":-1,"failing":-5,"unbroken":99,"samples":[{"step":-1,"prompt_tokens":-7}],"deploys":[{},{"steps":[-1,1e308,1e308,1e308]},{"every":-1}]}}}}}`), true)
	f.Add([]byte(`{"saved":"2026-11-30T12:00:00Z","uptime":-1,"boot":"b","targets":{"k":null}}`), true)
	f.Fuzz(func(t *testing.T, content []byte, sealed bool) {
		if sealed { // by somebody else, so that the checks behind the checksum are reached
			content = sealRaw(content)
		}
		s, dropped, err := decode(content, at)
		if err != nil {
			return
		}
		if again, more, err := decode(content, at); err != nil || more != dropped || len(again.Targets) != len(s.Targets) {
			t.Errorf("read again: %v, %d and %d dropped", err, dropped, more)
		}
		for _, target := range s.Targets {
			for _, r := range target.Rungs {
				if r.Duration < 0 || r.Failing < 0 || r.Rejecting < 0 || len(r.Samples) > KeptSamples || r.Unbroken > len(r.Samples) || len(r.Deploys) > keptDeploys {
					t.Errorf("%+v", r)
				}
				for _, sample := range r.Samples {
					if sample.Step < 0 || sample.TTFT < 0 || sample.PromptTokens < 0 {
						t.Errorf("%+v", sample)
					}
				}
				for _, deploy := range []string{"", "d"} {
					if a, b := r.Medians(deploy); a < 0 || b < 0 || r.Usual(deploy) < 0 {
						t.Errorf("%v %v", a, b)
					}
					r.AddStep(deploy, 1)
				}
			}
		}
		if again, err := seal(stateName, stateVersion, s); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		} else if _, more, err := decode(again, at); err != nil || more > 0 {
			t.Errorf("what was written cannot be read or believed: %v, %d dropped", err, more)
		}
	})
}

// sealRaw seals a body as it is.
func sealRaw(body []byte) []byte {
	sum := sha256.Sum256(body)
	return append([]byte(header(stateName, stateVersion, sum[:])), body...)
}
