// SPDX-License-Identifier: Apache-2.0
#include "cli/live_run.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "sim/recording.h"

namespace inflight::cli {
namespace {

std::string make_recording_file(const EngineFlags& flags) {
  if (!flags.options.record_path.empty()) return {};
  std::string path = (std::filesystem::temp_directory_path() / "inflight-XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) fail(ErrorCode::Io, "{}: no file can be made for the recording", path);
  close(file);
  return path;
}

// As a server's engine, with a recording.
EngineFlags& served_flags(EngineFlags& flags, const std::string& recording) {
  flags.options.record_path = recording;
  flags.options.params.populate_kv = 1;
  return flags;
}

// Sends requests when they are due. Streams are read only as far as somebody waits for their end, and at the end: a
// client that wakes for every token would take time from a device that computes on the same processors.
class Clients {
 public:
  Clients(Engine& engine, const Workload& workload, std::vector<RequestOptions> prepared)
      : engine_(engine), workload_(workload), prepared_(std::move(prepared)), followers_(workload) {
    for (size_t i = 0; i < prepared_.size(); ++i) {
      const SimRequest& request = workload.requests[i];
      if (request.after == kNoRequest) due_.emplace(request.arrival, i);
    }
    clients_.resize(prepared_.size());
  }

  // All that are due at or before `time` after the begin.
  void submit_due(TimeNs time) {
    while (!due_.empty() && due_.begin()->first <= time) {
      const size_t index = due_.begin()->second;
      due_.erase(due_.begin());
      auto client = submit(index);
      if (client == nullptr) {
        ++rejected_;
        add_followers(index, time);
        continue;
      }
      if (followers_.any_of(static_cast<int32_t>(index))) {
        ++awaited_;
        client->stream.set_notify([](void* context) { static_cast<Client*>(context)->on_news(); }, client.get());
      }
      clients_[index] = std::move(client);
    }
  }

  void serve(TimeNs begin) {
    const SteadyClock clock;
    while (!due_.empty() || awaited_ > 0) {
      wait(begin + (due_.empty() ? kNoWait : due_.begin()->first) - clock.now());
      read_awaited(clock.now() - begin);
      submit_due(clock.now() - begin);
    }
    engine_.drain();
    for (const auto& client : clients_) {
      if (client != nullptr) static_cast<void>(ended(*client));
    }
    engine_.resume();
  }

  // At submit: by the queue's limits.
  [[nodiscard]] int64_t rejected() const { return rejected_; }
  // Of the last request that ended by one; empty: none did.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  struct Client {
    Clients* owner;
    size_t request;
    Stream stream;
    std::vector<int32_t> answer{};  // as far as it was read
    void on_news() {
      const std::scoped_lock lock(owner->mutex_);
      owner->news_.push_back(request);
      owner->arrived_.notify_one();
    }
  };
  static constexpr TimeNs kNoWait = 1'000'000'000;  // nothing is due: look again after a second

  // Null: it was rejected.
  std::unique_ptr<Client> submit(size_t index) {
    try {
      return std::make_unique<Client>(Client{this, index, engine_.submit(prepared_[index])});
    } catch (const Failure& failure) {
      if (failure.status() != INFLIGHT_ERROR_REJECTED) throw;
      return nullptr;
    }
  }

  void add_followers(size_t index, TimeNs now) {
    followers_.each(static_cast<int32_t>(index), [this, index, now](int32_t follower) {
      const auto next = static_cast<size_t>(follower);
      if (workload_.requests[next].output_stream == workload_.requests[index].output_stream) continue_turn(index, next);
      due_.emplace(now + workload_.requests[next].arrival, next);
    });
  }

  // The next turn begins with what was said, in place of the answers that the workload made up.
  void continue_turn(size_t before, size_t next) {
    const std::vector<int32_t>& prompt = prepared_[before].prompt_ids;
    const auto answer_begin = std::ranges::copy(prompt, prepared_[next].prompt_ids.begin()).out;
    if (clients_[before] != nullptr) std::ranges::copy(clients_[before]->answer, answer_begin);
  }

  void wait(TimeNs duration) {
    std::unique_lock lock(mutex_);
    arrived_.wait_for(lock, std::chrono::nanoseconds(duration), [this] { return !news_.empty(); });
  }

  void read_awaited(TimeNs now) {
    std::vector<size_t> news;
    {
      const std::scoped_lock lock(mutex_);
      news.swap(news_);
    }
    for (const size_t index : news) {
      if (!ended(*clients_[index])) continue;
      --awaited_;
      add_followers(index, now);
    }
  }

  // Reads what has come.
  bool ended(Client& client) {
    while (const auto event = client.stream.next(std::chrono::milliseconds(0))) {
      client.answer.insert(client.answer.end(), event->token_ids.begin(), event->token_ids.end());
      if (event->finish_reason == INFLIGHT_FINISH_ERROR) error_ = event->error;
      if (event->finish_reason != INFLIGHT_FINISH_NONE) return true;
    }
    return false;
  }

  Engine& engine_;
  const Workload& workload_;
  std::vector<RequestOptions> prepared_;
  Followers followers_;
  std::multimap<TimeNs, size_t> due_;
  std::vector<std::unique_ptr<Client>> clients_;  // by request; null: rejected at submit, or not sent yet
  int64_t rejected_ = 0;
  std::string error_;
  size_t awaited_ = 0;  // running requests that others follow
  std::mutex mutex_;    // guards what is below
  std::condition_variable arrived_;
  std::vector<size_t> news_;
};

}  // namespace

OwnFile::~OwnFile() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove(path_, ignored);
}

LiveEngine::LiveEngine(EngineFlags& flags)
    : own_recording_(make_recording_file(flags)),
      recording_(own_recording_.path().empty() ? flags.options.record_path : own_recording_.path()),
      engine_(open_engine(served_flags(flags, recording_))),
      adapters_(lora_names(flags)) {
  const auto info = nlohmann::json::parse(engine_.info_json());
  model_ = info.at("model").at("name");
  device_ = info.at("device").at("name");
  unmeasured_profile_ = {.description = model_ + " on " + device_,
                         .kv_bytes_per_token = info.at("memory").at("kv_bytes_per_token"),
                         .sliding_window = info.at("model").at("sliding_window"),
                         .local_window = info.at("model").at("local_window"),
                         .local_share = info.at("model").at("local_share"),
                         .layers = info.at("model").at("layers"),
                         .hidden_bytes = sizeof(float) * info.at("model").at("embedding_length").get<double>()};
  vocabulary_size_ = info.at("model").at("vocabulary_size");
  max_model_len_ = info.at("limits").at("max_model_len");
  max_num_seqs_ = info.at("limits").at("max_num_seqs");
}

RequestOptions LiveEngine::options_of(const Workload& workload, const SimRequest& request) const {
  RequestOptions options;
  for (const ContentSegment& segment : workload.prompt(request)) {
    append_stream(segment.stream, segment.offset, segment.count, options.prompt_ids);
  }
  for (int32_t& id : options.prompt_ids) id %= vocabulary_size_;
  if (const auto prompt = std::ssize(options.prompt_ids); prompt + request.output_tokens > max_model_len_) {
    fail(ErrorCode::InvalidArgument,
         "the workload has a request of {} prompt and {} output tokens, allowed: {} together"
         " (max_model_len)",
         prompt, request.output_tokens, max_model_len_);
  }
  const auto wanted_ms = [](TimeNs time) { return time == kNoDeadline ? 0.0 : static_cast<double>(time) * 1e-6; };
  options.params.ttft_deadline_ms = wanted_ms(request.ttft_deadline);
  options.params.e2e_deadline_ms = wanted_ms(request.e2e_deadline);
  options.params.itl_target_ms = wanted_ms(request.itl_target);
  options.params.max_tokens = request.output_tokens;
  options.params.predicted_output_tokens = request.predicted_output_tokens;
  options.params.priority = request.priority;
  options.params.tenant = request.tenant;
  options.params.ignore_eos = 1;
  if (request.adapter > 0) {
    if (adapters_.empty()) {
      fail(ErrorCode::InvalidArgument, "the workload's requests have adapters, but none is loaded: --lora NAME=FILE");
    }
    options.lora_name = adapters_[(request.adapter - 1) % adapters_.size()];
  }
  return options;
}

RecordedRun LiveEngine::recorded(TimeNs begin, int64_t requests) const {
  constexpr int kAttempts = 1000;  // of a millisecond: the engine writes when it comes to rest
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    RecordedRun run = read_recorded_run(read_recording(recording_), begin);
    if (run.finished + run.rejected + run.failed == requests) return run;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  fail(ErrorCode::Io, "{}: the recording ends before the last of {} requests", recording_, requests);
}

RecordedRun LiveEngine::run(const Workload& workload) {
  std::vector<RequestOptions> prepared;
  prepared.reserve(workload.requests.size());
  for (const SimRequest& request : workload.requests) prepared.push_back(options_of(workload, request));
  Clients clients(engine_, workload, std::move(prepared));
  engine_.pause();
  clients.submit_due(0);
  const TimeNs begin = SteadyClock().now();
  engine_.resume();
  clients.serve(begin);
  RecordedRun run = recorded(begin, std::ssize(workload.requests) - clients.rejected());
  if (run.failed > 0) fail(ErrorCode::EngineFailed, "{}", clients.error());
  run.rejected += clients.rejected();
  return run;
}

}  // namespace inflight::cli
