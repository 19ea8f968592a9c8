// SPDX-License-Identifier: Apache-2.0
#include "sim/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"

namespace inflight {

const char* to_string(ExplainedKind kind) {
  constexpr std::array kNames = {"arrived",   "waited",    "prefilled", "decoded", "rested",
                                 "preempted", "cancelled", "finished",  "held"};
  return kNames[static_cast<size_t>(kind)];
}

namespace {

// In words, with what can be done about it.
std::string reason_text(AdmissionResult result, bool looked_at, const Refusal& refusal) {
  const std::string name = to_string(result);
  switch (result) {
    case AdmissionResult::NoSpace:
      return name + ": max_num_seqs are running";
    case AdmissionResult::NoTokenBudget:
      return name + ": the step's tokens went to others (max_num_batched_tokens)";
    case AdmissionResult::NoInputBudget:
      return name + ": the step's prompt tokens went to others (max_prefill_tokens)";
    case AdmissionResult::OutOfMemory:
      if (!looked_at) return name + ": others before it do not fit, or somebody had to be preempted";
      return fmt::format("{}: wants {} KV blocks, {} can be had{}", name, refusal.wanted_blocks,
                         refusal.available_blocks,
                         refusal.wanted_blocks > refusal.available_blocks
                             ? ""
                             : ", of which output to come needs some (schedule_conservativeness, kv_headroom)");
    case AdmissionResult::NoAdapter:
      return name + ": max_loras other adapters run";
    case AdmissionResult::NotReady:
      return name + ": another request is computing what it shares";
    case AdmissionResult::Policy:
      return name + ": the policy or the batching mode admits nobody now";
    case AdmissionResult::Accepted:
      return "not looked at in this step";
  }
  return name;
}

class Explainer {
 public:
  // first: the sequence of the request's first choice.
  Explainer(SequenceId sequence, SequenceId first, int32_t prompt_tokens)
      : sequence_(sequence), first_(first), prompt_tokens_(prompt_tokens), waits_for_first_(sequence != first) {}

  void apply(const TraceRecord& record) {
    time_ = record.time;
    std::visit([this](const auto& content) { apply(content); }, record.content);
  }
  // held: no request may begin at the time.
  void add_arrival(TimeNs time, const std::string& text, bool held) {
    time_ = time;
    held_ = held;
    add(ExplainedKind::Arrived, 0, text);
    if (held_) add_held(0);
  }
  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] std::vector<ExplainedLine> take() {
    for (ExplainedLine& line : lines_) {
      if (line.kind == ExplainedKind::Prefilled || line.kind == ExplainedKind::Decoded) {
        const std::string guesses =
            line.guessed_tokens == 0 ? "" : fmt::format(", {} of them guessed", line.guessed_tokens);
        line.text = fmt::format("computed {} token{}{}, {} in all", line.computed_tokens,
                                line.computed_tokens == 1 ? "" : "s", guesses, line.text);
      }
    }
    return std::move(lines_);
  }

 private:
  void apply(const TraceBegin&) {}
  void apply(const TraceTrial&) {}
  void apply(const TracePolicy&) {}
  void apply(const TraceParameters&) {}
  void apply(const TraceLimits&) {}
  void apply(const TraceHold& hold) {
    if (!begun_ && (held_ || hold.holds)) add_held(0);
    held_ = hold.holds;
  }
  void apply(const TraceResetPrefixCache&) {}
  void apply(const TraceCommit& commit) {
    if (commit.step == first_token_step_) waits_for_first_ = false;
  }
  void apply(const TraceAdd&) {}
  void apply(const TraceCancel& cancel) {
    if (cancel.sequence == sequence_) add(ExplainedKind::Cancelled, 0, fmt::format("by {}", to_string(cancel.reason)));
  }
  void apply(const TraceFinish& finish) {
    if (finish.sequence == first_) waits_for_first_ = false;
    if (finish.sequence != sequence_) return;
    add(ExplainedKind::Finished, 0, to_string(finish.reason));
    ended_ = true;
  }
  void apply(const TracePlan& plan) {
    for (const Preemption& preemption : plan.preemptions) {
      if (preemption.sequence != sequence_) continue;
      running_ = false;
      add(ExplainedKind::Preempted, plan.step,
          preemption.swapped_blocks > 0
              ? fmt::format("{} KV blocks go to host memory", preemption.swapped_blocks)
              : fmt::format("{} computed tokens are lost; what is not stored then is computed again",
                            preemption.lost_tokens));
    }
    for (const TracePlan::Entry& entry : plan.entries) {
      begun_ = begun_ || entry.sequence == first_;
      if (entry.sequence == first_ && entry.computed + entry.scheduled >= prompt_tokens_ && first_token_step_ == 0) {
        first_token_step_ = plan.step;
      }
      if (entry.sequence != sequence_) continue;
      running_ = true;
      // Tokens lost before lie behind the newest one; what is computed together with that are guesses.
      const bool decodes = entry.computed >= prompt_tokens_ && entry.computed + 1 >= known_tokens_;
      const int32_t guesses = decodes ? entry.scheduled - 1 : 0;
      known_tokens_ = std::max(known_tokens_, entry.computed + 1);
      add(decodes ? ExplainedKind::Decoded : ExplainedKind::Prefilled, plan.step,
          std::to_string(entry.computed + entry.scheduled - guesses), entry.scheduled);
      lines_.back().guessed_tokens += guesses;
      return;
    }
    if (running_) {
      add(ExplainedKind::Rested, plan.step, "had no part in the step");
      return;
    }
    if (held_ && !begun_) return add_held(plan.step);
    if (waits_for_first_) {
      const AdmissionResult result = AdmissionResult::NotReady;
      return add(ExplainedKind::Waited, plan.step,
                 fmt::format("{}: the first choice computes the prompt for all", to_string(result)), 0, result);
    }
    const auto refusal = std::ranges::find(plan.refusals, sequence_, &Refusal::sequence);
    const bool looked_at = refusal != plan.refusals.end();
    const AdmissionResult result = looked_at ? refusal->result : plan.pass_end;
    add(ExplainedKind::Waited, plan.step, reason_text(result, looked_at, looked_at ? *refusal : Refusal{}), 0, result);
  }

  void add_held(uint64_t step) { add(ExplainedKind::Held, step, "new requests are paused (inflight_engine_pause)"); }

  // Joins what repeats: waiting for the same reason, computing in the same way.
  void add(ExplainedKind kind, uint64_t step, const std::string& text, int32_t tokens = 0,
           AdmissionResult result = AdmissionResult::Accepted) {
    const bool computes = kind == ExplainedKind::Prefilled || kind == ExplainedKind::Decoded;
    if (!lines_.empty()) {
      ExplainedLine& last = lines_.back();
      const bool same =
          last.kind == kind && last.result == result &&
          (computes || kind == ExplainedKind::Waited || kind == ExplainedKind::Rested || kind == ExplainedKind::Held);
      if (same) {
        last.end = time_;
        if (last.first_step == 0) last.first_step = step;
        last.last_step = std::max(last.last_step, step);
        last.computed_tokens += tokens;
        last.text = text;
        return;
      }
    }
    lines_.push_back({kind, time_, time_, step, step, tokens, 0, result, text});
  }

  SequenceId sequence_, first_;
  int32_t prompt_tokens_;
  int32_t known_tokens_ = 0;       // up to the newest one that was computed
  bool waits_for_first_;           // until that one has its first token
  uint64_t first_token_step_ = 0;  // the step that gives it; 0: not planned yet
  TimeNs time_ = 0;
  bool running_ = false, held_ = false, ended_ = false;
  bool begun_ = false;  // the first choice has been in a step
  std::vector<ExplainedLine> lines_;
};

[[noreturn]] void not_there(std::span<const TraceRecord> records, uint64_t request, int32_t choice) {
  uint64_t first = std::numeric_limits<uint64_t>::max(), last = 0;
  for (const TraceRecord& record : records) {
    const auto* const add = std::get_if<TraceAdd>(&record.content);
    if (add == nullptr) continue;
    if (to_integer(add->request.id) == request) {
      fail(ErrorCode::NotFound, "request {} has no answer {}, allowed: 0 to {}", request, choice,
           add->request.sampling.choice_count() - 1);
    }
    first = std::min(first, to_integer(add->request.id));
    last = std::max(last, to_integer(add->request.id));
  }
  if (last == 0) fail(ErrorCode::NotFound, "request {} is not in the trace: it holds no arrivals", request);
  fail(ErrorCode::NotFound, "request {} is not in the trace{}; the first is {}, the last {}", request,
       request > first && request < last ? " (it ended before it was scheduled)" : "", first, last);
}

}  // namespace

Explanation explain_request(std::span<const TraceRecord> records, uint64_t request, int32_t choice) {
  const auto arrival = std::ranges::find_if(records, [&](const TraceRecord& record) {
    const auto* const add = std::get_if<TraceAdd>(&record.content);
    return add != nullptr && to_integer(add->request.id) == request && choice >= 0 &&
           choice < add->request.sampling.choice_count();
  });
  if (arrival == records.end()) not_there(records, request, choice);
  const auto& add = std::get<TraceAdd>(arrival->content);
  bool held = false;
  for (auto it = records.begin(); it != arrival; ++it) {
    if (const auto* const hold = std::get_if<TraceHold>(&it->content)) held = hold->holds;
  }
  Explainer explainer(static_cast<SequenceId>(to_integer(add.sequence) + static_cast<uint64_t>(choice)), add.sequence,
                      add.prompt_token_count);
  explainer.add_arrival(arrival->time,
                        fmt::format("{} prompt tokens, max_tokens {}, priority {}, tenant {}", add.prompt_token_count,
                                    add.request.sampling.max_tokens, add.request.priority, add.request.tenant),
                        held);
  for (auto it = arrival + 1; it != records.end() && !explainer.ended(); ++it) explainer.apply(*it);
  return {.request = request, .choice = choice, .lines = explainer.take()};
}

}  // namespace inflight
