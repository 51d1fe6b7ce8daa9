package endtoend_test

import (
	"fmt"
	"strings"
	"testing"

	"longctx_exporter/prober/simserver"
)

// target is a simulated server, and how it is probed.
type target struct {
	name, profile, shape string
	scale                float64 // how many times faster than life; steps of some 20 ms stand out of what a busy machine adds
	ladder               []int   // tokens
	tooLong              int     // a rung that the server refuses; 0 for none
	slopeBefore          float64 // the slope of its step time in the week before, in parts of what it is now
}

// targets are servers of three kinds, with and without speculation. On one the slope doubled. Its lengths lie where each alert either must fire
// or is far from it; see slopeDoubled.
func targets() []target {
	far, near := []int{512, 1024, 14336, 16384, 18432}, []int{1024, 2048, 3072, 4096, 6144}
	return []target{
		{name: "regressed", profile: "kimi-k2.6-ddtree", shape: "sglang", scale: 5, ladder: far, tooLong: 256 * 1024, slopeBefore: 0.5},
		{name: "steady", profile: "kimi-k2.6-ddtree", shape: "sglang", scale: 5, ladder: far, slopeBefore: 1},
		{name: "plain", profile: "dense-nospec", shape: "vllm", scale: 2, ladder: near, slopeBefore: 1},
		{name: "slots", profile: "dense-nospec", shape: "llamacpp", scale: 2, ladder: near, slopeBefore: 1},
	}
}

// opened is the target whose dashboard is looked at: it has everything, trouble too.
const opened = "regressed"

// slopeDoubled are the alerts of a target whose slope doubled, as its physics say. Where its step was a + b·L it is a + 2b·L now:
// those of 14k, 16k and 18k take 1.64, 1.67 and 1.70 times as long as before, those of 0.5k and 1k no 5 ms more. Three lengths
// above 1.5 are what the wide alert is for, so it must fire as well.
func slopeDoubled() []string {
	return []string{
		"LongCtxStepSlopeGrowth regressed", "LongCtxStepTimeGrowthWide regressed",
		"LongCtxStepTimeGrowth regressed 14k", "LongCtxStepTimeGrowth regressed 16k", "LongCtxStepTimeGrowth regressed 18k",
	}
}

// configuration is the exporter's.
func configuration(urls, logs map[string]string) string {
	var text strings.Builder
	text.WriteString("budget: 100%\ndecode_tokens: 48\nintervals: {default: 15s}\ntargets:\n")
	for _, t := range targets() {
		ladder := t.ladder
		if t.tooLong > 0 {
			ladder = append(ladder, t.tooLong)
		}
		fmt.Fprintf(&text, "  - {name: %s, url: '%s', ladder: [%s], slo: {ttft: {default: 10s}, step: {default: 2s}}, logs: [{path: %s}]}\n",
			t.name, urls[t.name], strings.Trim(strings.ReplaceAll(fmt.Sprint(ladder), " ", ","), "[]"), logs[t.name])
	}
	return text.String()
}

// week is what the physics say that the exporter showed of a target in the week before: values by series.
func (g target) week(t *testing.T) map[series]float64 {
	t.Helper()
	p, err := simserver.ProfileByName(g.profile)
	if err != nil {
		t.Fatal(err)
	}
	slope := p.StepSlope * g.slopeBefore
	of := map[string]string{"target": g.name, "model": "default"}
	values := map[series]float64{
		before("longctx_step_slope_seconds_per_token", of): slope / g.scale,
		before("longctx_step_intercept_seconds", of):       p.StepBase / g.scale,
		before("longctx_step_fit_rungs", of):               float64(len(g.ladder)),
	}
	for _, tokens := range g.ladder {
		length := float64(tokens)
		step := (p.StepBase + slope*length) / g.scale
		first := (p.PrefillSeconds(tokens) + p.ResidualSeconds) / g.scale
		accept := p.AcceptMean(tokens)
		of["context"], of["rung"] = fmt.Sprint(tokens), fmt.Sprintf("%gk", length/1024)
		for name, v := range map[string]float64{
			"longctx_probe_prompt_tokens": length, "longctx_rung_reachable": 1,
			"longctx_step_seconds": step, "longctx_step_confirmed_seconds": step, "longctx_step_expected_seconds": step,
			"longctx_ttft_seconds": first, "longctx_ttft_confirmed_seconds": first,
			"longctx_prefill_tokens_per_second": length / first, "longctx_prefill_confirmed_tokens_per_second": length / first,
			"longctx_accept_length": accept, "longctx_accept_confirmed_length": accept,
			"longctx_decode_tokens_per_second": accept / step,
		} {
			values[before(name, of)] = v
		}
	}
	return values
}
