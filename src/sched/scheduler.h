// SPDX-License-Identifier: Apache-2.0
// Sequences to batch plans: iteration-level scheduling with chunked prefill over paged KV blocks. Pure: no device, no
// clock, no threads; time comes in as an argument. The live engine and the simulator run this very class.
//
// A step:  plan(now)  ->  the executor computes  ->  commit(result, now).  plan() reads the policy's wishes, gives
// every decoding sequence its token, then fills the token budget with prompts in progress, then admits waiting
// sequences. commit() appends the sampled tokens and ends what is finished. With overlap, plan() is called again before
// commit(): tokens not read yet count as known, their ids stay on the device.
//
// Invariants, checked by check_invariants() and by the executor's oracle in tests/sim:
//   I1 every block is free, referenced or stored, and the counts sum up     I2 block tables' references = the pool's
//   I3 computed <= known tokens                                             I4 a plan keeps its budget and limits
//   I5 whoever is admitted finishes (see scheduler_preemption.cpp)
// THREAD: the engine thread only.   Sources: vLLM V1's scheduler (tokens instead of phases), Sarathi-Serve (decodes
// first, stall-free chunks), Orca (iteration-level scheduling).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/host_tier.h"
#include "cache/kept_states.h"
#include "cache/kv_blocks.h"
#include "core/attended_tokens.h"
#include "core/batch_plan.h"
#include "core/executor.h"
#include "core/step_result.h"
#include "sched/latency_model.h"
#include "sched/new_token_ratio.h"
#include "sched/output_estimator.h"
#include "sched/prefix_watch.h"
#include "sched/recompute_tax.h"
#include "sched/schedule_policy.h"
#include "sched/scheduler_config.h"
#include "sched/scheduler_output.h"
#include "sched/sequence.h"
#include "sched/trace.h"
#include "sched/waiting_list.h"

namespace inflight {

class CarriedSteps;

class Scheduler {
 public:
  // `blocks` and `policy` are borrowed and must outlive the scheduler (or be replaced with set_policy()).
  Scheduler(const SchedulerConfig& config, KvBlocks& blocks, SchedulePolicy& policy);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  ~Scheduler();

  // The request waits from now on. Returns the slot of its first choice; the slots of the others follow by
  // Sequence::next_choice_slot. Slots name sequences in outputs.
  // REQUIRES: no id twice; 1 <= prompt tokens < max_model_len; max_requests sequences are not exceeded.
  int32_t add(Request request, TimeNs now);

  // Ends a request wherever it is, all choices; its blocks can be had at once. False: it is not here (any more).
  bool cancel(RequestId request, FinishReason reason, TimeNs now);
  // Ends one choice.  False: it is not here (any more).
  bool cancel_choice(RequestId request, int32_t choice, FinishReason reason, TimeNs now);

  // Decides the next step. A plan that is not empty must be submitted and its result committed, in order; at most
  // Executor::kStepsInFlightMax plans may be uncommitted, with speculative decoding one.
  // LIFETIME: valid until the next call of any non-const function.
  const BatchPlan& plan(TimeNs now);

  // When the last plan() was empty: the time at which it will not be, if nothing else happens; nullopt = never.
  [[nodiscard]] std::optional<TimeNs> wake_time() const { return wake_time_; }

  // Takes the result of the oldest uncommitted plan. Results of sequences that have left are dropped.
  void commit(const StepResult& result, TimeNs now);

  // As many steps as only carry every running sequence one token further, at once (sched/carried_steps.h): what plan()
  // and commit() would have done, without their plans and outputs. Returns the steps; 0: something may be decided next.
  // At most one plan may be uncommitted; its result is then that of the last step.
  int64_t carry_on(CarriedSteps& steps);

  [[nodiscard]] SchedulerOutput& output() { return output_; }

  // Receives every event from now on; null = none.  LIFETIME: borrowed.
  void set_trace(SchedulerTrace* trace) { trace_ = trace; }

  // Other limits from the next plan on; running sequences stay.  ERRORS: InvalidArgument when a value is out of range
  // or above what the scheduler was made with (max_num_seqs, max_num_batched_tokens, max_model_len, max_requests).
  void reconfigure(const SchedulerConfig& config);

  // While true no request begins; those that have begun go on, with all their choices and after a preemption.
  void hold_admissions(bool hold) { holds_admissions_ = hold; }
  // Forgets the stored prefixes that no sequence refers to, those in host memory too.
  void reset_prefix_cache(TimeNs now);

  // Another policy from the next plan on; it learns of every request by an Attach event.
  void set_policy(SchedulePolicy& policy, TimeNs now);
  // The same to one that has heard of every request already; what was not told yet it is told.
  void hand_policy_to(SchedulePolicy& policy);
  // The same to one that decided until now, whatever was beside it: Attach events are not for it.
  void hand_policy_back(SchedulePolicy& policy);

  [[nodiscard]] const SchedulerConfig& config() const { return config_; }
  [[nodiscard]] const SchedulerStats& stats() const { return stats_; }
  [[nodiscard]] double new_token_ratio() const { return new_token_ratio_.value(); }
  [[nodiscard]] const KvBlocks& blocks() const { return blocks_; }
  [[nodiscard]] const KeptStates& kept_states() const { return kept_states_; }
  [[nodiscard]] int32_t waiting_count() const { return waiting_.count() + static_cast<int32_t>(unranked_.size()); }
  // Prompt tokens of requests that have not begun, each prompt once.
  [[nodiscard]] int64_t queued_token_count() const { return queued_token_count_; }
  [[nodiscard]] int32_t running_count() const { return static_cast<int32_t>(running_.size()); }
  // Rows of a batch that nobody has; 0 also while more run than a lowered max_num_seqs allows.
  [[nodiscard]] int32_t free_row_count() const { return std::max(config_.max_num_seqs - running_count(), 0); }
  // Further choices whose first one has no token yet; they neither wait nor run.
  [[nodiscard]] int32_t held_count() const { return held_count_; }
  [[nodiscard]] bool idle() const { return waiting_count() == 0 && running_.empty() && submitted_count_ == 0; }
  // The sequence of a slot that add() returned; meaningful until its end was put out.
  [[nodiscard]] const Sequence& sequence(int32_t slot) const { return *slots_[static_cast<size_t>(slot)]; }

  [[nodiscard]] const LatencyModel& latency_model() const { return latency_model_; }
  // Replaces what was learnt, e.g. by the coefficients of an earlier run.
  void set_latency_model(const LatencyModel& model) { latency_model_ = model; }
  // Share of the tokens of the last RecomputeTax::kWindow steps that were computed before and lost by preemption.
  [[nodiscard]] double recompute_tax() const { return recompute_tax_.value(); }
  [[nodiscard]] bool thrashing() const { return recompute_tax_.thrashing(); }

  // Throws InternalError when an invariant is broken.   COST: O(blocks + requests * max_num_seqs).
  void check_invariants() const;

 private:
  struct SampledRow {
    Sequence* sequence;
    SequenceId id;  // the sequence has left when they differ
  };
  // A plan whose result has not been committed.
  struct Submitted {
    uint64_t step = 0;
    StepWork work;
    std::vector<SampledRow> sampled;
    std::vector<SampledRow> told;    // entries with prompt_logprobs_wanted > 0
    std::vector<SampledRow> pooled;  // entries that end a prompt whose hidden states are asked for
    void clear() {
      work = {};
      sampled.clear();
      told.clear();
      pooled.clear();
    }
  };

  // scheduler.cpp: life cycle
  Sequence* take_slot();
  void finish(Sequence& sequence, FinishReason reason, FinishCause cause, TimeNs now);
  void leave_running(Sequence& sequence);
  void close_up_running();
  void begin_waiting(Sequence& sequence, TimeNs now);
  void leave_waiting(Sequence& sequence);
  void watch_prefixes_if_wanted();
  void record(EventType type, const Sequence& sequence, TimeNs now, int64_t a = 0, int64_t b = 0, int64_t c = 0) {
    if (wants(type)) put_event(type, sequence, now, a, b, c);
  }
  void begin_call(TimeNs now);  // but for plan(): the cache's time, and what the policy wants to hear of
  [[nodiscard]] bool wants(EventType type) const { return (wanted_events_ >> static_cast<uint32_t>(type) & 1U) != 0; }
  void put_event(EventType type, const Sequence& sequence, TimeNs now, int64_t a, int64_t b, int64_t c);
  void commit_token(Sequence& sequence, const SampledToken& sampled, TimeNs now);
  bool commit_drafts(Sequence& sequence, const SampledToken& sampled, TimeNs now);
  bool append_token(Sequence& sequence, const SampledToken& sampled, TimeNs now);
  void follow_token(Sequence& sequence, bool first, FinishReason reason, TimeNs now);
  void commit_pooled(const StepResult& result, const Submitted& submitted, TimeNs now);
  void commit_prompt_logprobs(const StepResult& result, const Submitted& submitted);
  std::pair<int32_t, int32_t> keep_top_logprobs(std::span<const TokenLogprob> top);
  // scheduler_choices.cpp: n answers to one prompt
  Sequence& add_choice(const Request& request, std::span<const TokenId> prompt, int32_t choice);
  [[nodiscard]] Sequence* first_choice_of(const Sequence& sequence);
  void unlink_choice(Sequence& sequence);
  void release_held_choices(const Sequence& first, TimeNs now);
  [[nodiscard]] bool match_first_choice(const Sequence& sequence);
  void copy_from_first_choice(Sequence& sequence);
  // A block is full of computed, known tokens and not published; the first such.
  [[nodiscard]] bool has_full_block(const Sequence& sequence) const;
  KvBlocks::FullBlock next_full_block(Sequence& sequence);
  // While planning: others may share the blocks in this very step, since a step stores K and V before attention reads.
  void publish_full_blocks(Sequence& sequence);
  // When no plan is being made: content that another sequence published meanwhile is then held once.
  void publish_or_adopt_full_blocks(Sequence& sequence);
  // scheduler_plan.cpp: one step
  void begin_step(TimeNs now);
  [[nodiscard]] StepLimits configured_limits(TimeNs now);
  [[nodiscard]] int32_t admissions_of_mode(TimeNs now);
  void schedule_decodes(TimeNs now);
  void schedule_prefills(TimeNs now);
  void schedule(Sequence& sequence, int32_t token_count);
  void add_entry(Sequence& sequence, int32_t token_count, bool samples);
  void count_entry(const BatchEntry& entry, Sequence& sequence);
  void count_wanted(const BatchEntry& entry, Sequence& sequence);
  void count_entries_again();
  static void add_host_work(const Sequence& sequence, BatchEntry& entry);
  static void want_prompt_logprobs(Sequence& sequence, BatchEntry& entry);
  static void add_history(Sequence& sequence, BatchEntry& entry);
  void want_hidden(const Sequence& sequence, BatchEntry& entry);
  void unschedule(Sequence& sequence);
  bool reserve(Sequence& sequence, int32_t token_count, NeedReason reason, TimeNs now);
  void end_step();
  void release_host_blocks(Sequence& sequence);
  // scheduler_windows.cpp: layers that see the last tokens only
  void release_passed_blocks(Sequence& sequence);
  void begin_slots(Sequence& sequence);
  void hold_slots(Sequence& sequence, int32_t token_count);
  void let_go_of_passed_slots();
  void let_go_of_slots(Sequence& sequence);
  // scheduler_states.cpp: sequences with a state besides their blocks
  void match_state();
  void begin_states(Sequence& sequence);
  void add_state_moves(Sequence& sequence, BatchEntry& entry);
  void leave_output_state(Sequence& sequence, const BatchEntry& entry);
  void keep_states(Sequence& sequence);
  void drop_states(Sequence& sequence);
  void note_states_to_come(const Sequence& sequence);
  [[nodiscard]] bool is_state_to_come(const Sequence& sequence, size_t skippable) const;
  // scheduler_drafts.cpp: speculative decoding
  void add_drafts();
  [[nodiscard]] int32_t room_for_drafts(Sequence& sequence, int32_t wanted);
  void note_drafts(Sequence& sequence, const SampledToken& sampled);
  // scheduler_carry_on.cpp: equal steps at once
  [[nodiscard]] bool only_carries_on() const;
  void take_carried_tokens(Sequence& sequence, int32_t carried, CarriedSteps& steps);
  [[nodiscard]] bool fills_block(const Sequence& sequence, int32_t carried) const;
  void prefetch_carried(Sequence& sequence, int32_t carried, CarriedSteps& steps);
  void publish_carried(Sequence& sequence, int32_t carried);
  void publish_carried(std::span<Sequence* const> sequences, int32_t carried, CarriedSteps& steps);
  // scheduler_preemption.cpp: taking blocks from running sequences
  Sequence& choose_victim(const Need& need);
  Sequence& victim_by_rule();
  [[nodiscard]] TimeNs recompute_time(const Sequence& victim) const;
  [[nodiscard]] TimeNs swap_time(const Sequence& victim) const;
  [[nodiscard]] double cost_of_losing(const Sequence& victim) const;
  [[nodiscard]] bool swaps(const Sequence& victim) const;
  void swap_out(Sequence& victim);
  void preempt(Sequence& victim, bool for_another, TimeNs now);
  [[nodiscard]] bool may_leave_plan(const Sequence& sequence) const;
  void find_less_important(const Sequence& candidate);
  void ask_policy_for_victims(const Sequence& candidate, int32_t wanted_blocks);
  [[nodiscard]] uint32_t adapter_to_give_up() const;
  bool make_room_for(const Sequence& candidate, int32_t wanted_blocks, TimeNs now);
  void go_on_without_policy(TimeNs now);
  // scheduler_admission.cpp: waiting sequences
  void admit_waiting(TimeNs now);
  void set_new_requests_aside();
  void run_admission_pass(TimeNs now);
  void update_view();
  void rank_newcomers();
  void forget_ranks();
  void rank_everybody();
  AdmissionResult consider(Sequence& sequence, TimeNs now);
  [[nodiscard]] bool partial_prefills_full() const;
  [[nodiscard]] bool may_preempt() const;
  [[nodiscard]] Decision ask_policy(const Sequence& sequence, int32_t wanted_blocks, int32_t computed_token_count,
                                    int32_t& token_count);
  void check_starvation(TimeNs now);
  void match_host_tier(const Sequence& sequence, size_t most);
  void admit(Sequence& sequence, int32_t wanted_blocks, int32_t computed_token_count, int32_t token_count, TimeNs now);
  void note_refusal(const Sequence& sequence, AdmissionResult result);
  void begin_admission();
  // What a candidate finds, or would find if some left.
  struct Room {
    int32_t running = 0;          // sequences
    int64_t available = 0;        // blocks, without those that it shares
    int64_t reserved_tokens = 0;  // kept free for what the running ones may still produce
  };
  [[nodiscard]] Room room() const;
  [[nodiscard]] int32_t expected_growth(const Sequence& sequence) const;
  [[nodiscard]] bool has_room_for(const Sequence& sequence, int32_t wanted_blocks, const Room& room) const;
  [[nodiscard]] bool is_being_computed(PrefixKey key) const;
  [[nodiscard]] bool has_adapter_place(const Sequence& sequence) const;
  void note_adapter(const Sequence& sequence);
  void note_computing(const Sequence& sequence);
  [[nodiscard]] int32_t blocks_for(int32_t token_count) const;
  [[nodiscard]] int64_t attended_tokens(int32_t computed, int32_t count) const {
    return inflight::attended_tokens(computed, count, windows_);
  }

  SchedulerConfig config_;
  const SchedulerConfig capacity_;  // what the rows, blocks and arrays were made for
  const AttentionWindows windows_;
  // Blocks of a sequence that may be in the radix tree: with a sliding window those of its first W tokens, so that who
  // finds them needs all of them, and they are given back together.
  const int32_t shareable_block_count_;
  KvBlocks& blocks_;
  SchedulePolicy* policy_;

  // Sequences stay where they are, many in a row: a step walks through the running ones.
  static constexpr size_t kSlotsTogether = 32;
  std::vector<std::unique_ptr<Sequence[]>> slot_storage_;
  std::vector<Sequence*> slots_;
  std::vector<int32_t> free_slots_;
  std::vector<int32_t> free_rows_;
  std::unordered_map<uint64_t, int32_t> slot_of_request_;  // of its first live choice
  int32_t held_count_ = 0;
  int64_t queued_token_count_ = 0;
  uint64_t next_sequence_id_ = 1;

  WaitingList waiting_;
  std::vector<Sequence*> unranked_;  // began to wait since the last plan; not in waiting_ yet
  SchedulePolicy::Ranking ranking_ = SchedulePolicy::Ranking::Arrival;  // whose keys order waiting_
  std::vector<Sequence*> running_;                                      // in order of admission

  BatchPlan plan_;
  std::vector<Sequence*> scheduled_;   // whose entry plan_.entries[i] is
  std::vector<Sequence*> step_order_;  // running_ when the step began
  StepView view_;
  StepLimits limits_;
  std::optional<TimeNs> wake_time_;
  int32_t tokens_left_ = 0;
  int32_t prefill_tokens_left_ = 0;
  int32_t admissions_left_ = 0;
  bool mode_admits_ = false;  // the batching mode lets somebody in, whatever the policy says
  int32_t batch_places_ = 0;  // Static, Dynamic: members that the running batch may still take
  bool preempted_in_step_ = false;
  std::vector<Sequence*> prefilling_;  // of this step
  struct PassedOver {
    Sequence* sequence;
    AdmissionResult result;
  };
  std::vector<PassedOver> refused_;   // waiting sequences looked past in this step, and why
  std::vector<Sequence*> set_aside_;  // during a pass: may not begin now
  std::vector<WaitingKey> keys_;
  std::vector<BlockId> matched_;     // blocks that the candidate shares
  std::vector<BlockId> host_match_;  // its prefix in the host tier, when that part beyond matched_ is copied back
  KeptStates kept_states_;
  KeptStates::Found state_match_;    // the candidate begins with this one's state
  int32_t matched_block_count_ = 0;  // what the candidate would share if its state were kept everywhere
  struct StateToCome {
    PrefixKey key;  // of the block that it is behind
    int32_t block_count;
  };
  std::vector<StateToCome> states_to_come_;  // that running sequences leave in this step or later ones
  Sequence* forked_from_ = nullptr;          // the candidate copies the block after them from this one
  NewTokenRatio new_token_ratio_;
  LatencyModel latency_model_;
  RecomputeTax recompute_tax_;
  int64_t recomputed_before_ = 0;  // stats_.recomputed_tokens when the last step ended
  PrefixWatch prefix_watch_;
  bool watches_prefixes_ = false;
  bool holds_admissions_ = false;
  BlockPool host_pool_;
  std::unique_ptr<HostTier> host_tier_;       // null: none
  std::vector<BlockId> host_blocks_to_free_;  // read by this plan's swap_in: free for the next plan
  std::vector<Sequence*> victims_;            // candidates for preemption, first to go first
  OutputEstimator output_estimator_;
  bool overrules_policy_ = false;     // this step: it would have scheduled nothing
  int64_t reserved_tokens_ = 0;       // kept free for what running sequences may still produce
  std::vector<uint32_t> adapters_;    // of running sequences, each once
  std::vector<PrefixKey> computing_;  // first blocks that later steps of running prompts will compute

  std::array<Submitted, Executor::kStepsInFlightMax> submitted_;
  size_t submitted_first_ = 0;
  size_t submitted_count_ = 0;
  Submitted* planned_ = nullptr;  // the next of them, while it is planned

  // What happens every B steps while all are carried on: who needs a block, who fills one.
  struct Carried {
    std::vector<Sequence*> extend, publish;
  };
  std::vector<Carried> carried_;

  SchedulerTrace* trace_ = nullptr;
  std::vector<Refusal> refusals_;  // of this step, for the trace
  std::vector<Preemption> preemptions_;
  AdmissionResult pass_end_ = AdmissionResult::Accepted;
  std::vector<SchedulerEvent> events_;
  uint32_t wanted_events_ = 0;  // of the policy, when the call in progress began
  SchedulerOutput output_;
  SchedulerStats stats_;
};

}  // namespace inflight
