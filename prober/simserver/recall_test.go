package simserver

import (
	"strings"
	"testing"
)

func TestRecall(t *testing.T) {
	story := strings.Repeat("A boat lay in the harbour and nobody came. ", 400)
	const fact, question = "The year of the flood is 1784. ", "\nWhat is the year of the flood?\nAnswer: the year of the flood is"
	half, never := profile(t, "fast-8b"), profile(t, "fast-8b")
	half.RecallShort = 0.5
	never.RecallShort, never.RecallLong = 0, 0
	for name, tt := range map[string]struct {
		profile     Profile
		faults      Faults
		prompt      string
		least, most int // right of forty
	}{
		"asked":          {profile(t, "fast-8b"), Faults{}, story + fact + story + question, 40, 40},
		"in capitals":    {profile(t, "fast-8b"), Faults{}, strings.ToUpper(fact) + story + question, 40, 40},
		"not asked":      {profile(t, "fast-8b"), Faults{}, story + fact + story, 0, 0},
		"not said":       {profile(t, "fast-8b"), Faults{}, story + question, 0, 0},
		"half of them":   {half, Faults{}, story + fact + story + question, 10, 30},
		"never":          {never, Faults{}, fact + question, 0, 0},
		"middle unseen":  {profile(t, "fast-8b"), Faults{SeenEnds: 1000}, story + fact + story + question, 0, 0},
		"beginning seen": {profile(t, "fast-8b"), Faults{SeenEnds: 1000}, fact + story + story + question, 40, 40},
		"out of window":  {profile(t, "fast-8b"), Faults{Window: 1000}, fact + story + question, 0, 0},
		"within window":  {profile(t, "fast-8b"), Faults{Window: 1000}, story + fact + question, 40, 40},
	} {
		s, err := New(Config{Shape: shapeSGLang, Profile: tt.profile, Faults: tt.faults})
		if err != nil {
			t.Fatal(err)
		}
		right := 0
		for i := range 40 {
			if reply := s.now.recall(s.tok.encode(strings.Repeat("x", i) + " " + tt.prompt)); reply != nil {
				right++
				if got := s.tok.decode(reply); got != " 1784" {
					t.Errorf("%s: the answer is %q", name, got)
				}
			}
		}
		s.Close()
		if right < tt.least || right > tt.most {
			t.Errorf("%s: %d right answers", name, right)
		}
	}
}
