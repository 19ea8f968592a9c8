// SPDX-License-Identifier: Apache-2.0
// itl-target: first come, first served, with the prefill share of each step cut so that the step, and with it the gap
// between the tokens of those who decode, takes no longer than target_ms. How many tokens fit is asked of the engine's
// latency model; until that knows something, prefill grows slowly while steps are short and is halved when one was
// long. Source: the token budget as an SLO control, Agrawal et al., "Sarathi-Serve", OSDI 2024.
#include <algorithm>

#include "inflight/plugin.hpp"

namespace {

constexpr inflight_param_t kParams[] = {{"target_ms", INFLIGHT_TYPE_FLOAT64, INFLIGHT_PARAM_RUNTIME, "50", "0.0001",
                                         "60000", "longest wanted gap between two tokens"}};

struct ItlTarget {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.itl-target", "cuts prefill so that steps keep to a target duration")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_STATE | INFLIGHT_COLUMN_LENGTHS)
          .takes(kParams)
          .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC);

  explicit ItlTarget(const inflight::SchedSetup& setup)
      : host(setup.host), target_ns(static_cast<int64_t>(setup.config.float64("target_ms") * 1e6)) {}

  // target_ms is the only parameter.
  inflight_plugin_status_t set_param(const inflight_key_value_t& pair) {
    target_ns = static_cast<int64_t>(pair.value.float64 * 1e6);
    return INFLIGHT_PLUGIN_OK;
  }

  // Of the next `tokens` prompt tokens and what they see: of the running prompts in their order, then of a new one.
  static uint64_t pairs_of(const inflight_requests_t& running, uint32_t tokens) {
    uint64_t pairs = 0;
    const auto take = [&](uint64_t before, uint32_t most) {
      const uint32_t count = std::min(tokens, most);
      pairs += count * before + uint64_t{count} * (count + 1) / 2;
      tokens -= count;
    };
    for (uint32_t i = 0; i < running.count; ++i) {
      if (running.state[i] != INFLIGHT_REQUEST_PREFILL) continue;
      take(running.computed_tokens[i],
           running.prompt_tokens[i] + running.output_tokens[i] - running.computed_tokens[i]);
    }
    take(0, tokens);
    return pairs;
  }

  // The most prompt tokens for which a step with the decodes in `work` keeps to the target.
  uint32_t tokens_that_fit(const inflight_requests_t& running, inflight_step_work_t work, uint32_t most) const {
    uint32_t low = 0, high = most;
    while (low < high) {
      const uint32_t middle = low + (high - low + 1) / 2;
      work.prefill_tokens = middle;
      work.prefill_pairs = pairs_of(running, middle);
      if (host.estimate_step_ns(work) <= target_ns) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  inflight_plugin_status_t plan(const inflight_step_t& step, inflight_plan_t& plan) {
    if (step.decoding == 0) return INFLIGHT_PASS;  // nobody waits for a token
    const inflight_requests_t& running = *step.running;
    const inflight_step_work_t work = inflight::decodes_of(step);
    uint32_t tokens = 0;
    if (host.estimate_step_ns(work) > 0) {
      tokens = tokens_that_fit(running, work, plan.prefill_tokens);
    } else {
      feedback = step.last_step_ns > target_ns ? feedback / 2 : std::min(feedback + 8, plan.prefill_tokens);
      tokens = feedback;
    }
    constexpr uint32_t kLeast = 16;  // where even decodes alone miss the target, prompts must get on all the same
    plan.prefill_tokens = std::max(tokens, std::min(kLeast, plan.prefill_tokens));
    plan.max_chunk = std::min(plan.max_chunk, plan.prefill_tokens);
    return INFLIGHT_PLUGIN_OK;
  }

  inflight::PluginHost host;
  int64_t target_ns;
  uint32_t feedback = 16;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(ItlTarget)
