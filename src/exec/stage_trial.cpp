// SPDX-License-Identifier: Apache-2.0
#include "exec/stage_trial.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/half.h"
#include "base/math.h"
#include "base/median.h"
#include "base/rng.h"
#include "ops/panel.h"

namespace inflight {
namespace {

constexpr std::byte kFill{0x1C};     // of K, V and the embedding: numbers of moderate size in every format
constexpr double kTolerance = 1e-3;  // of the value that equal values must give
constexpr PanelType kTableType = PanelType::Q8_0;
constexpr Operation kOperations[] = {
    Operation::Embed,      Operation::Norm,   Operation::Attention, Operation::Combine,
    Operation::Statistics, Operation::Sample, Operation::Rope};  // last: it writes other values

KernelShape kernel_shape(const StageTrialShape& shape) {
  return {.head_count = shape.spec.head_count,
          .kv_head_count = shape.spec.kv_head_count,
          .head_size = shape.spec.head_size,
          .rope_pair_count = shape.spec.head_size / 2,
          .rope_interleaved = false,
          .block_token_count = shape.block_token_count,
          .kv_type = shape.kv_type,
          .sliding_window = shape.spec.sliding_window,
          .weight_types = 0};
}

// Where a model with 8-bit weights would have its activations.
Arena trial_arena(const StageTrialShape& shape) {
  ModelWeights weights;
  weights.layers.resize(1);
  LayerWeights& layer = weights.layers[0];
  for (WeightView* view : {&layer.query, &layer.key, &layer.value, &layer.attention_output, &layer.gate, &layer.up,
                           &layer.down, &weights.output}) {
    *view = {.type = TensorType::Q8_0, .bytes = std::span(&kFill, 1)};  // present; nobody reads it
  }
  const int32_t partitions = div_ceil(shape.context, kAttentionPartition);
  return lay_out_arena(shape.spec, weights,
                       {.rows = shape.sequences * shape.rows,
                        .logit_rows = shape.sequences,
                        .partial_slots = shape.sequences * shape.spec.head_count * partitions});
}

void fill(Buffer<std::byte>& buffer) {
  const std::span<std::byte> mapped = buffer.memory().map_for_write(0, buffer.size());
  std::ranges::fill(mapped, kFill);
  buffer.memory().unmap(mapped);
}

// What the filled storage holds as V.
double filled_value(KvType type) {
  const double half = static_cast<double>(float_of_half(0x1C1C));
  if (type == KvType::Q8_0) return half * 0x1C;
  if (type == KvType::I16) return static_cast<double>(std::bit_cast<float>(0x1C1C1C1C)) * 0x1C1C;
  return type == KvType::F16 ? half : static_cast<double>(std::bit_cast<float>(0x1C1C1C1C));
}

}  // namespace

StageTrial::StageTrial(Device& device, const StageTrialShape& shape)
    : device_(device),
      shape_(shape),
      layout_(KvLayout::of(shape.spec, shape.block_token_count, shape.kv_type)),
      kernel_shape_(kernel_shape(shape)),
      program_(device, kernel_shape_, LaunchMode::Automatic),
      arena_(trial_arena(shape)),
      angles_(device, shape.spec, {}, shape.context),
      table_(device, "trial embedding",
             packed_bytes(kTableType, shape.spec.vocabulary_size, align_up(shape.spec.hidden_size, 32))),
      kv_(device, "trial KV",
          layout_.bytes_per_block() *
              static_cast<size_t>(div_ceil(shape.context, shape.block_token_count) * shape.sequences)),
      vectors_(device, "trial norm", static_cast<size_t>(align_up(shape.spec.hidden_size, kPanelOutputs))),
      activations_(device, "trial activations", static_cast<size_t>(arena_.floats)),
      row_tokens_(device, "trial tokens", row_token_words(shape.sequences)),
      upload_(shape.spec, shape.block_token_count,
              {.layer_counters = shape.spec.layer_count,
               .spare_row = shape.sequences,
               .partial_slots = shape.sequences * shape.spec.head_count * div_ceil(shape.context, kAttentionPartition),
               .worker_count = program_.worker_count(),
               .item_queries = program_.item_queries(),
               .units = {.in_block = layout_.block_head_count()}}),
      sampling_{.temperature = 1.0F, .seed = 1} {
  angles_.require(shape.context);
  fill(table_);
  fill(kv_);
  row_tokens_.clear();
  vectors_.write(std::vector<float>(vectors_.size(), 1.0F));
  Rng rng(1);
  std::vector<float> numbers(activations_.size());
  for (float& number : numbers) number = static_cast<float>(rng.uniform() * 4.0 - 2.0);
  activations_.write(numbers);
  for (int32_t i = 0; i < shape.rows; ++i) tokens_.push_back(rng.between(0, shape.spec.vocabulary_size - 1));
  const int32_t blocks = div_ceil(shape.context, shape.block_token_count);
  for (int32_t i = 0; i < blocks * shape.sequences; ++i) blocks_.push_back(BlockId{i});
  for (int32_t i = 0; i < shape.sequences; ++i) {
    BatchEntry entry;
    entry.row = i;
    entry.computed_token_count = shape.context - shape.rows;
    entry.scheduled_token_count = shape.rows;
    entry.tokens = tokens_;
    entry.samples = true;
    entry.block_table = std::span(blocks_).subspan(static_cast<size_t>(i * blocks), static_cast<size_t>(blocks));
    entry.sampling = &sampling_;
    plan_.entries.push_back(entry);
  }
  plan_.scheduled_token_count = shape.sequences * shape.rows;
  plan_.sampled_row_count = shape.sequences;
}

Stage StageTrial::stage_of(Operation operation, const StepTables& tables, int32_t layer) const {
  const ModelSpec& spec = shape_.spec;
  Stage stage{};
  stage.operation = operation;
  stage.counter = layer;
  stage.items = tables.all.rows;
  switch (operation) {
    case Operation::Embed:
      stage.embed = {.table = {.type = kTableType, .depth = spec.hidden_size, .outputs = spec.vocabulary_size},
                     .tokens = tables.tokens,
                     .out = arena_.hidden};
      break;
    case Operation::Norm:
      stage.norm = {.in = arena_.hidden,
                    .rows_from = kNone,
                    .weight = 0,
                    .depth = spec.hidden_size,
                    .epsilon = 1e-5F,
                    .rows = tables.all.rows,
                    .out = arena_.normed};
      break;
    case Operation::Rope:
      stage.rope = {.query = arena_.query,
                    .key = arena_.key,
                    .value = arena_.value,
                    .positions = tables.all.positions,
                    .tables = tables.all.tables,
                    .unit = layer * spec.kv_head_count,
                    .kv_heads = spec.kv_head_count,
                    .query_norm = kNone,
                    .key_norm = kNone,
                    .epsilon = 0.0F};
      stage.items = tables.all.rows * spec.kv_head_count;
      break;
    case Operation::Attention:
      stage.attention = {.query = arena_.query,
                         .out = arena_.attended.floats,
                         .list = tables.all.attention.list,
                         .positions = tables.all.positions,
                         .tables = tables.all.tables,
                         .partials = arena_.partials,
                         .unit = layer * spec.kv_head_count,
                         .kv_heads = spec.kv_head_count};
      stage.items = tables.all.attention.count;
      break;
    case Operation::Combine: {
      StageRows out = arena_.attended;
      out.floats = kNone;
      stage.combine = {.in = arena_.attended.floats,
                       .list = tables.all.attention.combine,
                       .partials = arena_.partials,
                       .rows = tables.all.rows,
                       .out = out};
      stage.items = tables.all.rows * StepProgram::combine_slices(kernel_shape_);
      break;
    }
    case Operation::Statistics:
      stage.statistics = {.logits = arena_.logits,
                          .out = arena_.statistics,
                          .vocabulary = spec.vocabulary_size,
                          .chunks = arena_.statistics_chunks,
                          .list = kNone};
      stage.items = tables.sampled * arena_.statistics_chunks;
      break;
    default:
      stage.sample = {.logits = arena_.logits,
                      .statistics = arena_.statistics,
                      .vocabulary = spec.vocabulary_size,
                      .chunks = arena_.statistics_chunks,
                      .list = tables.samples,
                      .results = tables.results};
      stage.items = tables.sampled;
  }
  const bool whole_items = operation == Operation::Attention || stage.items == tables.sampled;
  stage.batch = whole_items ? 1 : ForwardPass::row_batch(stage.items, program_.worker_count());
  return stage;
}

StageTiming StageTrial::cost_of(Operation operation) const {
  const ModelSpec& spec = shape_.spec;
  const double rows = shape_.sequences * shape_.rows, query = spec.head_count * spec.head_size;
  const double key = spec.kv_head_count * spec.head_size;
  const double head_bytes = 2.0 * spec.kv_head_count * static_cast<double>(layout_.bytes_per_head());
  const double quantised = 44.0 / 32.0;  // int8, scale and two sums a block
  StageTiming cost{.operation = operation};
  switch (operation) {
    case Operation::Embed:
      cost.bytes = rows * spec.hidden_size * (34.0 / 32.0 + 4.0);
      break;
    case Operation::Norm:
      cost.bytes = rows * spec.hidden_size * (4.0 + quantised);
      break;
    case Operation::Rope:
      cost.bytes = rows * (8.0 * (query + key) + 4.0 * key + head_bytes);
      break;
    case Operation::Attention:
      cost.bytes = double{1} * shape_.sequences * shape_.context * head_bytes + rows * query * 8.0;
      cost.flops = 4.0 * query * rows * (shape_.context - (shape_.rows - 1) / 2.0);
      break;
    case Operation::Combine:
      cost.bytes = rows * query * (4.0 + quantised);
      break;
    default:
      cost.bytes = shape_.sequences * 4.0 * spec.vocabulary_size;
  }
  return cost;
}

StageTiming StageTrial::time_operation(Operation operation, int32_t repeats) {
  const StepTables tables = upload_.build(plan_);
  std::vector<Stage> stages;
  for (int32_t layer = 0; layer < shape_.spec.layer_count; ++layer) {
    stages.push_back(stage_of(operation, tables, layer));
    stages.back().wait_counter = layer > 0 ? layer - 1 : kNone;
    stages.back().wait_count = layer > 0 ? stages.back().items : 0;
  }
  upload_.append_stages(stages, 1);
  if (words_.size() < upload_.words().size()) words_ = Buffer<int32_t>(device_, "trial step", upload_.words().size());
  StepMemory memory;
  memory.weights[0] = &table_.memory();
  memory.kv[0] = &kv_.memory();
  memory.vectors = &vectors_.memory();
  memory.angles = &angles_.table().memory();
  memory.activations = &activations_.memory();
  memory.step = &words_.memory();
  memory.row_tokens = &row_tokens_.memory();
  std::vector<double> seconds;
  for (int32_t i = 0; i <= repeats; ++i) {
    words_.write(upload_.words());
    const auto begin = std::chrono::steady_clock::now();
    program_.run(memory, stages);
    device_.finish();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (i > 0) seconds.push_back(took.count() / shape_.spec.layer_count);  // the first one may compile
  }
  StageTiming timing = cost_of(operation);
  timing.median_seconds = median_of(std::move(seconds));
  return timing;
}

// Values that are all equal come out of attention as they went in.
void StageTrial::check_attended() const {
  const int32_t query = shape_.spec.head_count * shape_.spec.head_size;
  std::vector<float> attended(static_cast<size_t>(shape_.sequences * shape_.rows) * static_cast<size_t>(query));
  activations_.read(attended, static_cast<size_t>(arena_.attended.floats));
  const double expected = filled_value(shape_.kv_type);
  for (const float found : attended) {
    if (std::abs(static_cast<double>(found) - expected) <= kTolerance * expected) continue;
    fail(ErrorCode::Device, "attention over values of {} gave {}", expected, found);
  }
}

std::vector<StageTiming> StageTrial::time(int32_t repeats) {
  std::vector<StageTiming> timings;
  for (const Operation operation : kOperations) {
    timings.push_back(time_operation(operation, repeats));
    if (operation == Operation::Combine) check_attended();
  }
  return timings;
}

}  // namespace inflight
