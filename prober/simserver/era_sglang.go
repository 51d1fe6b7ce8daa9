package simserver

// When SGLang's answers and endpoints had what. What its log lines had stands in log_sglang.go, its metrics in
// sglang_metrics.go.
const (
	sglangVerifyCount   period = "2025-01-26/"           // spec_verify_ct
	sglangSpecRates     period = "2025-10-13/"           // spec_accept_rate, spec_accept_length
	sglangSpecZero      period = "2025-10-13/2026-01-01" // also for requests without a verify pass
	sglangTokenNums     period = "2025-11-15/2026-04-28" // spec_accept_token_num, spec_draft_token_num
	sglangDraftNames    period = "2026-04-28/"           // spec_accepted_drafts, spec_proposed_drafts; aliases later
	sglangCorrectNames  period = "2026-05-11/"           // spec_num_correct_drafts and its like
	sglangHistogram     period = "2026-02-12/"           // spec_accept_histogram; an alias later
	sglangMetaInfo      period = "2026-06-03/"           // return_meta_info on chat
	sglangExtension     period = "2026-08-24/"           // return_spec_tokens_details
	sglangOldTimes      period = "2025-11-05/2026-02-01" // request_sent_to_scheduler_ts and its like
	sglangTimes         period = "2026-02-01/"           // forward_entry_time and its like
	sglangModelLimit    period = "2025-03-27/"           // max_model_len
	sglangStates        period = "2025-05-12/"           // internal_states, what they hold stood at the top before
	sglangInfoPaths     period = "2025-11-17/"           // /server_info, /model_info
	sglangTokenize      period = "2025-10-08/"           //
	sglangLoads         period = "2026-01-14/"           //
	sglangSalts         period = "2025-09-22/"           // cache_salt, extra_key
	sglangOvershoot     period = "/2025-10-19"           // the last verify pass is not cut
	sglangContinuous    period = "2025-10-29/"           // continuous_usage_stats
	sglangUsageApart    period = "2025-06-21/"           // streamed usage in a chunk of its own
	sglangHeadWithToken period = "2026-04-01/"           // streams of the OpenAI endpoints open with the first token
)

// specFields are the speculation facts of a request that has ended, under the names of the era. The accept length is
// SGLang's own: the prefill token counts, and the last step is cut.
func (s sglang) specFields(j *job) object {
	v, steps, correct := s.era, j.verifyPasses(), j.correctDrafts()
	o := object{}
	if s.config.Profile.Algorithm == "" || !v.has(sglangVerifyCount) || steps == 0 && !v.has(sglangSpecZero) {
		return o
	}
	proposed := steps * (s.config.Profile.BlockSize() - 1)
	o["spec_verify_ct"] = steps
	if v.has(sglangSpecRates) {
		o["spec_accept_rate"], o["spec_accept_length"] = ratio(correct, proposed), ratio(len(j.output), steps)
	}
	if steps == 0 {
		return o
	}
	if v.has(sglangTokenNums) {
		o["spec_accept_token_num"], o["spec_draft_token_num"] = correct, proposed
	}
	if v.has(sglangDraftNames) {
		o["spec_accepted_drafts"], o["spec_proposed_drafts"] = correct, proposed
	}
	if v.has(sglangHistogram) {
		o["spec_accept_histogram"] = j.histogram()
	}
	if v.has(sglangCorrectNames) {
		o["spec_num_correct_drafts"], o["spec_num_proposed_drafts"] = correct, proposed
		o["spec_correct_drafts_histogram"] = j.histogram()
	}
	return o
}

// addTimes puts in when things happened, which SGLang tells where metrics are on.
func (s sglang) addTimes(m object, j *job, completion int, final bool) {
	if s.config.Options.NoMetrics {
		return
	}
	span := 0.0
	if final { // until then the engine may be setting it
		span = j.finished.Sub(j.firstToken).Seconds()
	}
	switch {
	case s.era.has(sglangTimes):
		m["queue_time"] = secondsBetween(j.received, j.scheduled)
		m["forward_entry_time"], m["prefill_finished_time"] = unix(j.scheduled), unix(j.firstToken)
		m["request_received_ts"], m["api_server_dispatch_finish_ts"] = unix(j.received), unix(j.received)
		m["response_sent_to_client_ts"] = unix(j.firstToken)
		if final {
			m["request_finished_ts"] = unix(j.finished)
			if span > 0 {
				m["decode_throughput"] = float64(completion-1) / span
			}
		}
	case s.era.has(sglangOldTimes):
		m["request_received_ts"], m["request_sent_to_scheduler_ts"] = unix(j.received), unix(j.received)
		m["prefill_finished_ts"] = unix(j.firstToken)
		if final {
			m["decode_finished_ts"], m["inference_time"] = unix(j.finished), secondsBetween(j.scheduled, j.finished)
			if span > 0 {
				m["decode_throughput"] = float64(completion) / span
			}
		}
	}
}
