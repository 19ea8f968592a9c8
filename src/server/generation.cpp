// SPDX-License-Identifier: Apache-2.0
#include "server/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/api_error.h"

namespace inflight::server {
namespace {

constexpr size_t kEventBytesMax = 64 << 10;            // made at a time, then the client must have taken them
constexpr uint64_t kSeedStep = 0x9E3779B97F4A7C15ULL;  // between the answers of one request

constexpr std::chrono::seconds kSilenceMax{15};

// What the engine's refusal means over HTTP.
ApiError error_of(const Failure& failure) {
  switch (failure.status()) {
    case INFLIGHT_ERROR_INVALID_ARGUMENT:
    case INFLIGHT_ERROR_UNSUPPORTED:
      return {400, failure.what()};
    case INFLIGHT_ERROR_REJECTED:
      return {429, failure.what(), "", "queue_full"};
    case INFLIGHT_ERROR_ENGINE_FAILED:
      return {503, failure.what(), "", "engine_failed"};
    default:
      return {500, failure.what()};
  }
}

RequestOptions options_for(const GenerationRequest& request, const Prompt& prompt, int32_t choice, uint32_t tenant) {
  RequestOptions options;
  options.params = request.params;
  options.params.tenant = tenant;
  if (!request.cache_salt.empty()) options.params.cache_salt = request.cache_salt.c_str();
  if (options.params.seed != 0) options.params.seed += static_cast<uint64_t>(choice) * kSeedStep;
  options.prompt = prompt.text;
  options.prompt_ids = prompt.ids;
  options.stop_token_ids = request.stop_token_ids;
  return options;
}

std::unique_ptr<AnswerFormat> format_for(unsigned endpoint, const GenerationRequest& request, AnswerInfo info) {
  if (endpoint == kCompletions) return completion_format(request, std::move(info));
  if (endpoint == kChat) return chat_format(request, std::move(info));
  return response_format(request, std::move(info));
}

// The format is the endpoint's own; a stream's errors end it in the same way for all.
std::string error_event(const ApiError& error) { return "data: " + error.body() + "\n\n"; }

}  // namespace

SubmittedRequest submit_request(Engine& engine, std::unique_ptr<GenerationRequest> request, unsigned endpoint,
                                AnswerInfo info, uint32_t tenant) {
  try {
    if (endpoint != kCompletions) {
      request->prompts.push_back({engine.chat_render(chat_render_json(*request)), {}});
      request->params.add_special_tokens = 0;  // the template has written them
    }
    SubmittedRequest submitted{std::move(request), endpoint, std::move(info), {}};
    const GenerationRequest& wanted = *submitted.request;
    for (const Prompt& prompt : wanted.prompts) {
      for (int32_t k = 0; k < wanted.n; ++k) {
        submitted.streams.push_back(engine.submit(options_for(wanted, prompt, k, tenant)));
        if (wanted.echo) {
          submitted.info.echoes.push_back(prompt.ids.empty() ? prompt.text : engine.detokenize(prompt.ids));
        }
      }
    }
    submitted.info.choice_count = static_cast<int32_t>(submitted.streams.size());
    return submitted;
  } catch (const Failure& failure) {
    throw error_of(failure);
  }
}

Generation::Generation(Engine& engine, Exchange& exchange, ReadyQueue& queue, SubmittedRequest submitted)
    : engine_(engine),
      exchange_(exchange),
      request_(std::move(submitted.request)),
      format_(format_for(submitted.endpoint, *request_, std::move(submitted.info))),
      waker_{queue, exchange.id()},
      last_write_(std::chrono::steady_clock::now()) {
  choices_.reserve(submitted.streams.size());
  for (Stream& stream : submitted.streams) choices_.push_back({.stream = std::move(stream)});
  if (request_->stream) {
    exchange_.begin_stream("text/event-stream; charset=utf-8");
    std::string out;
    format_->begin(out);
    exchange_.write(out);
  }
  const auto wake = [](void* context) {
    const Waker& waker = *static_cast<const Waker*>(context);
    waker.queue.push(waker.exchange);
  };
  for (Choice& choice : choices_) choice.stream.set_notify(wake, &waker_);
}

Generation::~Generation() = default;

void Generation::proceed() {
  if (done_) return;
  std::string out;
  for (size_t i = 0; i < choices_.size() && out.size() < kEventBytesMax; ++i) {
    if (!pump_choice(static_cast<int32_t>(i), out)) return;
  }
  if (std::all_of(choices_.begin(), choices_.end(), [](const Choice& choice) { return choice.ended; })) {
    finish(out);
  } else if (!out.empty()) {
    exchange_.write(out);
    last_write_ = std::chrono::steady_clock::now();
  }
}

bool Generation::pump_choice(int32_t index, std::string& out) {
  Choice& choice = choices_[static_cast<size_t>(index)];
  while (!choice.ended) {
    if (request_->stream && (!exchange_.ready() || out.size() >= kEventBytesMax)) return true;
    std::optional<Event> event = choice.stream.next(std::chrono::milliseconds(0));
    if (!event) return true;
    choice.usage = {.prompt_tokens = event->prompt_token_count,
                    .cached_tokens = event->cached_token_count,
                    .output_tokens = event->output_token_count};
    choice.ended = event->finish_reason != INFLIGHT_FINISH_NONE;
    if (event->finish_reason == INFLIGHT_FINISH_ERROR) {
      fail(event->error, out);
      return false;
    }
    const AnswerDelta delta = delta_of(index, *event);
    if (!request_->stream) {
      format_->collect(delta);
    } else if (!delta.text.empty() || !delta.tokens.empty() || choice.ended) {
      format_->add(delta, out);
    }
  }
  return true;
}

AnswerDelta Generation::delta_of(int32_t index, Event& event) const {
  AnswerDelta delta{.choice = index, .text = std::move(event.text), .tokens = {}, .finish_reason = event.finish_reason};
  if (!request_->logprobs) return delta;
  size_t count = event.token_ids.size();
  if (event.finish_reason == INFLIGHT_FINISH_STOP && count > 0) --count;  // the end token is no text
  for (size_t i = 0; i < count; ++i) {
    const int32_t id = event.token_ids[i];
    delta.tokens.push_back({.id = id, .text = engine_.detokenize({id}), .logprob = event.logprobs[i]});
  }
  return delta;
}

AnswerUsage Generation::usage() const {
  AnswerUsage total;
  for (size_t i = 0; i < choices_.size(); ++i) {
    const AnswerUsage& usage = choices_[i].usage;
    total.output_tokens += usage.output_tokens;
    if (i % static_cast<size_t>(request_->n) != 0) continue;  // the answers to a prompt share it
    total.prompt_tokens += usage.prompt_tokens;
    total.cached_tokens += usage.cached_tokens;
  }
  return total;
}

void Generation::finish(std::string& out) {
  done_ = true;
  if (!request_->stream) return exchange_.respond({.body = format_->whole(usage())});
  format_->end(usage(), out);
  exchange_.write(out);
  exchange_.end_stream();
}

void Generation::fail(const std::string& message, std::string& out) {
  done_ = true;
  for (Choice& choice : choices_) choice.stream.cancel();
  const ApiError error(500, message.empty() ? "the engine failed" : message, "", "engine_failed");
  if (!request_->stream) return exchange_.respond(error.response());
  exchange_.write(out + error_event(error));
  exchange_.end_stream();
}

void Generation::on_tick(std::chrono::steady_clock::time_point now) {
  if (done_ || !request_->stream || now - last_write_ < kSilenceMax || !exchange_.ready()) return;
  exchange_.write(": waiting\n\n");
  last_write_ = now;
}

}  // namespace inflight::server
