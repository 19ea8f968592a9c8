// SPDX-License-Identifier: Apache-2.0
// A whole scheduler in virtual time with the policy in it: overload, little memory, shared prefixes, one giant prompt.
#include <deque>

#include "base/error.h"
#include "base/rng.h"
#include "plugin_host/check_tests.h"
#include "plugin_host/evict_adapter.h"
#include "plugin_host/plugin_config.h"
#include "plugin_host/sched_adapter.h"
#include "sched/scheduler.h"

namespace inflight {
namespace {

constexpr int32_t kRequests = 300;
constexpr int32_t kStepsMax = 100'000;
constexpr TimeNs kStepNs = 5'000'000;

SchedulerConfig small_config() {
  return {.max_num_seqs = 8, .max_num_batched_tokens = 64, .max_model_len = 400, .max_requests = 1000};
}
constexpr KvBlocks::Options kBlocks{.block_count = 110, .block_token_count = 4};

Request random_request(Rng& rng, int32_t number) {
  const bool giant = number == kRequests / 3;
  const int32_t length = giant ? 380 : rng.between(1, 60), shared = rng.between(0, length);
  Request request{.id = static_cast<RequestId>(number + 1), .prompt = {}, .sampling = {}, .end_tokens = {}};
  for (int32_t i = 0; i < length; ++i) request.prompt.push_back(i < shared ? i % 50 : rng.between(0, 999));
  request.sampling.max_tokens = giant ? 10 : rng.between(1, 40);
  request.priority = rng.between(0, 2);
  request.tenant = static_cast<uint32_t>(rng.between(0, 3));
  return request;
}

// Steps until all requests have ended; nobody looks at the tokens.
int64_t run_to_the_end(Scheduler& scheduler, uint64_t seed) {
  Rng rng(seed);
  TimeNs now = 0;
  int32_t added = 0, ended = 0;
  for (int64_t step = 1; step <= kStepsMax; ++step, now += kStepNs) {
    for (int i = rng.between(0, 2); i > 0 && added < kRequests; --i) {
      Request request = random_request(rng, added++);
      request.arrival = now;
      scheduler.add(std::move(request), now);
    }
    const BatchPlan& plan = scheduler.plan(now);
    StepResult result{.step = plan.step, .sampled = {}, .duration = kStepNs};
    for (const BatchEntry& entry : plan.entries) {
      if (entry.samples) {
        result.sampled.push_back(
            {.sequence = entry.sequence, .token = rng.between(0, 999), .logprob = 0.0F, .valid = true});
      }
    }
    if (!plan.empty()) scheduler.commit(result, now + kStepNs);
    ended += static_cast<int32_t>(scheduler.output().finished.size());
    scheduler.output().clear();
    if (step % 100 == 0) scheduler.check_invariants();
    if (ended == kRequests) return step;
  }
  fail(ErrorCode::Plugin, "{} of {} requests did not end within {} steps", kRequests - ended, kRequests, kStepsMax);
}

void require_kept(const PolicyInstance& instance) {
  if (!instance.active()) fail(ErrorCode::Plugin, "{}", instance.exit_message());
  if (instance.strike_count() > 0) {
    fail(ErrorCode::Plugin, "{}: {} strikes in a run of {} requests", instance.policy().id, instance.strike_count(),
         kRequests);
  }
}

std::string check_liveness(CheckContext& context) {
  std::string text;
  for (const inflight_policy_t* policy : context.policies) {
    note_progress(context, *policy, "(a run)", 0);
    const PluginConfig config(*policy, context.options.parameters);
    const PolicyOptions options{.seed = context.options.seed,
                                .simulated = true,
                                .mode = PluginMode::Inline,
                                .report_folder = "",
                                .module = &context.module};
    const SchedulerConfig limits = small_config();
    int64_t steps = 0;
    if (policy->kind == INFLIGHT_KIND_SCHED) {
      SchedAdapter adapter(*policy, config,
                           {.max_requests = limits.max_requests,
                            .block_token_count = kBlocks.block_token_count,
                            .block_count = kBlocks.block_count,
                            .max_num_batched_tokens = limits.max_num_batched_tokens,
                            .max_num_seqs = limits.max_num_seqs},
                           options);
      EvictPolicy lru;
      KvBlocks blocks(kBlocks, lru);
      Scheduler scheduler(limits, blocks, adapter);
      steps = run_to_the_end(scheduler, context.options.seed);
      require_kept(adapter.instance());
    } else {
      EvictAdapter adapter(
          *policy, config,
          {.block_count = kBlocks.block_count, .block_token_count = kBlocks.block_token_count, .block_bytes = 1 << 16},
          options);
      SchedulePolicy fcfs;
      KvBlocks blocks(kBlocks, adapter);
      Scheduler scheduler(limits, blocks, fcfs);
      adapter.attach(blocks, scheduler.latency_model());
      steps = run_to_the_end(scheduler, context.options.seed);
      require_kept(adapter.instance());
    }
    text += fmt::format("{}{} requests in {} steps", text.empty() ? "" : ", ", kRequests, steps);
  }
  return text;
}

}  // namespace

std::span<const CheckTest> liveness_checks() {
  static constexpr CheckTest kTests[] = {
      {"liveness", "every request of an overload ends, without a strike", check_liveness}};
  return kTests;
}

}  // namespace inflight
