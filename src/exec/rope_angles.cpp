// SPDX-License-Identifier: Apache-2.0
#include "exec/rope_angles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "ops/stage.h"

namespace inflight {
namespace {

constexpr int32_t kPositionsAtFirst = 1024;

// Long waves are slowed down by `factor`, short ones stay, between them a blend.
double llama3_frequency(double frequency, const RopeScaling& scaling) {
  const double turns = double{1.0} * scaling.original_context_length * frequency / (2.0 * std::numbers::pi);
  const double low = double{scaling.low_frequency_factor}, high = double{scaling.high_frequency_factor};
  if (turns > high) return frequency;
  if (turns < low) return frequency / double{scaling.factor};
  const double share = (turns - low) / (high - low);
  return (1.0 - share) * frequency / double{scaling.factor} + share * frequency;
}

// The pair, counted with fractions, that turns `turns` times in the original context.
double yarn_pair(double turns, const ModelSpec& spec) {
  const double radians = 2.0 * std::numbers::pi * turns;
  return spec.rope_dimension_count * std::log(spec.rope_scaling.original_context_length / radians) /
         (2.0 * std::log(double{spec.rope_base}));
}

// Pairs up to `first` stay, those from `last` on are slowed down by `factor`, between them a blend.
double yarn_frequency(double frequency, int32_t pair, const ModelSpec& spec) {
  const RopeScaling& scaling = spec.rope_scaling;
  const double first = std::max(std::floor(yarn_pair(double{scaling.beta_fast}, spec)), 0.0);
  const double last = std::min(std::ceil(yarn_pair(double{scaling.beta_slow}, spec)), spec.rope_dimension_count - 1.0);
  const double share = std::clamp((pair - first) / std::max(last - first, 0.001), 0.0, 1.0);
  return (1.0 - share) * frequency + share * frequency / double{scaling.factor};
}

}  // namespace

std::vector<double> rope_frequencies(const ModelSpec& spec, std::span<const float> factors) {
  const int32_t pairs = spec.rope_dimension_count / 2;
  INFLIGHT_CHECK(factors.empty() || factors.size() == static_cast<size_t>(pairs));
  std::vector<double> frequencies;
  for (int32_t pair = 0; pair < pairs; ++pair) {
    double frequency = std::pow(double{spec.rope_base}, -2.0 * pair / spec.rope_dimension_count);
    switch (spec.rope_scaling.kind) {
      case RopeScaling::Kind::None:
        break;
      case RopeScaling::Kind::Linear:
        frequency /= double{spec.rope_scaling.factor};
        break;
      case RopeScaling::Kind::Llama3:
        frequency = llama3_frequency(frequency, spec.rope_scaling);
        break;
      case RopeScaling::Kind::Yarn:
        frequency = yarn_frequency(frequency, pair, spec);
        break;
    }
    if (!factors.empty()) frequency /= double{factors[static_cast<size_t>(pair)]};
    frequencies.push_back(frequency);
  }
  return frequencies;
}

namespace {

// Whether local layers rotate otherwise than the others.
bool has_local_angles(const ModelSpec& spec) { return spec.local_window > 0 && spec.local_rope_base != 0.0F; }

std::vector<double> local_rope_frequencies(const ModelSpec& spec) {
  if (!has_local_angles(spec)) return {};
  ModelSpec local = spec;
  local.rope_base = spec.local_rope_base;
  local.rope_scaling = {};
  if (spec.local_head_size > 0) local.rope_dimension_count = spec.local_head_size;
  const std::vector<double> of_head = rope_frequencies(local, {});
  std::vector<double> frequencies;  // of heads side by side, zeros behind them
  for (int32_t i = 0; i < spec.local_heads_together(); ++i) {
    frequencies.insert(frequencies.end(), of_head.begin(), of_head.end());
  }
  frequencies.resize(static_cast<size_t>(spec.rope_dimension_count / 2), 0.0);
  return frequencies;
}

}  // namespace

int32_t RopeAngles::offset(const ModelSpec& spec, int32_t layer, int32_t position_count) {
  if (!spec.rotates(layer)) return kNone;
  return spec.is_local(layer) && has_local_angles(spec) ? position_count * spec.rope_dimension_count : 0;
}

int32_t RopeAngles::query_offset(const ModelSpec& spec, int32_t layer, int32_t position_count) {
  return spec.temperature_scale != 0.0F ? position_count * spec.rope_dimension_count
                                        : offset(spec, layer, position_count);
}

size_t RopeAngles::floats(const ModelSpec& spec, int32_t position_count) {
  return static_cast<size_t>(position_count) * static_cast<size_t>(spec.rope_dimension_count) *
         (has_local_angles(spec) || spec.temperature_scale != 0.0F ? 2 : 1);
}

RopeAngles::RopeAngles(Device& device, const ModelSpec& spec, std::span<const float> factors, int32_t position_count)
    : frequencies_(rope_frequencies(spec, factors)),
      local_frequencies_(local_rope_frequencies(spec)),
      magnitude_(double{spec.rope_scaling.magnitude}),
      temperature_scale_(double{spec.temperature_scale}),
      temperature_length_(spec.temperature_length),
      position_count_(position_count),
      table_(device, "rotation angles", std::max(floats(spec, position_count), size_t{1})) {
  if (floats(spec, position_count) > size_t{std::numeric_limits<int32_t>::max()}) {
    fail(ErrorCode::OutOfMemory, "the rotation angles of {} tokens take more than {} numbers; lower max_model_len",
         position_count, std::numeric_limits<int32_t>::max());
  }
  require(std::min(position_count, kPositionsAtFirst));
}

void RopeAngles::require(int32_t end) {
  if (end <= filled_) return;
  INFLIGHT_CHECK(end <= position_count_);
  end = std::min(std::max(end, 2 * filled_), position_count_);
  fill(frequencies_, magnitude_, end, 0);
  const size_t second = static_cast<size_t>(position_count_) * frequencies_.size() * 2;
  fill(local_frequencies_, 1.0, end, second);
  if (temperature_scale_ != 0.0) fill(frequencies_, magnitude_, end, second, temperature_scale_);
  filled_ = end;
}

// Positions from filled_ on of the table at `offset`.
void RopeAngles::fill(std::span<const double> frequencies, double magnitude, int32_t end, size_t offset,
                      double temperature) {
  if (frequencies.empty()) return;
  std::vector<float> angles;
  angles.reserve(static_cast<size_t>(end - filled_) * frequencies.size() * 2);
  for (int32_t position = filled_; position < end; ++position) {
    const double scale =
        temperature == 0.0 ? magnitude : magnitude * (1.0 + temperature * std::log1p(position / temperature_length_));
    for (const double frequency : frequencies) {
      angles.push_back(static_cast<float>(scale * std::cos(position * frequency)));
      angles.push_back(static_cast<float>(scale * std::sin(position * frequency)));
    }
  }
  table_.write(angles, offset + static_cast<size_t>(filled_) * frequencies.size() * 2);
}

}  // namespace inflight
