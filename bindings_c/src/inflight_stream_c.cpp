// SPDX-License-Identifier: Apache-2.0
// inflight.h: submitting requests and reading their answers.
#include <algorithm>
#include <chrono>
#include <memory>

#include "base/quote.h"
#include "guard.h"
#include "handles.h"
#include "params.h"

using inflight::c::guard;
using inflight::c::require;

namespace {

// Whatever else has ended it meanwhile.
void end_by_stop_string(inflight::StreamBatch& batch) {
  batch.finish = inflight::FinishReason::Stop;
  batch.stop_token.reset();
}

// The text of what just came, into stream.text. The token that ended the answer has none unless asked for; what waits
// for the rest of a character or might begin a stop string comes out at the end. Behind a stop string nothing is told
// any more.
void append_text(inflight_stream& stream, inflight_stream::Answer& answer) {
  inflight::StreamBatch& batch = stream.batch;
  stream.text.clear();
  if (!answer.detokenizer) return;
  size_t count = batch.tokens.size();
  if (batch.stop_token && !answer.stop.includes_stop() && count > 0) --count;
  for (size_t i = 0; i < count; ++i) {
    stream.text += answer.push(batch.tokens[i]);
    if (!answer.stop.stopped()) continue;
    batch.output_token_count -= static_cast<int32_t>(batch.tokens.size() - (i + 1));
    batch.tokens.resize(i + 1);
    end_by_stop_string(batch);
    return;
  }
  if (batch.finish == inflight::FinishReason::None) return;
  stream.text += answer.push_end();
  if (answer.stop.stopped()) {
    end_by_stop_string(batch);
  } else {
    stream.text += answer.stop.flush();
  }
}

void append_lists(const std::vector<inflight::PositionLogprobs>& positions, int32_t width,
                  std::vector<inflight_token_logprob_t>& lists) {
  lists.clear();
  for (const inflight::PositionLogprobs& position : positions) {
    for (size_t k = 0; k < static_cast<size_t>(width); ++k) {
      const bool present = k < position.top.size();
      lists.push_back(present ? inflight_token_logprob_t{position.top[k].token, position.top[k].logprob}
                              : inflight_token_logprob_t{-1, 0.0F});
    }
  }
}

inflight_stream_event_t event_of(inflight_stream& stream) {
  const inflight::StreamBatch& batch = stream.batch;
  append_lists(batch.top_logprobs, stream.top_count, stream.top_logprobs);
  append_lists(batch.prompt_logprobs, stream.top_count, stream.prompt_top_logprobs);
  stream.prompt_logprobs.clear();
  for (const inflight::PositionLogprobs& position : batch.prompt_logprobs) {
    stream.prompt_logprobs.push_back(position.logprob);
  }
  inflight_stream_event_t event{};
  event.finish_reason = static_cast<inflight_finish_reason_t>(batch.finish);
  event.token_ids = batch.tokens.data();
  event.logprobs = batch.logprobs.data();
  event.token_count = batch.tokens.size();
  event.text = stream.text.c_str();
  event.text_length = stream.text.size();
  const bool failed = batch.finish == inflight::FinishReason::Error || batch.finish == inflight::FinishReason::Abort;
  stream.error = failed ? inflight::one_line(batch.error) : std::string();  // else of what came behind its end
  event.error = stream.error.empty() ? nullptr : stream.error.c_str();
  if (batch.finish == inflight::FinishReason::Error)
    event.error_status = static_cast<inflight_status_t>(batch.error_code);
  event.prompt_token_count = batch.prompt_token_count;
  event.cached_token_count = batch.cached_token_count;
  event.output_token_count = batch.output_token_count;
  if (batch.finish != inflight::FinishReason::None) {
    const inflight::ChoiceProgress& progress = batch.progress;
    event.preemption_count = progress.preemption_count;
    event.draft_token_count = progress.draft_token_count;
    event.accepted_token_count = progress.accepted_token_count;
    event.first_scheduled_s = progress.times.first_scheduled_s;
    event.first_token_s = progress.times.first_token_s;
    event.last_token_s = progress.times.last_token_s;
  }
  event.index = batch.index;
  const inflight::StopMatcher& stop = stream.answers[static_cast<size_t>(batch.index)].stop;
  event.stop_text = stop.stopped() ? stop.matched().c_str() : nullptr;
  event.stop_token_id = batch.stop_token.value_or(-1);
  event.top_count = stream.top_count;
  if (!stream.top_logprobs.empty()) event.top_logprobs = stream.top_logprobs.data();
  if (!stream.prompt_logprobs.empty()) {
    event.prompt_logprobs = stream.prompt_logprobs.data();
    event.prompt_top_logprobs = stream.prompt_top_logprobs.data();
    event.prompt_logprob_count = stream.prompt_logprobs.size();
  }
  if (!batch.embedding.empty()) {
    event.embedding = batch.embedding.data();
    event.embedding_size = batch.embedding.size();
  }
  return event;
}

// Ends the answers of best_of at their stop strings. Nobody reads them before all have ended, and which is the best is
// decided by what is left of them.
inflight::EndRule stop_rule(std::vector<inflight_stream::Answer> answers,
                            std::shared_ptr<const std::vector<inflight::TokenId>> shown_tokens) {
  return
      [answers = std::move(answers), shown = std::move(shown_tokens)](int32_t choice, inflight::TokenId token) mutable {
        inflight_stream::Answer& answer = answers[static_cast<size_t>(choice)];
        answer.push(token);
        return answer.stop.stopped();
      };
}

bool all_stopped(const inflight_stream& stream) {
  return std::all_of(stream.answers.begin(), stream.answers.end(),
                     [](const auto& answer) { return answer.stop.stopped(); });
}

}  // namespace

extern "C" {

inflight_status_t inflight_engine_submit(inflight_engine_t* engine, const inflight_request_params_t* params,
                                         inflight_stream_t** stream) {
  return guard([&] {
    require(engine, "engine");
    require(stream, "stream");
    inflight::Runtime& runtime = engine->runtime;
    const inflight_request_params_t given = inflight::c::read_struct(params, "params");
    auto options = inflight::c::read_request_params(given, runtime);
    std::vector<std::string> stop;
    inflight::c::StructuredOutput structured;
    if (options.pooling == inflight::Pooling::None) {
      stop = inflight::c::read_stop_strings(given);
      if (!stop.empty()) static_cast<void>(runtime.require_tokenizer());
      structured = inflight::c::read_structured_output(given, runtime);
    }
    auto handle = std::unique_ptr<inflight_stream>(new inflight_stream{.engine = runtime.engine()});
    options.filter_sleeps = structured.sleeps;
    handle->shown_tokens = std::make_shared<const std::vector<inflight::TokenId>>(std::move(structured.shown_tokens));
    inflight_stream::Answer answer{.detokenizer = {},
                                   .stop = {stop, given.include_stop_str_in_output != 0},
                                   .min_tokens = options.sampling.min_tokens};
    if (const inflight::Tokenizer* const tokenizer = runtime.tokenizer()) {
      answer.detokenizer.emplace(
          tokenizer->vocabulary(),
          inflight::DetokenizeOptions{
              .show_control = given.show_special_tokens != 0, .shown = *handle->shown_tokens, .whole_text = false});
    }
    if (given.pooling == INFLIGHT_POOLING_CLASSIFY) handle->classifier = &runtime.require_classifier();
    handle->answers = std::vector(static_cast<size_t>(options.sampling.n), answer);
    if (!stop.empty() && options.sampling.best_of > options.sampling.n) {
      options.ends =
          stop_rule(std::vector(static_cast<size_t>(options.sampling.best_of), answer), handle->shown_tokens);
    }
    handle->top_count = std::max({options.sampling.logprobs, options.sampling.prompt_logprobs, 0});
    inflight::AdapterLease adapter;
    if (given.lora_name != nullptr) adapter = runtime.lease_lora_adapter(given.lora_name);
    handle->output = runtime.engine().submit(std::move(options), std::move(structured.filter), std::move(adapter));
    handle->request = handle->output->request();
    *stream = handle.release();
    return INFLIGHT_OK;
  });
}

inflight_status_t inflight_stream_next(inflight_stream_t* stream, int32_t timeout_ms, inflight_stream_event_t* event) {
  return guard([&] {
    require(stream, "stream");
    inflight::c::check_output(event, "event");
    using Clock = std::chrono::steady_clock;
    using std::chrono::milliseconds;
    std::optional<milliseconds> timeout;
    if (timeout_ms >= 0) timeout = milliseconds(timeout_ms);
    const Clock::time_point begin = Clock::now();
    for (;;) {
      if (all_stopped(*stream)) return INFLIGHT_END_OF_STREAM;
      switch (stream->output->next(timeout, stream->batch)) {
        case inflight::OutputStream::Next::TimedOut:
          return INFLIGHT_WOULD_BLOCK;
        case inflight::OutputStream::Next::Ended:
          return INFLIGHT_END_OF_STREAM;
        case inflight::OutputStream::Next::Ready:
          break;
      }
      if (std::vector<float>& hidden = stream->batch.embedding; stream->classifier != nullptr && !hidden.empty()) {
        hidden = stream->classifier->probabilities(hidden);
      }
      inflight_stream::Answer& answer = stream->answers[static_cast<size_t>(stream->batch.index)];
      if (answer.stop.stopped()) {  // its last tokens: none of the reader's business but for the time
        const auto passed = std::chrono::floor<milliseconds>(Clock::now() - begin);
        if (timeout) timeout = std::max(milliseconds(timeout_ms) - passed, milliseconds(0));
        continue;
      }
      append_text(*stream, answer);
      if (answer.stop.stopped()) stream->engine.stop(stream->request, stream->batch.index);
      inflight::c::write_struct(event_of(*stream), event, "event");
      return INFLIGHT_OK;
    }
  });
}

inflight_status_t inflight_stream_set_notify(inflight_stream_t* stream, inflight_notify_fn notify, void* context) {
  return guard([&] {
    require(stream, "stream");
    stream->output->set_notify(notify, context);
    return INFLIGHT_OK;
  });
}

void inflight_stream_cancel(inflight_stream_t* stream) {
  static_cast<void>(guard([&] {
    if (stream != nullptr) stream->engine.cancel(stream->request);
    return INFLIGHT_OK;
  }));
}

void inflight_stream_destroy(inflight_stream_t* stream) {
  if (stream == nullptr) return;
  inflight_stream_cancel(stream);  // may fail for want of memory: then the request runs on to its end
  static_cast<void>(guard([&] {
    const std::unique_ptr<inflight_stream> freed(stream);
    stream->output->set_notify(nullptr, nullptr);
    stream->output->release();
    return INFLIGHT_OK;
  }));
}

}  // extern "C"
