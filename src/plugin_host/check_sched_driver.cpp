// SPDX-License-Identifier: Apache-2.0
// Random histories of requests for scheduling policies.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/limits.h"
#include "plugin_host/check_drivers.h"

namespace inflight {
namespace {

constexpr uint32_t kTotalBlocks = 4096;
constexpr uint32_t kUnwrittenIndex = 0xdeadbeef;

struct Live {
  uint64_t id;
  uint32_t slot, tenant, prompt, output, max_output, predicted, cached, preemptions;
  int32_t priority;
  int64_t arrival, queued, first_token, last_token, ttft_deadline, itl_deadline, e2e_deadline;
  uint64_t group;
  bool ranked;  // score() has been asked for it (stable keys)
};

class SchedDriver final : public CheckDriver {
 public:
  SchedDriver(CheckContext& context, const inflight_policy_t& policy, uint64_t seed, const CheckVariation& variation,
              int32_t waiting_target, int32_t running_target)
      : CheckDriver(context, policy, seed, variation),
        ops_(*policy.sched),
        waiting_target_(static_cast<size_t>(waiting_target)),
        running_target_(static_cast<size_t>(running_target)),
        scratch_(4096 + 64) {
    const auto slots = static_cast<uint32_t>(waiting_target_ * 2 + running_target_ * 2 + 64);
    host_.slot_limit = slots;
    host_.unit_limit = kTotalBlocks;
    for (uint32_t slot = slots; slot > 0; --slot) free_slots_.push_back(slot - 1);
    note_progress(context, policy, "create", ++calls_);
    const inflight_sched_environment_t environment{.struct_size = sizeof(inflight_sched_environment_t),
                                                   .max_requests = slots,
                                                   .max_tenants = limits::kTenantsMax,
                                                   .block_tokens = 16,
                                                   .total_blocks = kTotalBlocks,
                                                   .max_step_tokens = 2048,
                                                   .max_running = static_cast<uint32_t>(running_target_),
                                                   .reserved = 0,
                                                   .seed = seed};
    created(ops_.create(&host_.table(), &environment, &config_.config(), &self_));
  }

  void step() override {
    ++step_;
    host_.now += rng_.between(0, 3) == 0 ? 0 : rng_.between(1, 50'000'000);
    change_requests();
    deliver_events();
    const bool stable = (policy_.capabilities & INFLIGHT_CAP_STABLE_KEYS) != 0 && ops_.order == nullptr;
    if (stable && ops_.score != nullptr) score(true);
    plan();
    if (ops_.order != nullptr) {
      order();
    } else if (ops_.score != nullptr && !stable) {
      score(false);
    }
    for (int i = rng_.between(0, 3); i > 0 && !waiting_.empty(); --i) admit();
    if (rng_.chance(0.2)) pick_victims();
    arena_.close();
  }

 private:
  template <typename T>
  T any_of(std::initializer_list<T> edges, T usual) {
    if (rng_.chance(0.9)) return usual;
    return *(edges.begin() + rng_.between(0, static_cast<int32_t>(edges.size()) - 1));
  }
  int64_t deadline() {
    constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
    return any_of<int64_t>({kNone, kNone - 1, 0, host_.now},
                           rng_.chance(0.5) ? kNone : host_.now + rng_.between(1, 1 << 30));
  }
  void event(uint32_t type, const Live& request, int64_t a = 0, int64_t b = 0, int64_t c = 0) {
    events_.push_back({type, request.slot, request.id, host_.now, a, b, c});
  }

  void arrive() {
    if (free_slots_.empty()) return;
    Live request{};
    request.id = ++next_id_;
    request.slot = free_slots_.back();
    free_slots_.pop_back();
    request.tenant = static_cast<uint32_t>(any_of<int32_t>({0, limits::kTenantsMax - 1}, rng_.between(0, 5)));
    request.prompt = static_cast<uint32_t>(any_of<int32_t>({1, 1 << 20}, rng_.between(1, 4000)));
    request.max_output = static_cast<uint32_t>(any_of<int32_t>({1, 1 << 20}, rng_.between(1, 500)));
    request.predicted = static_cast<uint32_t>(any_of<int32_t>({0, 1 << 20}, rng_.between(0, 500)));
    request.cached = std::min(request.prompt - 1, static_cast<uint32_t>(rng_.between(0, 8)) * 16);
    request.priority = any_of<int32_t>({INT32_MIN, INT32_MAX, 0}, rng_.between(-3, 3));
    request.arrival = request.queued = host_.now;
    request.first_token = request.last_token = -1;
    request.ttft_deadline = deadline();
    request.itl_deadline = deadline();
    request.e2e_deadline = deadline();
    request.group = static_cast<uint64_t>(rng_.between(0, 9)) * 0x9e3779b97f4a7c15ULL;
    waiting_.push_back(request);
    event(INFLIGHT_EVENT_ARRIVE, request, request.tenant, request.prompt);
  }

  void remove(std::vector<Live>& from, size_t i, uint32_t type) {
    event(type, from[i], from[i].prompt, from[i].output);
    free_slots_.push_back(from[i].slot);
    from.erase(from.begin() + static_cast<ptrdiff_t>(i));
  }

  size_t some(const std::vector<Live>& of) {
    return static_cast<size_t>(rng_.between(0, static_cast<int32_t>(of.size()) - 1));
  }

  void change_requests() {
    const size_t goal = rng_.chance(0.02) ? 0 : waiting_target_;
    while (waiting_.size() < goal / 2) arrive();
    for (int i = rng_.between(0, 4); i > 0 && waiting_.size() < goal; --i) arrive();
    while (!waiting_.empty() && running_.size() < running_target_ && rng_.chance(0.7)) {
      const size_t i = some(waiting_);
      Live request = waiting_[i];
      waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
      request.ranked = false;
      event(request.preemptions > 0 ? INFLIGHT_EVENT_RESUME : INFLIGHT_EVENT_ADMIT, request,
            request.prompt - request.cached, request.cached);
      running_.push_back(request);
    }
    for (Live& request : running_) {
      if (request.first_token < 0) event(INFLIGHT_EVENT_FIRST_TOKEN, request);
      if (request.first_token < 0) request.first_token = host_.now;
      request.last_token = host_.now;
      ++request.output;
      event(INFLIGHT_EVENT_TOKENS, request, request.output == 1 ? request.prompt : 0, 1);
    }
    if (!running_.empty() && rng_.chance(0.3)) remove(running_, some(running_), INFLIGHT_EVENT_FINISH);
    if (!running_.empty() && rng_.chance(0.05)) remove(running_, some(running_), INFLIGHT_EVENT_ABORT);
    if (!waiting_.empty() && rng_.chance(0.05)) remove(waiting_, some(waiting_), INFLIGHT_EVENT_ABORT);
    if (!waiting_.empty() && rng_.chance(0.01)) remove(waiting_, some(waiting_), INFLIGHT_EVENT_REJECT);
    if (!running_.empty() && rng_.chance(0.1)) {
      event(INFLIGHT_EVENT_PREEMPT, running_.back(), running_.back().prompt);
      ++running_.back().preemptions;
      running_.back().queued = host_.now;
      waiting_.push_back(running_.back());
      running_.pop_back();
    }
    if (rng_.chance(0.01)) events_.push_back({INFLIGHT_EVENT_CACHE_RESET, 0, 0, host_.now, 0, 0, 0});
    if (rng_.chance(0.05)) events_.push_back({30, UINT32_MAX, UINT64_MAX, host_.now, -1, -1, -1});  // of a later minor
    events_.push_back({INFLIGHT_EVENT_STEP, 0, 0, host_.now, 100, static_cast<int64_t>(running_.size()), 1'000'000});
  }

  void deliver_events() {
    std::erase_if(events_, [&](const inflight_event_t& event) { return (policy_.events >> event.type & 1U) == 0; });
    if (ops_.on_events == nullptr || events_.empty()) {
      events_.clear();
      return;
    }
    struct Padded {  // a later minor version's event is longer
      inflight_event_t event;
      uint64_t newer;
    };
    arena_.reset();
    auto* const padded = arena_.take<Padded>(events_.size());
    for (size_t i = 0; i < events_.size(); ++i) padded[i] = {events_[i], ~uint64_t{0}};
    const inflight_events_t given{.struct_size = sizeof(inflight_events_t),
                                  .count = static_cast<uint32_t>(events_.size()),
                                  .stride = sizeof(Padded),
                                  .reserved = 0,
                                  .events = &padded->event};
    call("on_events", [&] { return ops_.on_events(self_, &given); });
    events_.clear();
  }

  template <typename T, typename Get>
  void column(const T*& place, uint32_t bit, const std::vector<Live>& requests, Get&& get) {
    if (bit != 0 && (policy_.request_columns & bit) == 0) return;
    T* const values = arena_.take<T>(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) values[i] = static_cast<T>(get(requests[i]));
    place = values;
  }

  const inflight_requests_t* table(const std::vector<Live>& requests, bool running) {
    using L = const Live&;
    inflight_requests_t view{};
    view.struct_size = sizeof view;
    view.count = static_cast<uint32_t>(requests.size());
    view.columns = policy_.request_columns;
    const auto fill = [&](auto& place, uint32_t bit, auto&& get) { column(place, bit, requests, get); };
    fill(view.id, 0, [](L r) { return r.id; });
    fill(view.slot, 0, [](L r) { return r.slot; });
    fill(view.state, INFLIGHT_COLUMN_STATE, [running](L r) {
      if (!running) return r.preemptions > 0 ? INFLIGHT_REQUEST_PREEMPTED : INFLIGHT_REQUEST_WAITING;
      return r.output == 0 ? INFLIGHT_REQUEST_PREFILL : INFLIGHT_REQUEST_DECODE;
    });
    fill(view.priority, INFLIGHT_COLUMN_PRIORITY, [](L r) { return r.priority; });
    fill(view.tenant, INFLIGHT_COLUMN_TENANT, [](L r) { return r.tenant; });
    fill(view.arrival_ns, INFLIGHT_COLUMN_TIMES, [](L r) { return r.arrival; });
    fill(view.queued_ns, INFLIGHT_COLUMN_TIMES, [](L r) { return r.queued; });
    fill(view.first_token_ns, INFLIGHT_COLUMN_TIMES, [](L r) { return r.first_token; });
    fill(view.last_token_ns, INFLIGHT_COLUMN_TIMES, [](L r) { return r.last_token; });
    fill(view.ttft_deadline_ns, INFLIGHT_COLUMN_DEADLINES, [](L r) { return r.ttft_deadline; });
    fill(view.next_token_deadline_ns, INFLIGHT_COLUMN_DEADLINES, [](L r) { return r.itl_deadline; });
    fill(view.e2e_deadline_ns, INFLIGHT_COLUMN_DEADLINES, [](L r) { return r.e2e_deadline; });
    fill(view.prompt_tokens, INFLIGHT_COLUMN_LENGTHS, [](L r) { return r.prompt; });
    fill(view.output_tokens, INFLIGHT_COLUMN_LENGTHS, [](L r) { return r.output; });
    fill(view.max_output_tokens, INFLIGHT_COLUMN_LENGTHS, [](L r) { return r.max_output; });
    fill(view.computed_tokens, INFLIGHT_COLUMN_LENGTHS,
         [running](L r) { return running ? r.prompt + r.output - 1 : 0; });
    fill(view.cached_tokens, INFLIGHT_COLUMN_CACHED, [](L r) { return r.cached; });
    fill(view.cached_unit, INFLIGHT_COLUMN_CACHED,
         [running](L r) { return running || r.cached == 0 ? INFLIGHT_UNIT_ROOT : r.cached % kTotalBlocks; });
    fill(view.blocks_held, INFLIGHT_COLUMN_BLOCKS, [running](L r) { return running ? r.prompt / 16 + 1 : 0; });
    fill(view.blocks_freeable, INFLIGHT_COLUMN_BLOCKS, [running](L r) { return running ? r.prompt / 32 : 0; });
    fill(view.predicted_output_tokens, INFLIGHT_COLUMN_PREDICTED, [](L r) { return r.predicted; });
    fill(view.preemptions, INFLIGHT_COLUMN_PREEMPTIONS, [](L r) { return r.preemptions; });
    fill(view.recomputed_tokens, INFLIGHT_COLUMN_PREEMPTIONS, [](L r) { return r.preemptions * 100; });
    fill(view.prefix_group, INFLIGHT_COLUMN_GROUPS, [](L r) { return r.group; });
    fill(view.adapter, INFLIGHT_COLUMN_GROUPS, [](L) { return 0U; });
    auto* const place = arena_.take<inflight_requests_t>(1);
    *place = view;
    return place;
  }

  const inflight_step_t& snapshot(const std::vector<Live>& waiting) {
    arena_.reset();
    std::fill(scratch_.begin(), scratch_.end(), variation_.garbage);
    auto* const step = arena_.take<inflight_step_t>(1);
    const auto blocks = static_cast<uint32_t>(any_of<int32_t>({0, kTotalBlocks}, rng_.between(0, kTotalBlocks)));
    *step = {.struct_size = sizeof(inflight_step_t),
             .flags = 0,
             .step = step_,
             .now_ns = host_.now,
             .max_step_tokens = 2048,
             .max_step_sequences = static_cast<uint32_t>(running_target_),
             .max_running = static_cast<uint32_t>(running_target_),
             .block_tokens = 16,
             .free_blocks = blocks,
             .evictable_blocks = kTotalBlocks - blocks,
             .total_blocks = kTotalBlocks,
             .watermark_blocks = 0,
             .tokens_left = static_cast<uint32_t>(any_of<int32_t>({0, 2048}, rng_.between(0, 2048))),
             .sequences_left = static_cast<uint32_t>(running_target_ - std::min(running_target_, running_.size())),
             .prefilling = 0,
             .decoding = static_cast<uint32_t>(running_.size()),
             .last_step_ns = any_of<int64_t>({0, INT64_MAX / 4}, 1'000'000),
             .last_prefill_tokens = 100,
             .last_decode_sequences = static_cast<uint32_t>(running_.size()),
             .reserve_ratio = 0.5,
             .waiting = table(waiting, false),
             .running = table(running_, true),
             .scratch = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch_.data()) + 63) / 64 * 64),
             .scratch_bytes = 4096};
    return *step;
  }

  void score(bool newcomers_only) {
    std::vector<Live> asked;
    if (newcomers_only) {
      std::ranges::copy_if(waiting_, std::back_inserter(asked), [](const Live& request) { return !request.ranked; });
      for (Live& request : waiting_) request.ranked = true;
      if (asked.empty()) return;
    } else {
      asked = waiting_;
    }
    const inflight_step_t& step = snapshot(asked);
    answers(key0_, asked.size(), kUnwrittenKey);
    answers(key1_, asked.size(), int64_t{0});
    const auto status = call("score", [&] { return ops_.score(self_, &step, key0_.data(), key1_.data()); });
    require_margin("score", key0_, kUnwrittenKey);
    require_margin("score", key1_, int64_t{0});
    for (size_t i = 0; i < asked.size() && status == INFLIGHT_PLUGIN_OK; ++i) {
      if (key0_[i] == kUnwrittenKey) refuse("score", fmt::format("left key {} of {} unwritten", i, asked.size()));
      mix(static_cast<uint64_t>(key0_[i]));
      mix(static_cast<uint64_t>(key1_[i]));
    }
  }

  void require_indices(const char* op, size_t room, uint32_t given) {
    if (given > room) refuse(op, fmt::format("gave {} indices, there was room for {}", given, room));
    std::vector<bool> seen(room, false);
    for (uint32_t i = 0; i < given; ++i) {
      if (indices_[i] >= room) refuse(op, fmt::format("gave the index {}, allowed: below {}", indices_[i], room));
      if (seen[indices_[i]]) refuse(op, fmt::format("gave the index {} twice", indices_[i]));
      seen[indices_[i]] = true;
      mix(indices_[i]);
    }
  }

  void order() {
    const inflight_step_t& step = snapshot(waiting_);
    answers(indices_, waiting_.size(), kUnwrittenIndex);
    auto given = static_cast<uint32_t>(waiting_.size());
    const auto status = call("order", [&] { return ops_.order(self_, &step, indices_.data(), &given); });
    require_margin("order", indices_, kUnwrittenIndex);
    if (status == INFLIGHT_PLUGIN_OK) require_indices("order", waiting_.size(), given);
  }

  void plan() {
    if (ops_.plan == nullptr) return;
    const inflight_step_t& step = snapshot(waiting_);
    inflight_plan_t plan{.struct_size = sizeof(inflight_plan_t),
                         .flags = 0,
                         .step_tokens = 2048,
                         .prefill_tokens = 2048,
                         .max_chunk = 2048,
                         .max_admit = 1000,
                         .reserve_ratio = 0.5};
    const auto status = call("plan", [&] { return ops_.plan(self_, &step, &plan); });
    if (status != INFLIGHT_PLUGIN_OK) return;
    if (!(plan.reserve_ratio >= 0.0 && plan.reserve_ratio <= 1.0)) {
      refuse("plan", fmt::format("gave the reserve_ratio {}, allowed: 0 to 1", plan.reserve_ratio));
    }
    for (const uint32_t value : {plan.flags, plan.step_tokens, plan.prefill_tokens, plan.max_chunk, plan.max_admit}) {
      mix(value);
    }
  }

  void admit() {
    if (ops_.admit == nullptr) return;
    const inflight_step_t& step = snapshot(waiting_);
    const size_t index = some(waiting_);
    const Live& request = waiting_[index];
    const inflight_candidate_t candidate{.struct_size = sizeof(inflight_candidate_t),
                                         .index = static_cast<uint32_t>(index),
                                         .uncached_tokens = request.prompt - request.cached,
                                         .cached_tokens = request.cached,
                                         .blocks_now = request.prompt / 16 + 1,
                                         .blocks_full = request.prompt / 16 + 1};
    inflight_admission_t admission{.struct_size = sizeof(inflight_admission_t),
                                   .decision = INFLIGHT_ADMIT,
                                   .max_tokens = candidate.uncached_tokens,
                                   .reserve_blocks = 0,
                                   .reason = 0,
                                   .reserved = 0};
    const auto status = call("admit", [&] { return ops_.admit(self_, &step, &candidate, &admission); });
    if (status != INFLIGHT_PLUGIN_OK) return;
    if (admission.decision > INFLIGHT_ADMIT_PREEMPT) {
      refuse("admit", fmt::format("gave the unknown decision {}", admission.decision));
    }
    const bool may_reject = (policy_.capabilities & INFLIGHT_CAP_REJECT) != 0;
    const bool may_preempt = (policy_.capabilities & INFLIGHT_CAP_PREEMPTS) != 0;
    if ((admission.decision == INFLIGHT_ADMIT_REJECT && !may_reject) ||
        (admission.decision == INFLIGHT_ADMIT_PREEMPT && !may_preempt)) {
      refuse("admit", fmt::format("gave decision {}, which its capabilities do not claim", admission.decision));
    }
    mix(admission.decision);
    mix(admission.max_tokens);
  }

  void pick_victims() {
    if (ops_.pick_victims == nullptr || running_.empty()) return;
    const inflight_step_t& step = snapshot(waiting_);
    const inflight_need_t need{.struct_size = sizeof(inflight_need_t),
                               .why = static_cast<uint32_t>(rng_.between(0, 2)),
                               .blocks = static_cast<uint32_t>(rng_.between(1, 100)),
                               .for_slot = running_.back().slot,
                               .for_request = running_.back().id};
    answers(indices_, running_.size(), kUnwrittenIndex);
    auto given = static_cast<uint32_t>(running_.size());
    const auto status =
        call("pick_victims", [&] { return ops_.pick_victims(self_, &step, &need, indices_.data(), &given); });
    require_margin("pick_victims", indices_, kUnwrittenIndex);
    if (status == INFLIGHT_PLUGIN_OK) require_indices("pick_victims", running_.size(), given);
  }

  const inflight_sched_ops_t& ops_;
  size_t waiting_target_, running_target_;
  std::vector<unsigned char> scratch_;
  std::vector<Live> waiting_, running_;
  std::vector<uint32_t> free_slots_;
  std::vector<inflight_event_t> events_;
  std::vector<int64_t> key0_, key1_;
  std::vector<uint32_t> indices_;
  uint64_t next_id_ = 0;
  uint64_t step_ = 0;
};

}  // namespace

std::unique_ptr<CheckDriver> make_sched_driver(CheckContext& context, const inflight_policy_t& policy, uint64_t seed,
                                               const CheckVariation& variation, int32_t waiting_target,
                                               int32_t running_target) {
  return std::make_unique<SchedDriver>(context, policy, seed, variation, waiting_target, running_target);
}

}  // namespace inflight
