// SPDX-License-Identifier: Apache-2.0
#include "sim/simulation.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <queue>

#include "base/error.h"
#include "base/math.h"
#include "sim/replica.h"

namespace inflight {
namespace {

constexpr std::array<const char*, 3> kRoutingNames = {"round_robin", "least_loaded", "prefix"};

// Requests in order of arrival: those with a time of their own are sorted, the others come when what they follow ends.
class ArrivalList {
 public:
  explicit ArrivalList(const Workload& workload)
      : workload_(workload), followers_(workload), ends_(followers_.any() ? workload.requests.size() : 0) {
    for (size_t i = 0; i < workload.requests.size(); ++i) {
      if (workload.requests[i].after == kNoRequest) timed_.push_back(static_cast<int32_t>(i));
    }
    std::ranges::stable_sort(timed_, {}, [&](int32_t i) { return workload.requests[static_cast<size_t>(i)].arrival; });
  }

  void on_end(int32_t request, TimeNs now) {
    if (!followers_.any_of(request)) return;
    ends_[static_cast<size_t>(request)] = now;
    followers_.each(request, [&](int32_t follower) {
      const SimRequest& next = workload_.requests[static_cast<size_t>(follower)];
      const auto count = static_cast<size_t>(next.after_count);
      // Replicas are not told of in order of time.
      const auto awaited = std::span(ends_).subspan(static_cast<size_t>(next.after) + 1 - count, count);
      add(follower, std::ranges::max(awaited) + next.arrival);
    });
  }
  void add(int32_t request, TimeNs time) { waiting_.push({time, request}); }

  struct Arrival {
    TimeNs time;
    int32_t request;
    bool operator>(const Arrival& other) const {
      return time != other.time ? time > other.time : request > other.request;
    }
  };
  [[nodiscard]] std::optional<Arrival> next() const {
    std::optional<Arrival> first;
    if (next_timed_ < timed_.size()) {
      const int32_t request = timed_[next_timed_];
      first = {workload_.requests[static_cast<size_t>(request)].arrival, request};
    }
    if (!waiting_.empty() && (!first || *first > waiting_.top())) first = waiting_.top();
    return first;
  }
  void pop(const Arrival& arrival) {
    if (next_timed_ < timed_.size() && timed_[next_timed_] == arrival.request) {
      ++next_timed_;
    } else {
      waiting_.pop();
    }
  }
  [[nodiscard]] bool has_followers() const { return followers_.any(); }

 private:
  const Workload& workload_;
  Followers followers_;
  std::vector<TimeNs> ends_;  // by request, of those that others wait for
  std::vector<int32_t> timed_;
  size_t next_timed_ = 0;
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> waiting_;
};

class Simulation {
 public:
  Simulation(const SimOptions& options, const Workload& workload, const Clock& wall, const SimObservers& observers)
      : options_(options),
        workload_(workload),
        wall_(wall),
        wall_begin_(wall.now()),
        observers_(observers),
        model_(options.device),
        arrivals_(workload) {
    options_.setup = resolved_setup(options, workload);
    result_.requests.reserve(workload.requests.size());
    if (options.prefill_replicas > 0) first_stage_.resize(workload.requests.size());
    for (int32_t i = 0; i < options.replicas; ++i) add_replica(i);
    if (observers.trace != nullptr) replicas_.front()->set_trace(observers.trace);
  }

  SimResult run() {
    for (uint64_t round = 0;; ++round) {
      if (round % 64 == 0) check_wall_limit();
      Replica* const next = earliest_busy();
      const auto arrival = arrivals_.next();
      const bool arrives = arrival && (next == nullptr || arrival->time <= next->now());
      if (arrives && arrival->time < options_.time_limit && route(*arrival)) continue;
      if (next == nullptr || next->now() >= options_.time_limit) break;
      // Who arrives and finds no room waits at the client until somebody ends.
      advance(*next, arrival && !arrives ? std::optional(arrival->time) : std::nullopt);
    }
    return finish();
  }

 private:
  void check_wall_limit() const {
    if (options_.wall_limit == kNoDeadline || wall_.now() - wall_begin_ < options_.wall_limit) return;
    fail(ErrorCode::InvalidArgument, "the simulation takes longer than {:g} s (wall_limit_s): give it less to do",
         static_cast<double>(options_.wall_limit) * 1e-9);
  }

  // Replicas that a request may go to.
  struct Pool {
    std::vector<Replica*> replicas;
    size_t next = 0;  // round robin
  };

  void add_replica(int32_t index) {
    Replica::Options options{.setup = options_.setup,
                             .overlap = options_.overlap,
                             .skip_decodes = options_.skip_decodes,
                             .stage = Stage::Whole,
                             .index = index};
    if (options_.prefill_replicas > 0) {
      options.stage = index < options_.prefill_replicas ? Stage::Prefill : Stage::Decode;
    }
    if (options.stage == Stage::Decode) {  // prompts that come with their K and V enter whole
      SchedulerConfig& config = options.setup.config;
      const int64_t tokens = int64_t{config.max_num_batched_tokens} + 4 * int64_t{config.max_model_len};
      config.max_num_batched_tokens = static_cast<int32_t>(std::min<int64_t>(tokens, limits::kBatchedTokensMax));
      config.long_prefill_token_threshold = config.max_prefill_tokens = 0;
    }
    replicas_.push_back(
        std::make_unique<Replica>(options, model_, workload_, [this](const RequestRecord& record) { on_end(record); }));
    (options.stage == Stage::Decode ? decode_pool_ : entry_pool_).replicas.push_back(replicas_.back().get());
  }

  [[nodiscard]] Replica* earliest_busy() const {
    Replica* earliest = nullptr;
    for (const auto& replica : replicas_) {
      if (!replica->idle() && (earliest == nullptr || replica->now() < earliest->now())) earliest = replica.get();
    }
    return earliest;
  }

  // One step, or nothing until it wakes or the next request arrives.
  void advance(Replica& replica, std::optional<TimeNs> until) {
    // A request that follows another may arrive before `until` from another replica.
    const bool known = replicas_.size() == 1 || (!arrivals_.has_followers() && first_stage_.empty());
    const TimeNs due = std::min(until.value_or(kNoDeadline), options_.time_limit);
    if (replica.step(known ? due : replica.now())) return;
    std::optional<TimeNs> wake = replica.wake_time();
    if (until && (!wake || *until < *wake)) wake = until;
    INFLIGHT_CHECK(wake.has_value());
    replica.idle_until(std::max(std::min(*wake, options_.time_limit), replica.now()));
  }

  // It comes with its first token, from the prefill pool.
  [[nodiscard]] bool is_transferred(int32_t request) const {
    return !first_stage_.empty() && first_stage_[static_cast<size_t>(request)].has_value();
  }

  bool route(const ArrivalList::Arrival& arrival) {
    const SimRequest& request = workload_.requests[static_cast<size_t>(arrival.request)];
    const bool transferred = is_transferred(arrival.request);
    Replica* const replica = choose(transferred ? decode_pool_ : entry_pool_, request);
    if (replica == nullptr) return false;
    arrivals_.pop(arrival);
    arrived_ += !transferred;
    if (options_.max_queued > 0 && !transferred && waiting_beyond_rows(*replica) >= options_.max_queued) {
      on_whole_end({.request = arrival.request,
                    .replica = replica->index(),
                    .arrival = arrival.time,
                    .end = arrival.time,
                    .reason = FinishReason::Error});
      return true;
    }
    const TimeNs sent = transferred ? first_stage_[static_cast<size_t>(arrival.request)]->arrival : arrival.time;
    replica->add(arrival.request, arrival.time, sent);
    return true;
  }

  // As the engine's max_num_queued_reqs counts.
  [[nodiscard]] static int32_t waiting_beyond_rows(Replica& replica) {
    const Scheduler& scheduler = replica.scheduler();
    return scheduler.waiting_count() - scheduler.free_row_count();
  }

  [[nodiscard]] Replica* choose(Pool& pool, const SimRequest& request) {
    const std::vector<Replica*>& replicas = pool.replicas;
    if (replicas.size() == 1) return replicas.front()->has_room() ? replicas.front() : nullptr;
    if (options_.routing == Routing::RoundRobin) {
      for (size_t tried = 0; tried < replicas.size(); ++tried) {
        Replica* const replica = replicas[pool.next++ % replicas.size()];
        if (replica->has_room()) return replica;
      }
      return nullptr;
    }
    Replica* least = nullptr;
    for (Replica* const replica : replicas) {
      if (!replica->has_room()) continue;
      if (least == nullptr || replica->outstanding_tokens() < least->outstanding_tokens()) least = replica;
    }
    if (least == nullptr || options_.routing == Routing::LeastLoaded) return least;
    // The most stored tokens; where nothing is stored or the holder is far busier, the least loaded.
    Replica* best = least;
    int32_t stored = least->stored_prefix_tokens(request);
    for (Replica* const replica : replicas) {
      const int32_t here = replica->stored_prefix_tokens(request);
      const bool overloaded =
          replica->outstanding_tokens() > 2 * least->outstanding_tokens() + request.prompt_tokens * 8;
      if (here <= stored || overloaded || !replica->has_room()) continue;
      best = replica;
      stored = here;
    }
    return best;
  }

  void on_end(const RequestRecord& record) {
    const SimRequest& request = workload_.requests[static_cast<size_t>(record.request)];
    if (first_stage_.empty()) {
      on_whole_end(record);
      return;
    }
    std::optional<RequestRecord>& first = first_stage_[static_cast<size_t>(record.request)];
    if (!first && request.output_tokens > 1 && record.reason == FinishReason::Length) {
      first = record;
      arrivals_.add(record.request, record.end + model_.transfer_time(request.prompt_tokens));
    } else if (first) {
      RequestRecord whole = *first;
      // Its second token, if it was given one, waited for transfer and place.
      if (record.first_token != kNotYet) transfer_itl_.add(record.first_token - first->first_token);
      whole.replica = record.replica;
      whole.end = record.end;
      whole.output_tokens += record.output_tokens;
      whole.preemptions += record.preemptions;
      whole.draft_tokens = record.draft_tokens;
      whole.accepted_tokens = record.accepted_tokens;
      whole.reason = record.reason;
      on_whole_end(whole);
    } else {
      on_whole_end(record);
    }
  }

  void on_whole_end(const RequestRecord& record) {
    result_.requests.push_back(record);
    arrivals_.on_end(record.request, record.end);
    if (observers_.progress && result_.requests.size() % 256 == 0) {
      observers_.progress(static_cast<double>(result_.requests.size()) /
                          static_cast<double>(workload_.requests.size()));
    }
  }

  SimResult finish();
  [[nodiscard]] int64_t count_unfinished();
  void summarise_requests();

  SimOptions options_;
  const Workload& workload_;
  const Clock& wall_;
  const TimeNs wall_begin_;
  const SimObservers& observers_;
  DeviceModel model_;
  ArrivalList arrivals_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  Pool entry_pool_, decode_pool_;
  std::vector<std::optional<RequestRecord>> first_stage_;  // with pools, by request: what the prefill pool did
  LatencyHistogram transfer_itl_;
  int64_t arrived_ = 0;  // requests that a replica took or rejected
  SimResult result_;
};

bool within(TimeNs time, TimeNs limit) { return limit == kNoDeadline || time <= limit; }

void Simulation::summarise_requests() {
  std::vector<TimeNs> ttft, tpot, e2e, queue;
  for (const RequestRecord& record : result_.requests) {
    const SimRequest& request = workload_.requests[static_cast<size_t>(record.request)];
    if (record.first_scheduled == kNotYet || record.reason == FinishReason::Error) {
      ++result_.rejected;
      continue;
    }
    queue.push_back(record.first_scheduled - record.arrival);
    if (record.first_token == kNotYet) continue;
    ttft.push_back(record.first_token - record.arrival);
    e2e.push_back(record.end - record.arrival);
    const TimeNs per_token =
        record.output_tokens > 1 ? (record.end - record.first_token) / (record.output_tokens - 1) : 0;
    if (record.output_tokens > 1) tpot.push_back(per_token);
    result_.deadlines_met += within(ttft.back(), request.ttft_deadline) && within(e2e.back(), request.e2e_deadline) &&
                             within(per_token, request.itl_target);
  }
  result_.fairness = service_fairness(result_.requests, workload_, PromptService::Whole);
  result_.fairness_computed = service_fairness(result_.requests, workload_, PromptService::Computed);
  result_.ttft = LatencySummary::of(std::move(ttft));
  result_.tpot = LatencySummary::of(std::move(tpot));
  result_.e2e = LatencySummary::of(std::move(e2e));
  result_.queue = LatencySummary::of(std::move(queue));
}

// Those that the time limit cuts off.   MODIFIES: takes arrivals before the limit out of the list.
int64_t Simulation::count_unfinished() {
  int64_t at_clients = 0;  // nobody had room for them
  for (auto arrival = arrivals_.next(); arrival && arrival->time < options_.time_limit; arrival = arrivals_.next()) {
    at_clients += !is_transferred(arrival->request);
    arrivals_.pop(*arrival);
  }
  const auto ended = static_cast<int64_t>(result_.requests.size());
  INFLIGHT_CHECK(options_.time_limit != kNoDeadline || result_.requests.size() == workload_.requests.size());
  return arrived_ + at_clients - ended;
}

SimResult Simulation::finish() {
  result_.unfinished = count_unfinished();
  const SchedulerSetup& setup = options_.setup;
  result_.workload = workload_.name;
  result_.cut_off = workload_.cut_off_request_count;
  result_.left_out = workload_.left_out_request_count;
  result_.device = options_.device.name;
  result_.schedule_policy = setup.schedule_policy;
  result_.eviction_policy = setup.eviction_policy;
  result_.batching = to_string(setup.config.batching);
  result_.max_num_seqs = setup.config.max_num_seqs;
  result_.kv_blocks = setup.blocks.block_count;
  result_.replicas = options_.replicas;
  for (const auto& replica : replicas_) result_.makespan = std::max(result_.makespan, replica->now());
  LatencyHistogram itl;
  double busy_ns = 0.0, prefill_ns = 0.0;  // of all replicas: more than TimeNs counts
  for (const auto& replica : replicas_) {
    replica->add_to(result_, result_.makespan);
    itl.add(replica->itl());
    const auto [all, prefill] = replica->busy_time(result_.makespan);
    busy_ns += static_cast<double>(all);
    prefill_ns += static_cast<double>(prefill);
    // Order of the replicas matters, as it should.
    result_.decision_hash = result_.decision_hash * 31 + replica->decision_hash();
  }
  itl.add(transfer_itl_);
  if (!first_stage_.empty()) {  // a request counts once, not in both pools
    SchedulerStats& sum = result_.scheduler;
    sum.requests_finished = std::ranges::count_if(
        result_.requests, [](const RequestRecord& record) { return record.reason != FinishReason::Error; });
    for (const auto member :
         {&SchedulerStats::prompt_tokens, &SchedulerStats::cached_tokens, &SchedulerStats::host_cached_tokens}) {
      sum.*member = 0;
      for (const Replica* replica : entry_pool_.replicas) sum.*member += replica->scheduler().stats().*member;
    }
  }
  const auto count = static_cast<double>(replicas_.size());
  result_.kv_usage_mean /= count;
  if (result_.makespan > 0) result_.device_busy_share = busy_ns / static_cast<double>(result_.makespan) / count;
  if (busy_ns > 0.0) result_.prefill_time_share = prefill_ns / busy_ns;
  result_.itl = LatencySummary::of(itl);
  result_.static_batching = static_batching(workload_, setup.config.max_num_seqs);
  summarise_requests();
  return std::move(result_);
}

}  // namespace

const char* to_string(Routing routing) { return kRoutingNames[static_cast<size_t>(routing)]; }
std::optional<Routing> parse_routing(std::string_view name) {
  for (size_t i = 0; i < kRoutingNames.size(); ++i) {
    if (name == kRoutingNames[i]) return static_cast<Routing>(i);
  }
  return std::nullopt;
}

SchedulerSetup resolved_setup(const SimOptions& options, const Workload& workload) {
  if (options.replicas < 1 || options.replicas > 64) {
    fail(ErrorCode::InvalidArgument, "replicas is {}, allowed: 1 to 64", options.replicas);
  }
  if (options.prefill_replicas < 0 || (options.prefill_replicas > 0 && options.prefill_replicas >= options.replicas)) {
    fail(ErrorCode::InvalidArgument, "prefill_replicas is {}, allowed: 0 to {} (replicas - 1)",
         options.prefill_replicas, options.replicas - 1);
  }
  if (workload.requests.empty()) fail(ErrorCode::InvalidArgument, "the workload has no requests");
  SchedulerSetup setup = options.setup;
  const int64_t longest = workload.sequence_tokens_max();
  const int32_t width = setup.blocks.block_token_count;
  if (width < 1 || width > limits::kBlockTokensMax) {
    fail(ErrorCode::InvalidArgument, "block_size is {}, allowed: 1 to {}", width, limits::kBlockTokensMax);
  }
  if (setup.config.max_model_len == 0) {
    setup.config.max_model_len = static_cast<int32_t>(std::min<int64_t>(longest, limits::kContextTokensMax));
  }
  if (longest > setup.config.max_model_len) {
    fail(ErrorCode::InvalidArgument,
         "the workload's longest request has {} tokens with its output, allowed: {} (max_model_len)", longest,
         setup.config.max_model_len);
  }
  setup.config.max_model_len = std::max(setup.config.max_model_len, 2);
  if (setup.blocks.block_count == 0) {
    const int64_t least = div_ceil(setup.config.max_model_len, width);
    setup.blocks.block_count =
        static_cast<int32_t>(std::clamp<int64_t>(options.device.kv_tokens / width, least, limits::kBlocksMax));
  }
  if (setup.blocks.block_count < 1 || setup.blocks.block_count > limits::kBlocksMax) {
    fail(ErrorCode::InvalidArgument, "kv_blocks is {}, allowed: 1 to {}", setup.blocks.block_count, limits::kBlocksMax);
  }
  if (int64_t{setup.blocks.block_count} * width < longest) {
    fail(ErrorCode::InvalidArgument,
         "the workload's longest request has {} tokens with its output, allowed: {} (kv_blocks {} of {} tokens)",
         longest, int64_t{setup.blocks.block_count} * width, setup.blocks.block_count, width);
  }
  setup.config.sliding_window = options.device.sliding_window;
  setup.config.local_share = options.device.local_share;
  setup.blocks.local_window = options.device.local_window;
  if (workload.acceptance) setup.config.prompt_lookup_min = setup.config.prompt_lookup_max = 1;  // see prediction()
  setup.block_bytes = static_cast<uint64_t>(options.device.kv_bytes_per_token * width);
  setup.latency = DeviceModel(options.device).latency_model().coefficients();
  setup.config.validate(int64_t{setup.blocks.block_count} * width);
  return setup;
}

SimResult run_simulation(const SimOptions& options, const Workload& workload, const Clock& wall,
                         const SimObservers& observers) {
  const TimeNs begin = wall.now();
  SimResult result = Simulation(options, workload, wall, observers).run();
  result.wall_s = static_cast<double>(wall.now() - begin) * 1e-9;
  return result;
}

}  // namespace inflight
