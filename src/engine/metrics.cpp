// SPDX-License-Identifier: Apache-2.0
#include "engine/metrics.h"

#include <algorithm>

#include "engine/prometheus_text.h"

namespace inflight {

namespace {

constexpr double kLatencyBounds[] = {1e-6,   2.5e-6, 5e-6, 1e-5,  2.5e-5, 5e-5,  1e-4,  2.5e-4, 5e-4, 1e-3,
                                     2.5e-3, 5e-3,   0.01, 0.025, 0.05,   0.1,   0.25,  0.5,    1.0,  2.5,
                                     5.0,    10.0,   25.0, 50.0,  100.0,  250.0, 500.0, 1000.0};
constexpr double kCountBounds[] = {0,   1,    2,    4,    8,    16,    32,    64,    128,    256,
                                   512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 1048576};

void histogram(PrometheusText& out, std::string_view name, std::string_view help, const Histogram& values) {
  out.histogram(name, help, values.bounds(), values.counts(), values.sum());
}

double share(double part, double whole) { return whole > 0 ? part / whole : 0.0; }

void write_requests(PrometheusText& out, const EngineStats& stats, TimeNs now) {
  const double running = stats.running, waiting = stats.waiting;
  out.gauge("num_requests_running", "Sequences in the running batch.");
  out.sample(running);
  out.gauge("num_requests_waiting", "Sequences that wait to be scheduled, preempted ones included.");
  out.sample(waiting);
  out.gauge("num_requests_compiling", "Of the waiting sequences, those whose grammar is being compiled.");
  out.sample(stats.compiling);
  out.gauge("batch_occupancy_perc", "Running sequences by max_num_seqs; 1 is full.");
  out.sample(share(running, stats.max_num_seqs));
  out.gauge("num_queued_tokens", "Prompt tokens of sequences that were never scheduled.");
  out.sample(static_cast<double>(stats.queued_tokens));
  out.gauge("request_arrival_rate",
            "Sequences asked for, those of rejected requests too, a second, over the last 30 seconds.");
  out.sample(stats.arrivals.per_second(now));
  out.gauge("request_service_rate", "Sequences that ended, a second, over the last 30 seconds.");
  out.sample(stats.departures.per_second(now));
  out.gauge("saturated", "1 while sequences wait and are asked for faster than they end, over the last 30 seconds.");
  out.sample(stats.saturated(now) ? 1 : 0);
  out.counter("num_requests_total", "Sequences submitted: one for each answer asked for.");
  out.sample(static_cast<double>(stats.scheduler.requests_added));
  out.counter("admission_rejections_total", "Requests refused at submit.");
  for (size_t i = 0; i < kRejectReasonCount; ++i) {
    out.sample(static_cast<double>(stats.rejections[i]), {{"reason", to_string(static_cast<RejectReason>(i))}});
  }
  out.counter("request_deadline_expired_total", "Requests ended because a deadline had passed.");
  out.sample(static_cast<double>(stats.expired));
  out.counter("admission_results_total", "What became of waiting sequences that were looked at, one result a step.");
  for (size_t i = 0; i < kAdmissionResultCount; ++i) {
    out.sample(static_cast<double>(stats.scheduler.admissions[i]),
               {{"result", to_string(static_cast<AdmissionResult>(i))}});
  }
}

void write_tokens(PrometheusText& out, const SchedulerStats& stats) {
  const auto counter = [&out](const char* name, const char* help, int64_t value) {
    out.counter(name, help);
    out.sample(static_cast<double>(value));
  };
  counter("prompt_tokens_total", "Prompt tokens of admitted sequences.", stats.prompt_tokens);
  counter("generation_tokens_total", "Output tokens.", stats.output_tokens);
  counter("forced_tokens_total", "Of these, known without drawing them: a grammar left no choice.",
          stats.forced_tokens);
  counter("spec_decode_num_drafts_total", "Times that tokens of a sequence were guessed.", stats.drafts);
  counter("spec_decode_num_draft_tokens_total", "Tokens guessed.", stats.draft_tokens);
  counter("spec_decode_num_accepted_tokens_total", "Of these, tokens that were what was drawn.", stats.accepted_tokens);
  counter("prefix_cache_queries_total", "Prompt tokens looked up among stored KV blocks.", stats.prompt_tokens);
  counter("prefix_cache_hits_total", "Of these, tokens found.", stats.cached_tokens);
  counter("host_prefix_cache_hits_total", "Of these, tokens copied back from host memory.", stats.host_cached_tokens);
  counter("prompt_tokens_cached_total", "Prompt tokens served from stored KV blocks.", stats.cached_tokens);
  counter("prompt_tokens_recomputed_total", "Tokens computed again after a preemption.", stats.recomputed_tokens);
  counter("scheduled_tokens_total", "Tokens computed, recomputed ones included.", stats.scheduled_tokens);
  counter("attended_tokens_total", "Query-key pairs attended to, a layer and head.", stats.attended_tokens);
  counter("scheduler_steps_total", "Steps planned and submitted.", stats.steps);
  counter("slot_steps_total", "Steps times max_num_seqs.", stats.slot_steps);
  counter("used_slot_steps_total", "Of these, sequences that were computed.", stats.used_slot_steps);
  counter("num_preemptions_total", "Preemptions.", stats.preemptions);
  counter("thrashing_steps_total", "Steps planned while the recompute tax was too high.", stats.thrashing_steps);
}

void write_memory(PrometheusText& out, const EngineStats& stats, const MetricsInfo& info) {
  out.gauge("kv_cache_usage_perc", "KV blocks that sequences refer to, by all blocks; 1 is full.");
  out.sample(share(stats.blocks_referenced, stats.blocks_total));
  out.gauge("kv_blocks", "KV blocks by state: free, stored (kept for its contents), referenced.");
  out.sample(stats.blocks_free, {{"state", "free"}});
  out.sample(stats.blocks_stored, {{"state", "stored"}});
  out.sample(stats.blocks_referenced, {{"state", "referenced"}});
  out.gauge("cache_config_info", "The KV storage: block_size tokens a block, block_bytes bytes a block.");
  out.sample(1, {{"block_size", std::to_string(info.block_size)},
                 {"num_blocks", std::to_string(stats.blocks_total)},
                 {"block_bytes", std::to_string(info.block_bytes)},
                 {"cache_dtype", info.kv_cache_dtype}});
  out.counter("kv_blocks_evicted_total", "Stored KV blocks given up.");
  out.sample(static_cast<double>(stats.evicted_blocks));
  const auto bytes = [&info](int64_t blocks) {
    return static_cast<double>(blocks) * static_cast<double>(info.block_bytes);
  };
  out.counter("kv_swap_blocks_total", "KV blocks copied to host memory (out) and back (in).");
  out.sample(static_cast<double>(stats.scheduler.swapped_out_blocks), {{"direction", "out"}});
  out.sample(static_cast<double>(stats.scheduler.swapped_in_blocks), {{"direction", "in"}});
  out.counter("kv_swap_bytes_total", "The same in bytes.");
  out.sample(bytes(stats.scheduler.swapped_out_blocks), {{"direction", "out"}});
  out.sample(bytes(stats.scheduler.swapped_in_blocks), {{"direction", "in"}});
  out.counter("kv_offload_blocks_total", "KV blocks of evicted prefixes copied to host memory (out) and back (in).");
  out.sample(static_cast<double>(stats.scheduler.offloaded_blocks), {{"direction", "out"}});
  out.sample(static_cast<double>(stats.scheduler.restored_blocks), {{"direction", "in"}});
}

void write_engine(PrometheusText& out, const EngineStats& stats) {
  out.counter("engine_seconds_total", "The engine thread's time by stage; the stages sum up to its life.");
  const EngineTimes& times = stats.engine_times;
  const auto stage = [&out](const char* name, TimeNs time) {
    out.sample(static_cast<double>(time) * 1e-9, {{"stage", name}});
  };
  stage("commands", times.commands);
  stage("plan", times.step.plan);
  stage("submit", times.step.submit);
  stage("wait", times.step.wait);
  stage("commit", times.step.commit);
  stage("deliver", times.deliver);
  stage("idle", times.idle);
  const auto gauge = [&out](const char* name, const char* help, double value) {
    out.gauge(name, help);
    out.sample(value);
  };
  gauge("new_token_ratio", "Share of the possible output of running sequences that admission keeps room for.",
        stats.new_token_ratio);
  gauge("recompute_tax", "Share of the last steps' tokens that were computed before and lost by preemption.",
        stats.recompute_tax);
  gauge("thrash", "1 while the recompute tax is too high and admission holds back.", stats.thrashing ? 1 : 0);
  gauge("engine_healthy", "0 when the engine has failed or a step hangs.", stats.failed || stats.hung ? 0 : 1);
  gauge("engine_paused", "1 while the engine is paused.", stats.paused ? 1 : 0);
  gauge("engine_draining", "1 while no request is taken in any more.", stats.draining ? 1 : 0);
  out.counter("policy_strikes_total", "Wrong or late answers of loaded policies.");
  out.sample(static_cast<double>(stats.policy_strikes));
  out.gauge("policy_active", "1 while the policy in force decides, 0 after it was taken out: a built-in goes on.");
  out.sample(stats.schedule_active ? 1 : 0, {{"kind", "schedule"}});
  out.sample(stats.eviction_active ? 1 : 0, {{"kind", "eviction"}});
}

}  // namespace

std::span<const double> EngineMetrics::latency_bounds() { return kLatencyBounds; }
std::span<const double> EngineMetrics::count_bounds() { return kCountBounds; }

void Histogram::observe(double value) {
  const auto bucket = static_cast<size_t>(std::ranges::lower_bound(bounds_, value) - bounds_.begin());
  counts_[bucket].store(counts_[bucket].load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  sum_.store(sum_.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
}

std::vector<int64_t> Histogram::counts() const {
  std::vector<int64_t> result;
  for (size_t i = 0; i <= bounds_.size(); ++i) result.push_back(counts_[i].load(std::memory_order_relaxed));
  return result;
}

void EngineMetrics::on_request(const Request& request, int32_t max_model_len) {
  const double room = max_model_len - static_cast<double>(request.prompt.size());
  max_tokens_.observe(std::min<double>(request.sampling.max_tokens, room));
  choices_.observe(request.sampling.n);
}

void EngineMetrics::on_first_token(const Sequence& sequence) {
  time_to_first_token_.observe(seconds(sequence.first_token_time - sequence.request.arrival));
}

void EngineMetrics::on_step(int64_t scheduled_tokens, TimeNs scheduling) {
  iteration_tokens_.observe(static_cast<double>(scheduled_tokens));
  schedule_time_.observe(seconds(scheduling));
}

void EngineMetrics::count_ended(FinishReason reason, int64_t sequences) {
  finished_[static_cast<size_t>(reason)].fetch_add(sequences, std::memory_order_relaxed);
}

void EngineMetrics::on_finish(const Sequence& sequence, FinishReason reason, TimeNs now) {
  count_ended(reason, 1);
  const Request& request = sequence.request;
  const bool whole = reason == FinishReason::Stop || reason == FinishReason::Length;
  // To the last token, so that queue + prefill + decode = end to end, exactly.
  e2e_latency_.observe(seconds((whole ? sequence.last_token_time : now) - request.arrival));
  prompt_tokens_.observe(sequence.prompt_token_count);
  generation_tokens_.observe(sequence.output_token_count());
  preemptions_.observe(sequence.preemption_count);
  if (sequence.first_scheduled_time == kNotYet) return;
  queue_time_.observe(seconds(sequence.first_scheduled_time - request.arrival));
  if (sequence.first_token_time == kNotYet) return;
  prefill_time_.observe(seconds(sequence.first_token_time - sequence.first_scheduled_time));
  inference_time_.observe(seconds(sequence.last_token_time - sequence.first_scheduled_time));
  const TimeNs decode = sequence.last_token_time - sequence.first_token_time;
  decode_time_.observe(seconds(decode));
  const int32_t gaps = sequence.output_token_count() - 1;
  if (gaps > 0) time_per_output_token_.observe(seconds(decode) / gaps);
}

std::string EngineMetrics::text(const EngineStats& stats, TimeNs now, std::string_view prefix) const {
  const MetricLabel model[] = {{"model_name", info_.model_name}};
  PrometheusText out(prefix, std::span(model).first(info_.model_name.empty() ? 0 : 1));
  write_requests(out, stats, now);
  write_tokens(out, stats.scheduler);
  write_memory(out, stats, info_);
  write_engine(out, stats);
  out.counter("request_success_total", "Sequences that ended, by reason.");
  for (size_t i = 1; i < std::size(finished_); ++i) {
    out.sample(static_cast<double>(finished_[i].load(std::memory_order_relaxed)),
               {{"finished_reason", to_string(static_cast<FinishReason>(i))}});
  }
  histogram(out, "time_to_first_token_seconds", "From arrival to the first token.", time_to_first_token_);
  histogram(out, "inter_token_latency_seconds", "Between two tokens of a sequence, each gap.", inter_token_);
  histogram(out, "request_time_per_output_token_seconds", "Mean gap between a sequence's tokens, one a sequence.",
            time_per_output_token_);
  histogram(out, "e2e_request_latency_seconds", "From arrival to the last token.", e2e_latency_);
  histogram(out, "request_queue_time_seconds", "From arrival to the first step.", queue_time_);
  histogram(out, "request_prefill_time_seconds", "From the first step to the first token.", prefill_time_);
  histogram(out, "request_decode_time_seconds", "From the first to the last token.", decode_time_);
  histogram(out, "request_inference_time_seconds", "From the first step to the last token.", inference_time_);
  histogram(out, "request_prompt_tokens", "Prompt tokens of a sequence.", prompt_tokens_);
  histogram(out, "request_generation_tokens", "Output tokens of a sequence.", generation_tokens_);
  histogram(out, "request_num_preemptions", "Preemptions of a sequence.", preemptions_);
  histogram(out, "request_params_max_tokens", "max_tokens of a request.", max_tokens_);
  histogram(out, "request_params_n", "n of a request.", choices_);
  histogram(out, "iteration_tokens_total", "Tokens computed in a step.", iteration_tokens_);
  histogram(out, "kv_swap_seconds",
            "Device time a step for copying KV blocks to and from host memory, offloaded ones too.", swap_time_);
  histogram(out, "scheduler_step_seconds", "Host time to plan and commit a step.", schedule_time_);
  return out.take();
}

}  // namespace inflight
