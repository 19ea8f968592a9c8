// SPDX-License-Identifier: Apache-2.0
#include "exec/cl_executor.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "base/log.h"

namespace inflight {
namespace {

constexpr size_t kWordsAtFirst = size_t{1} << 18;

KernelShape shape_of(const DeviceInfo& device, const ModelSpec& spec, const ClExecutorOptions& options) {
  return {.layer_count = spec.layer_count,
          .head_count = spec.head_count,
          .kv_head_count = spec.kv_head_count,
          .head_size = spec.head_size,
          .rope_pair_count = spec.rope_dimension_count / 2,
          .rope_interleaved = spec.rope_style == RopeStyle::Interleaved,
          .block_token_count = options.kv.block_token_count,
          .kv_f16 = options.kv.type == KvType::F16,
          .blocks_a_chunk = blocks_a_chunk(device, options.kv)};
}

// Checks the plan before anything is allocated.
ArenaSize checked_size(const Device& device, const ModelSpec& spec, const ModelWeights& weights,
                       const ClExecutorOptions& options) {
  (void)plan_memory(device.info(), spec, weights, options);
  return arena_size(spec, options);
}

std::span<const float> floats_of(const WeightView& view) {
  return {reinterpret_cast<const float*>(view.bytes.data()), view.bytes.size() / sizeof(float)};
}

}  // namespace

ClExecutor::ClExecutor(Device& device, const ModelSpec& spec, const ModelWeights& weights,
                       const ClExecutorOptions& options)
    : device_(device),
      spec_(spec),
      options_(options),
      size_(checked_size(device, spec, weights, options)),
      arena_(lay_out_arena(spec, weights, size_)),
      shape_(shape_of(device.info(), spec, options)),
      weights_(device, weights, options.progress),
      kv_(device, options),
      angles_(device, spec, floats_of(weights.rope_factors), position_count(spec, options)),
      program_(device, shape_, options.launch_mode),
      forward_(spec, weights, weights_, arena_, size_, shape_, program_.worker_count()),
      activations_(device, "activations", static_cast<size_t>(arena_.floats)),
      row_tokens_(device, "sampled tokens", static_cast<size_t>(options.max_num_seqs)),
      words_(device, "step upload", kWordsAtFirst) {
  row_tokens_.clear();
  const StepUploadLimits limits{.counters = forward_.counter_count_max(options.max_num_seqs),
                                .samples = options.max_num_seqs,
                                .partial_slots = size_.partial_slots,
                                .worker_count = program_.worker_count()};
  for (int32_t i = 0; i < kStepsInFlightMax; ++i) {
    flights_.push_back({.upload = StepUpload(spec, options.kv.block_token_count, limits)});
  }
}

ClExecutor::~ClExecutor() {
  try {  // host memory of commands in flight must outlive them
    device_.finish();
  } catch (const Error& error) {
    log(LogLevel::Warning, "closing the executor: {}", error.what());
  }
}

StepMemory ClExecutor::memory() const {
  StepMemory memory;
  for (size_t i = 0; i < weights_.chunks().size(); ++i) memory.weights.at(i) = &weights_.chunks()[i].memory();
  for (size_t i = 0; i < kv_.chunks().size(); ++i) memory.kv.at(i) = &kv_.chunks()[i].memory();
  memory.vectors = &weights_.vectors().memory();
  memory.angles = &angles_.table().memory();
  memory.activations = &activations_.memory();
  memory.step = &words_.memory();
  memory.row_tokens = &row_tokens_.memory();
  return memory;
}

void ClExecutor::reserve_words(size_t words) {
  if (words <= words_.size()) return;
  device_.finish();
  words_ = Buffer<int32_t>(device_, "step upload", std::bit_ceil(words));
}

void ClExecutor::upload_and_run(const BatchPlan& plan, Flight& flight) {
  int32_t positions = 0;
  for (const BatchEntry& entry : plan.entries) {
    INFLIGHT_CHECK(entry.row >= 0 && entry.row < options_.max_num_seqs && entry.scheduled_token_count >= 1);
    positions = std::max(positions, entry.context_token_count());
    if (entry.samples) flight.sampled.push_back(entry.sequence);
  }
  INFLIGHT_CHECK(plan.scheduled_token_count <= options_.max_num_batched_tokens);
  angles_.require(positions);
  const StepTables& tables = flight.upload.build(plan);
  const std::span<const Stage> stages = forward_.fit(tables);
  flight.upload.append_stages(stages);
  reserve_words(flight.upload.words().size());
  words_.write_async(flight.upload.words());
  program_.run(memory(), stages);
}

void ClExecutor::submit(const BatchPlan& plan) {
  INFLIGHT_CHECK(flight_count_ < kStepsInFlightMax);
  Flight& flight = flights_[static_cast<size_t>((first_flight_ + flight_count_) % kStepsInFlightMax)];
  ++flight_count_;
  flight.step = plan.step;
  flight.submitted = clock_.now();
  flight.sampled.clear();
  kv_.move_blocks(plan);
  if (!plan.entries.empty()) upload_and_run(plan, flight);
  // Something is read back even where nothing was sampled: it tells when the step is done.
  flight.results.resize(std::max(flight.sampled.size(), size_t{1}) * kResultWords);
  flight.done = words_.read_async(flight.results, static_cast<size_t>(flight.upload.results_offset()));
  device_.flush();
}

const StepResult& ClExecutor::wait() {
  INFLIGHT_CHECK(flight_count_ > 0);
  Flight& flight = flights_[static_cast<size_t>(first_flight_)];
  flight.done.wait();
  first_flight_ = (first_flight_ + 1) % kStepsInFlightMax;
  --flight_count_;
  const TimeNs finish = clock_.now();
  result_.step = flight.step;
  result_.duration = finish - std::max(flight.submitted, last_finish_);
  last_finish_ = finish;
  result_.sampled.clear();
  for (size_t i = 0; i < flight.sampled.size(); ++i) {
    const int32_t* const words = &flight.results[i * kResultWords];
    const auto number = [words](size_t index) { return static_cast<double>(std::bit_cast<float>(words[index])); };
    const bool valid = words[1] != 0;
    const double logprob = number(2) - number(3) - std::log(number(4));
    result_.sampled.push_back({.sequence = flight.sampled[i],
                               .token = words[0],
                               .logprob = valid ? static_cast<float>(logprob) : 0.0F,
                               .valid = valid});
  }
  return result_;
}

std::vector<std::vector<float>> ClExecutor::logits() {
  INFLIGHT_CHECK(options_.keep_logits && flight_count_ == 0);
  std::vector<std::vector<float>> rows(result_.sampled.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto vocabulary = static_cast<size_t>(spec_.vocabulary_size);
    rows[i].resize(vocabulary);
    activations_.read(rows[i], static_cast<size_t>(arena_.logits) + i * vocabulary);
  }
  return rows;
}

}  // namespace inflight
