// SPDX-License-Identifier: Apache-2.0
// Goal: no sequence of arrivals, cancellations, memory pressure and policy decisions breaks an invariant, mixes up KV,
// changes a request's output, starves an admitted request or leaks a block.
// Method: the real scheduler above the oracle executor, everything random from one seed; a seed also switches features
// on and off (swarm testing), and takes one of the policies that ship, one that decides at random, or none; modes and
// shipped policies come in rotation. INFLIGHT_SIM_STEPS=N runs more steps, INFLIGHT_SIM_SEED=S repeats one seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "plugin_host/plugin_registry.h"
#include "support/loaded_policies.h"

namespace inflight::test {
namespace {

// Takes every decision at random.
class RandomPolicy final : public SchedulePolicy {
 public:
  RandomPolicy(uint64_t seed, Ranking ranking) : rng_(seed), ranking_(ranking) {}
  Ranking ranking() const override { return ranking_; }
  bool rank(const StepView&, std::span<Sequence* const>, std::span<WaitingKey> keys) override {
    for (WaitingKey& key : keys) key = {rng_.between(-3, 3), rng_.between(-3, 3)};
    return rng_.chance(0.95);
  }
  void limit_step(const StepView&, StepLimits& limits) override {
    if (rng_.chance(0.3)) limits.chunk = rng_.between(-2, 20);
    if (rng_.chance(0.1)) limits.token_budget = rng_.between(0, 40);
    if (rng_.chance(0.1)) limits.prefill_tokens = rng_.between(0, 40);
    if (rng_.chance(0.1)) limits.admissions = rng_.between(0, 2);
    if (rng_.chance(0.1)) limits.shape = rng_.chance(0.5) ? StepShape::PrefillOnly : StepShape::DecodeFirst;
  }
  bool looks_at_prefixes() const override { return true; }
  bool decides_admission() const override { return true; }
  bool preempts() const override { return true; }
  void admit(const StepView&, const Candidate&, Admission& admission) override {
    constexpr Decision kDecisions[] = {Decision::Skip, Decision::Stop, Decision::Preempt};
    if (rng_.chance(0.2)) admission.decision = kDecisions[rng_.below(3)];
    if (rng_.chance(0.2)) admission.max_tokens = rng_.between(-5, 10);
  }
  void pick_victims(const StepView& view, const Need&, std::vector<Sequence*>& victims) override {
    for (Sequence* sequence : view.running) {
      if (rng_.chance(0.3)) victims.push_back(sequence);
    }
    if (!victims.empty()) std::swap(victims.front(), victims[rng_.below(victims.size())]);
  }

 private:
  Rng rng_;
  Ranking ranking_;
};

class RandomEviction final : public EvictPolicy {
 public:
  explicit RandomEviction(uint64_t seed) : rng_(seed) {}
  bool keeps_order() const override { return false; }
  EvictKey rank(BlockId, int64_t) override { return {rng_.between(0, 5), 0}; }

 private:
  Rng rng_;
};

RequestOptions random_request(Rng& rng, const WorldOptions& world, int32_t shared_prefix_count) {
  RequestOptions request;
  request.salt = rng.chance(0.2) ? 1 : 0;
  // A few common prefixes of many lengths, then a tail of few symbols: many partial and whole matches.
  const int32_t limit = world.config.max_model_len;
  const int32_t count = rng.between(1, rng.chance(0.1) ? limit - 1 : std::min(limit - 1, 40));
  Rng prefix(1000 + rng.below(static_cast<uint64_t>(shared_prefix_count)));
  const int32_t shared = rng.between(0, count);
  for (int32_t i = 0; i < count; ++i) request.prompt.push_back(i < shared ? prefix.between(0, 63) : rng.between(0, 1));
  request.max_tokens = rng.chance(0.1) ? 300 : rng.between(1, 30);
  if (rng.chance(0.5)) request.end_tokens = {rng.between(0, 63), rng.between(0, 63)};
  request.priority = rng.between(-2, 2);
  request.tenant = static_cast<uint32_t>(rng.below(4));
  request.seed = rng.below(3);
  if (rng.chance(0.3)) request.adapter = static_cast<uint32_t>(rng.between(1, 5));
  if (rng.chance(0.25)) request.n = rng.between(2, 9);
  request.host_draws = rng.chance(0.1);
  request.filtered = rng.chance(0.1);
  request.prompt_logprobs = rng.chance(0.05);
  return request;
}

// The ids of the policies that ship.
const std::vector<std::string>& shipped(uint32_t kind) {
  static const auto kIds = [] {
    std::array<std::vector<std::string>, 2> ids;
    std::vector<std::string> problems;
    for (const PluginRegistry::Listed& policy : plugin_registry().list(problems)) {
      if (policy.origin == "built in") ids[policy.kind == INFLIGHT_KIND_SCHED ? 0 : 1].push_back(policy.id);
    }
    return ids;
  }();
  return kIds[kind == INFLIGHT_KIND_SCHED ? 0 : 1];
}

WorldOptions random_world(Rng& rng, uint64_t seed) {
  WorldOptions world;
  world.overlap = rng.chance(0.5);
  const int32_t widths[] = {1, 2, 4, 16};
  world.blocks.block_token_count = widths[rng.below(4)];
  world.blocks.prefix_caching = rng.chance(0.8);
  if (rng.chance(0.5)) world.blocks.shuffle_seed = rng.next();
  world.config.max_num_seqs = rng.between(1, 12);
  world.config.max_num_batched_tokens = world.config.max_num_seqs + rng.between(0, 60);
  world.config.long_prefill_token_threshold = rng.chance(0.5) ? rng.between(1, 30) : 0;
  world.config.max_model_len = rng.between(8, 200);
  if (seed % 3 == 0) world.config.sliding_window = rng.between(1, 80);
  if (seed % 2 == 0) world.config.host_cache_blocks = rng.between(1, 120);
  if (seed % 5 < 2) world.config.max_loras = rng.between(1, 3);
  if (seed % 7 < 3) {
    world.config.num_speculative_tokens = rng.between(1, 8);
    world.config.prompt_lookup_max = rng.between(1, 4);
    world.config.prompt_lookup_min = rng.between(1, world.config.prompt_lookup_max);
    world.config.disable_by_batch_size = rng.chance(0.3) ? rng.between(1, 6) : 0;
    world.vocabulary_size = rng.between(2, 12);  // so that guesses are right at times
  }
  const bool has_state = seed % 11 < 2;  // of which nothing goes with them
  if (has_state) {
    world.config.has_state = true;
    world.config.kept_states = rng.between(0, 20);
    world.config.sliding_window = world.config.host_cache_blocks = world.config.num_speculative_tokens = 0;
  }
  const bool has_local_slots = !has_state && seed % 13 < 3;  // just as many as must be enough
  if (has_local_slots) world.config.sliding_window = world.config.host_cache_blocks = 0;
  world.config.batching = static_cast<BatchingMode>(rng.chance(0.5) ? 0 : seed % 4);
  world.config.max_num_partial_prefills = rng.chance(0.2) ? rng.between(1, 3) : 0;
  world.config.enable_mixed_chunk = rng.chance(0.5);
  world.config.schedule_conservativeness = rng.chance(0.5) ? 1.5 * rng.uniform() : 0.0;
  world.config.preempt = has_state || has_local_slots ? PreemptMode::Recompute : static_cast<PreemptMode>(rng.below(3));
  world.config.preempt_victim = static_cast<VictimRule>(rng.below(5));
  world.config.host_blocks = !has_local_slots && rng.chance(0.7) ? rng.between(0, 150) : 0;
  if (rng.chance(0.4)) world.config.priority_preemption_threshold = rng.between(0, 3);
  world.config.kv_headroom = rng.chance(0.3) ? 0.5 * rng.uniform() : 0.0;
  world.config.max_prefill_tokens = rng.chance(0.2) ? rng.between(1, 60) : 0;
  world.config.max_batch_delay_ms = 0.01 * rng.uniform();
  // From barely one sequence to all at full length.
  const int32_t one =
      (world.config.max_model_len + world.blocks.block_token_count - 1) / world.blocks.block_token_count;
  world.blocks.block_count =
      rng.between(one, rng.chance(0.7) ? one * (world.config.max_num_seqs + 1) / 2 : one * world.config.max_num_seqs);
  if (has_local_slots) {
    world.blocks.local_window = rng.between(1, 60);
    const int32_t least = world.config.local_slots_needed(world.blocks.local_window, world.blocks.block_token_count);
    world.blocks.local_slots = std::min(world.blocks.block_count, least + (rng.chance(0.5) ? rng.between(0, 60) : 0));
  }
  return world;
}

// What the simulations have really exercised: a run that never preempts proves nothing about preemption.
struct Coverage {
  int64_t steps = 0, preemptions = 0, cached_tokens = 0, aborted = 0, finished = 0, evictions = 0, swapped = 0,
          copied = 0, accepted = 0, host_sampled = 0, prompt_logprobs = 0, restored = 0, without_adapter = 0,
          moved_states = 0, local_cached = 0;
  std::map<std::string, int64_t> policies;  // shipped ones: in how many runs
};

// Runs random actions until the scheduler is idle again.
void simulate(uint64_t seed, int64_t actions, Coverage& coverage) {
  SCOPED_TRACE("INFLIGHT_SIM_SEED=" + std::to_string(seed));
  Rng rng(seed);
  const WorldOptions options = random_world(rng, seed);
  const SchedulePolicy::Ranking rankings[] = {SchedulePolicy::Ranking::Arrival, SchedulePolicy::Ranking::Stable,
                                              SchedulePolicy::Ranking::EveryStep};
  RandomPolicy random_policy(rng.next(), rankings[rng.below(3)]);
  RandomEviction random_eviction(rng.next());
  // 0: a policy that ships, 1: one that decides at random, 2: none.
  const uint64_t schedule_kind = rng.below(3), eviction_kind = rng.below(3);
  std::unique_ptr<SchedAdapter> schedule;
  std::unique_ptr<EvictAdapter> eviction;
  if (schedule_kind == 0) {
    const std::string& id = shipped(INFLIGHT_KIND_SCHED)[seed % shipped(INFLIGHT_KIND_SCHED).size()];
    schedule = make_schedule_policy(id, setup_of(options), {.seed = seed});
    ++coverage.policies[id];
  }
  if (eviction_kind == 0) {
    const std::string& id = shipped(INFLIGHT_KIND_EVICT)[seed % shipped(INFLIGHT_KIND_EVICT).size()];
    eviction = make_eviction_policy(id, setup_of(options), {.seed = seed});
    ++coverage.policies[id];
  }
  SchedulePolicy* const policies[] = {schedule.get(), &random_policy, nullptr};
  EvictPolicy* const evictions[] = {eviction.get(), &random_eviction, nullptr};
  SchedulerWorld world(options, policies[schedule_kind], evictions[eviction_kind]);
  if (eviction) eviction->attach(world.blocks(), world.scheduler().latency_model());
  const double arrival = 0.05 + 0.5 * rng.uniform(), cancellation = rng.chance(0.5) ? 0.05 : 0.0;
  const int32_t prefixes = rng.between(1, 6);
  uint64_t last = 0;
  for (int64_t action = 0; action < actions; ++action) {
    if (rng.chance(arrival) && world.scheduler().waiting_count() < 100) {
      last = world.add(random_request(rng, options, prefixes));
    }
    if (last > 0 && rng.chance(cancellation)) world.cancel(last - std::min(last - 1, rng.below(20)));
    if (rng.chance(0.001)) world.scheduler().reset_prefix_cache(world.clock().now());
    world.step();
    if (action % 16 == 0) world.scheduler().check_invariants();
  }
  world.run();
  world.scheduler().check_invariants();
  EXPECT_EQ(world.blocks().pool().referenced_count(), 0);
  for (const auto& [id, record] : world.records()) EXPECT_NE(record.finish, FinishReason::None) << "request " << id;
  const int64_t strikes =
      (schedule ? schedule->instance().strike_count() : 0) + (eviction ? eviction->instance().strike_count() : 0);
  EXPECT_EQ(strikes, 0);  // of policies that ship
  const SchedulerStats& stats = world.scheduler().stats();
  EXPECT_EQ(world.executor().computed_token_count(), stats.scheduled_tokens);
  coverage.steps += stats.steps;
  coverage.preemptions += stats.preemptions;
  coverage.cached_tokens += stats.cached_tokens;
  coverage.aborted += stats.requests_aborted;
  coverage.finished += stats.requests_finished;
  coverage.swapped += stats.swapped_in_blocks;
  coverage.restored += stats.restored_blocks;
  coverage.without_adapter += stats.admissions[static_cast<size_t>(AdmissionResult::NoAdapter)];
  coverage.evictions += world.blocks().evicted_total();
  EXPECT_LE(stats.accepted_tokens, world.executor().accepted_count());
  EXPECT_LE(stats.accepted_tokens, stats.draft_tokens);
  coverage.accepted += stats.accepted_tokens;
  coverage.copied += world.executor().copied_block_count();
  if (options.blocks.local_slots > 0) coverage.local_cached += stats.cached_tokens;
  coverage.moved_states += world.executor().moved_state_count();
  coverage.host_sampled += world.executor().host_sampled_count();
  for (const auto& [id, record] : world.records()) coverage.prompt_logprobs += record.told_prompt_tokens;
}

int64_t environment_number(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::stoll(text) : otherwise;
}

// checklist 7, 56, 85, 87, 92: everybody is in one set, the executor below is not the device's, no block leaks, what is
// computed is what was scheduled, nothing in use is evicted.
TEST(RandomSimulation, NoInvariantBreaks) {
  const int64_t wanted = environment_number("INFLIGHT_SIM_STEPS", 300000);
  const int64_t only = environment_number("INFLIGHT_SIM_SEED", -1);
  Coverage coverage;
  if (only >= 0) {
    ASSERT_NO_THROW(simulate(static_cast<uint64_t>(only), 500, coverage));
    return;
  }
  for (uint64_t seed = 1; coverage.steps < wanted && !testing::Test::HasFailure(); ++seed) {
    ASSERT_NO_THROW(simulate(seed, 500, coverage)) << "INFLIGHT_SIM_SEED=" << seed;
  }
  if (wanted >= 300000) {
    EXPECT_EQ(coverage.policies.size(), shipped(INFLIGHT_KIND_SCHED).size() + shipped(INFLIGHT_KIND_EVICT).size());
  }
  std::printf(
      "%lld steps, %lld preemptions, %lld blocks swapped in, %lld evicted, %lld requests ended, %lld cancelled\n",
      static_cast<long long>(coverage.steps), static_cast<long long>(coverage.preemptions),
      static_cast<long long>(coverage.swapped), static_cast<long long>(coverage.evictions),
      static_cast<long long>(coverage.finished), static_cast<long long>(coverage.aborted));
  EXPECT_GT(coverage.preemptions, wanted / 100);
  EXPECT_GT(coverage.swapped, wanted / 100);
  EXPECT_GT(coverage.cached_tokens, wanted / 10);
  EXPECT_GT(coverage.evictions, wanted / 100);
  EXPECT_GT(coverage.aborted, wanted / 1000);
  EXPECT_GT(coverage.finished, wanted / 20);
  EXPECT_GT(coverage.copied, wanted / 200);
  EXPECT_GT(coverage.accepted, wanted / 100);
  EXPECT_GT(coverage.host_sampled, wanted / 50);
  EXPECT_GT(coverage.restored, wanted / 100);
  EXPECT_GT(coverage.without_adapter, wanted / 100);
  EXPECT_GT(coverage.prompt_logprobs, wanted / 50);
  EXPECT_GT(coverage.moved_states, wanted / 200);
  EXPECT_GT(coverage.local_cached, wanted / 50);
}

}  // namespace
}  // namespace inflight::test
