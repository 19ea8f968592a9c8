// SPDX-License-Identifier: Apache-2.0
// inflight.h: submitting requests and reading their answers.
#include "guard.h"
#include "handles.h"
#include "params.h"

using inflight::c::guard;
using inflight::c::require;

namespace {

// The text of what just came. The token that stopped the answer has none; what waits for the rest of a character comes
// out at the end.
void append_text(inflight_stream& stream) {
  stream.text.clear();
  if (!stream.detokenizer) return;
  const inflight::StreamBatch& batch = stream.batch;
  size_t count = batch.tokens.size();
  if (batch.finish == inflight::FinishReason::Stop && count > 0) --count;
  for (size_t i = 0; i < count; ++i) stream.text += stream.detokenizer->push(batch.tokens[i]);
  if (batch.finish != inflight::FinishReason::None) stream.text += stream.detokenizer->flush();
}

}  // namespace

extern "C" {

inflight_status_t inflight_engine_submit(inflight_engine_t* engine, const inflight_request_params_t* params,
                                         inflight_stream_t** stream) {
  return guard([&] {
    require(engine, "engine");
    require(stream, "stream");
    inflight::Runtime& runtime = engine->runtime;
    auto options = inflight::c::read_request_params(inflight::c::read_struct(params, "params"), runtime);
    auto handle = std::unique_ptr<inflight_stream>(new inflight_stream{runtime.engine(), nullptr, {}, {}, {}, {}});
    if (const inflight::Tokenizer* const tokenizer = runtime.tokenizer()) {
      handle->detokenizer.emplace(tokenizer->vocabulary(), inflight::DetokenizeOptions{.whole_text = false});
    }
    handle->output = runtime.engine().submit(std::move(options));
    handle->request = handle->output->request();
    *stream = handle.release();
    return INFLIGHT_OK;
  });
}

inflight_status_t inflight_stream_next(inflight_stream_t* stream, int32_t timeout_ms, inflight_stream_event_t* event) {
  return guard([&] {
    require(stream, "stream");
    inflight::c::write_struct(inflight_stream_event_t{}, event, "event");
    std::optional<std::chrono::milliseconds> timeout;
    if (timeout_ms >= 0) timeout = std::chrono::milliseconds(timeout_ms);
    switch (stream->output->next(timeout, stream->batch)) {
      case inflight::OutputStream::Next::TimedOut:
        return INFLIGHT_WOULD_BLOCK;
      case inflight::OutputStream::Next::Ended:
        return INFLIGHT_END_OF_STREAM;
      case inflight::OutputStream::Next::Ready:
        break;
    }
    append_text(*stream);
    const inflight::StreamBatch& batch = stream->batch;
    inflight_stream_event_t result{};
    result.finish_reason = static_cast<inflight_finish_reason_t>(batch.finish);
    result.token_ids = batch.tokens.data();
    result.logprobs = batch.logprobs.data();
    result.token_count = batch.tokens.size();
    result.text = stream->text.c_str();
    result.text_length = stream->text.size();
    result.error = batch.finish == inflight::FinishReason::Error ? batch.error.c_str() : nullptr;
    result.prompt_token_count = batch.prompt_token_count;
    result.cached_token_count = batch.cached_token_count;
    result.output_token_count = batch.output_token_count;
    result.preemption_count = batch.preemption_count;
    inflight::c::write_struct(result, event, "event");
    return INFLIGHT_OK;
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
  static_cast<void>(guard([&] {
    if (stream == nullptr) return INFLIGHT_OK;
    stream->engine.cancel(stream->request);
    stream->output->set_notify(nullptr, nullptr);
    stream->output->release();
    delete stream;
    return INFLIGHT_OK;
  }));
}

}  // extern "C"
