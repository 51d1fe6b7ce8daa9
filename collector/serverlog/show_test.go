package serverlog

import (
	"strings"
	"testing"
)

// TestForPeople shows what the server alone writes: the time, known words, and numbers behind them.
func TestForPeople(t *testing.T) {
	for line, want := range map[string]string{
		"[2026-07-20 12:00:41 TP0] Decode batch, #running-req: 1, accept len: 4., #queue-req: 0": "2026-07-20 12:00:41 Decode batch … #running-req: 1, accept len: …, #queue-req: 0",
		"Decode batch, #token: 3\x1b[7":                                                                  "Decode batch … #token: …",
		"Finish: obj=GenerateReqInput(text=None, input_ids=[101, 2023, 1996":                             "Finish: obj= …",
		"Finish: obj=GenerateReqInput(text='private')":                                                   "Finish: obj= …",
		"Finish: obj=GenerateReqInput(text=None, input_ids=[5], #token: 7":                               "Finish: obj= …",
		`[12:00:00] {"event": "private"`:                                                                 "12:00:00 …",
		"Decode batch. my neighbour said accept len: oops, #running-req: SEKRETUSERTEXT":                 "Decode batch … accept len: …, #running-req: …",
		"Decode batch, #token: 3 Authorization: Bearer abc.def x":                                        "Decode batch … #token: 3",
		"Decode batch, #token: 3 'accept len: 5":                                                         "Decode batch … #token: 3",
		"SEKRET [SEKRET] draft acceptance = 0.64479 (  167 accepted /   259 generated), mean len =  2.9": "draft acceptance … draft acceptance = 0.64479, mean len = 2.9",
		"slot print_timing: id  0 | task 908 |        eval time = SEKRET":                                "eval time = … eval time = …",
		"nothing known, 101, 2023":                                                                       "…",
		"Decode batch, #token: 4111111111111111, #queue-req: 1":                                          "Decode batch … #token: …, #queue-req: 1",
		"": "…",
		"Decode batch, " + strings.Repeat("#token: 3, ", 100): "Decode batch … " + strings.Repeat("#token: 3, ", 16) + "#token: …",
	} {
		if got := forPeople([]byte(line)); got != want {
			t.Errorf("%q is shown as\n%q, not\n%q", line, got, want)
		}
	}
}

// FuzzForPeople shows no byte of a line but those of known words, times and numbers.
func FuzzForPeople(f *testing.F) {
	f.Add("Decode batch. ", "accept len: oops, #running-req: ")
	f.Add("Finish: obj=", "input_ids=[")
	f.Fuzz(func(t *testing.T, before, after string) {
		const private = "SEKRETUSERTEXT"
		if got := forPeople([]byte(before + private + after)); strings.Contains(got, private) {
			t.Errorf("%q", got)
		}
	})
}
