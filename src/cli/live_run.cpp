// SPDX-License-Identifier: Apache-2.0
#include "cli/live_run.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace inflight::cli {
namespace {

Engine open_host_driven(EngineFlags& flags) {
  flags.options.params.host_driven = 1;
  flags.overlap = "off";
  return open_engine(flags);
}

// Counts the slots that were used, from the steps that the engine keeps for a while.
class SlotCount {
 public:
  explicit SlotCount(Engine& engine) : engine_(engine) { read(false); }
  // Between two calls there may be at most as many steps as are kept (256).
  void read(bool count = true) {
    const auto found = nlohmann::json::parse(engine_.steps_json(last_step_));
    last_step_ = found.at("last_step");
    if (!count) return;
    for (const auto& step : found.at("steps")) used_ += step.at("sequence_count").get<int64_t>();
    slots_ += found.at("steps").size() * found.at("max_num_seqs").get<int64_t>();
  }
  [[nodiscard]] double share() const {
    return slots_ == 0 ? 0.0 : static_cast<double>(used_) / static_cast<double>(slots_);
  }

 private:
  Engine& engine_;
  uint64_t last_step_ = 0;
  int64_t used_ = 0, slots_ = 0;
};

// The requests that are open, and who comes next.
class Clients {
 public:
  Clients(LiveEngine& engine, const Workload& workload) : engine_(engine), workload_(workload), begin_(engine.now()) {
    followers_.resize(workload.requests.size(), kNoRequest);
    for (size_t i = 0; i < workload.requests.size(); ++i) {
      const SimRequest& request = workload.requests[i];
      if (request.after == kNoRequest) {
        due_.emplace(begin_ + request.arrival, i);
      } else {
        followers_[static_cast<size_t>(request.after)] = static_cast<int32_t>(i);
      }
    }
  }

  [[nodiscard]] bool done() const { return due_.empty() && open_.empty(); }

  void submit_due() {
    if (open_.empty()) engine_.skip_to(due_.begin()->first);
    while (!due_.empty() && due_.begin()->first <= engine_.now()) {
      const auto [time, index] = *due_.begin();
      due_.erase(due_.begin());
      auto client = std::make_unique<Client>(index, engine_.submit(workload_, workload_.requests[index]), time);
      client->stream.set_notify([](void* ready) { *static_cast<bool*>(ready) = true; }, &client->ready);
      open_.push_back(std::move(client));
    }
  }

  void read_streams() {
    std::erase_if(open_, [this](const auto& client) { return std::exchange(client->ready, false) && read(*client); });
  }

  [[nodiscard]] LiveResult result() const {
    return {.makespan_s = static_cast<double>(engine_.now() - begin_) * 1e-9,
            .output_tokens = output_tokens_,
            .ttft = LatencySummary::of(ttft_),
            .itl = LatencySummary::of(itl_),
            .e2e = LatencySummary::of(e2e_)};
  }

 private:
  struct Client {
    Client(size_t index, Stream opened, TimeNs time) : request(index), stream(std::move(opened)), arrival(time) {}
    size_t request;
    Stream stream;
    TimeNs arrival;
    TimeNs last_token = kNotYet;
    bool ready = false;  // set within the step: host-driven engines call in the stepping thread
  };

  bool read(Client& client) {  // true: it has ended
    const Arrived arrived = poll(client.stream);
    const TimeNs now = engine_.now();
    if (arrived.tokens > 0) {
      if (client.last_token == kNotYet) {
        ttft_.push_back(now - client.arrival);
      } else {
        itl_.push_back(now - client.last_token);
      }
      client.last_token = now;
      output_tokens_ += arrived.tokens;
    }
    if (!arrived.ended) return false;
    e2e_.push_back(now - client.arrival);
    if (const int32_t next = followers_[client.request]; next != kNoRequest) {
      due_.emplace(now + workload_.requests[static_cast<size_t>(next)].arrival, static_cast<size_t>(next));
    }
    return true;
  }

  LiveEngine& engine_;
  const Workload& workload_;
  const TimeNs begin_;
  std::multimap<TimeNs, size_t> due_;
  std::vector<int32_t> followers_;  // by request: who comes after it
  std::vector<std::unique_ptr<Client>> open_;
  std::vector<TimeNs> ttft_, itl_, e2e_;
  int64_t output_tokens_ = 0;
};

}  // namespace

LiveEngine::LiveEngine(EngineFlags& flags) : engine_(open_host_driven(flags)) {
  const auto info = nlohmann::json::parse(engine_.info_json());
  model_ = info.at("model").at("name");
  device_ = info.at("device").at("name");
  vocabulary_size_ = info.at("model").at("vocabulary_size");
  max_model_len_ = info.at("limits").at("max_model_len");
}

Stream LiveEngine::submit(int32_t prompt_tokens, int32_t output_tokens) {
  RequestOptions request;
  for (int32_t i = 0; i < prompt_tokens; ++i) request.prompt_ids.push_back(rng_.between(0, vocabulary_size_ - 1));
  request.params.max_tokens = output_tokens;
  request.params.ignore_eos = 1;
  return engine_.submit(request);
}

Stream LiveEngine::submit(const Workload& workload, const SimRequest& request) {
  RequestOptions options;
  for (const ContentSegment& segment : workload.prompt(request)) {
    append_stream(segment.stream, segment.offset, segment.count, options.prompt_ids);
  }
  for (int32_t& id : options.prompt_ids) id %= vocabulary_size_;
  options.params.max_tokens = request.output_tokens;
  options.params.predicted_output_tokens = request.predicted_output_tokens;
  options.params.priority = request.priority;
  options.params.tenant = request.tenant;
  options.params.ignore_eos = 1;
  return engine_.submit(options);
}

double LiveEngine::timed_step() {
  const TimeNs begin = clock_.now();
  if (!engine_.step()) return 0.0;
  const TimeNs taken = clock_.now() - begin;
  now_ += taken;
  return static_cast<double>(taken) * 1e-9;
}

Arrived poll(Stream& stream) {
  Arrived arrived;
  while (!arrived.ended) {
    const auto event = stream.next(std::chrono::milliseconds(0));
    if (!event) break;
    if (event->finish_reason == INFLIGHT_FINISH_ERROR) fail(ErrorCode::EngineFailed, "{}", event->error);
    arrived.tokens += static_cast<int32_t>(event->token_ids.size());
    arrived.ended = event->finish_reason != INFLIGHT_FINISH_NONE;
  }
  return arrived;
}

LiveResult run_live(LiveEngine& engine, const Workload& workload) {
  constexpr int64_t kStepsARead = 128;
  const inflight_stats_t before = engine.engine().stats();
  SlotCount slots(engine.engine());
  Clients clients(engine, workload);
  for (int64_t step = 1; !clients.done(); ++step) {
    clients.submit_due();
    engine.timed_step();
    clients.read_streams();
    if (step % kStepsARead == 0) slots.read();
  }
  slots.read();
  const inflight_stats_t after = engine.engine().stats();
  LiveResult result = clients.result();
  result.steps = static_cast<int64_t>(after.steps - before.steps);
  result.preemptions = static_cast<int64_t>(after.preemptions - before.preemptions);
  const auto prompt_tokens = static_cast<double>(after.prompt_tokens - before.prompt_tokens);
  result.prefix_hit_rate =
      static_cast<double>(after.cached_tokens - before.cached_tokens) / std::max(prompt_tokens, 1.0);
  result.useful_slot_share = slots.share();
  return result;
}

}  // namespace inflight::cli
