// SPDX-License-Identifier: Apache-2.0
// inflight.h: status, parameters, engine, text, policies.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "base/limits.h"
#include "base/log.h"
#include "base/quote.h"
#include "device/driver_signals.h"
#include "guard.h"
#include "handles.h"
#include "params.h"
#include "plugin_host/plugin_registry.h"

namespace {

using inflight::c::guard;
using inflight::c::require;

inflight::Runtime& runtime_of(inflight_engine_t* engine) {
  require(engine, "engine");
  return engine->runtime;
}

// The ids to the caller's array; the buffer rule of inflight_tokenize().
inflight_status_t write_ids(const std::vector<inflight::TokenId>& source, int32_t* ids, size_t capacity,
                            size_t* count) {
  require(count, "count");
  if (capacity > 0) require(ids, "ids");
  *count = source.size();
  if (capacity < source.size()) return INFLIGHT_WOULD_BLOCK;
  std::copy(source.begin(), source.end(), ids);
  return INFLIGHT_OK;
}

template <typename Struct>
void write_defaults(const Struct& defaults, void* params, size_t struct_size) {
  inflight::c::check_struct_size(struct_size, sizeof(Struct), "params");
  Struct copy = defaults;
  copy.struct_size = static_cast<uint32_t>(struct_size);
  auto* const bytes = static_cast<unsigned char*>(params);
  std::fill_n(bytes, struct_size, static_cast<unsigned char>(0));
  std::memcpy(bytes, &copy, sizeof copy);
}

}  // namespace

extern "C" {

const char* inflight_version(void) { return INFLIGHT_VERSION_STRING; }

const char* inflight_last_error(void) { return inflight::c::last_error().c_str(); }

const char* inflight_last_error_field(void) { return inflight::c::last_error_field(); }

inflight_reject_reason_t inflight_last_rejection(int32_t* retry_after_s) {
  const inflight::c::LastRejection& last = inflight::c::last_rejection();
  if (retry_after_s != nullptr) *retry_after_s = last.retry_after_s;
  return last.reason;
}

const char* inflight_status_name(inflight_status_t status) {
  switch (status) {
#define INFLIGHT_NAME_CASE(name) \
  case name:                     \
    return #name
    INFLIGHT_NAME_CASE(INFLIGHT_OK);
    INFLIGHT_NAME_CASE(INFLIGHT_WOULD_BLOCK);
    INFLIGHT_NAME_CASE(INFLIGHT_END_OF_STREAM);
    INFLIGHT_NAME_CASE(INFLIGHT_IDLE);
    INFLIGHT_NAME_CASE(INFLIGHT_ERROR_INVALID_ARGUMENT);
    INFLIGHT_NAME_CASE(INFLIGHT_ERROR_NOT_FOUND);
    INFLIGHT_NAME_CASE(INFLIGHT_ERROR_UNSUPPORTED);
    INFLIGHT_NAME_CASE(INFLIGHT_ERROR_IO);
    INFLIGHT_NAME_CASE(INFLIGHT_ERROR_CORRUPT_FILE);
    INFLIGHT_NAME_CASE(INFLIGHT_ERROR_DEVICE);
    INFLIGHT_NAME_CASE(INFLIGHT_ERROR_NO_DEVICE);
    INFLIGHT_NAME_CASE(INFLIGHT_ERROR_OUT_OF_MEMORY);
    INFLIGHT_NAME_CASE(INFLIGHT_ERROR_PLUGIN);
    INFLIGHT_NAME_CASE(INFLIGHT_ERROR_REJECTED);
    INFLIGHT_NAME_CASE(INFLIGHT_ERROR_ENGINE_FAILED);
    INFLIGHT_NAME_CASE(INFLIGHT_ERROR_INTERNAL);
#undef INFLIGHT_NAME_CASE
    default:
      return "unknown status";
  }
}

inflight_status_t inflight_params_init(inflight_params_kind_t kind, void* params, size_t struct_size) {
  return guard([&] {
    require(params, "params");
    switch (kind) {
      case INFLIGHT_PARAMS_ENGINE: {
        const inflight_engine_params_t defaults = INFLIGHT_ENGINE_PARAMS_INIT;
        write_defaults(defaults, params, struct_size);
        return INFLIGHT_OK;
      }
      case INFLIGHT_PARAMS_REQUEST: {
        const inflight_request_params_t defaults = INFLIGHT_REQUEST_PARAMS_INIT;
        write_defaults(defaults, params, struct_size);
        return INFLIGHT_OK;
      }
      default:
        inflight::fail(inflight::ErrorCode::InvalidArgument, "kind is {}, allowed: 1 (engine), 2 (request)", kind);
    }
  });
}

void inflight_set_log(inflight_log_fn log, void* context, inflight_log_level_t level) {
  static_cast<void>(guard([&] {
    const auto threshold = static_cast<inflight::LogLevel>(std::clamp(level, INFLIGHT_LOG_DEBUG, INFLIGHT_LOG_ERROR));
    if (log == nullptr) {
      inflight::set_log_sink({}, threshold);
    } else {
      inflight::set_log_sink(
          [log, context](inflight::LogLevel line_level, std::string_view message) {
            const std::string line = inflight::one_line(message);  // whatever a request or a file put into it
            log(context, static_cast<inflight_log_level_t>(line_level), line.data(), line.size());
          },
          threshold);
    }
    return INFLIGHT_OK;
  }));
}

inflight_status_t inflight_engine_create(const inflight_engine_params_t* params, inflight_engine_t** engine) {
  return guard([&] {
    require(engine, "engine");
    const inflight::DriverSignals signals;
    *engine = new inflight_engine(inflight::c::read_engine_params(inflight::c::read_struct(params, "params")));
    return INFLIGHT_OK;
  });
}

void inflight_engine_destroy(inflight_engine_t* engine) {
  static_cast<void>(guard([&] {
    delete engine;
    return INFLIGHT_OK;
  }));
}

inflight_status_t inflight_engine_pause(inflight_engine_t* engine, inflight_pause_mode_t mode) {
  return guard([&] {
    inflight::Engine& paused = runtime_of(engine).engine();
    if (mode < INFLIGHT_PAUSE_NONE || mode > INFLIGHT_PAUSE_ALL) {
      inflight::fail(inflight::ErrorCode::InvalidArgument, "mode is {}, allowed: 0 (none), 1 (new), 2 (all)", mode);
    }
    paused.pause(static_cast<inflight::PauseMode>(mode));
    return INFLIGHT_OK;
  });
}

inflight_status_t inflight_engine_resume(inflight_engine_t* engine) {
  return guard([&] {
    runtime_of(engine).engine().undrain();
    runtime_of(engine).engine().resume();
    return INFLIGHT_OK;
  });
}

inflight_status_t inflight_engine_drain(inflight_engine_t* engine, int32_t timeout_ms) {
  return guard([&] {
    std::optional<std::chrono::milliseconds> timeout;
    if (timeout_ms >= 0) timeout = std::chrono::milliseconds(timeout_ms);
    return runtime_of(engine).engine().drain(timeout) ? INFLIGHT_OK : INFLIGHT_WOULD_BLOCK;
  });
}

inflight_status_t inflight_engine_load_lora_adapter(inflight_engine_t* engine, const char* lora_name,
                                                    const char* lora_path) {
  return guard([&] {
    require(lora_name, "lora_name");
    require(lora_path, "lora_path");
    runtime_of(engine).load_lora_adapter(lora_name, lora_path);
    return INFLIGHT_OK;
  });
}

inflight_status_t inflight_engine_unload_lora_adapter(inflight_engine_t* engine, const char* lora_name) {
  return guard([&] {
    require(lora_name, "lora_name");
    runtime_of(engine).unload_lora_adapter(lora_name);
    return INFLIGHT_OK;
  });
}

inflight_status_t inflight_engine_reset_prefix_cache(inflight_engine_t* engine) {
  return guard([&] {
    runtime_of(engine).engine().reset_prefix_cache();
    return INFLIGHT_OK;
  });
}

inflight_status_t inflight_engine_configure(inflight_engine_t* engine, const char* json, size_t length) {
  return guard([&] {
    runtime_of(engine).engine().reconfigure(std::string(inflight::c::read_text(json, length, "json")));
    return INFLIGHT_OK;
  });
}

inflight_status_t inflight_engine_step(inflight_engine_t* engine) {
  return guard([&] { return runtime_of(engine).engine().step() ? INFLIGHT_OK : INFLIGHT_IDLE; });
}

inflight_status_t inflight_engine_stats(inflight_engine_t* engine, inflight_stats_t* stats) {
  return guard([&] {
    inflight::Runtime& runtime = runtime_of(engine);
    const inflight::EngineStats now = runtime.engine().stats();
    const inflight::SchedulerStats& counts = now.scheduler;
    const auto counter = [](int64_t count) { return static_cast<uint64_t>(count); };
    inflight_stats_t result{};
    result.steps = counter(counts.steps);
    result.requests_submitted = counter(counts.requests_added);
    result.requests_finished = counter(counts.requests_finished);
    result.requests_aborted = counter(counts.requests_aborted);
    result.requests_failed = counter(counts.requests_failed);
    result.prompt_tokens = counter(counts.prompt_tokens);
    result.cached_tokens = counter(counts.cached_tokens);
    result.output_tokens = counter(counts.output_tokens);
    result.scheduled_tokens = counter(counts.scheduled_tokens);
    result.preemptions = counter(counts.preemptions);
    result.recomputed_tokens = counter(counts.recomputed_tokens);
    result.requests_waiting = now.waiting;
    result.requests_running = now.running;
    result.kv_blocks = now.blocks_total;
    result.kv_blocks_free = now.blocks_free;
    result.kv_blocks_cached = now.blocks_stored;
    result.kv_blocks_used = now.blocks_referenced;
    result.device_bytes = runtime.device_bytes();
    result.policy_strikes = counter(now.policy_strikes);
    result.schedule_seconds = static_cast<double>(now.times.plan + now.times.commit) * 1e-9;
    result.failed = now.failed ? 1 : 0;
    for (const int64_t rejections : now.rejections) result.requests_rejected += counter(rejections);
    result.requests_expired = counter(now.expired);
    result.paused = now.paused ? 1 : 0;
    result.draining = now.draining ? 1 : 0;
    result.hung = now.hung ? 1 : 0;
    inflight::c::write_struct(result, stats, "stats");
    return INFLIGHT_OK;
  });
}

inflight_status_t inflight_engine_metrics_text(inflight_engine_t* engine, char* text, size_t capacity, size_t* length) {
  return guard(
      [&] { return inflight::c::write_text(runtime_of(engine).engine().metrics_text(), text, capacity, length); });
}

inflight_status_t inflight_engine_steps_json(inflight_engine_t* engine, uint64_t since, char* text, size_t capacity,
                                             size_t* length) {
  return guard(
      [&] { return inflight::c::write_text(runtime_of(engine).engine().steps_json(since), text, capacity, length); });
}

inflight_status_t inflight_engine_info_json(inflight_engine_t* engine, char* text, size_t capacity, size_t* length) {
  return guard([&] { return inflight::c::write_text(runtime_of(engine).info_json(), text, capacity, length); });
}

inflight_status_t inflight_engine_trace_json(inflight_engine_t* engine, char* text, size_t capacity, size_t* length) {
  return guard([&] { return inflight::c::write_text(runtime_of(engine).trace_json(), text, capacity, length); });
}

inflight_status_t inflight_tokenize(inflight_engine_t* engine, const char* text, size_t length,
                                    uint8_t add_special_tokens, uint8_t parse_special_tokens, int32_t* ids,
                                    size_t capacity, size_t* count) {
  return guard([&] {
    const auto tokens = runtime_of(engine).require_tokenizer().encode(
        inflight::c::read_text(text, length, "text"),
        {.add_special = add_special_tokens != 0, .parse_special = parse_special_tokens != 0});
    return write_ids(tokens, ids, capacity, count);
  });
}

inflight_status_t inflight_infill_tokenize(inflight_engine_t* engine, const char* prefix, size_t prefix_length,
                                           const char* suffix, size_t suffix_length, uint8_t add_special_tokens,
                                           uint8_t parse_special_tokens, int32_t* ids, size_t capacity, size_t* count) {
  return guard([&] {
    const auto tokens = runtime_of(engine).require_tokenizer().encode_infill(
        inflight::c::read_text(prefix, prefix_length, "prefix"),
        inflight::c::read_text(suffix, suffix_length, "suffix"),
        {.add_special = add_special_tokens != 0, .parse_special = parse_special_tokens != 0});
    return write_ids(tokens, ids, capacity, count);
  });
}

inflight_status_t inflight_rerank_tokenize(inflight_engine_t* engine, const char* query, size_t query_length,
                                           const char* document, size_t document_length, int32_t* ids, size_t capacity,
                                           size_t* count) {
  return guard([&] {
    const auto tokens = runtime_of(engine).rerank_prompt(inflight::c::read_text(query, query_length, "query"),
                                                         inflight::c::read_text(document, document_length, "document"));
    return write_ids(tokens, ids, capacity, count);
  });
}

inflight_status_t inflight_detokenize(inflight_engine_t* engine, const int32_t* ids, size_t count, char* text,
                                      size_t capacity, size_t* length) {
  return guard([&] {
    if (count > 0) require(ids, "ids");
    if (count > inflight::limits::kPromptBytesMax) {
      inflight::fail(inflight::ErrorCode::InvalidArgument, "count is {}, allowed: 0 to {}", count,
                     inflight::limits::kPromptBytesMax);
    }
    const std::string result = inflight::detokenize(runtime_of(engine).require_tokenizer().vocabulary(), {ids, count});
    return inflight::c::write_text(result, text, capacity, length);
  });
}

inflight_status_t inflight_token_text(inflight_engine_t* engine, int32_t token_id, char* text, size_t capacity,
                                      size_t* length) {
  return guard([&] {
    const inflight::Vocabulary& vocabulary = runtime_of(engine).require_tokenizer().vocabulary();
    const std::string bytes =
        inflight::detokenize_bytes(vocabulary, {&token_id, 1}, {.show_control = true, .whole_text = false});
    return inflight::c::write_text(bytes, text, capacity, length);
  });
}

inflight_status_t inflight_chat_render(inflight_engine_t* engine, const char* request_json, size_t length, char* text,
                                       size_t capacity, size_t* text_length) {
  return guard([&] {
    const std::string prompt =
        runtime_of(engine).render_chat(inflight::c::read_text(request_json, length, "request_json"));
    return inflight::c::write_text(prompt, text, capacity, text_length, "text", "text_length");
  });
}

inflight_status_t inflight_plugin_load(const char* path) {
  return guard([&] {
    require(path, "path");
    static_cast<void>(inflight::plugin_registry().load(path));
    return INFLIGHT_OK;
  });
}

inflight_status_t inflight_engine_set_policy(inflight_engine_t* engine, const char* spec) {
  return guard([&] {
    require(spec, "spec");
    runtime_of(engine).engine().set_policy(spec);
    return INFLIGHT_OK;
  });
}

inflight_status_t inflight_engine_set_policy_params(inflight_engine_t* engine, const char* spec) {
  return guard([&] {
    require(spec, "spec");
    runtime_of(engine).engine().set_policy_parameters(spec);
    return INFLIGHT_OK;
  });
}

}  // extern "C"
