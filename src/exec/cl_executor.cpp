// SPDX-License-Identifier: Apache-2.0
#include "exec/cl_executor.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <numeric>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"

namespace inflight {
namespace {

// Where one buffer holds all units, the kernels are the same whatever the device's largest buffer is; PoCL's changes
// with the memory that the machine has.
int32_t compiled_units_a_chunk(const DeviceInfo& device, const ClExecutorOptions& options) {
  const int32_t fit = units_a_chunk(device, options.kv);
  return kv_units(options).count > fit ? fit : 0;
}

// Of an adapter's matrices, which may come later, those of floats.
PanelTypes weight_types(const ModelWeights& weights, bool adapters) {
  PanelTypes types =
      adapters ? type_bit(PanelType::F32) | type_bit(PanelType::F16) | type_bit(PanelType::BF16) : PanelTypes{0};
  for (const WeightView* matrix : weight_matrices(weights)) types |= type_bit(panel_type(*matrix));
  return types;
}

KernelShape shape_of(const DeviceInfo& device, const ModelSpec& spec, const ModelWeights& weights,
                     const ClExecutorOptions& options) {
  return {.head_count = spec.head_count,
          .kv_head_count = spec.kv_head_count,
          .local_kv_head_count = spec.local_stored_kv_heads() != spec.kv_head_count ? spec.local_stored_kv_heads() : 0,
          .head_size = spec.head_size,
          .attention_scale = spec.attention_scale,
          .attention_softcap = spec.attention_softcap,
          .logit_softcap = spec.logit_softcap,
          .activation = spec.activation,
          .gated_feed_forward = spec.gated_feed_forward,
          .norms_rotated = spec.norms_rotated,
          .mean_norms = spec.mean_norms,
          .local_windows = spec.local_window > 0,
          .rope_pair_count = spec.rope_dimension_count / 2,
          .rope_interleaved = spec.rope_style == RopeStyle::Interleaved,
          .block_token_count = options.kv.block_token_count,
          .kv_type = options.kv.type,
          .sliding_window = spec.sliding_window,
          .units_a_chunk = compiled_units_a_chunk(device, options),
          .weight_types = weight_types(weights, options.max_loras > 0),
          .adapters = options.max_loras > 0,
          .experts = spec.expert_count > 0,
          .latent = spec.is_latent(),
          .wide_heads = spec.norms_values,
          .layer_embeddings = spec.layer_embedding_size > 0,
          .state = spec.state,
          .state_layer_count = spec.stateful_layer_count()};
}

// Checks the plan before anything is allocated.
ArenaSize checked_size(const Device& device, const ModelSpec& spec, const ModelWeights& weights,
                       const ClExecutorOptions& options) {
  (void)plan_memory(device.info(), spec, weights, options);
  return arena_size(device.info(), spec, options);
}

// A fused step of work-groups saves launches, and reads weights more slowly: its kernel needs so many registers that a
// compute unit runs one work-group at a time. On an H200 it made SmolLM2-135M (5 MB a layer) faster and TinyLlama-1.1B
// (53 MB) slower; between them lies where the two are about equal (docs/performance/gpu.md).
LaunchMode launch_mode(const DeviceInfo& device, const ModelSpec& spec, const ModelWeights& weights,
                       const ClExecutorOptions& options) {
  constexpr size_t kFusedLayerBytes = size_t{24} << 20;
  if (options.launch_mode != LaunchMode::Automatic || device.type == DeviceType::Cpu) return options.launch_mode;
  const size_t bytes = plan_memory(device, spec, weights, options).weight_bytes;
  return bytes / static_cast<size_t>(spec.layer_count) <= kFusedLayerBytes ? LaunchMode::Automatic
                                                                           : LaunchMode::EachStage;
}

AdapterSizes adapter_sizes(const DeviceInfo& device, const ClExecutorOptions& options) {
  if (options.max_loras == 0) return {};
  return {.slot_size = static_cast<int32_t>(options.adapters->slot_bytes() / kWeightAlignment),
          .panels = adapter_item_panels(device.small_items)};
}

std::span<const float> floats_of(const WeightView& view) {
  return {reinterpret_cast<const float*>(view.bytes.data()), view.bytes.size() / sizeof(float)};
}

// LongRoPE has others for contexts beyond the original one.
std::span<const float> rope_factors(const ModelSpec& spec, const ModelWeights& weights, int32_t positions) {
  const bool longer = positions > spec.rope_scaling.original_context_length;
  return floats_of(longer && weights.rope_factors_long.present() ? weights.rope_factors_long : weights.rope_factors);
}

}  // namespace

ClExecutor::ClExecutor(Device& device, const ModelSpec& spec, const ModelWeights& weights,
                       const ClExecutorOptions& options)
    : device_(device),
      spec_(spec),
      options_(options),
      size_(checked_size(device, spec, weights, options)),
      arena_(lay_out_arena(spec, weights, size_)),
      shape_(shape_of(device.info(), spec, weights, options)),
      program_(device, shape_, launch_mode(device.info(), spec, weights, options), options.clblast,
               clblast_limits(weights, options)),
      weights_(device, weights, options.packed_folder, options.progress),
      kv_(device, options),
      angles_(device, spec, rope_factors(spec, weights, position_count(spec, options)), position_count(spec, options)),
      forward_(spec, weights, weights_, arena_, size_, shape_, position_count(spec, options),
               options.kv.local_head_count > 0, program_.worker_count(), program_.mode(),
               adapter_sizes(device.info(), options)),
      adapters_(device, options.adapters, options.max_loras),
      activations_(device, "activations", static_cast<size_t>(arena_.floats)),
      row_tokens_(device, "sampled tokens", row_token_words(options.max_num_seqs)),
      output_norm_(floats_of(weights.output_norm).begin(), floats_of(weights.output_norm).end()),
      output_norm_bias_(floats_of(weights.output_norm_bias).begin(), floats_of(weights.output_norm_bias).end()) {
  row_tokens_.clear();
  if (spec.has_state()) {
    state_tokens_.resize(state_count(spec, options));
    states_.emplace(device, "states", spec.state_bytes() / sizeof(float) * state_count(spec, options));
  }
  if (const int32_t most = attention_context_max(device.info(), shape_); most < spec.context_length) {
    log(LogLevel::Warning, "{} ends long loops without an error: beyond {} tokens of context answers are wrong there",
        device.info().name, most);
  }
  if (const int32_t most = drawn_vocabulary_max(device.info()); most < spec.vocabulary_size) {
    log(LogLevel::Warning,
        "{} ends long loops without an error: of a vocabulary above {} tokens, top_k and top_p may draw wrong ones",
        device.info().name, most);
  }
  const StepUploadLimits upload_limits{.layer_counters = forward_.layer_stage_count(),
                                       .round_counters = forward_.round_stage_count(),
                                       .round_rows = forward_.round_size(),
                                       .spare_row = options.max_num_seqs,
                                       .partial_slots = size_.partial_slots,
                                       .worker_count = program_.worker_count(),
                                       .item_queries = program_.item_queries(),
                                       .adapter_tile_rows = adapter_tile_rows(device.info().small_items),
                                       .copy_stride = arena_.copy_stride,
                                       .kept_states_from = options.max_num_seqs,
                                       .units = kv_units(options)};
  for (int32_t i = 0; i < kStepsOnDevice; ++i) {
    flights_.push_back({.upload = StepUpload(spec, options.kv.block_token_count, upload_limits)});
    reserve_words(flights_.back(), step_upload_words(spec, options));
  }
}

ClExecutor::~ClExecutor() {
  try {  // host memory of commands in flight must outlive them
    device_.finish();
  } catch (const Error& error) {
    log(LogLevel::Warning, "closing the executor: {}", error.what());
  }
}

StepMemory ClExecutor::memory(const Flight& flight) const {
  StepMemory memory;
  for (size_t i = 0; i < weights_.chunks().size(); ++i) memory.weights.at(i) = &weights_.chunks()[i].memory();
  for (size_t i = 0; i < kv_.chunks().size(); ++i) memory.kv.at(i) = &kv_.chunks()[i].memory();
  memory.vectors = &weights_.vectors().memory();
  memory.angles = &angles_.table().memory();
  memory.activations = &activations_.memory();
  memory.step = &flight.words.memory();
  memory.row_tokens = &row_tokens_.memory();
  memory.adapters = adapters_.memory();
  if (states_) memory.states = &states_->memory();
  return memory;
}

// REQUIRES: no command uses the flight's words.
void ClExecutor::reserve_words(Flight& flight, size_t words) {
  if (words <= flight.words.size()) return;
  flight.words = Buffer<int32_t>(device_, "step upload", std::bit_ceil(words));
  if (program_.mode() == LaunchMode::Fused) flight.in_place = flight.words.in_place();
}

// A state is that of its sequence's tokens so far: these come each once, from the first one on.
void ClExecutor::follow_states(const BatchPlan& plan) {
  if (!states_) return;
  for (const BatchEntry& entry : plan.entries) {
    const auto kept = [&](int32_t place) -> int32_t& {
      INFLIGHT_CHECK(place >= 0 && place < options_.kept_states);
      return state_tokens_[static_cast<size_t>(options_.max_num_seqs + place)];
    };
    const bool moved = entry.states != nullptr && entry.states->from >= 0;
    int32_t& own = state_tokens_[static_cast<size_t>(entry.row)];
    const int32_t seen = moved ? kept(entry.states->from) : entry.computed_token_count == 0 ? 0 : own;
    INFLIGHT_CHECK(entry.computed_token_count == seen && entry.draft_token_count == 0);
    own = entry.context_token_count();
    for (int32_t i = 0; entry.states != nullptr && i < entry.states->kept_count; ++i) {
      const StateMoves::Kept& one = entry.states->kept.at(static_cast<size_t>(i));
      kept(one.place) = entry.computed_token_count + one.token_count;
    }
  }
}

// before: the flight of the step before, if that was one launch; else `flight`.
void ClExecutor::upload_and_run(const BatchPlan& plan, Flight& flight, const Flight& before) {
  int32_t positions = 0;
  size_t logit_rows = 0;
  for (const BatchEntry& entry : plan.entries) {
    INFLIGHT_CHECK(entry.row >= 0 && entry.row < options_.max_num_seqs && entry.scheduled_token_count >= 1);
    positions = std::max(positions, entry.context_token_count());
    if (entry.prompt_logprobs_wanted > 0) {
      flight.told.push_back({entry.sequence, entry.first_told_position(), logit_rows, entry.prompt_logprobs_wanted});
    }
    logit_rows += static_cast<size_t>(logits_count(entry));
    if (!entry.samples) continue;
    const std::span<const TokenId> drafts = entry.drafts();
    flight.sampled.push_back({entry.sequence, logit_rows - 1 - drafts.size(), drafts.size()});
    flight.drafts.insert(flight.drafts.end(), drafts.begin(), drafts.end());
  }
  INFLIGHT_CHECK(plan.scheduled_token_count <= options_.max_num_batched_tokens);
  angles_.require(positions);
  follow_states(plan);
  const StepTables& tables = flight.upload.build(plan, adapters_.place(plan));
  flight.results.resize(std::max(flight.upload.told_at(logit_rows), size_t{kResultWords}));
  if (plan.read_before_next && std::ranges::any_of(plan.entries, &BatchEntry::host_samples)) {
    run_and_read_logits(plan, tables, flight);
    return read_hidden(plan, flight);
  }
  const std::span<const Stage> stages = forward_.fit(tables);
  flight.upload.append_stages(stages, static_cast<int32_t>(++launch_number_));
  const std::vector<int32_t>& words = flight.upload.words();
  reserve_words(flight, words.size());
  const auto results = static_cast<size_t>(flight.upload.results_offset());
  if (flight.in_place.empty()) {
    flight.words.write_async(words);
    program_.run(memory(flight), stages);
    flight.done = flight.words.read_async(flight.results, results);
  } else {  // one command in place of three, each of which wakes threads of the driver
    std::ranges::copy(words, flight.in_place.begin());
    program_.run_fused(memory(flight), before.words.memory(), flight.done);
    launched_ = &flight;
    flight.results_in_place = flight.in_place.subspan(results, flight.results.size());
    flight.last_counter = static_cast<size_t>(kStepCounters + kStepCounterStride * words[kStepLastCounter]);
  }
  read_hidden(plan, flight);
}

// The next step overwrites the hidden states, so they are read before this returns. The output layer's norm is the
// host's work here: the device norms sampled rows only, and in the form that the output weights read.
void ClExecutor::read_hidden(const BatchPlan& plan, Flight& flight) {
  if (plan.hidden_row_count == 0) return;
  const auto width = static_cast<size_t>(spec_.hidden_size);
  flight.hidden.resize(static_cast<size_t>(plan.hidden_row_count) * width);
  size_t row = 0, end_row = 0;  // in flight.hidden; in the step, all of whose rows are computed to the end
  for (const BatchEntry& entry : plan.entries) {
    end_row += static_cast<size_t>(entry.scheduled_token_count);
    if (entry.hidden_wanted == 0) continue;
    const auto count = static_cast<size_t>(entry.hidden_wanted);
    const std::span<float> rows = std::span(flight.hidden).subspan(row * width, count * width);
    activations_.read(rows, static_cast<size_t>(forward_.last_hidden()) + (end_row - count) * width);
    for (size_t first = 0; first < rows.size(); first += width) {
      norm_hidden(rows.subspan(first, width));
    }
    flight.told_hidden.push_back({.sequence = entry.sequence, .row_count = entry.hidden_wanted, .values = rows});
    row += count;
  }
}

void ClExecutor::norm_hidden(std::span<float> row) const {
  double mean = 0.0, squares = 0.0;
  if (spec_.mean_norms) mean = std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
  for (const float number : row) squares += (double{number} - mean) * (double{number} - mean);
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(row.size()) + double{spec_.hidden_epsilon()});
  for (size_t i = 0; i < row.size(); ++i) {
    const double bias = output_norm_bias_.empty() ? 0.0 : double{output_norm_bias_[i]};
    row[i] = static_cast<float>((double{row[i]} - mean) * scale * double{output_norm_[i]} + bias);
  }
}

// The rounds of logits take turns in one place, so each is read before the next: such a step is done when this returns.
void ClExecutor::run_and_read_logits(const BatchPlan& plan, const StepTables& tables, Flight& flight) {
  const auto drawn = static_cast<size_t>(std::ranges::count_if(plan.entries, &BatchEntry::host_samples));
  flight.logits.resize(drawn * static_cast<size_t>(spec_.vocabulary_size));
  for (int32_t first = 0; first < tables.sampled; first += forward_.round_size()) {
    const auto rows = static_cast<size_t>(std::min(forward_.round_size(), tables.sampled - first));
    const std::span<const Stage> stages = forward_.fit_round(tables, first);
    flight.upload.append_stages(stages, static_cast<int32_t>(++launch_number_));
    reserve_words(flight, flight.upload.words().size());
    flight.words.write(flight.upload.words());
    program_.run(memory(flight), stages);
    const auto begin = static_cast<size_t>(first);
    read_logits(plan, flight, begin, begin + rows);
    flight.words.read(std::span(flight.results).subspan(begin * kResultWords, rows * kResultWords),
                      static_cast<size_t>(flight.upload.results_offset()) + begin * kResultWords);
    const size_t told = flight.upload.told_at(begin), told_end = flight.upload.told_at(begin + rows);
    if (told == told_end) continue;
    flight.words.read(std::span(flight.results).subspan(told, told_end - told),
                      static_cast<size_t>(flight.upload.results_offset()) + told);
  }
}

// The logits that the host draws from, of rows [begin, end), which are those of the round.
void ClExecutor::read_logits(const BatchPlan& plan, Flight& flight, size_t begin, size_t end) {
  const auto vocabulary = static_cast<size_t>(spec_.vocabulary_size);
  size_t rows = 0;  // of the entries so far
  for (const BatchEntry& entry : plan.entries) {
    rows += static_cast<size_t>(logits_count(entry));
    if (!entry.host_samples || rows <= begin || rows > end) continue;
    const std::span<float> values =
        std::span(flight.logits).subspan(flight.entry_logits.size() * vocabulary, vocabulary);
    activations_.read(values, static_cast<size_t>(arena_.logits) + (rows - 1 - begin) * vocabulary);
    flight.entry_logits.push_back({.sequence = entry.sequence, .values = values});
  }
}

void ClExecutor::submit(const BatchPlan& plan) {
  INFLIGHT_CHECK(flight_count_ < kStepsInFlightMax);
  Flight& flight = flights_[static_cast<size_t>((first_flight_ + flight_count_) % kStepsOnDevice)];
  ++flight_count_;
  const Flight* const launched = std::exchange(launched_, nullptr);
  flight.step = plan.step;
  flight.submitted = clock_.now();
  flight.sampled.clear();
  flight.drafts.clear();
  flight.told.clear();
  flight.entry_logits.clear();
  flight.results_in_place = {};
  flight.told_hidden.clear();
  flight.done = Completion();
  flight.swap_time = kv_.move_blocks(plan);
  if (plan.entries.empty()) {  // something is read back, which tells when the blocks have been moved
    flight.results.resize(kResultWords);
    flight.done = flight.words.read_async(flight.results);
  } else {
    upload_and_run(plan, flight, launched != nullptr ? *launched : flight);
  }
  device_.flush();
}

const StepResult& ClExecutor::wait() {
  INFLIGHT_CHECK(flight_count_ > 0);
  Flight& flight = flights_[static_cast<size_t>(first_flight_)];
  if (flight.done.valid()) flight.done.wait();
  if (!flight.results_in_place.empty()) await_last_items(flight);
  std::ranges::copy(flight.results_in_place, flight.results.begin());
  first_flight_ = (first_flight_ + 1) % kStepsOnDevice;
  --flight_count_;
  const TimeNs finish = clock_.now();
  result_.step = flight.step;
  result_.duration = finish - std::max(flight.submitted, last_finish_);
  last_finish_ = finish;
  result_.swap_duration = flight.swap_time.take();
  result_.logits = flight.entry_logits;
  logits_.swap(flight.logits);  // the spans keep pointing into it
  result_.hidden = flight.told_hidden;
  hidden_.swap(flight.hidden);
  read_results(flight);
  return result_;
}

// A launch ends when there is nothing left to begin in its step: its last items may then be in the hands of workers of
// the launch beside it.
void ClExecutor::await_last_items(const Flight& flight) {
  const std::atomic_ref<int32_t> done(flight.in_place[flight.last_counter]);
  while (done.load(std::memory_order_acquire) != flight.in_place[kStepLastCount]) std::this_thread::yield();
}

void ClExecutor::read_results(const Flight& flight) {
  result_.sampled.clear();
  result_.prompt_logprobs.clear();
  further_.clear();
  further_.reserve(flight.drafts.size());  // spans point into it
  told_.clear();
  told_.reserve(flight.results.size() / 2);  // likewise
  const auto is_valid = [&](size_t result) { return flight.results[result * kResultWords + 1] != 0; };
  const auto number = [](int32_t bits) { return double{std::bit_cast<float>(bits)}; };
  // Of the row of a result; token, and its logit's bits.
  struct LogitsRow {
    double largest, log_sum;
  };
  const auto row_of = [&](size_t result) -> LogitsRow {
    const int32_t* const words = &flight.results[result * kResultWords];
    return {number(words[3]), std::log(number(words[4]))};
  };
  const auto logprob = [&](const LogitsRow& row, TokenId token, int32_t logit) -> TokenLogprob {
    return {token, static_cast<float>(number(logit) - row.largest - row.log_sum)};
  };
  const auto read = [&](size_t result) {
    const int32_t* const words = &flight.results[result * kResultWords];
    return logprob(row_of(result), words[0], words[2]);
  };
  // Of `count` results.
  const auto tell = [&](size_t result, size_t count) {
    const size_t begin = told_.size();
    for (const size_t end = result + count; result < end; ++result) {
      if (flight.upload.told_at(result) == flight.upload.told_at(result + 1)) continue;
      const LogitsRow row = row_of(result);
      for (size_t i = flight.upload.told_at(result); i < flight.upload.told_at(result + 1); i += 2) {
        told_.push_back(logprob(row, flight.results[i], flight.results[i + 1]));
      }
    }
    return std::span<const TokenLogprob>(told_).subspan(begin);
  };
  for (const Flight::Told& told : flight.told) {
    for (int32_t i = 0; i < told.count; ++i) {
      const size_t result = told.result + static_cast<size_t>(i);
      PromptLogprob& prompt = result_.prompt_logprobs.emplace_back(told.sequence, told.position + i);
      if (!is_valid(result)) continue;
      prompt.logprob = read(result).logprob;
      prompt.top_logprobs = tell(result, 1);
    }
  }
  const TokenId* draft = flight.drafts.data();
  for (const Flight::Sampled& sampled : flight.sampled) {
    const bool valid = is_valid(sampled.result);
    const TokenLogprob first = valid ? read(sampled.result) : TokenLogprob{};
    const size_t begin = further_.size();
    size_t usable = 0;  // guesses with finite logits behind them
    while (valid && usable < sampled.drafts && is_valid(sampled.result + 1 + usable)) ++usable;
    verify_drafts({draft, usable}, first.token, further_, [&](size_t i) { return read(sampled.result + 1 + i); });
    draft += sampled.drafts;
    result_.sampled.push_back({.sequence = sampled.sequence,
                               .token = first.token,
                               .logprob = first.logprob,
                               .valid = valid,
                               .further = std::span(further_).subspan(begin)});
    if (!valid) continue;
    result_.sampled.back().top_logprobs = tell(sampled.result, 1);
    result_.sampled.back().further_top_logprobs = tell(sampled.result + 1, further_.size() - begin);
  }
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
