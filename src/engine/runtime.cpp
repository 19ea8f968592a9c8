// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "base/memory_limit.h"
#include "base/quote.h"
#include "device/program.h"
#include "engine/describe_text.h"
#include "engine/queue_limits.h"
#include "exec/cl_executor.h"
#include "exec/memory_plan.h"
#include "model/model_loader.h"

namespace inflight {
namespace {

using Json = nlohmann::ordered_json;

// Without kv_blocks, KV takes no more than this share of a memory that the device has in common with the host's
// programs.
constexpr double kSharedMemoryShare = 0.25;

// Of KV, with populate_kv: what a burst of requests writes before it waits for the system. More would be memory that
// many servers never use.
constexpr size_t kPopulatedBytes = size_t{512} << 20;

constexpr int32_t kLoraRankDefault = 16;  // vLLM's
constexpr double kGiB = 1U << 30U;

// Bytes of weights in the file that a step of one token reads: all but an untied embedding, of which one row is read,
// and the experts that are not used. More tokens read the same, and more of the experts.
size_t weight_bytes_read_a_step(const ModelSpec& spec, const ModelWeights& weights) {
  size_t bytes = weights.output_norm.bytes.size() + weights.output.bytes.size() + weights.layer_projection.bytes.size();
  for (const LayerWeights& layer : weights.layers) {
    for (const WeightView* view : {&layer.attention_norm, &layer.attention_norm_bias, &layer.feed_forward_norm_bias,
                                   &layer.query_bias, &layer.key_bias, &layer.value_bias, &layer.attention_output_bias,
                                   &layer.feed_forward_norm, &layer.gate_bias, &layer.up_bias, &layer.down_bias}) {
      bytes += view->bytes.size();
    }
    for (const WeightView* view : layer.common_matrices()) {
      bytes += row_bytes(view->type, view->stored_columns()) * static_cast<size_t>(view->stored_rows());
    }
    for (const WeightView* view : layer.expert_matrices()) {
      if (view->present())
        bytes += view->bytes.size() / static_cast<size_t>(spec.expert_count) * static_cast<size_t>(spec.experts_used);
    }
  }
  return bytes;
}

// Numbers that a token is multiplied by in the first `count` layers.
int64_t layer_weights(const ModelSpec& spec, const ModelWeights& weights, int32_t count) {
  int64_t numbers = int64_t{weights.layer_projection.rows} * weights.layer_projection.columns;
  for (const LayerWeights& layer : std::span(weights.layers).first(static_cast<size_t>(count))) {
    for (const WeightView* view : layer.common_matrices()) numbers += int64_t{view->rows} * view->columns;
    for (const WeightView* view : layer.expert_matrices()) {
      if (view->present()) numbers += int64_t{view->rows} / spec.expert_count * spec.experts_used * view->columns;
    }
  }
  return numbers;
}

ClExecutorOptions executor_options(const RuntimeOptions& options, const ModelSpec& spec, const DeviceInfo& device) {
  return {.kv = KvLayout::of(spec, options.block_size, options.kv_type.value_or(default_kv_type(device))),
          .max_model_len = std::max(options.scheduler.max_model_len, 0),
          .host_block_count = options.scheduler.host_blocks,
          .populate_bytes = options.populate_kv ? kPopulatedBytes : 0,
          .max_num_seqs = options.scheduler.max_num_seqs,
          .max_num_batched_tokens = options.scheduler.max_num_batched_tokens,
          // A fused step is one launch, which would say nothing of its parts.
          .launch_mode = options.profile ? LaunchMode::EachStage : LaunchMode::Automatic,
          .packed_folder = options.cache_weights ? cache_folder() : ""};
}

int32_t default_step_tokens(int32_t max_num_seqs, const DeviceInfo& device) {
  constexpr int32_t kVnniStepTokens = 256, kCpuStepTokens = 128;
  const bool vnni = device.cpu.avx512_vnni || device.cpu.avx_vnni;
  const int32_t tokens = device.type != DeviceType::Cpu ? SchedulerConfig{}.max_num_batched_tokens
                         : vnni                         ? kVnniStepTokens
                                                        : kCpuStepTokens;
  return std::max(tokens, max_num_seqs);
}

void check_sizes(const RuntimeOptions& options) {
  const SchedulerConfig& config = options.scheduler;
  if (config.max_num_seqs < 1 || config.max_num_seqs > limits::kSequencesMax) {
    fail(ErrorCode::InvalidArgument, "max_num_seqs is {}, allowed: 1 to {}", config.max_num_seqs,
         limits::kSequencesMax);
  }
  if (config.max_num_batched_tokens < config.max_num_seqs ||
      config.max_num_batched_tokens > limits::kBatchedTokensMax) {
    fail(ErrorCode::InvalidArgument, "max_num_batched_tokens is {}, allowed: max_num_seqs ({}) to {}",
         config.max_num_batched_tokens, config.max_num_seqs, limits::kBatchedTokensMax);
  }
  if (!(options.device_memory_fraction > 0.0 && options.device_memory_fraction <= 1.0)) {
    fail(ErrorCode::InvalidArgument, "device_memory_fraction is {}, allowed: above 0, up to 1",
         options.device_memory_fraction);
  }
  if (!(options.kv_offloading_gib >= 0.0 && options.kv_offloading_gib <= 65536.0)) {
    fail(ErrorCode::InvalidArgument, "kv_offloading_size is {}, allowed: 0 to 65536 (GiB)", options.kv_offloading_gib);
  }
}

// What sequences cannot have beside a state, which is not kept for an earlier token.
void check_states(const RuntimeOptions& options, const ModelSpec& spec) {
  if (!spec.has_state()) return;
  const auto refuse = [&](const char* name, const std::string& value, const char* allowed) {
    fail(ErrorCode::Unsupported, "{} is {}, allowed with a model of architecture {}, whose sequences have states: {}",
         name, value, spec.architecture, allowed);
  };
  const SchedulerConfig& config = options.scheduler;
  if (config.preempt != PreemptMode::Recompute) refuse("preempt", to_string(config.preempt), "recompute");
  if (config.num_speculative_tokens > 0) {
    refuse("num_speculative_tokens", std::to_string(config.num_speculative_tokens), "0");
  }
  if (options.max_loras > 0) refuse("max_loras", std::to_string(options.max_loras), "0");
  if (options.kv_offloading_gib > 0.0) refuse("kv_offloading_size", fmt::format("{}", options.kv_offloading_gib), "0");
}

// Adapters have no stages for the matrices of latent attention, nor for layers whose sizes differ.
void check_adapters(const RuntimeOptions& options, const ModelSpec& spec) {
  if ((!spec.is_latent() && !spec.norms_values) || options.max_loras == 0) return;
  fail(ErrorCode::Unsupported, "max_loras is {}, allowed with a model of architecture {}, whose {}: 0",
       options.max_loras, spec.architecture, spec.is_latent() ? "attention is latent" : "layers differ in size");
}

// As many sequences as have states in an 8th of the memory and in one buffer.
int32_t seqs_with_states(const RuntimeOptions& options, const ModelSpec& spec, const DeviceInfo& device) {
  constexpr size_t kMemoryShare = 8;
  const size_t room = std::min(device.memory_bytes / kMemoryShare, device.allocation_bytes_max);
  const auto wanted = static_cast<size_t>(options.scheduler.max_num_seqs);
  return static_cast<int32_t>(std::clamp(room / spec.state_bytes(), size_t{1}, wanted));
}

// How many are kept for later requests: two a sequence, of its prompt and of its answer, within a share of the memory
// and one buffer for all.
int32_t kept_state_count(const RuntimeOptions& options, const ModelSpec& spec, const DeviceInfo& device) {
  constexpr size_t kMemoryShare = 16;
  if (!spec.has_state() || !options.prefix_caching) return 0;
  const auto most = static_cast<size_t>(options.scheduler.max_num_seqs);
  const size_t in_buffer = device.allocation_bytes_max / spec.state_bytes();
  const size_t fitting =
      std::min(device.memory_bytes / kMemoryShare / spec.state_bytes(), in_buffer - std::min(in_buffer, most));
  return static_cast<int32_t>(std::min(fitting, 2 * most));
}

// Whether K and V of local layers lie in slots, which are given back when the window has passed: not where blocks are
// copied to host memory, as wholes.
bool has_local_slots(const RuntimeOptions& options, const ModelSpec& spec) {
  const int32_t local = spec.local_kv_layer_count();
  const bool copied = options.scheduler.host_blocks > 0 || options.kv_offloading_gib > 0.0;
  return local > 0 && local < spec.kv_layer_count() && !copied;
}

// A KV block of all models.
size_t bytes_per_block(std::span<const PlannedModel> models) {
  size_t bytes = 0;
  for (const PlannedModel& model : models) bytes += model.options.kv.bytes_per_block();
  return bytes;
}

// K and V of a token in all layers of all models.
size_t bytes_per_token(std::span<const PlannedModel> models) {
  size_t bytes = 0;
  for (const PlannedModel& model : models) bytes += model.options.kv.bytes_per_token();
  return bytes;
}

// Tokens of a sequence that all of them allow.
int32_t context_of(std::span<const PlannedModel> models) {
  int32_t context = models.front().spec->context_length;
  for (const PlannedModel& model : models) context = std::min(context, model.spec->context_length);
  return context;
}

// ERRORS: OutOfMemory when KV in host memory is to take more than this process may use.
void check_host_memory(const RuntimeOptions& options, size_t block_bytes) {
  const double swapped = static_cast<double>(options.scheduler.host_blocks) * static_cast<double>(block_bytes);
  const double wanted = swapped + options.kv_offloading_gib * kGiB;
  const auto limit = static_cast<double>(host_memory_limit());
  if (wanted > limit) {
    fail(ErrorCode::OutOfMemory,
         "host_kv_blocks {} and kv_offloading_size {} take {:.1f} GiB of host memory, this process may use {:.1f} GiB",
         options.scheduler.host_blocks, options.kv_offloading_gib, wanted / kGiB, limit / kGiB);
  }
}

// ERRORS: as load_model()'s; InvalidArgument for one whose tokens are others than the target's.
LoadedModel load_draft_model(const std::string& path, const LoadedModel& target) {
  LoadedModel draft = load_model(path);
  if (draft.spec.has_state()) {
    fail(ErrorCode::Unsupported,
         "speculative_config: {} is of architecture {}, whose sequences have states; allowed: "
         "a draft model without",
         path, draft.spec.architecture);
  }
  // Models of one family differ in a few unused tokens at the end (llama.cpp allows as many).
  constexpr int32_t kFurtherTokensMax = 128;
  const std::vector<std::string>& ours = target.vocabulary.tokens;
  const std::vector<std::string>& theirs = draft.vocabulary.tokens;
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); ++i) {
    if (ours[i] == theirs[i]) continue;
    fail(ErrorCode::InvalidArgument, "speculative_config: token {} of {} is {}, allowed: {}, as the model has it", i,
         path, quote(theirs[i]), quote(ours[i]));
  }
  const int32_t more = draft.spec.vocabulary_size - target.spec.vocabulary_size;
  if (more > kFurtherTokensMax || -more > kFurtherTokensMax) {
    fail(ErrorCode::InvalidArgument,
         "speculative_config: {} has {} tokens, allowed: {}, as the model has, and {} more or less", path,
         draft.spec.vocabulary_size, target.spec.vocabulary_size, kFurtherTokensMax);
  }
  if (ours.empty() != theirs.empty()) {
    fail(ErrorCode::InvalidArgument, "speculative_config: {} has no vocabulary, {} has one",
         ours.empty() ? "the model" : path, ours.empty() ? path : "the model");
  }
  // Blocks that the target has passed are given away, while the draft model lags behind.
  if (target.spec.sliding_window > 0 || draft.spec.sliding_window > 0) {
    fail(ErrorCode::Unsupported, "speculative_config: with a draft model neither may have a sliding window; {} has one",
         target.spec.sliding_window > 0 ? "the model" : path);
  }
  return draft;
}

// As many blocks as were asked for; else as all sequences at full length need, or as many of them as fit.
int32_t choose_block_count(const RuntimeOptions& options, const DeviceInfo& device,
                           std::span<const PlannedModel> models) {
  const auto budget = static_cast<size_t>(static_cast<double>(device.memory_bytes) * options.device_memory_fraction);
  const int32_t sequence_tokens =
      options.scheduler.max_model_len > 0 ? options.scheduler.max_model_len : context_of(models);
  // One more than a sequence fills, so that admission, which counts in whole blocks, never holds one back.
  const int64_t sequence_blocks = div_ceil<int64_t>(sequence_tokens, options.block_size) + 1;
  int32_t count = options.kv_blocks;
  if (count == 0) {
    const int64_t useful = std::clamp<int64_t>(sequence_blocks * options.scheduler.max_num_seqs, 1, limits::kBlocksMax);
    const auto kv_budget = device.host_memory
                               ? static_cast<size_t>(static_cast<double>(device.memory_bytes) * kSharedMemoryShare)
                               : budget;
    const int32_t fitting =
        fitting_block_count(device, models, {.total = budget, .kv = kv_budget}, static_cast<int32_t>(useful));
    if (fitting > 0) return fitting;
    count = 1;
  }
  const MemoryPlan plan = plan_memory(device, models, count);
  if (plan.total() > budget) {
    fail(
        ErrorCode::OutOfMemory,
        "the model{} {} MB on {} (weights {}, {} KV blocks {}, activations {}, adapters {}, states {}), allowed: {} MB "
        "(device_memory_fraction {} of {})",
        models.size() > 1 ? " and its draft model need" : " needs", plan.total() >> 20, device.name,
        plan.weight_bytes >> 20, count, plan.kv_bytes >> 20, plan.activation_bytes >> 20, plan.adapter_bytes >> 20,
        plan.state_bytes >> 20, budget >> 20, options.device_memory_fraction, device.memory_bytes >> 20);
  }
  return count;
}

// What of the host's memory is for evicted prefixes, in whole blocks.
int32_t offloading_blocks(const RuntimeOptions& options, size_t block_bytes) {
  const double blocks = options.kv_offloading_gib * kGiB / static_cast<double>(block_bytes);
  if (blocks > 0.0 && (blocks < 1.0 || !options.prefix_caching)) {
    log(LogLevel::Warning, "kv_offloading_size {} has no effect: {}", options.kv_offloading_gib,
        blocks < 1.0 ? "a KV block is larger" : "prefix caching is off");
  }
  return static_cast<int32_t>(std::min(blocks, static_cast<double>(limits::kBlocksMax / 2)));
}

}  // namespace

Runtime::Runtime(RuntimeOptions options)
    : options_(std::move(options)),
      device_(Device::open(
          {.spec = options_.device, .profile = options_.profile, .on_compile = [this] { report_compilation(); }})) {
  if (int32_t& tokens = options_.scheduler.max_num_batched_tokens; tokens == 0) {
    tokens = default_step_tokens(options_.scheduler.max_num_seqs, device_.info());
  }
  check_sizes(options_);
  const LoadedModel model = load_model(options_.model);
  spec_ = model.spec;
  check_states(options_, spec_);
  check_adapters(options_, spec_);
  if (options_.fewer_seqs && spec_.has_state()) {
    options_.scheduler.max_num_seqs = seqs_with_states(options_, spec_, device_.info());
  }
  if (!model.vocabulary.model.empty()) tokenizer_ = Tokenizer::create(model.vocabulary);
  read_chat_template(model.vocabulary.chat_template);
  read_classifier(model);

  make_adapter_store();
  std::optional<LoadedModel> draft;
  if (!options_.draft_model.empty()) draft = load_draft_model(options_.draft_model, model);
  std::vector<PlannedModel> models = {{&model.spec, &model.weights, executor_options(options_, spec_, device_.info())}};
  if (draft) {
    models.push_back({&draft->spec, &draft->weights, executor_options(options_, draft->spec, device_.info())});
  }
  size_executors(models);
  info_ = describe(models);
  start_engine(models);
  options_.progress = nullptr;
}

Runtime::~Runtime() = default;

void Runtime::size_executors(std::span<PlannedModel> models) {
  check_host_memory(options_, bytes_per_block(models));
  ClExecutorOptions& target = models.front().options;
  target.num_speculative_tokens = options_.scheduler.num_speculative_tokens;
  target.kept_states = options_.scheduler.kept_states = kept_state_count(options_, spec_, device_.info());
  if (has_local_slots(options_, spec_)) {
    target.kv.local_head_count = spec_.local_stored_head_count();
    target.local_slots_min = options_.scheduler.local_slots_needed(spec_.local_window, options_.block_size);
  }
  target.max_loras = options_.max_loras;
  target.adapters = adapters_.get();
  for (PlannedModel& model : models) {
    if (clblast_limits(*model.weights, model.options).depth > 0) {
      model.options.clblast = choose_clblast(device_, options_.linear_backend);
    }
  }
  const int32_t block_count = choose_block_count(options_, device_.info(), models);
  SchedulerConfig& config = options_.scheduler;
  config.host_cache_blocks = offloading_blocks(options_, bytes_per_block(models));
  if (models.size() > 1) models.back().options.populate_bytes = 0;
  const auto weight_bytes = [&](std::span<const PlannedModel> some) {
    return static_cast<double>(plan_memory(device_.info(), some, block_count).weight_bytes);
  };
  double begin = 0.0;  // of a model's share of all weights
  for (PlannedModel& model : models) {
    model.options.kv_block_count = block_count;
    model.options.host_block_count = config.host_blocks + config.host_cache_blocks;
    const double share = weight_bytes(std::span(&model, 1)) / weight_bytes(models);
    model.options.progress = [this, begin, share](double fraction, const char* what) {
      const double told = fraction > 0.0 ? begin + share * fraction : 0.0;
      return stop_loading_ || (options_.progress && options_.progress(told, what));
    };
    begin += share;
  }
  const int32_t context = context_of(models);
  const int64_t longest = std::min<int64_t>(context, int64_t{block_count} * options_.block_size);
  if (config.max_model_len == 0) {
    config.max_model_len = static_cast<int32_t>(longest);
    if (context < spec_.context_length) {
      log(LogLevel::Warning, "the draft model's context is {} tokens, the model's {}: max_model_len is {}", context,
          spec_.context_length, longest);
    }
    if (options_.kv_blocks == 0 && longest < context) {
      log(LogLevel::Warning, "there is room for {} KV blocks of {} tokens: max_model_len is {}, the model's context {}",
          block_count, options_.block_size, longest, context);
    }
  } else if (config.max_model_len > context) {
    fail(ErrorCode::InvalidArgument, "max_model_len is {}, allowed: 2 to {} (the {}model's context length)",
         config.max_model_len, longest, context < spec_.context_length ? "draft " : "");
  } else if (config.max_model_len > longest) {
    fail(ErrorCode::InvalidArgument, "max_model_len is {}, allowed: 2 to {} ({} KV blocks of {} tokens)",
         config.max_model_len, longest, block_count, options_.block_size);
  }
  config.sliding_window = spec_.sliding_window;
  config.local_share = spec_.local_share();
  config.has_state = spec_.has_state();
  config.max_loras = options_.max_loras;
  config.validate(longest);
  config.warn_of_no_effect();
}

std::string Runtime::describe(std::span<const PlannedModel> models) const {
  const SchedulerConfig& config = options_.scheduler;
  const ClExecutorOptions& executor = models.front().options;
  const ModelWeights& weights = *models.front().weights;
  const MemoryPlan plan = plan_memory(device_.info(), models, executor.kv_block_count);
  Json draft;  // null: none
  if (models.size() > 1) draft = {{"path", options_.draft_model}, {"name", models.back().spec->name}};
  const Json tokenizer = describe_tokenizer(tokenizer_.get(), chat_template_text_);
  return Json{{"device",
               {{"index", device_.info().index},
                {"name", device_.info().name},
                {"type", to_string(device_.info().type)},
                {"platform", device_.info().platform},
                {"driver", device_.info().driver}}},
              {"model",
               {{"path", options_.model},
                {"name", spec_.name},
                {"architecture", spec_.architecture},
                {"layers", spec_.layer_count},
                {"embedding_length", spec_.hidden_size},
                {"vocabulary_size", spec_.vocabulary_size},
                {"layer_weights", layer_weights(spec_, weights, spec_.layer_count)},
                {"prompt_layers", spec_.prompt_layer_count()},
                {"prompt_layer_weights", layer_weights(spec_, weights, spec_.prompt_layer_count())},
                {"query_length", spec_.head_count * spec_.head_size},
                {"context_length", spec_.context_length},
                {"sliding_window", spec_.sliding_window},
                {"local_window", spec_.local_window},
                {"local_share", spec_.local_share()},
                {"infill", tokenizer_ != nullptr && tokenizer_->vocabulary().infill_tokens().has_value()},
                {"pooling", spec_.pooling},
                {"labels", classifier_ ? Json(classifier_->labels()) : Json::array()}}},
              {"draft_model", draft},
              {"tokenizer", tokenizer},
              {"tool_calls", describe_tool_calls(tool_format_)},
              {"reasoning", describe_reasoning(reasoning_)},
              {"limits",
               {{"max_num_seqs", config.max_num_seqs},
                {"max_num_batched_tokens", config.max_num_batched_tokens},
                {"max_model_len", config.max_model_len},
                {"max_requests", config.max_requests},
                {"sequences_max", sequences_max(options_.service.queue, config.max_num_seqs, config.max_requests)},
                {"max_tokens_limit", options_.service.max_tokens_limit},
                {"block_size", options_.block_size},
                {"kv_cache_dtype", to_string(executor.kv.type)},
                {"kv_blocks", executor.kv_block_count},
                {"local_kv_blocks", local_slot_count(executor)},
                {"host_kv_blocks", config.host_blocks},
                {"host_cache_blocks", config.host_cache_blocks},
                {"num_speculative_tokens", config.num_speculative_tokens},
                {"max_loras", options_.max_loras},
                {"max_lora_rank", adapters_ ? adapters_->max_lora_rank() : 0}}},
              {"memory",
               {{"weight_bytes", plan.weight_bytes},
                {"weight_bytes_read_a_step", weight_bytes_read_a_step(spec_, weights)},
                {"kv_bytes", plan.kv_bytes},
                {"kv_bytes_per_token", bytes_per_token(models)},
                {"activation_bytes", plan.activation_bytes},
                {"adapter_bytes", plan.adapter_bytes},
                {"state_bytes", plan.state_bytes}}}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

void Runtime::start_engine(std::span<const PlannedModel> models) {
  std::vector<std::unique_ptr<ClExecutor>> executors;
  for (const PlannedModel& model : models) {
    executors.push_back(std::make_unique<ClExecutor>(device_, *model.spec, *model.weights, model.options));
  }
  const ClExecutorOptions& executor = models.front().options;
  SchedulerSetup setup;
  setup.config = options_.scheduler;
  setup.blocks = {.block_count = executor.kv_block_count,
                  .block_token_count = options_.block_size,
                  .prefix_caching = options_.prefix_caching,
                  .local_window = spec_.local_window,
                  .local_slots = local_slot_count(executor)};
  setup.block_bytes = bytes_per_block(models);
  setup.schedule_policy = options_.schedule_policy;
  setup.eviction_policy = options_.eviction_policy;
  engine_ = std::make_unique<Engine>(
      EngineOptions{
          .setup = setup,
          .overlap = options_.overlap,
          .host_driven = options_.host_driven,
          .vocabulary_size = spec_.vocabulary_size,
          .draft_vocabulary_size = models.back().spec->vocabulary_size,
          .end_tokens = tokenizer_ ? tokenizer_->vocabulary().end_tokens() : std::vector<TokenId>(),
          .suppressed_tokens = tokenizer_ ? tokenizer_->vocabulary().suppressed_tokens() : std::vector<TokenId>(),
          .model_name = options_.served_model_name.empty() ? spec_.name : options_.served_model_name,
          .kv_cache_dtype = to_string(executor.kv.type),
          .service = options_.service},
      std::move(executors.front()), executors.size() > 1 ? std::move(executors.back()) : nullptr);
}

// Stopping waits for the weights: a trial of kernels that is cut short would count against them.
void Runtime::report_compilation() {
  if (!options_.progress) return;
  stop_loading_ = options_.progress(0.0, "compiling kernels (once)") || stop_loading_;
}

void Runtime::make_adapter_store() {
  const auto check = [](int32_t given, int32_t most, const char* name) {
    if (given < 0 || given > most)
      fail(ErrorCode::InvalidArgument, "{} is {}, allowed: 0 (default) to {}", name, given, most);
  };
  check(options_.max_loras, limits::kLorasMax, "max_loras");
  check(options_.max_lora_rank, limits::kLoraRankMax, "max_lora_rank");
  if (options_.max_loras == 0) {
    options_.max_loras = static_cast<int32_t>(std::min(options_.lora_modules.size(), size_t{limits::kLorasMax}));
  }
  if (options_.max_loras == 0) return;
  int32_t rank = options_.max_lora_rank;
  if (rank == 0) {
    rank = kLoraRankDefault;
    for (const auto& module : options_.lora_modules) {
      rank = std::max(rank, load_lora(module.path, spec_, limits::kLoraRankMax).rank);
    }
  }
  adapters_ = std::make_unique<AdapterStore>(spec_, rank);
  for (const auto& module : options_.lora_modules) adapters_->load(module.name, module.path);
}

AdapterStore& Runtime::require_adapters() const {
  if (adapters_ == nullptr) {
    fail(ErrorCode::Unsupported, "the engine was made without LoRA adapters: set max_loras or lora_modules");
  }
  return *adapters_;
}

void Runtime::load_lora_adapter(const std::string& name, const std::string& path) {
  require_adapters().load(name, path);
}

void Runtime::unload_lora_adapter(const std::string& name) { require_adapters().unload(name); }

AdapterLease Runtime::lease_lora_adapter(const std::string& name) const { return require_adapters().lease(name); }

std::string Runtime::info_json() const {
  Json loras = Json::array();
  for (const AdapterSummary& one : adapters_ ? adapters_->list() : std::vector<AdapterSummary>()) {
    loras.push_back(
        {{"name", one.name}, {"path", one.path}, {"rank", one.rank}, {"alpha", one.alpha}, {"bytes", one.bytes}});
  }
  std::string text = info_;
  text.insert(text.size() - 1, ",\"loras\":" + loras.dump(-1, ' ', false, Json::error_handler_t::replace));
  return text;
}

std::string Runtime::file_name() const {
  const std::filesystem::path path(options_.model);
  return (path.has_filename() ? path : path.parent_path()).filename();  // a folder may have a slash behind it
}

const Tokenizer& Runtime::require_tokenizer() const {
  if (tokenizer_ == nullptr) {
    fail(ErrorCode::Unsupported, "{} has no vocabulary: give token ids (prompt_ids) instead of text", file_name());
  }
  return *tokenizer_;
}

Pooling Runtime::model_pooling() const {
  if (spec_.pooling == "mean") return Pooling::Mean;
  if (spec_.pooling == "last") return Pooling::Last;
  fail(ErrorCode::Unsupported, "{}: metadata key '{}.pooling_type' asks for '{}', supported: mean, last", file_name(),
       spec_.architecture, spec_.pooling);
}

std::string Runtime::trace_json() {
  const std::scoped_lock lock(profile_mutex_);
  if (options_.profile) {
    const auto records = device_.take_profile();
    profile_.insert(profile_.end(), records.begin(), records.end());
    if (profile_.size() > kProfiledLaunchesMax) profile_.erase(profile_.begin(), profile_.end() - kProfiledLaunchesMax);
  }
  return chrome_trace(profile_);
}

size_t Runtime::device_bytes() const { return device_.device_bytes(); }

}  // namespace inflight
