package state

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

func FuzzDecode(f *testing.F) {
	good, err := seal(stateName, stateVersion, snapshot{Saved: at, Boot: "b", Uptime: 5, Targets: map[string]Target{"k": {Name: "a", Server: someServer(), Rungs: map[int]Rung{8192: someRung()}}}})
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
		s, err := decode(content)
		if err != nil {
			return
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
		} else if _, err := decode(again); err != nil {
			t.Errorf("what was written cannot be read: %v", err)
		}
	})
}

// sealRaw seals a body as it is.
func sealRaw(body []byte) []byte {
	sum := sha256.Sum256(body)
	return append([]byte(header(stateName, stateVersion, sum[:])), body...)
}
