# SPDX-License-Identifier: Apache-2.0
"""The C ABI as ctypes sees it: structs as in inflight.h, and the library."""
import ctypes
import ctypes.util
import os
import pathlib
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p

OK, WOULD_BLOCK, END_OF_STREAM, IDLE = 0, 1, 2, 3
FIRST_ERROR = 10
INTEGERS = (c_int32, c_int64, c_uint8, c_uint32, c_uint64, c_size_t)  # of the parameter structs' fields
PARAMS_ENGINE, PARAMS_REQUEST = 1, 2
PAUSE_NEW, PAUSE_ALL = 1, 2
LOG_LEVELS = {"debug": 0, "info": 1, "warning": 2, "error": 3}
ENUMERATIONS = {"kv_cache_dtype": {"auto": 0, "f16": 1, "f32": 2, "q8_0": 3, "i16": 4},
                "pooling": {"last": 1, "mean": 2, "model": 3, "classify": 4}}
REJECT_REASONS = {1: "max_requests", 2: "queued_requests", 3: "queued_tokens", 4: "predicted_wait", 5: "draining"}
FINISH_REASONS = {0: None, 1: "stop", 2: "length", 3: "abort", 4: "error"}

ProgressFunction = ctypes.CFUNCTYPE(c_int32, c_void_p, c_double, c_char_p)
NotifyFunction = ctypes.CFUNCTYPE(None, c_void_p)
LogFunction = ctypes.CFUNCTYPE(None, c_void_p, c_int32, c_void_p, c_size_t)


class TokenLogprob(ctypes.Structure):
    _fields_ = [("token_id", c_int32), ("logprob", c_float)]


class EngineParams(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("reserved", c_uint32), ("model", c_char_p), ("device", c_char_p),
        *[(name, c_int32) for name in (
            "max_num_seqs", "max_num_batched_tokens", "max_prefill_tokens", "long_prefill_token_threshold", "max_model_len",
            "max_requests", "block_size", "kv_blocks", "host_kv_blocks", "kv_cache_dtype")],
        ("device_memory_fraction", c_double), ("batching", c_char_p), ("max_batch_delay_ms", c_double),
        ("schedule_conservativeness", c_double), ("kv_headroom", c_double), ("preempt", c_char_p),
        ("preempt_victim", c_char_p), ("priority_preemption_threshold", c_int32), ("schedule_policy", c_char_p),
        ("radix_eviction_policy", c_char_p),
        *[(name, c_uint8) for name in ("enable_mixed_chunk", "enable_prefix_caching", "overlap", "host_driven", "profile",
                                       "deterministic")],
        ("reserved2", c_uint8 * 2), ("progress", ProgressFunction), ("progress_context", c_void_p),
        ("scheduling_profile", c_char_p), ("max_num_queued_reqs", c_int32), ("log_interval_steps", c_int32),
        ("max_num_queued_tokens", c_int64), ("max_predicted_wait_ms", c_double), ("request_timeout_ms", c_double),
        ("watchdog_timeout_s", c_double), ("max_tokens_limit", c_int32), ("max_num_partial_prefills", c_int32),
        ("clip_max_tokens", c_uint8), ("populate_kv", c_uint8), ("cache_weights", c_uint8),
        ("reserved3", c_uint8 * 5), ("record_path", c_char_p),
        ("linear_backend", c_char_p), ("kv_offloading_size", c_double),
        ("chat_template", c_char_p),
        ("lora_modules", POINTER(c_char_p)), ("lora_module_count", c_size_t), ("max_loras", c_int32), ("max_lora_rank", c_int32),
        ("speculative_config", c_char_p), ("served_model_name", c_char_p), ("classifier_from_token", c_char_p)]


class RequestParams(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("max_tokens", c_int32), ("prompt", c_char_p), ("prompt_length", c_size_t),
        ("prompt_ids", POINTER(c_int32)), ("prompt_id_count", c_size_t), ("temperature", c_float), ("top_p", c_float),
        ("min_p", c_float), ("top_k", c_int32), ("seed", c_uint64), ("stop_token_ids", POINTER(c_int32)),
        ("stop_token_id_count", c_size_t), ("priority", c_int32), ("tenant", c_uint32), ("cache_salt", c_char_p),
        ("ttft_deadline_ms", c_double), ("e2e_deadline_ms", c_double), ("itl_target_ms", c_double),
        ("predicted_output_tokens", c_int32), ("ignore_eos", c_uint8), ("add_special_tokens", c_uint8),
        ("parse_special_tokens", c_uint8), ("reasoning_apart", c_uint8), ("n", c_int32), ("best_of", c_int32),
        ("min_tokens", c_int32), ("stop", POINTER(c_char_p)), ("stop_count", c_size_t), ("bad_words", POINTER(c_char_p)),
        ("bad_word_count", c_size_t), ("logit_bias_ids", POINTER(c_int32)), ("logit_biases", POINTER(c_float)),
        ("logit_bias_count", c_size_t), ("typical_p", c_float), ("repetition_penalty", c_float),
        ("presence_penalty", c_float), ("frequency_penalty", c_float), ("dry_multiplier", c_float), ("dry_base", c_float),
        ("dry_allowed_length", c_int32), ("dry_penalty_last_n", c_int32), ("dry_sequence_breakers", POINTER(c_char_p)),
        ("dry_sequence_breaker_count", c_size_t), ("logprobs", c_int32), ("prompt_logprobs", c_int32),
        ("include_stop_str_in_output", c_uint8), ("structured_json_object", c_uint8),
        ("show_special_tokens", c_uint8), ("structured_json_lenient", c_uint8),
        ("pooling", c_int32), ("structured_json", c_char_p), ("structured_regex", c_char_p),
        ("structured_grammar", c_char_p), ("structured_choice", POINTER(c_char_p)), ("structured_choice_count", c_size_t),
        ("timeout_ms", c_double), ("structured_tools", c_char_p), ("lora_name", c_char_p),
        ("prediction", c_char_p)]


class StreamEvent(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("finish_reason", c_int32), ("token_ids", POINTER(c_int32)),
        ("logprobs", POINTER(c_float)), ("token_count", c_size_t), ("text", c_void_p), ("text_length", c_size_t),
        ("error", c_char_p), ("prompt_token_count", c_int32), ("cached_token_count", c_int32),
        ("output_token_count", c_int32), ("preemption_count", c_int32), ("index", c_int32), ("top_count", c_int32),
        ("top_logprobs", POINTER(TokenLogprob)), ("prompt_logprobs", POINTER(c_float)),
        ("prompt_top_logprobs", POINTER(TokenLogprob)), ("prompt_logprob_count", c_size_t), ("stop_text", c_char_p),
        ("stop_token_id", c_int32), ("error_status", c_int32), ("embedding", POINTER(c_float)), ("embedding_size", c_size_t),
        ("draft_token_count", c_int32), ("accepted_token_count", c_int32),
        ("first_scheduled_s", c_double), ("first_token_s", c_double), ("last_token_s", c_double)]


class Stats(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_uint32), ("reserved", c_uint32),
        *[(name, c_uint64) for name in (
            "steps", "requests_submitted", "requests_finished", "requests_aborted", "requests_failed", "prompt_tokens",
            "cached_tokens", "output_tokens", "scheduled_tokens", "preemptions", "recomputed_tokens")],
        *[(name, c_int32) for name in ("requests_waiting", "requests_running", "kv_blocks", "kv_blocks_free",
                                       "kv_blocks_cached", "kv_blocks_used")],
        ("device_bytes", c_uint64), ("policy_strikes", c_uint64), ("schedule_seconds", c_double), ("failed", c_int32),
        ("reserved2", c_int32), ("requests_rejected", c_uint64), ("requests_expired", c_uint64), ("paused", c_int32),
        ("draining", c_int32), ("hung", c_int32), ("reserved3", c_int32)]


STRUCTS = {"inflight_engine_params_t": EngineParams, "inflight_request_params_t": RequestParams,
           "inflight_stream_event_t": StreamEvent, "inflight_stats_t": Stats,
           "inflight_token_logprob_t": TokenLogprob}

_TEXT_RESULT = [c_char_p, c_size_t, POINTER(c_size_t)]  # the buffer rule: text, capacity, length
_FUNCTIONS = {
    "inflight_params_init": [c_int32, c_void_p, c_size_t],
    "inflight_engine_create": [POINTER(EngineParams), POINTER(c_void_p)],
    "inflight_engine_submit": [c_void_p, POINTER(RequestParams), POINTER(c_void_p)],
    "inflight_engine_step": [c_void_p],
    "inflight_engine_stats": [c_void_p, POINTER(Stats)],
    "inflight_engine_metrics_text": [c_void_p, *_TEXT_RESULT],
    "inflight_engine_info_json": [c_void_p, *_TEXT_RESULT],
    "inflight_engine_steps_json": [c_void_p, c_uint64, *_TEXT_RESULT],
    "inflight_engine_trace_json": [c_void_p, *_TEXT_RESULT],
    "inflight_engine_set_policy": [c_void_p, c_char_p],
    "inflight_engine_set_policy_params": [c_void_p, c_char_p],
    "inflight_engine_configure": [c_void_p, c_char_p, c_size_t],
    "inflight_engine_reset_prefix_cache": [c_void_p],
    "inflight_engine_load_lora_adapter": [c_void_p, c_char_p, c_char_p],
    "inflight_engine_unload_lora_adapter": [c_void_p, c_char_p],
    "inflight_engine_pause": [c_void_p, c_int32],
    "inflight_engine_resume": [c_void_p],
    "inflight_engine_drain": [c_void_p, c_int32],
    "inflight_plugin_load": [c_char_p],
    "inflight_stream_next": [c_void_p, c_int32, POINTER(StreamEvent)],
    "inflight_stream_set_notify": [c_void_p, NotifyFunction, c_void_p],
    "inflight_tokenize": [c_void_p, c_char_p, c_size_t, c_uint8, c_uint8, POINTER(c_int32), c_size_t, POINTER(c_size_t)],
    "inflight_infill_tokenize": [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_uint8, c_uint8, POINTER(c_int32),
                                 c_size_t, POINTER(c_size_t)],
    "inflight_rerank_tokenize": [c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, POINTER(c_int32), c_size_t,
                                 POINTER(c_size_t)],
    "inflight_detokenize": [c_void_p, POINTER(c_int32), c_size_t, *_TEXT_RESULT],
    "inflight_token_text": [c_void_p, c_int32, *_TEXT_RESULT],
    "inflight_last_rejection": [POINTER(c_int32)],
    "inflight_chat_render": [c_void_p, c_char_p, c_size_t, *_TEXT_RESULT],
    "inflight_sim_run": [c_char_p, c_size_t, *_TEXT_RESULT],
}
_NOTHING_BACK = {"inflight_engine_destroy": [c_void_p], "inflight_stream_destroy": [c_void_p],
                 "inflight_stream_cancel": [c_void_p], "inflight_set_log": [LogFunction, c_void_p, c_int32]}


def load() -> ctypes.CDLL:
    """The library: $INFLIGHT_LIBRARY, else one beside this file (in a wheel), else the system's."""
    beside = sorted(pathlib.Path(__file__).parent.glob("libinflight.so*"))
    path = os.environ.get("INFLIGHT_LIBRARY") or (str(beside[0]) if beside else ctypes.util.find_library("inflight"))
    try:
        library = ctypes.CDLL(path or "libinflight.so.0")
    except OSError as error:
        raise ImportError(f"libinflight cannot be loaded ({error}); install it or set INFLIGHT_LIBRARY to its path") from None
    for name, arguments in _FUNCTIONS.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_int32
    for name, arguments in _NOTHING_BACK.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, None
    for text in (library.inflight_version, library.inflight_last_error, library.inflight_last_error_field):
        text.restype = c_char_p
    return library
