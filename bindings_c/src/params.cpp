// SPDX-License-Identifier: Apache-2.0
#include "params.h"

#include <sha2.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "base/limits.h"
#include "base/quote.h"
#include "sched/profiles.h"
#include "sched/speculative_config.h"

namespace inflight::c {
namespace {

constexpr size_t kStructBytesMax = 4096;

// Whose numbers nobody can choose, as they could a checksum's: neither another's salt nor the place of an adapter's
// prefixes (cache/adapter_salt.h).
uint64_t cache_salt_of(std::string_view text) {
  SHA2_CTX context;
  std::array<uint8_t, SHA256_DIGEST_LENGTH> digest{};
  ::SHA256Init(&context);
  ::SHA256Update(&context, reinterpret_cast<const uint8_t*>(text.data()), text.size());
  ::SHA256Final(digest.data(), &context);
  uint64_t salt = 0;
  std::memcpy(&salt, digest.data(), sizeof(salt));
  return salt;
}

// Room for fields of later versions: who sets one wants what is not here.
void require_zero(uint32_t reserved) {
  if (reserved == 0) return;
  fail(ErrorCode::Unsupported, "params sets a reserved field, of which this library (" INFLIGHT_VERSION_STRING
                               ") knows nothing, allowed: 0 (the _INIT macro sets it)");
}

template <typename Value, typename Parse>
void read_name(const char* text, const char* field, const char* allowed, Parse&& parse, Value& value) {
  if (text == nullptr) return;
  const auto parsed = parse(std::string_view(text));
  if (!parsed) fail(ErrorCode::InvalidArgument, "{} is '{}', allowed: {}", field, text, allowed);
  value = *parsed;
}

void read_positive(int32_t given, const char* field, int32_t& value) {
  if (given < 0) fail(ErrorCode::InvalidArgument, "{} is {}, allowed: 0 (default) or more", field, given);
  if (given > 0) value = given;
}

void read_kv_type(inflight_kv_type_t given, std::optional<KvType>& value) {
  constexpr KvType kTypes[] = {KvType::F16, KvType::F32, KvType::Q8_0, KvType::I16};  // from INFLIGHT_KV_F16 on
  if (given < INFLIGHT_KV_AUTO || given > INFLIGHT_KV_I16) {
    fail(ErrorCode::InvalidArgument, "kv_cache_dtype is {}, allowed: 0 (auto), 1 (f16), 2 (f32), 3 (q8_0), 4 (i16)",
         given);
  }
  if (given != INFLIGHT_KV_AUTO) value = kTypes[given - INFLIGHT_KV_F16];
}

// The longest time that is taken, 31 years: with a clock's time added, TimeNs still holds it.
constexpr double kSecondsMax = 1e9;
constexpr double kMillisecondsMax = kSecondsMax * 1e3;

// A time in whatever `most` is in; 0 = none.
double read_time(double given, double most, const char* field) {
  if (!(given >= 0.0 && given <= most)) {
    fail(ErrorCode::InvalidArgument, "{} is {}, allowed: 0 (none) to {}", field, given, most);
  }
  return given;
}

// Milliseconds from now to an absolute time; 0 = none.
TimeNs deadline(double milliseconds, const char* field, TimeNs base) {
  const double given = read_time(milliseconds, kMillisecondsMax, field);
  return given == 0.0 ? kNoDeadline : base + std::llround(given * 1e6);
}

void check_count(size_t count, size_t most, const void* pointer, const char* field) {
  if (count > most) fail(ErrorCode::InvalidArgument, "{} has {} entries, allowed: 0 to {}", field, count, most);
  if (count > 0 && pointer == nullptr) fail(ErrorCode::InvalidArgument, "{} is NULL", field);
}

std::vector<std::string> read_texts(const char* const* texts, size_t count, size_t most, const char* field) {
  check_count(count, most, texts, field);
  std::vector<std::string> result;
  for (size_t i = 0; i < count; ++i) {
    if (texts[i] == nullptr || *texts[i] == '\0') fail(ErrorCode::InvalidArgument, "{}[{}] is empty", field, i);
    result.emplace_back(texts[i]);
  }
  return result;
}

// Each text as the token runs that can spell it: inside a word and at its beginning.
std::vector<std::vector<TokenId>> read_bad_words(const inflight_request_params_t& params, const Runtime& runtime) {
  std::vector<std::vector<TokenId>> runs;
  for (const std::string& word :
       read_texts(params.bad_words, params.bad_word_count, limits::kBadWordsMax, "bad_words")) {
    for (const char* const prefix : {"", " "}) {
      auto run = runtime.require_tokenizer().encode(prefix + word, {.add_special = false, .parse_special = false});
      if (!run.empty() && std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(std::move(run));
    }
  }
  return runs;
}

// Every token whose text has one of the breakers in it, ascending.
std::vector<TokenId> read_sequence_breakers(const inflight_request_params_t& params, const Runtime& runtime) {
  const std::vector<std::string> breakers =
      params.dry_sequence_breakers == nullptr
          ? std::vector<std::string>{"\n", ":", "\"", "*"}
          : read_texts(params.dry_sequence_breakers, params.dry_sequence_breaker_count, limits::kStopStringsMax,
                       "dry_sequence_breakers");
  std::vector<TokenId> ids;
  if (runtime.tokenizer() == nullptr) return ids;
  const Vocabulary& vocabulary = runtime.tokenizer()->vocabulary();
  std::vector<bool> known(breakers.size());
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    bool has_any = false;
    for (size_t i = 0; i < breakers.size(); ++i) {
      const bool has = vocabulary.bytes(id).find(breakers[i]) != std::string_view::npos;
      if (has) known[i] = has_any = true;
    }
    if (has_any) ids.push_back(id);
  }
  const auto unknown = static_cast<size_t>(std::ranges::find(known, false) - known.begin());
  if (params.dry_sequence_breakers != nullptr && unknown < known.size()) {
    fail(ErrorCode::InvalidArgument,
         "dry_sequence_breakers[{}] is {}, allowed: a text that a token of the vocabulary has in it", unknown,
         quote(breakers[unknown]));
  }
  return ids;
}

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32 | device()) | 1;
}

SamplingParams read_sampling(const inflight_request_params_t& params, const Runtime& runtime) {
  SamplingParams sampling;
  sampling.temperature = params.temperature;
  sampling.top_k = params.top_k;
  sampling.top_p = params.top_p;
  sampling.min_p = params.min_p;
  sampling.seed = params.seed != 0 ? params.seed : random_seed();
  sampling.max_tokens = params.max_tokens;
  sampling.ignore_eos = params.ignore_eos != 0;
  check_count(params.stop_token_id_count, limits::kStopTokensMax, params.stop_token_ids, "stop_token_ids");
  sampling.stop_token_ids.assign(params.stop_token_ids, params.stop_token_ids + params.stop_token_id_count);
  sampling.n = params.n;
  sampling.best_of = params.best_of;
  sampling.min_tokens = params.min_tokens;
  sampling.typical_p = params.typical_p;
  sampling.repetition_penalty = params.repetition_penalty;
  sampling.presence_penalty = params.presence_penalty;
  sampling.frequency_penalty = params.frequency_penalty;
  sampling.dry_multiplier = params.dry_multiplier;
  sampling.dry_base = params.dry_base;
  sampling.dry_allowed_length = params.dry_allowed_length;
  sampling.dry_penalty_last_n = params.dry_penalty_last_n;
  if (params.dry_multiplier > 0.0F) sampling.dry_sequence_breakers = read_sequence_breakers(params, runtime);
  sampling.bad_words = read_bad_words(params, runtime);
  check_count(params.logit_bias_count, limits::kLogitBiasMax, params.logit_bias_ids, "logit_bias_ids");
  check_count(params.logit_bias_count, limits::kLogitBiasMax, params.logit_biases, "logit_biases");
  for (size_t i = 0; i < params.logit_bias_count; ++i) {
    sampling.logit_bias.emplace_back(params.logit_bias_ids[i], params.logit_biases[i]);
  }
  sampling.logprobs = params.logprobs;
  sampling.prompt_logprobs = params.prompt_logprobs;
  sampling.validate();
  return sampling;
}

// What the answer follows.
struct WantedGrammar {
  GrammarKind kind = GrammarKind::JsonObject;
  std::string text;
};

WantedGrammar read_grammar(const inflight_request_params_t& params, const std::vector<std::string>& choices) {
  if (params.structured_json_object != 0) return {GrammarKind::JsonObject, ""};
  if (params.structured_json != nullptr) {
    const bool lenient = params.structured_json_lenient != 0;
    return {lenient ? GrammarKind::LenientJsonSchema : GrammarKind::JsonSchema, params.structured_json};
  }
  if (params.structured_regex != nullptr) return {GrammarKind::Regex, params.structured_regex};
  if (params.structured_grammar != nullptr) return {GrammarKind::Gbnf, params.structured_grammar};
  std::string grammar = "root ::=";
  for (const std::string& choice : choices) {
    grammar += grammar.ends_with('=') ? " \"" : " | \"";
    for (const char letter : choice) {
      if (letter == '"' || letter == '\\') grammar += '\\';
      grammar += letter;
    }
    grammar += '"';
  }
  return {GrammarKind::Gbnf, grammar};
}

}  // namespace

void check_struct_size(size_t size, size_t known, const char* name) {
  if (size < known || size > kStructBytesMax) {
    fail(ErrorCode::InvalidArgument, "{}.struct_size is {}, allowed: {} to {} (the _INIT macro sets it)", name, size,
         known, kStructBytesMax);
  }
}

std::string_view read_text(const char* text, size_t length, const char* name) {
  if (text == nullptr) {
    if (length == 0) return {};
    fail(ErrorCode::InvalidArgument, "{} is NULL", name);
  }
  const size_t bytes = length == INFLIGHT_NUL_TERMINATED ? std::strlen(text) : length;
  if (bytes > limits::kPromptBytesMax) {
    fail(ErrorCode::InvalidArgument, "{} has {} bytes, allowed: up to {}", name, bytes, limits::kPromptBytesMax);
  }
  return {text, bytes};
}

std::vector<std::string> read_stop_strings(const inflight_request_params_t& params) {
  return read_texts(params.stop, params.stop_count, limits::kStopStringsMax, "stop");
}

StructuredOutput read_structured_output(const inflight_request_params_t& params, Runtime& runtime) {
  const auto choices =
      read_texts(params.structured_choice, params.structured_choice_count, limits::kBadWordsMax, "structured_choice");
  const char* const texts[] = {params.structured_json, params.structured_regex, params.structured_grammar};
  const auto given =
      std::count_if(std::begin(texts), std::end(texts), [](const char* text) { return text != nullptr; }) +
      (choices.empty() ? 0 : 1) + (params.structured_json_object != 0 ? 1 : 0);
  if (given > 1) {
    fail(
        ErrorCode::InvalidArgument,
        "{} of structured_json, structured_regex, structured_grammar, structured_choice and structured_json_object are "
        "set, allowed: at most one",
        given);
  }
  StructuredOutput output;
  if (params.structured_tools != nullptr) output.shown_tokens = runtime.tool_tokens();
  AnswerBegin begin = AnswerBegin::Text;
  if (params.reasoning_apart != 0) {
    const std::vector<TokenId>& marks = runtime.reasoning_tokens();
    output.shown_tokens.insert(output.shown_tokens.end(), marks.begin(), marks.end());
    begin =
        runtime.answer_begin(read_text(params.prompt, params.prompt == nullptr ? 0 : params.prompt_length, "prompt"),
                             {params.prompt_ids, params.prompt_id_count});
  }
  if (given > 0) {
    auto [kind, text] = read_grammar(params, choices);
    output.filter = params.structured_tools != nullptr
                        ? runtime.tools_or_grammar_filter(params.structured_tools, kind, std::move(text), begin)
                        : runtime.grammar_filter(kind, std::move(text), begin);
  } else if (params.structured_tools != nullptr) {
    Runtime::ToolFilter calls = runtime.tool_filter(params.structured_tools, begin);
    output.filter = std::move(calls.source);
    output.sleeps = calls.sleeps;
  }
  return output;
}

namespace {

void read_service(const inflight_engine_params_t& params, ServiceOptions& service) {
  read_positive(params.max_num_queued_reqs, "max_num_queued_reqs", service.queue.max_num_queued_reqs);
  if (params.max_num_queued_tokens < 0) {
    fail(ErrorCode::InvalidArgument, "max_num_queued_tokens is {}, allowed: 0 (no limit) or more",
         params.max_num_queued_tokens);
  }
  service.queue.max_num_queued_tokens = params.max_num_queued_tokens;
  service.queue.max_predicted_wait_s =
      read_time(params.max_predicted_wait_ms, kMillisecondsMax, "max_predicted_wait_ms") * 1e-3;
  service.request_timeout =
      std::llround(read_time(params.request_timeout_ms, kMillisecondsMax, "request_timeout_ms") * 1e6);
  service.watchdog_timeout_s = read_time(params.watchdog_timeout_s, kSecondsMax, "watchdog_timeout_s");
  read_positive(params.log_interval_steps, "log_interval_steps", service.log_interval_steps);
  read_positive(params.max_tokens_limit, "max_tokens_limit", service.max_tokens_limit);
  service.clip_max_tokens = params.clip_max_tokens != 0;
  if (params.record_path != nullptr) service.record_path = params.record_path;
}

// The knobs of a profile in the place of the defaults.
void apply_profile(const char* name, RuntimeOptions& options) {
  SchedulerSetup setup;
  setup.config = options.scheduler;
  setup = with_profile(setup, name);
  options.scheduler = setup.config;
  options.schedule_policy = setup.schedule_policy;
  options.eviction_policy = setup.eviction_policy;
}

}  // namespace

RuntimeOptions read_engine_params(const inflight_engine_params_t& params) {
  require_zero(params.reserved);
  for (const uint8_t byte : params.reserved2) require_zero(byte);
  for (const uint8_t byte : params.reserved3) require_zero(byte);
  constexpr inflight_engine_params_t kInitial = INFLIGHT_ENGINE_PARAMS_INIT;
  RuntimeOptions options;
  if (params.model == nullptr || *params.model == '\0') {
    fail(ErrorCode::InvalidArgument, "model is not set: the path of a GGUF file is needed");
  }
  options.model = params.model;
  if (params.device != nullptr) options.device = params.device;
  if (params.chat_template != nullptr) options.chat_template = params.chat_template;
  if (params.classifier_from_token != nullptr) options.classifier_from_token = params.classifier_from_token;

  SchedulerConfig& config = options.scheduler;
  if (params.scheduling_profile != nullptr) apply_profile(params.scheduling_profile, options);
  read_positive(params.max_num_seqs, "max_num_seqs", config.max_num_seqs);
  read_positive(params.max_num_batched_tokens, "max_num_batched_tokens", config.max_num_batched_tokens);
  read_positive(params.max_prefill_tokens, "max_prefill_tokens", config.max_prefill_tokens);
  read_positive(params.long_prefill_token_threshold, "long_prefill_token_threshold",
                config.long_prefill_token_threshold);
  read_positive(params.max_num_partial_prefills, "max_num_partial_prefills", config.max_num_partial_prefills);
  read_positive(params.max_model_len, "max_model_len", config.max_model_len);
  read_positive(params.max_requests, "max_requests", config.max_requests);
  options.fewer_seqs = params.max_num_seqs == 0;
  if (options.fewer_seqs) config.max_num_seqs = std::min(config.max_num_seqs, config.max_requests);
  read_positive(params.block_size, "block_size", options.block_size);
  read_positive(params.kv_blocks, "kv_blocks", options.kv_blocks);
  read_positive(params.host_kv_blocks, "host_kv_blocks", config.host_blocks);
  read_kv_type(params.kv_cache_dtype, options.kv_type);
  options.device_memory_fraction = params.device_memory_fraction;
  options.kv_offloading_gib = params.kv_offloading_size;
  options.populate_kv = params.populate_kv != 0;
  options.cache_weights = params.cache_weights != 0;

  read_name(params.batching, "batching", "continuous, prefill_first, dynamic, static", parse_batching_mode,
            config.batching);
  read_name(params.preempt, "preempt", "recompute, swap, auto", parse_preempt_mode, config.preempt);
  read_name(params.preempt_victim, "preempt_victim", victim_rule_names().c_str(), parse_victim_rule,
            config.preempt_victim);
  read_name(params.linear_backend, "linear_backend", "auto, panel, clblast", parse_linear_backend,
            options.linear_backend);
  const bool profile = params.scheduling_profile != nullptr;
  const auto read_number = [profile](double given, double initial, double& value) {
    if (!profile || given != initial) value = given;
  };
  read_number(params.max_batch_delay_ms, kInitial.max_batch_delay_ms, config.max_batch_delay_ms);
  read_number(params.schedule_conservativeness, kInitial.schedule_conservativeness, config.schedule_conservativeness);
  read_number(params.kv_headroom, kInitial.kv_headroom, config.kv_headroom);
  if (params.max_num_batched_tokens == 0) {
    config.max_num_batched_tokens = profile ? std::max(config.max_num_batched_tokens, config.max_num_seqs) : 0;
  }
  if (params.priority_preemption_threshold != INFLIGHT_NO_PREEMPTION) {
    config.priority_preemption_threshold = params.priority_preemption_threshold;
  }
  if (!profile || params.enable_mixed_chunk != 0) config.enable_mixed_chunk = params.enable_mixed_chunk != 0;
  if (params.schedule_policy != nullptr) options.schedule_policy = params.schedule_policy;
  if (params.radix_eviction_policy != nullptr) options.eviction_policy = params.radix_eviction_policy;
  options.prefix_caching = params.enable_prefix_caching != 0;
  options.overlap = params.overlap != 0;
  options.host_driven = params.host_driven != 0;
  options.profile = params.profile != 0;
  read_service(params, options.service);
  for (const std::string& module :
       read_texts(params.lora_modules, params.lora_module_count, limits::kLorasMax, "lora_modules")) {
    const size_t equals = module.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == module.size()) {
      fail(ErrorCode::InvalidArgument, "lora_modules has '{}', allowed: NAME=FILE", module);
    }
    options.lora_modules.push_back({module.substr(0, equals), module.substr(equals + 1)});
  }
  read_positive(params.max_loras, "max_loras", options.max_loras);
  read_positive(params.max_lora_rank, "max_lora_rank", options.max_lora_rank);
  if (params.served_model_name != nullptr) options.served_model_name = params.served_model_name;
  if (params.speculative_config != nullptr) {
    options.draft_model = read_speculative_config(params.speculative_config, config);
  }
  if (params.progress != nullptr) {
    options.progress = [progress = params.progress, context = params.progress_context](
                           double fraction, const char* what) { return progress(context, fraction, what) != 0; };
  }
  return options;
}

namespace {

Pooling read_pooling(inflight_pooling_t pooling, const Runtime& runtime) {
  switch (pooling) {
    case INFLIGHT_POOLING_NONE:
      return Pooling::None;
    case INFLIGHT_POOLING_LAST:
    case INFLIGHT_POOLING_CLASSIFY:  // what is made of it is the stream's
      return Pooling::Last;
    case INFLIGHT_POOLING_MEAN:
      return Pooling::Mean;
    case INFLIGHT_POOLING_MODEL:
      return runtime.model_pooling();
    default:
      fail(ErrorCode::InvalidArgument,
           "pooling is {}, allowed: 0 (none), 1 (last), 2 (mean), 3 (the model's), 4 (classify)", pooling);
  }
}

}  // namespace

SubmitOptions read_request_params(const inflight_request_params_t& params, const Runtime& runtime) {
  SubmitOptions options;
  const TimeNs now = SteadyClock().now();
  if ((params.prompt == nullptr) == (params.prompt_ids == nullptr)) {
    fail(ErrorCode::InvalidArgument, "a request needs either prompt or prompt_ids, {} given",
         params.prompt == nullptr ? "none was" : "both were");
  }
  if (params.prompt != nullptr) {
    const std::string_view text = read_text(params.prompt, params.prompt_length, "prompt");
    options.prompt = runtime.require_tokenizer().encode(
        text, {.add_special = params.add_special_tokens != 0, .parse_special = params.parse_special_tokens != 0});
  } else {
    // Before so many are read.
    runtime.engine().check_prompt_length(params.prompt_id_count,
                                         params.pooling == INFLIGHT_POOLING_NONE && params.max_tokens != 0);
    options.prompt.assign(params.prompt_ids, params.prompt_ids + params.prompt_id_count);
  }
  options.pooling = read_pooling(params.pooling, runtime);
  if (options.pooling == Pooling::None) options.sampling = read_sampling(params, runtime);
  options.priority = params.priority;
  options.tenant = params.tenant;
  if (params.cache_salt != nullptr) options.cache_salt = cache_salt_of(params.cache_salt);
  options.ttft_deadline = deadline(params.ttft_deadline_ms, "ttft_deadline_ms", now);
  options.e2e_deadline = deadline(params.e2e_deadline_ms, "e2e_deadline_ms", now);
  options.itl_target = deadline(params.itl_target_ms, "itl_target_ms", 0);
  options.expiry = deadline(params.timeout_ms, "timeout_ms", now);
  options.predicted_output_tokens = params.predicted_output_tokens;
  if (params.prediction != nullptr) {
    options.prediction =
        runtime.require_tokenizer().encode(params.prediction, {.add_special = false, .parse_special = false});
  }
  return options;
}

}  // namespace inflight::c
