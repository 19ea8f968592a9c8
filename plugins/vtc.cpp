// SPDX-License-Identifier: Apache-2.0
// vtc: virtual token counter. Each tenant's counter adds up the service it has received: weight_input for a prompt
// token, weight_output for an output token. Whoever has the smallest counter is served next, so tenants with work share
// the machine equally, whatever they submit. A tenant that comes back after having had no work starts at the smallest
// counter of those who have: idleness earns no credit. Source: Sheng et al., "Fairness in Serving Large Language
// Models", OSDI 2024, algorithm 2; for two tenants that always have work, the difference of service is bounded
// (theorem 4.4) by 2 * max(weight_input * longest prompt, weight_output * tokens that run at once).
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "inflight/plugin.hpp"

namespace {

constexpr inflight_param_t kParams[] = {
    {"weight_input", INFLIGHT_TYPE_FLOAT64, 0, "1", "0", "1000", "cost of a prompt token"},
    {"weight_output", INFLIGHT_TYPE_FLOAT64, 0, "2", "0", "1000", "cost of an output token"}};

struct Vtc {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.vtc",
                             "equal service to every tenant: the smallest virtual token counter first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_TENANT | INFLIGHT_COLUMN_LENGTHS)
          .hears(INFLIGHT_EVENT_ATTACH, INFLIGHT_EVENT_ARRIVE, INFLIGHT_EVENT_ADMIT, INFLIGHT_EVENT_TOKENS,
                 INFLIGHT_EVENT_ABORT, INFLIGHT_EVENT_REJECT)
          .takes(kParams)
          .stores_state(1, 1)
          .can(INFLIGHT_CAP_DETERMINISTIC);

  struct Tenant {
    double counter = 0.0;
    uint32_t waiting = 0;
  };

  explicit Vtc(const inflight::SchedSetup& setup)
      : weight_input(setup.config.float64("weight_input")),
        weight_output(setup.config.float64("weight_output")),
        tenants(setup.environment.max_tenants),
        tenant_of(setup.environment.max_requests, 0),
        waits(setup.environment.max_requests, 0) {}

  double smallest_counter_with_work() const {
    double smallest = std::numeric_limits<double>::infinity();
    for (const Tenant& tenant : tenants) {
      if (tenant.waiting > 0) smallest = std::min(smallest, tenant.counter);
    }
    return smallest;
  }

  void arrive(uint32_t slot, uint32_t tenant_id) {
    Tenant& tenant = tenants[tenant_id];
    if (tenant.waiting == 0) {
      const double smallest = smallest_counter_with_work();
      const bool nobody = smallest == std::numeric_limits<double>::infinity();
      tenant.counter = std::max(tenant.counter, nobody ? tenants[last_served].counter : smallest);
    }
    ++tenant.waiting;
    tenant_of[slot] = tenant_id;
    waits[slot] = 1;
  }

  void stop_waiting(uint32_t slot) {
    if (waits[slot] != 0) --tenants[tenant_of[slot]].waiting;
    waits[slot] = 0;
  }

  inflight_plugin_status_t on_events(const inflight_events_t& events) {
    const char* at = reinterpret_cast<const char*>(events.events);
    for (uint32_t i = 0; i < events.count; ++i, at += events.stride) {
      const auto& event = *reinterpret_cast<const inflight_event_t*>(at);
      switch (event.type) {
        case INFLIGHT_EVENT_ATTACH:
          if (event.c >= 0) {  // has started under the policy before
            tenant_of[event.slot] = static_cast<uint32_t>(event.a);
            break;
          }
          [[fallthrough]];
        case INFLIGHT_EVENT_ARRIVE:
          arrive(event.slot, static_cast<uint32_t>(event.a));
          break;
        case INFLIGHT_EVENT_ADMIT:  // the whole prompt is charged when it starts, stored or not
          last_served = tenant_of[event.slot];
          tenants[last_served].counter += weight_input * static_cast<double>(event.a + event.b);
          stop_waiting(event.slot);
          break;
        case INFLIGHT_EVENT_TOKENS:
          tenants[tenant_of[event.slot]].counter += weight_output * static_cast<double>(event.b);
          break;
        case INFLIGHT_EVENT_ABORT:
        case INFLIGHT_EVENT_REJECT:
          stop_waiting(event.slot);
          break;
        default:
          break;
      }
    }
    return INFLIGHT_PLUGIN_OK;
  }

  // As many as the host can possibly look at: each named request is charged at once, as its admission will charge it;
  // one that was preempted has paid for its prompt.
  inflight_plugin_status_t order(const inflight_step_t& step, uint32_t* index, uint32_t* count) {
    const inflight_requests_t& waiting = *step.waiting;
    by_tenant.resize(waiting.count);
    for (uint32_t i = 0; i < waiting.count; ++i) by_tenant[i] = i;
    std::sort(by_tenant.begin(), by_tenant.end(), [&](uint32_t a, uint32_t b) {
      return waiting.tenant[a] != waiting.tenant[b] ? waiting.tenant[a] < waiting.tenant[b]
                                                    : waiting.id[a] < waiting.id[b];
    });
    heads.clear();
    for (uint32_t i = 0; i < waiting.count; ++i) {
      const uint32_t tenant = waiting.tenant[by_tenant[i]];
      if (heads.empty() || heads.back().tenant != tenant) heads.push_back({tenants[tenant].counter, tenant, i, i});
      heads.back().end = i + 1;
    }
    const auto later = [](const Head& a, const Head& b) {
      return a.counter != b.counter ? a.counter > b.counter : a.tenant > b.tenant;
    };
    std::make_heap(heads.begin(), heads.end(), later);
    const uint32_t wanted = std::min(*count, step.sequences_left + kSkipAhead);
    for (*count = 0; *count < wanted && !heads.empty();) {
      std::pop_heap(heads.begin(), heads.end(), later);
      Head& head = heads.back();
      const uint32_t chosen = by_tenant[head.next++];
      index[(*count)++] = chosen;
      if (waits[waiting.slot[chosen]] != 0) head.counter += weight_input * waiting.prompt_tokens[chosen];
      if (head.next == head.end) {
        heads.pop_back();
      } else {
        std::push_heap(heads.begin(), heads.end(), later);
      }
    }
    return INFLIGHT_PLUGIN_OK;
  }

  // The counters are what must not be lost in a hot swap; who waits is told by events.
  struct SavedTenant {
    uint32_t tenant, reserved;
    double counter;
  };
  inflight_plugin_status_t save(const inflight_writer_t& writer) {
    std::vector<SavedTenant> saved;
    for (uint32_t i = 0; i < tenants.size(); ++i) {
      if (tenants[i].counter > 0) saved.push_back({i, 0, tenants[i].counter});
    }
    const uint32_t head[] = {static_cast<uint32_t>(saved.size()), last_served};
    const bool written = inflight::write_all(writer, head, sizeof head) &&
                         inflight::write_all(writer, saved.data(), saved.size() * sizeof(SavedTenant));
    return written ? INFLIGHT_PLUGIN_OK : INFLIGHT_PLUGIN_E_INTERNAL;
  }
  inflight_plugin_status_t load(const inflight_reader_t& reader, uint32_t version) {
    uint32_t head[2];
    if (version != 1 || !inflight::read_all(reader, head, sizeof head)) return INFLIGHT_PLUGIN_E_STATE;
    if (head[0] > tenants.size() || head[1] >= tenants.size()) return INFLIGHT_PLUGIN_E_STATE;
    std::vector<SavedTenant> saved(head[0]);
    if (!inflight::read_all(reader, saved.data(), saved.size() * sizeof(SavedTenant))) return INFLIGHT_PLUGIN_E_STATE;
    for (const SavedTenant& it : saved) {
      if (it.tenant >= tenants.size() || !std::isfinite(it.counter)) return INFLIGHT_PLUGIN_E_STATE;
    }
    for (Tenant& tenant : tenants) tenant.counter = 0;
    for (const SavedTenant& it : saved) tenants[it.tenant].counter = it.counter;
    last_served = head[1];
    return INFLIGHT_PLUGIN_OK;
  }

  static constexpr uint32_t kSkipAhead = 64;  // the host looks past at most so many
  struct Head {
    double counter;
    uint32_t tenant, next, end;  // its requests: by_tenant[next, end)
  };
  double weight_input, weight_output;
  std::vector<Tenant> tenants;
  std::vector<uint32_t> tenant_of;  // by slot
  std::vector<uint8_t> waits;       // by slot: it has not started yet
  uint32_t last_served = 0;
  std::vector<uint32_t> by_tenant;
  std::vector<Head> heads;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Vtc)
