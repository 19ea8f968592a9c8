// SPDX-License-Identifier: Apache-2.0
// inflight.h for C++17: handles that free themselves, errors as exceptions, strings instead of pointers and lengths.
// Header-only; nothing but the C ABI crosses into the library.
//
//   inflight::Engine engine({.model = "model.gguf"});                       // C++20; in C++17 set the fields by name
//   auto stream = engine.submit({.prompt = "Once upon a time"});
//   while (auto event = stream.next()) std::cout << event->text;
#ifndef INFLIGHT_HPP
#define INFLIGHT_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "inflight/inflight.h"

namespace inflight {
inline namespace v0 {

// A status from 10 on, with the library's text.
class Failure : public std::runtime_error {
 public:
  explicit Failure(inflight_status_t status)
      : std::runtime_error(inflight_last_error()),
        status_(status),
        field_(inflight_last_error_field()),
        reject_reason_(inflight_last_rejection(&retry_)) {}
  // What an event tells.
  Failure(inflight_status_t status, const std::string& message) : std::runtime_error(message), status_(status) {}
  inflight_status_t status() const noexcept { return status_; }
  // With INFLIGHT_ERROR_INVALID_ARGUMENT, see inflight_last_error_field().
  const char* field() const noexcept { return field_; }
  // With INFLIGHT_ERROR_REJECTED, see inflight_last_rejection().
  inflight_reject_reason_t reject_reason() const noexcept { return reject_reason_; }
  int32_t retry_after_s() const noexcept { return retry_; }

 private:
  inflight_status_t status_;
  const char* field_ = "";
  int32_t retry_ = 0;
  inflight_reject_reason_t reject_reason_ = INFLIGHT_REJECT_NONE;
};

namespace detail {

// Errors become exceptions; outcomes (below 10) are returned.
inline inflight_status_t check(inflight_status_t status) {
  if (status >= INFLIGHT_ERROR_INVALID_ARGUMENT) throw Failure(status);
  return status;
}

// A timeout as the C functions take it: none waits without end, less than 0 not at all; 24 days are the longest.
inline int32_t timeout_ms(std::optional<std::chrono::milliseconds> timeout) {
  if (!timeout) return -1;
  return static_cast<int32_t>(std::clamp<int64_t>(timeout->count(), 0, INT32_MAX));
}

// Calls read(buffer, capacity, &length) until the text fits; once where it has at most `guess` bytes.
template <typename Read>
std::string read_text(Read&& read, size_t guess = 255) {
  std::string text(guess, '\0');
  for (;;) {
    size_t length = 0;
    const bool fits = check(read(&text[0], text.size() + 1, &length)) == INFLIGHT_OK;
    text.resize(length);
    if (fits) return text;
  }
}

// The same with token ids.
template <typename Read>
std::vector<int32_t> read_ids(Read&& read, size_t guess) {
  std::vector<int32_t> ids(guess);
  for (;;) {
    size_t count = 0;
    const bool fits = check(read(ids.data(), ids.size(), &count)) == INFLIGHT_OK;
    ids.resize(count);
    if (fits) return ids;
  }
}

// read_text() for what an engine tells of itself: each call makes the text anew, megabytes of it, and the last one's
// length is the best guess of the next one's.
template <typename Read>
std::string read_report(Read&& read) {
  static std::atomic<size_t> last{65'535};  // of this kind of report: each has its own type of `read`
  const size_t guess = last.load(std::memory_order_relaxed);
  std::string text = read_text(read, guess + guess / 8);
  last.store(text.size(), std::memory_order_relaxed);
  return text;
}

}  // namespace detail

using LogFunction = std::function<void(inflight_log_level_t level, std::string_view message)>;

// inflight_set_log(); an empty function silences. What it throws is lost. One thread at a time.
inline void set_log(LogFunction log, inflight_log_level_t level = INFLIGHT_LOG_INFO) {
  static LogFunction& current = *new LogFunction;  // as long as the process: engines may end late
  inflight_set_log(nullptr, nullptr, level);       // now the function before is not running any more
  current = std::move(log);
  if (!current) return;
  const inflight_log_fn call = [](void*, inflight_log_level_t line_level, const char* message, size_t length) {
    try {
      current(line_level, std::string_view(message, length));
    } catch (...) {
    }
  };
  inflight_set_log(call, nullptr, level);
}

// What arrived since the last event, copied.
struct Event {
  std::string text;
  std::vector<int32_t> token_ids;
  std::vector<float> logprobs;
  inflight_finish_reason_t finish_reason = INFLIGHT_FINISH_NONE;
  std::string error;
  int32_t prompt_token_count = 0, cached_token_count = 0, output_token_count = 0, preemption_count = 0;
  int32_t draft_token_count = 0, accepted_token_count = 0;                  // with a finish_reason
  double first_scheduled_s = 0.0, first_token_s = 0.0, last_token_s = 0.0;  // likewise, since submit
  int32_t index = 0;                                                        // which answer
  using Top = std::vector<inflight_token_logprob_t>;
  std::vector<Top> top_logprobs;  // one a token, with RequestOptions.params.logprobs
  std::vector<float> prompt_logprobs;
  std::vector<Top> prompt_top_logprobs;
  std::string stop_text;       // which of RequestOptions.stop ended the answer
  int32_t stop_token_id = -1;  // or which token
  inflight_status_t error_status = INFLIGHT_OK;
  std::vector<float> embedding;  // with RequestOptions.params.pooling
};

// One answer on its way. Move-only; cancels its request when it is destroyed early. Goes before its engine.
class Stream {
 public:
  explicit Stream(inflight_stream_t* handle) : handle_(handle) {}
  Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), ended_(other.ended_) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(ended_, other.ended_);
    return *this;
  }
  ~Stream() { inflight_stream_destroy(handle_); }

  // The next event; nullopt when the answer is complete, or when `timeout` ran out (ended() tells which). Without a
  // timeout it waits as long as it takes.
  std::optional<Event> next(std::optional<std::chrono::milliseconds> timeout = std::nullopt) {
    inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
    const inflight_status_t status = detail::check(inflight_stream_next(handle_, detail::timeout_ms(timeout), &event));
    ended_ = status == INFLIGHT_END_OF_STREAM;
    if (status != INFLIGHT_OK) return std::nullopt;
    Event result;
    result.text.assign(event.text, event.text_length);
    result.token_ids.assign(event.token_ids, event.token_ids + event.token_count);
    result.logprobs.assign(event.logprobs, event.logprobs + event.token_count);
    result.finish_reason = event.finish_reason;
    if (event.error != nullptr) result.error = event.error;
    result.prompt_token_count = event.prompt_token_count;
    result.cached_token_count = event.cached_token_count;
    result.output_token_count = event.output_token_count;
    result.preemption_count = event.preemption_count;
    result.draft_token_count = event.draft_token_count;
    result.accepted_token_count = event.accepted_token_count;
    result.first_scheduled_s = event.first_scheduled_s;
    result.first_token_s = event.first_token_s;
    result.last_token_s = event.last_token_s;
    result.index = event.index;
    const auto lists = [&event](const inflight_token_logprob_t* tops, size_t count) {
      std::vector<Event::Top> all(tops == nullptr ? 0 : count);
      const auto width = static_cast<size_t>(event.top_count);
      for (size_t i = 0; i < all.size(); ++i) {
        for (size_t k = 0; k < width && tops[i * width + k].token_id >= 0; ++k) all[i].push_back(tops[i * width + k]);
      }
      return all;
    };
    result.top_logprobs = lists(event.top_logprobs, event.token_count);
    if (event.prompt_logprob_count > 0) {
      result.prompt_logprobs.assign(event.prompt_logprobs, event.prompt_logprobs + event.prompt_logprob_count);
      result.prompt_top_logprobs = lists(event.prompt_top_logprobs, event.prompt_logprob_count);
    }
    if (event.stop_text != nullptr) result.stop_text = event.stop_text;
    result.stop_token_id = event.stop_token_id;
    result.error_status = event.error_status;
    if (event.embedding != nullptr) result.embedding.assign(event.embedding, event.embedding + event.embedding_size);
    return result;
  }
  bool ended() const noexcept { return ended_; }
  void cancel() { inflight_stream_cancel(handle_); }
  // inflight_stream_set_notify()
  void set_notify(inflight_notify_fn notify, void* context) {
    detail::check(inflight_stream_set_notify(handle_, notify, context));
  }

  // The whole answers, by index: as many as RequestOptions.params.n.  Throws Failure when one of them failed, and with
  // INFLIGHT_ERROR_REJECTED when the engine cut one because its time ran out.
  std::vector<std::string> texts() {
    std::vector<std::string> all(1);
    while (const std::optional<Event> event = next()) {
      if (event->finish_reason == INFLIGHT_FINISH_ERROR) throw Failure(event->error_status, event->error);
      if (!event->error.empty()) throw Failure(INFLIGHT_ERROR_REJECTED, event->error);
      const auto index = static_cast<size_t>(event->index);
      if (index >= all.size()) all.resize(index + 1);
      all[index] += event->text;
    }
    return all;
  }
  // The whole answer.  Throws as texts(), and std::logic_error when there are several.
  std::string text() {
    std::vector<std::string> all = texts();
    if (all.size() > 1) throw std::logic_error("the request has several answers (n): texts() gives them");
    return std::move(all[0]);
  }

 private:
  inflight_stream_t* handle_;
  bool ended_ = false;
};

// The parameter structs with strings that own their text; `params` holds every other field of the C struct.
struct EngineOptions {
  std::string model;
  std::string device{};
  std::string schedule_policy{}, radix_eviction_policy{}, batching{}, preempt{}, scheduling_profile{}, record_path{};
  std::string linear_backend{}, chat_template{}, speculative_config{}, served_model_name{};
  std::string classifier_from_token{};
  std::vector<std::string> lora_modules{};  // "NAME=FILE"
  inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
};
struct RequestOptions {
  std::string prompt{};               // or
  std::vector<int32_t> prompt_ids{};  // these
  std::vector<int32_t> stop_token_ids{};
  std::vector<std::string> stop{}, bad_words{}, dry_sequence_breakers{};
  std::vector<std::pair<int32_t, float>> logit_bias{};
  std::string structured_json{}, structured_regex{}, structured_grammar{};  // at most one, or
  std::vector<std::string> structured_choice{};                             // these
  std::string structured_tools{};
  std::string lora_name{};   // "" = none
  std::string prediction{};  // "" = none
  inflight_request_params_t params = INFLIGHT_REQUEST_PARAMS_INIT;
};

class Engine {
 public:
  explicit Engine(const EngineOptions& options) {
    inflight_engine_params_t params = options.params;
    const auto text = [](const std::string& value) { return value.empty() ? nullptr : value.c_str(); };
    params.model = text(options.model);
    params.device = text(options.device);
    params.schedule_policy = text(options.schedule_policy);
    params.radix_eviction_policy = text(options.radix_eviction_policy);
    params.batching = text(options.batching);
    params.preempt = text(options.preempt);
    params.scheduling_profile = text(options.scheduling_profile);
    params.record_path = text(options.record_path);
    params.linear_backend = text(options.linear_backend);
    params.chat_template = text(options.chat_template);
    params.speculative_config = text(options.speculative_config);
    params.served_model_name = text(options.served_model_name);
    params.classifier_from_token = text(options.classifier_from_token);
    std::vector<const char*> modules;
    for (const std::string& module : options.lora_modules) modules.push_back(module.c_str());
    params.lora_modules = modules.empty() ? nullptr : modules.data();
    params.lora_module_count = modules.size();
    detail::check(inflight_engine_create(&params, &handle_));
  }
  Engine(Engine&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Engine& operator=(Engine&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Engine() { inflight_engine_destroy(handle_); }

  Stream submit(const RequestOptions& options) {
    inflight_request_params_t params = options.params;
    if (options.prompt_ids.empty()) {
      params.prompt = options.prompt.data();
      params.prompt_length = options.prompt.size();
    } else {
      params.prompt_ids = options.prompt_ids.data();
      params.prompt_id_count = options.prompt_ids.size();
    }
    if (!options.stop_token_ids.empty()) {
      params.stop_token_ids = options.stop_token_ids.data();
      params.stop_token_id_count = options.stop_token_ids.size();
    }
    const auto pointers = [](const std::vector<std::string>& texts) {
      std::vector<const char*> result;
      for (const std::string& text : texts) result.push_back(text.c_str());
      return result;
    };
    const auto stop = pointers(options.stop), bad_words = pointers(options.bad_words);
    if (!stop.empty()) params.stop = stop.data(), params.stop_count = stop.size();
    if (!bad_words.empty()) params.bad_words = bad_words.data(), params.bad_word_count = bad_words.size();
    const auto breakers = pointers(options.dry_sequence_breakers);
    if (!breakers.empty()) {
      params.dry_sequence_breakers = breakers.data();
      params.dry_sequence_breaker_count = breakers.size();
    }
    const auto text = [](const std::string& value) { return value.empty() ? nullptr : value.c_str(); };
    params.structured_json = text(options.structured_json);
    params.structured_regex = text(options.structured_regex);
    params.structured_grammar = text(options.structured_grammar);
    params.structured_tools = text(options.structured_tools);
    params.lora_name = text(options.lora_name);
    params.prediction = text(options.prediction);
    const auto choice = pointers(options.structured_choice);
    if (!choice.empty()) params.structured_choice = choice.data(), params.structured_choice_count = choice.size();
    std::vector<int32_t> bias_ids;
    std::vector<float> biases;
    for (const auto& bias : options.logit_bias) bias_ids.push_back(bias.first), biases.push_back(bias.second);
    if (!biases.empty()) {
      params.logit_bias_ids = bias_ids.data();
      params.logit_biases = biases.data();
      params.logit_bias_count = biases.size();
    }
    inflight_stream_t* stream = nullptr;
    detail::check(inflight_engine_submit(handle_, &params, &stream));
    return Stream(stream);
  }

  // Host-driven engines: false when nothing is to be done.
  bool step() { return detail::check(inflight_engine_step(handle_)) == INFLIGHT_OK; }

  std::vector<int32_t> tokenize(std::string_view text, bool add_special = true, bool parse_special = true) {
    const auto read = [&](int32_t* ids, size_t capacity, size_t* count) {
      return inflight_tokenize(handle_, text.data(), text.size(), add_special ? 1 : 0, parse_special ? 1 : 0, ids, capacity,
                               count);
    };
    return detail::read_ids(read, text.size() + 8);
  }
  // The prompt for what stands between two texts.
  std::vector<int32_t> infill_tokenize(std::string_view prefix, std::string_view suffix, bool add_special = true,
                                       bool parse_special = true) {
    const auto read = [&](int32_t* ids, size_t capacity, size_t* count) {
      return inflight_infill_tokenize(handle_, prefix.data(), prefix.size(), suffix.data(), suffix.size(),
                                      add_special ? 1 : 0, parse_special ? 1 : 0, ids, capacity, count);
    };
    return detail::read_ids(read, prefix.size() + suffix.size() + 16);
  }
  // What a reranker judges.
  std::vector<int32_t> rerank_tokenize(std::string_view query, std::string_view document) {
    const auto read = [&](int32_t* ids, size_t capacity, size_t* count) {
      return inflight_rerank_tokenize(handle_, query.data(), query.size(), document.data(), document.size(), ids, capacity,
                                      count);
    };
    return detail::read_ids(read, query.size() + document.size() + 128);
  }
  std::string detokenize(const std::vector<int32_t>& ids) {
    return detail::read_text([&](char* text, size_t capacity, size_t* length) {
      return inflight_detokenize(handle_, ids.data(), ids.size(), text, capacity, length);
    });
  }
  std::string token_text(int32_t id) {
    return detail::read_text([&](char* text, size_t capacity, size_t* length) {
      return inflight_token_text(handle_, id, text, capacity, length);
    });
  }
  std::string chat_render(std::string_view request_json) {
    const auto render = [&](char* text, size_t capacity, size_t* length) {
      return inflight_chat_render(handle_, request_json.data(), request_json.size(), text, capacity, length);
    };
    return detail::read_text(render, request_json.size() + 4'095);  // what a template adds is mostly less
  }
  inflight_stats_t stats() {
    inflight_stats_t stats = INFLIGHT_STATS_INIT;
    detail::check(inflight_engine_stats(handle_, &stats));
    return stats;
  }
  std::string metrics_text() { return report<inflight_engine_metrics_text>(); }
  std::string steps_json(uint64_t since = 0) {
    return detail::read_report([&](char* text, size_t capacity, size_t* length) {
      return inflight_engine_steps_json(handle_, since, text, capacity, length);
    });
  }
  std::string info_json() { return report<inflight_engine_info_json>(); }
  std::string trace_json() { return report<inflight_engine_trace_json>(); }
  void set_policy(const std::string& spec) { detail::check(inflight_engine_set_policy(handle_, spec.c_str())); }
  void set_policy_params(const std::string& spec) {
    detail::check(inflight_engine_set_policy_params(handle_, spec.c_str()));
  }
  void configure(std::string_view json) { detail::check(inflight_engine_configure(handle_, json.data(), json.size())); }
  void reset_prefix_cache() { detail::check(inflight_engine_reset_prefix_cache(handle_)); }
  void load_lora_adapter(const std::string& name, const std::string& path) {
    detail::check(inflight_engine_load_lora_adapter(handle_, name.c_str(), path.c_str()));
  }
  void unload_lora_adapter(const std::string& name) {
    detail::check(inflight_engine_unload_lora_adapter(handle_, name.c_str()));
  }
  void pause(inflight_pause_mode_t mode = INFLIGHT_PAUSE_ALL) { detail::check(inflight_engine_pause(handle_, mode)); }
  void resume() { detail::check(inflight_engine_resume(handle_)); }
  // True: no request is left. Without a timeout it waits as long as it takes.
  bool drain(std::optional<std::chrono::milliseconds> timeout = std::nullopt) {
    return detail::check(inflight_engine_drain(handle_, detail::timeout_ms(timeout))) == INFLIGHT_OK;
  }
  inflight_engine_t* handle() const noexcept { return handle_; }

 private:
  template <auto Read>
  std::string report() {
    return detail::read_report(
        [&](char* text, size_t capacity, size_t* length) { return Read(handle_, text, capacity, length); });
  }

  inflight_engine_t* handle_ = nullptr;
};

}  // namespace v0
}  // namespace inflight

#endif
