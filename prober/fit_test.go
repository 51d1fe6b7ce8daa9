package prober

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"longctx_exporter/prober/inference"
	"longctx_exporter/prober/simserver"
)

// refusing refuses long prompts without naming a limit, and counts how often it had to. Once change is set, it says new where it said
// old of itself.
type refusing struct {
	longest  int // bytes of a request
	refused  int
	change   bool
	old, new string
}

func (s *refusing) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.HasSuffix(r.URL.Path, "/completions") && len(body) > s.longest:
			s.refused++
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":{"message":"prompt too long","code":"context_length_exceeded"}}`)
		case r.Method == http.MethodGet && s.change:
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			_, _ = io.WriteString(w, strings.ReplaceAll(answer.Body.String(), s.old, s.new))
		default:
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		}
	})
}

// hourly runs rungs every hour.
func hourly(t *testing.T, runner *Runner, hours int, rungs ...Rung) map[Rung][]Run {
	runs := map[Rung][]Run{}
	for range hours {
		for _, r := range rungs {
			runs[r] = append(runs[r], runner.Run(t.Context(), r, nil))
		}
		time.Sleep(time.Hour)
	}
	return runs
}

// count is how many runs ended so.
func count(runs []Run, status Status, reason Reason) int {
	n := 0
	for _, r := range runs {
		if r.Status == status && r.Reason == reason {
			n++
		}
	}
	return n
}

var ladderOfThree = []Rung{1024, 16384, 32768}

// TestARefusedLengthIsSentAFewTimesADay sends no rung again and again that a server takes as too long, named or not, told or not.
func TestARefusedLengthIsSentAFewTimesADay(t *testing.T) {
	server := &refusing{longest: 60_000}
	withRunner(t, simserver.Config{Shape: "openai"}, Target{Ladder: ladderOfThree}, server.before, func(t *testing.T, runner *Runner) {
		runs := hourly(t, runner, 24, ladderOfThree...)
		if n := count(runs[1024], Accepted, ""); n != 24 {
			t.Errorf("%d of 24 runs of the short rung were accepted", n)
		}
		for _, r := range []Rung{16384, 32768} {
			failed := count(runs[r], Failed, Reason(inference.ContextOverflow))
			if skipped := count(runs[r], Skipped, ExceedsContext); failed > 4 || failed+skipped != 24 {
				t.Errorf("%s: %d runs were refused and %d skipped", r, failed, skipped)
			}
		}
		if server.refused < 4 || server.refused > 8 {
			t.Errorf("the server had to refuse %d requests", server.refused)
		}
	})
}

// TestANamedLimitShortensTheRung runs a rung just above the limit from the second time on, though the server tells it in refusals only.
func TestANamedLimitShortensTheRung(t *testing.T) {
	profile, _ := simserver.ProfileByName("")
	profile.ContextLimit = 16384
	for shape, fewest := range map[string]int{"openai": 6, "trtllm": 7} { // a prompt of text is not always as long as wanted
		withRunner(t, simserver.Config{Shape: shape, Profile: profile}, Target{Ladder: ladderOfThree}, nil, func(t *testing.T, runner *Runner) {
			runs := hourly(t, runner, 8, 8192, 16384, 32768)
			failed := count(runs[16384], Failed, Reason(inference.ContextOverflow))
			if accepted := count(runs[16384], Accepted, ""); failed != 1 || accepted < fewest {
				t.Errorf("%s: the rung at the limit was refused %d times and accepted %d times", shape, failed, accepted)
			}
			if n := count(runs[32768], Failed, Reason(inference.ContextOverflow)); n > 2 || n+count(runs[32768], Skipped, ExceedsContext) != 8 {
				t.Errorf("%s: the rung beyond the limit was refused %d times", shape, n)
			}
		})
	}
}

// TestARefusalIsForgottenWithTheServerThatGaveIt tries at once when the server says that it is another or takes another length.
func TestARefusalIsForgottenWithTheServerThatGaveIt(t *testing.T) {
	for name, c := range map[string]*refusing{
		"nothing changed": {old: "no-such-word", new: "x"},
		"another limit":   {old: "200000", new: "150000"},
		"another version": {old: `"version":"`, new: `"version":"1`},
	} {
		c.longest = 60_000
		withRunner(t, simserver.Config{Shape: "vllm"}, Target{Ladder: ladderOfThree}, c.before, func(t *testing.T, runner *Runner) {
			first, second := runner.Run(t.Context(), 16384, nil), runner.Run(t.Context(), 16384, nil)
			if first.Reason != Reason(inference.ContextOverflow) || second.Reason != ExceedsContext {
				t.Fatalf("%s: %s %s, then %s %s", name, first.Reason, first.Message, second.Reason, second.Message)
			}
			c.change, c.longest = true, 1<<30
			time.Sleep(2 * time.Hour)
			if third := runner.Run(t.Context(), 16384, nil); (len(third.Legs) > 0 || third.Reason == ColdStart) != (name != "nothing changed") {
				t.Errorf("%s: %s %s: %s", name, third.Status, third.Reason, third.Message)
			}
			time.Sleep(triedAgain)
			if last := runner.Run(t.Context(), 16384, nil); last.Status != Accepted {
				t.Errorf("%s: in the end %s %s: %s", name, last.Status, last.Reason, last.Message)
			}
		})
	}
}

// TestMIsNoReasonToGiveARungUp takes fewer decode tokens where those that the wanted error asks for have no room.
func TestMIsNoReasonToGiveARungUp(t *testing.T) {
	e := &execution{Runner: &Runner{facts: inference.Facts{ContextLimit: 8192}, target: Target{Precision: 0.03}}, rung: 8192}
	if m, err := e.fitted(400); err != nil || m != firstDecodeTokens {
		t.Errorf("%d, %v", m, err)
	}
	e.target.DecodeTokens.Default = 400
	if _, err := e.fitted(400); reasonOf(err) != ExceedsContext {
		t.Errorf("a configured number was changed: %v", err)
	}
}
