package sweep

import (
	"bytes"
	"encoding/csv"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"longctx_exporter/prober"
	"longctx_exporter/prober/inference"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldenDocument has every kind of rung.
func goldenDocument() document {
	buffered := acceptedRun(5500)
	buffered.Sample = prober.Sample{
		PromptTokens: 5500, TTFT: 5.3, StepStream: 0.1, DecodeRate: 9.87654321, Isolation: prober.NotKnown, Buffered: true, Method: "two_point", Pairs: 1,
		DecodeTokens: trueDecoded,
	}
	buffered.Plan = prober.Pair
	failed := notAccepted(65536, prober.Failed, prober.Reason(inference.GatewayTimeout), "the gateway gave up after 60 s (504)")
	failed.Plan = prober.Triple
	failed.Legs = []prober.Leg{{
		Run: 1, Kind: "cold", MaxTokens: 1, Response: inference.Response{HTTPStatus: 504, Total: time.Minute},
		ErrorClass: inference.GatewayTimeout, Error: "the gateway gave up after 60 s (504)",
	}}
	rejected := acceptedRun(131072)
	rejected.Status, rejected.Reason = prober.Rejected, prober.Contended
	rejected.Message = "another request ran beside the warm legs | \x1b[31mred\x1b[0m"
	runs := []prober.Run{
		acceptedRun(1024), acceptedRun(4096), buffered, acceptedRun(16384), failed, rejected,
		notAccepted(262144, prober.Skipped, prober.ExceedsContext, "262144 + 33 tokens exceed the server's limit of 200000"),
	}
	d := document{
		Schema: schema, Started: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), ExporterVersion: "1.2.3",
		Target: newTarget(testOptions().Target, seedFacts),
	}
	for _, run := range runs {
		d.Rungs = append(d.Rungs, newRung(run))
	}
	d.Fit = fitLine(d.Rungs)
	return d
}

func TestGolden(t *testing.T) {
	for _, output := range Outputs() {
		t.Run(output, func(t *testing.T) {
			var got bytes.Buffer
			if err := goldenDocument().print(&got, output); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", "sweep."+output)
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s (-want +got; -update writes it anew):\n%s", path, diff)
			}
		})
	}
}

func TestNoControlCharacterReachesATerminal(t *testing.T) {
	evil := "\x1b]0;owned\x07\u202e|x\r\nsecond line\x00" + strings.Repeat("y", 10000)
	run := notAccepted(1024, prober.Failed, prober.Reason(inference.ServerError), evil)
	run.Legs = []prober.Leg{{Kind: "cold", Error: evil, Response: inference.Response{FinishReason: evil}}}
	d := document{Target: newTarget(prober.Target{Name: evil}, inference.Facts{Model: evil, ServerVersion: evil, Speculation: evil}), Rungs: []rung{newRung(run)}}
	for _, output := range Outputs() {
		var b bytes.Buffer
		if err := d.print(&b, output); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\x07\x00\r\u202e") {
			t.Errorf("%s lets control characters through", output)
		}
		if b.Len() > 8000 {
			t.Errorf("%s is %d bytes long for one failed rung", output, b.Len())
		}
	}
}

func TestCSVHasOneRecordARung(t *testing.T) {
	var b bytes.Buffer
	d := goldenDocument()
	if err := d.print(&b, outputCSV); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(records) != len(d.Rungs)+1 {
		t.Errorf("%d records for %d rungs", len(records), len(d.Rungs))
	}
}

func TestUnits(t *testing.T) {
	for _, test := range []struct {
		got, want string
	}{
		{seconds(126.3), "126.3 s"},
		{seconds(2.021), "2.021 s"},
		{seconds(0.0598), "59.80 ms"},
		{seconds(0.00045), "0.450 ms"},
		{seconds(0.9999), "999.9 ms"},
		{seconds(-0.0598), "-59.80 ms"},
		{secondsWithin(2.021, []float64{2.001, 2.043}), "2.021 ± 0.021 s"},
		{secondsWithin(0.144, []float64{0.142, 0.146}), "144.0 ± 2.0 ms"},
		{secondsWithin(0.144, nil), "144.0 ms"},
		{digits(103780, 103780), "103780"},
		{fit{0.0598, 1.4955e-5, 9}.String(), "step = 59.80 ms + 14.96 ms per 1,000 tokens of context (9 rungs)"},
		{fit{0.0598, -1.4955e-5, 3}.String(), "step = 59.80 ms - 14.96 ms per 1,000 tokens of context (3 rungs)"},
		{clean("  a\tb\nc ", 10), "a b c"},
		{clean("abcdef", 3), "abc…"},
	} {
		if test.got != test.want {
			t.Errorf("got %q, want %q", test.got, test.want)
		}
	}
}
