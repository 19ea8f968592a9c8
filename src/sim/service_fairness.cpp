// SPDX-License-Identifier: Apache-2.0
#include "sim/service_fairness.h"

#include <algorithm>
#include <map>
#include <vector>

#include "sim/sim_result.h"
#include "sim/workload.h"

namespace inflight {
namespace {

constexpr double kPromptWeight = 1.0, kOutputWeight = 2.0;

// What changes for a tenant.
struct Event {
  TimeNs time = 0;
  size_t tenant = 0;
  int32_t waiting = 0;   // requests more that wait
  double service = 0.0;  // at once
  double rate = 0.0;     // service a nanosecond more from here on
};

void add_events(const RequestRecord& record, int32_t prompt_tokens, size_t tenant, std::vector<Event>& events) {
  events.push_back({.time = record.arrival, .tenant = tenant, .waiting = 1});
  if (record.first_scheduled == kNotYet || record.reason == FinishReason::Error) {  // waited, and got nothing
    events.push_back({.time = record.end, .tenant = tenant, .waiting = -1});
    return;
  }
  events.push_back(
      {.time = record.first_scheduled, .tenant = tenant, .waiting = -1, .service = kPromptWeight * prompt_tokens});
  if (record.first_token == kNotYet) return;
  const double later = kOutputWeight * (record.output_tokens - 1);
  const TimeNs duration = record.end - record.first_token;
  const double rate = duration > 0 ? later / static_cast<double>(duration) : 0.0;
  events.push_back({.time = record.first_token,
                    .tenant = tenant,
                    .service = kOutputWeight + (duration > 0 ? 0.0 : later),
                    .rate = rate});
  events.push_back({.time = record.end, .tenant = tenant, .rate = -rate});
}

// Goes through the events in order of time.
class Meter {
 public:
  explicit Meter(size_t tenants) : tenants_(tenants) {}

  // REQUIRES: all of one time, not before those of the last call.
  void take(std::span<const Event> events) {
    const TimeNs now = events.front().time;
    const bool competed = all_backlogged();
    if (competed) {
      const auto passed = static_cast<double>(now - now_);
      result_.backlogged_s += passed * 1e-9;
      for (Tenant& tenant : tenants_) tenant.service += tenant.rate * passed;
      note_gap();
    }
    for (const Event& event : events) {
      Tenant& tenant = tenants_[event.tenant];
      if (competed) tenant.service += event.service;
      tenant.rate += event.rate;
      backlogged_ -= tenant.waiting > 0;
      tenant.waiting += event.waiting;
      backlogged_ += tenant.waiting > 0;
    }
    now_ = now;
    if (competed) {
      note_gap();
    } else if (all_backlogged()) {
      for (Tenant& tenant : tenants_) tenant.service_before = tenant.service;
    }
  }

  ServiceFairness result() {
    double sum = 0.0, squares = 0.0;
    for (const Tenant& tenant : tenants_) {
      sum += tenant.service;
      squares += tenant.service * tenant.service;
    }
    if (squares > 0.0) result_.index = sum * sum / (static_cast<double>(tenants_.size()) * squares);
    return result_;
  }

 private:
  struct Tenant {
    int32_t waiting = 0;
    double rate = 0.0;
    double service = 0.0;         // while all were backlogged
    double service_before = 0.0;  // of it, before they last became so
  };
  [[nodiscard]] bool all_backlogged() const { return backlogged_ == tenants_.size(); }
  // Between two events the gap grows or shrinks evenly: it is largest before or after one.
  void note_gap() {
    const auto since = [](const Tenant& tenant) { return tenant.service - tenant.service_before; };
    const auto [least, most] = std::ranges::minmax_element(tenants_, {}, since);
    result_.gap_max_tokens = std::max(result_.gap_max_tokens, since(*most) - since(*least));
  }

  std::vector<Tenant> tenants_;
  size_t backlogged_ = 0;  // tenants with a request that waits
  TimeNs now_ = 0;
  ServiceFairness result_;
};

}  // namespace

ServiceFairness service_fairness(std::span<const RequestRecord> records, const Workload& workload,
                                 PromptService prompts) {
  std::map<uint32_t, size_t> tenants;
  for (const RequestRecord& record : records) {
    tenants.try_emplace(workload.requests[static_cast<size_t>(record.request)].tenant, tenants.size());
  }
  if (tenants.size() < 2) return {};
  std::vector<Event> events;
  events.reserve(4 * records.size());
  for (const RequestRecord& record : records) {
    const SimRequest& request = workload.requests[static_cast<size_t>(record.request)];
    const int32_t stored = prompts == PromptService::Computed ? record.cached_tokens : 0;
    add_events(record, request.prompt_tokens - stored, tenants.at(request.tenant), events);
  }
  std::ranges::stable_sort(events, {}, &Event::time);
  Meter meter(tenants.size());
  for (size_t begin = 0, end = 0; begin < events.size(); begin = end) {
    while (end < events.size() && events[end].time == events[begin].time) ++end;
    meter.take(std::span(events).subspan(begin, end - begin));
  }
  return meter.result();
}

}  // namespace inflight
