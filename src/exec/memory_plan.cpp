// SPDX-License-Identifier: Apache-2.0
#include "exec/memory_plan.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/error.h"
#include "base/limits.h"
#include "base/math.h"
#include "exec/rope_angles.h"
#include "ops/panel.h"

namespace inflight {
namespace {

// At a time, unless they are kept; of prompts more are wanted than there are sequences.
constexpr int32_t kLogitRowsMin = 16, kLogitRowsMax = 64;
constexpr int32_t kSplitRowPartitions = 256;  // partitions of split rows in one step, besides one longest sequence
constexpr int32_t kCopiedRows = 128;          // of all workers together: what each does for itself is not shared

size_t packed_bytes_of(const WeightView& weight) {
  return packed_bytes(panel_type(weight), weight.rows, weight.columns);
}

void check_options(const ClExecutorOptions& options) {
  const auto require = [](int64_t got, int64_t low, int64_t high, const char* name) {
    if (got < low || got > high) {
      fail(ErrorCode::InvalidArgument, "{} is {}, allowed: {} to {}", name, got, low, high);
    }
  };
  require(options.kv_block_count, 1, limits::kBlocksMax, "kv_blocks");
  require(options.host_block_count, 0, limits::kBlocksMax, "host_kv_blocks");
  require(options.max_num_seqs, 1, limits::kSequencesMax, "max_num_seqs");
  require(options.max_loras, 0, limits::kLorasMax, "max_loras");
  require(options.max_num_batched_tokens, 1, limits::kBatchedTokensMax, "max_num_batched_tokens");
}

int64_t units_max(const DeviceInfo& device, const KvLayout& kv) {
  return int64_t{units_a_chunk(device, kv)} * kKvChunksMax;
}

}  // namespace

ChunkPlan plan_chunks(std::span<const size_t> sizes, size_t chunk_bytes_max) {
  ChunkPlan plan;
  for (const size_t size : sizes) {
    const size_t bytes = align_up(size, size_t{kWeightAlignment});
    if (plan.chunk_bytes.empty() || plan.chunk_bytes.back() + bytes > chunk_bytes_max) plan.chunk_bytes.push_back(0);
    plan.places.push_back({static_cast<int32_t>(plan.chunk_bytes.size()) - 1, plan.chunk_bytes.back()});
    plan.chunk_bytes.back() += bytes;
    if (bytes > chunk_bytes_max || plan.chunk_bytes.size() > kWeightChunksMax) {
      fail(ErrorCode::OutOfMemory, "the weights do not fit {} buffers of at most {} bytes, what this device allows",
           kWeightChunksMax, chunk_bytes_max);
    }
  }
  return plan;
}

std::vector<const WeightView*> weight_matrices(const ModelWeights& weights) {
  std::vector<const WeightView*> all = {&weights.token_embedding};
  for (const WeightView* view : {&weights.layer_embeddings, &weights.layer_projection}) {
    if (view->present()) all.push_back(view);
  }
  for (const LayerWeights& layer : weights.layers) {
    const auto add = [&](const WeightView* view) {
      if (view->present()) all.push_back(view);
    };
    std::ranges::for_each(layer.common_matrices(), add);
    std::ranges::for_each(layer.expert_matrices(), add);
  }
  if (!weights.tied_output) all.push_back(&weights.output);
  return all;
}

std::vector<const WeightView*> weight_vectors(const ModelWeights& weights) {
  std::vector<const WeightView*> all = {&weights.output_norm};
  for (const WeightView* view : {&weights.output_norm_bias, &weights.output_bias, &weights.layer_projection_norm}) {
    if (view->present()) all.push_back(view);
  }
  for (const LayerWeights& layer : weights.layers) {
    for (const WeightView* view : {&layer.attention_norm,
                                   &layer.attention_norm_bias,
                                   &layer.feed_forward_norm_bias,
                                   &layer.query_bias,
                                   &layer.key_bias,
                                   &layer.value_bias,
                                   &layer.query_norm,
                                   &layer.key_norm,
                                   &layer.query_down_norm,
                                   &layer.latent_norm,
                                   &layer.attention_output_bias,
                                   &layer.attention_sinks,
                                   &layer.attention_post_norm,
                                   &layer.convolution,
                                   &layer.convolution_bias,
                                   &layer.step_bias,
                                   &layer.decay,
                                   &layer.skip,
                                   &layer.state_norm,
                                   &layer.feed_forward_norm,
                                   &layer.gate_bias,
                                   &layer.up_bias,
                                   &layer.down_bias,
                                   &layer.feed_forward_post_norm,
                                   &layer.embedding_post_norm,
                                   &layer.output_scale,
                                   &layer.shared_post_norm,
                                   &layer.router_norm,
                                   &layer.router_bias,
                                   &layer.choice_bias,
                                   &layer.expert_norm,
                                   &layer.expert_post_norm,
                                   &layer.expert_scales,
                                   &layer.expert_gate_bias,
                                   &layer.expert_up_bias,
                                   &layer.expert_down_bias,
                                   &layer.shared_gate}) {
      if (view->present()) all.push_back(view);
    }
  }
  return all;
}

int32_t blocks_a_chunk(const DeviceInfo& device, const KvLayout& kv) {
  const size_t fit = device.allocation_bytes_max / kv.bytes_per_block();
  if (fit == 0) {
    fail(ErrorCode::OutOfMemory, "a KV block takes {} bytes, device '{}' allows {} in one buffer", kv.bytes_per_block(),
         device.name, device.allocation_bytes_max);
  }
  const int32_t countable = std::numeric_limits<int32_t>::max() / kKvChunksMax / kv.block_head_count();
  return static_cast<int32_t>(std::min(fit, static_cast<size_t>(std::min(countable, limits::kBlocksMax))));
}

int32_t units_a_chunk(const DeviceInfo& device, const KvLayout& kv) {
  return blocks_a_chunk(device, kv) * kv.block_head_count();
}

int32_t local_slot_count(const ClExecutorOptions& options) {
  constexpr int32_t kBlocksPerSlot = 4;  // where steps need fewer
  if (options.kv.local_head_count == 0) return 0;
  return std::min(options.kv_block_count, std::max(options.local_slots_min, options.kv_block_count / kBlocksPerSlot));
}

KvUnits kv_units(const ClExecutorOptions& options) {
  const int32_t in_slot = options.kv.local_head_count, in_block = options.kv.block_head_count();
  const int64_t of_slots = align_up(int64_t{local_slot_count(options)} * in_slot, int64_t{in_block});
  return {.in_slot = in_slot,
          .in_block = in_block,
          .first_block = static_cast<int32_t>(of_slots),
          .count = of_slots + int64_t{options.kv_block_count} * in_block};
}

int32_t position_count(const ModelSpec& spec, const ClExecutorOptions& options) {
  const int64_t stored = int64_t{options.kv_block_count} * options.kv.block_token_count;
  const int32_t longest = options.max_model_len > 0 ? options.max_model_len : spec.context_length;
  return static_cast<int32_t>(std::min({stored, int64_t{longest}, int64_t{spec.context_length}}));
}

size_t state_count(const ModelSpec& spec, const ClExecutorOptions& options) {
  return spec.has_state() ? static_cast<size_t>(options.max_num_seqs) + static_cast<size_t>(options.kept_states) : 0;
}

int32_t sampled_rows_max(const ClExecutorOptions& options) {
  const int64_t rows = int64_t{options.max_num_seqs} * (1 + options.num_speculative_tokens);
  return static_cast<int32_t>(std::min(rows, int64_t{std::max(options.max_num_batched_tokens, options.max_num_seqs)}));
}

size_t step_upload_words(const ModelSpec& spec, const ClExecutorOptions& options) {
  constexpr size_t kTables = size_t{1} << 17;  // of rows, blocks, attention, stages
  constexpr size_t kPromptToken = kResultWords + kSampleWords + 1 + 2 * limits::kLogprobsMax;
  const size_t masks = static_cast<size_t>(sampled_rows_max(options)) * mask_words(spec.vocabulary_size);
  return std::bit_ceil(kTables + static_cast<size_t>(options.max_num_batched_tokens) * kPromptToken + masks);
}

ArenaSize arena_size(const DeviceInfo& device, const ModelSpec& spec, const ClExecutorOptions& options) {
  const int32_t longest = div_ceil(position_count(spec, options), kAttentionPartition);
  return {.rows = options.max_num_batched_tokens,
          .logit_rows = options.keep_logits ? options.max_num_seqs
                                            : std::clamp(sampled_rows_max(options), kLogitRowsMin, kLogitRowsMax),
          .partial_slots = spec.head_count * (longest + kSplitRowPartitions),
          .lora_rank = options.max_loras > 0 ? options.adapters->max_lora_rank() : 0,
          .copies = 2 * device.compute_units,  // of two launches
          .copy_rows = std::max(kCopiedRows / device.compute_units, 1)};
}

ClblastLimits clblast_limits(const ModelWeights& weights, const ClExecutorOptions& options) {
  ClblastLimits limits{.rows = std::max(options.max_num_batched_tokens, options.max_num_seqs)};
  const auto add = [&](const WeightView* weight) {
    if (!weight->present() || takes_bytes(panel_type(*weight))) return;
    limits.depth = std::max(limits.depth, weight->columns);
    limits.outputs = std::max(limits.outputs, weight->rows);
  };
  for (const LayerWeights& layer : weights.layers) std::ranges::for_each(layer.common_matrices(), add);
  add(&weights.layer_projection);
  add(&weights.output);
  return limits;
}

MemoryPlan plan_memory(const DeviceInfo& device, const ModelSpec& spec, const ModelWeights& weights,
                       const ClExecutorOptions& options) {
  check_options(options);
  MemoryPlan plan;
  std::vector<size_t> sizes;
  for (const WeightView* weight : weight_matrices(weights)) sizes.push_back(packed_bytes_of(*weight));
  for (const size_t bytes : plan_chunks(sizes, device.allocation_bytes_max).chunk_bytes) plan.weight_bytes += bytes;
  for (const WeightView* vector : weight_vectors(weights)) {
    plan.weight_bytes += align_up(vector->bytes.size(), size_t{kPanelOutputs} * sizeof(float));
  }
  const KvUnits units = kv_units(options);
  if (units.count > units_max(device, options.kv)) {
    fail(ErrorCode::OutOfMemory, "kv_blocks is {}, device '{}' allows {} blocks of {} bytes", options.kv_block_count,
         device.name, int64_t{blocks_a_chunk(device, options.kv)} * kKvChunksMax, options.kv.bytes_per_block());
  }
  plan.kv_bytes = options.kv.bytes_per_unit() * static_cast<size_t>(units.count);
  const size_t angles = RopeAngles::floats(spec, position_count(spec, options)) * sizeof(float);
  plan.activation_bytes =
      static_cast<size_t>(lay_out_arena(spec, weights, arena_size(device, spec, options)).floats) * sizeof(float) +
      angles + kStepsOnDevice * step_upload_words(spec, options) * sizeof(int32_t) +
      row_token_words(options.max_num_seqs) * sizeof(int32_t);
  if (options.max_loras > 0) {
    plan.adapter_bytes = options.adapters->slot_bytes() * static_cast<size_t>(options.max_loras);
    if (plan.adapter_bytes > device.allocation_bytes_max) {
      fail(ErrorCode::OutOfMemory,
           "max_loras is {} with max_lora_rank {}: {} bytes, device '{}' allows {} in one buffer", options.max_loras,
           options.adapters->max_lora_rank(), plan.adapter_bytes, device.name, device.allocation_bytes_max);
    }
  }
  plan.state_bytes = spec.state_bytes() * state_count(spec, options);
  if (plan.state_bytes > device.allocation_bytes_max) {
    const auto fit = static_cast<int64_t>(device.allocation_bytes_max / spec.state_bytes());
    fail(ErrorCode::OutOfMemory,
         "max_num_seqs is {}, allowed: at most {} (a sequence's state takes {} bytes, device '{}' allows {} in one "
         "buffer)",
         options.max_num_seqs, std::max<int64_t>(fit - options.kept_states, 0), spec.state_bytes(), device.name,
         device.allocation_bytes_max);
  }
  if (options.clblast.from_rows > 0) plan.activation_bytes += clblast_scratch_bytes(clblast_limits(weights, options));
  return plan;
}

MemoryPlan plan_memory(const DeviceInfo& device, std::span<const PlannedModel> models, int32_t kv_block_count) {
  MemoryPlan sum;
  for (const PlannedModel& model : models) {
    ClExecutorOptions options = model.options;
    options.kv_block_count = kv_block_count;
    const MemoryPlan plan = plan_memory(device, *model.spec, *model.weights, options);
    sum.weight_bytes += plan.weight_bytes;
    sum.kv_bytes += plan.kv_bytes;
    sum.activation_bytes += plan.activation_bytes;
    sum.adapter_bytes += plan.adapter_bytes;
    sum.state_bytes += plan.state_bytes;
  }
  return sum;
}

int32_t fitting_block_count(const DeviceInfo& device, std::span<const PlannedModel> models, const MemoryBudget& budget,
                            int32_t wanted) {
  int64_t fits = 0, above = int64_t{wanted} + 1;  // binary search: the plan grows with the count
  const auto is_possible = [&](int32_t count) {
    return std::ranges::all_of(models, [&](const PlannedModel& model) {
      ClExecutorOptions options = model.options;
      options.kv_block_count = count;
      return kv_units(options).count <= units_max(device, options.kv);
    });
  };
  while (above - fits > 1) {
    const auto middle = static_cast<int32_t>((fits + above) / 2);
    const auto keeps_budget = [&](const MemoryPlan& plan) {
      return plan.total() <= budget.total && plan.kv_bytes <= budget.kv;
    };
    const bool fitting = is_possible(middle) && keeps_budget(plan_memory(device, models, middle));
    (fitting ? fits : above) = middle;
  }
  return static_cast<int32_t>(fits);
}

}  // namespace inflight
