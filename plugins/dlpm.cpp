// SPDX-License-Identifier: Apache-2.0
// dlpm: deficit longest prefix match: locality with a bounded unfairness. Requests go in the order of their stored
// prefix, but only those of tenants that have credit; prefilled and produced tokens are taken off the credit; when
// nobody who waits has any, everybody who waits gets `quantum` more. A small quantum is fair, a large one is lpm.
// Source: Cao et al., "Locality-aware Fair Scheduling in LLM Serving", arXiv 2501.14312 (deficit round robin over lpm).
#include <algorithm>
#include <cmath>
#include <vector>

#include "inflight/plugin.hpp"

namespace {

constexpr inflight_param_t kParams[] = {
    {"quantum", INFLIGHT_TYPE_FLOAT64, 0, "4096", "1", "1e9", "credit of a round, in tokens"},
    {"weight_output", INFLIGHT_TYPE_FLOAT64, 0, "2", "0", "1000", "cost of an output token; a prefilled one costs 1"}};

struct Dlpm {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.dlpm", "longest stored prefix first among tenants that have credit")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_TENANT | INFLIGHT_COLUMN_LENGTHS | INFLIGHT_COLUMN_CACHED)
          .hears(INFLIGHT_EVENT_ATTACH, INFLIGHT_EVENT_ARRIVE, INFLIGHT_EVENT_ADMIT, INFLIGHT_EVENT_RESUME,
                 INFLIGHT_EVENT_TOKENS)
          .takes(kParams)
          .can(INFLIGHT_CAP_DETERMINISTIC);

  explicit Dlpm(const inflight::SchedSetup& setup)
      : quantum(setup.config.float64("quantum")),
        weight_output(setup.config.float64("weight_output")),
        credit(setup.environment.max_tenants, quantum),
        tenant_of(setup.environment.max_requests, 0) {}

  inflight_plugin_status_t on_events(const inflight_events_t& events) {
    const char* at = reinterpret_cast<const char*>(events.events);
    for (uint32_t i = 0; i < events.count; ++i, at += events.stride) {
      const auto& event = *reinterpret_cast<const inflight_event_t*>(at);
      switch (event.type) {
        case INFLIGHT_EVENT_ATTACH:
        case INFLIGHT_EVENT_ARRIVE:
          tenant_of[event.slot] = static_cast<uint32_t>(event.a);
          break;
        case INFLIGHT_EVENT_ADMIT:  // only what is really computed costs
        case INFLIGHT_EVENT_RESUME:
          credit[tenant_of[event.slot]] -= static_cast<double>(event.a);
          break;
        case INFLIGHT_EVENT_TOKENS:
          credit[tenant_of[event.slot]] -= weight_output * static_cast<double>(event.b);
          break;
        default:
          break;
      }
    }
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t order(const inflight_step_t& step, uint32_t* index, uint32_t* count) {
    const inflight_requests_t& waiting = *step.waiting;
    by_prefix.resize(waiting.count);
    for (uint32_t i = 0; i < waiting.count; ++i) by_prefix[i] = i;
    std::sort(by_prefix.begin(), by_prefix.end(), [&](uint32_t a, uint32_t b) {
      return waiting.cached_tokens[a] != waiting.cached_tokens[b] ? waiting.cached_tokens[a] > waiting.cached_tokens[b]
                                                                  : waiting.id[a] < waiting.id[b];
    });
    replenish(waiting, credit);
    // Named requests are charged in a copy: what is not admitted costs nothing, and rounds to come are not given yet.
    expected = credit;
    const uint32_t wanted = std::min(*count, step.sequences_left + kSkipAhead);
    for (*count = 0; *count < wanted && !by_prefix.empty(); by_prefix.swap(left)) {
      replenish(waiting, expected);
      left.clear();
      for (const uint32_t i : by_prefix) {
        const uint32_t tenant = waiting.tenant[i];
        if (*count == wanted || expected[tenant] <= 0.0) {
          left.push_back(i);
          continue;
        }
        index[(*count)++] = i;
        const uint32_t known = waiting.prompt_tokens[i] + waiting.output_tokens[i];
        expected[tenant] -= known - std::min(known, waiting.cached_tokens[i]);
      }
    }
    return INFLIGHT_PLUGIN_OK;
  }

  // As many new rounds for the tenants in by_prefix as it takes until one of them has credit.
  void replenish(const inflight_requests_t& waiting, std::vector<double>& credits) {
    if (by_prefix.empty()) return;
    double best = credits[waiting.tenant[by_prefix.front()]];
    for (const uint32_t i : by_prefix) best = std::max(best, credits[waiting.tenant[i]]);
    if (best > 0.0) return;
    const double rounds = std::floor(-best / quantum) + 1.0;
    replenished.assign(credits.size(), 0);
    for (const uint32_t i : by_prefix) {
      const uint32_t tenant = waiting.tenant[i];
      if (replenished[tenant] == 0) credits[tenant] += rounds * quantum;
      replenished[tenant] = 1;
    }
  }

  static constexpr uint32_t kSkipAhead = 64;  // the host looks past at most so many
  double quantum, weight_output;
  std::vector<double> credit;       // by tenant
  std::vector<uint32_t> tenant_of;  // by slot
  std::vector<double> expected;     // credit after the requests named so far
  std::vector<uint32_t> by_prefix, left;
  std::vector<uint8_t> replenished;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Dlpm)
