// SPDX-License-Identifier: Apache-2.0
#include "support/reference_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/half.h"
#include "model/quantize.h"

namespace inflight::test {
namespace {

double llama3_frequency(double frequency, const RopeScaling& scaling) {
  const double original = scaling.original_context_length;
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  if (wavelength < original / double{scaling.high_frequency_factor}) return frequency;
  if (wavelength > original / double{scaling.low_frequency_factor}) {
    return frequency / double{scaling.factor};
  }
  const double smooth = (original / wavelength - double{scaling.low_frequency_factor}) /
                        (double{scaling.high_frequency_factor} - double{scaling.low_frequency_factor});
  return (1.0 - smooth) * frequency / double{scaling.factor} + smooth * frequency;
}

// As the YaRN authors' code has it: a weight of the unscaled angle that falls from pair `low` to pair `high`.
double yarn_frequency(int32_t pair, const ModelSpec& spec) {
  const RopeScaling& scaling = spec.rope_scaling;
  const double size = spec.rope_dimension_count, base = double{spec.rope_base};
  const auto dimension = [&](double rotations) {
    return size * std::log(scaling.original_context_length / (rotations * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(base));
  };
  double low = std::floor(dimension(double{scaling.beta_fast})), high = std::ceil(dimension(double{scaling.beta_slow}));
  low = low < 0.0 ? 0.0 : low;
  high = high > size - 1.0 ? size - 1.0 : high;
  if (high == low) high += 0.001;
  double ramp = (pair - low) / (high - low);
  ramp = ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp;
  const double extrapolated = 1.0 / std::pow(base, 2.0 * pair / size);
  const double interpolated = 1.0 / (double{scaling.factor} * std::pow(base, 2.0 * pair / size));
  return interpolated * ramp + extrapolated * (1.0 - ramp);
}

std::vector<double> rope_frequencies(const ModelSpec& spec, const std::vector<double>& factors) {
  std::vector<double> frequencies;
  for (int32_t pair = 0; pair < spec.rope_dimension_count / 2; ++pair) {
    double frequency = std::pow(double{spec.rope_base}, -2.0 * pair / spec.rope_dimension_count);
    if (spec.rope_scaling.kind == RopeScaling::Kind::Linear) {
      frequency /= double{spec.rope_scaling.factor};
    }
    if (spec.rope_scaling.kind == RopeScaling::Kind::Llama3) {
      frequency = llama3_frequency(frequency, spec.rope_scaling);
    }
    if (spec.rope_scaling.kind == RopeScaling::Kind::Yarn) frequency = yarn_frequency(pair, spec);
    if (!factors.empty()) frequency /= factors[static_cast<size_t>(pair)];
    frequencies.push_back(frequency);
  }
  return frequencies;
}

void add(std::vector<double>& x, const std::vector<double>& y, double scale = 1.0) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += scale * y[i];
}

void scale_by(std::vector<double>& x, float scale) {
  for (double& number : x) number *= double{scale};
}

double soft_capped(double x, float cap) { return cap > 0.0F ? double{cap} * std::tanh(x / double{cap}) : x; }

double as_half(double x) { return double{float_of_half(half_of_float(static_cast<float>(x)))}; }

double gelu(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

// of_halves: GELU looked up in a table of half precision.
double gated(double gate, double up, Activation kind, bool of_halves) {
  switch (kind) {
    case Activation::Silu:
      return up * gate / (1.0 + std::exp(-gate));
    case Activation::Gelu:
      return up * (of_halves ? as_half(gelu(as_half(gate))) : gelu(gate));
    case Activation::ClampedSwiglu:
      gate = std::min(gate, 7.0);
      return (std::clamp(up, -7.0, 7.0) + 1.0) * gate / (1.0 + std::exp(-1.702 * gate));
    case Activation::ReluSquared:
      return up * std::pow(std::max(gate, 0.0), 2.0);
  }
  return 0.0;  // not reached
}

// Scores of all groups but the `used` ones whose two best have the largest sums become minus infinity.
void keep_best_groups(std::vector<double>& scores, int32_t groups, int32_t used) {
  const auto size = static_cast<ptrdiff_t>(scores.size()) / groups;
  std::vector<std::pair<double, ptrdiff_t>> sums;
  for (ptrdiff_t group = 0; groups > 1 && group < groups; ++group) {
    std::vector<double> own(scores.begin() + group * size, scores.begin() + (group + 1) * size);
    std::sort(own.rbegin(), own.rend());
    sums.emplace_back(-(own[0] + own[1]), group);
  }
  std::sort(sums.begin(), sums.end());
  for (size_t i = static_cast<size_t>(used); i < sums.size(); ++i) {
    const auto begin = scores.begin() + sums[i].second * size;
    std::fill(begin, begin + size, -std::numeric_limits<double>::infinity());
  }
}

const WeightView& rope_factors(const LoadedModel& model) {
  const bool longer = model.spec.context_length > model.spec.rope_scaling.original_context_length;
  return longer && model.weights.rope_factors_long.present() ? model.weights.rope_factors_long
                                                             : model.weights.rope_factors;
}

}  // namespace

ReferenceModel::Matrix ReferenceModel::matrix(const WeightView& view) {
  Matrix result{view.rows, view.columns, {}};
  const auto rows = static_cast<size_t>(view.rows), columns = static_cast<size_t>(view.columns);
  const auto piece = static_cast<size_t>(view.piece_rows), apart = static_cast<size_t>(view.piece_stride);
  const size_t stride = row_bytes(view.type, view.stored_columns());
  std::vector<float> row(static_cast<size_t>(view.stored_columns()));
  if (view.turned) {
    result.numbers.resize(rows * columns);
    for (size_t i = 0; i < rows / piece * columns; ++i) {
      const size_t head = i / columns, column = i % columns;
      dequantize_row(view.type, view.bytes.subspan((head * apart + column) * stride, stride), row);
      for (size_t r = 0; r < piece; ++r) result.numbers[(head * piece + r) * columns + column] = double{row[r]};
    }
    return result;
  }
  for (size_t r = 0; r < rows; ++r) {
    const size_t place = piece > 0 ? r / piece * apart + r % piece : r;
    dequantize_row(view.type, view.bytes.subspan(place * stride, stride), row);
    result.numbers.insert(result.numbers.end(), row.begin(), row.end());
  }
  return result;
}

ReferenceModel::Matrix ReferenceModel::part(const Matrix& whole, int32_t index, int32_t count) {
  const int32_t rows = whole.rows / count;
  const auto first = whole.numbers.begin() + int64_t{index} * rows * whole.columns;
  return {rows, whole.columns, Vector(first, first + int64_t{rows} * whole.columns)};
}

ReferenceModel::Matrix ReferenceModel::stacked(std::span<const WeightView* const> views) {
  Matrix all = matrix(*views.front());
  for (const WeightView* view : views.subspan(1)) {
    const Matrix more = matrix(*view);
    all.rows += more.rows;
    all.numbers.insert(all.numbers.end(), more.numbers.begin(), more.numbers.end());
  }
  return all;
}

ReferenceModel::Vector ReferenceModel::vector(const WeightView& view) {
  return view.present() ? matrix(view).numbers : Vector{};
}

ReferenceModel::ReferenceModel(const LoadedModel& model)
    : spec_(model.spec),
      embedding_(matrix(model.weights.token_embedding)),
      output_norm_(vector(model.weights.output_norm)),
      output_norm_bias_(vector(model.weights.output_norm_bias)),
      output_bias_(vector(model.weights.output_bias)),
      frequencies_(rope_frequencies(model.spec, vector(rope_factors(model)))) {
  if (spec_.local_rope_base > 0.0F) {
    const int32_t rotated = spec_.local_head_size > 0 ? spec_.local_head_size : spec_.rope_dimension_count;
    for (int32_t pair = 0; pair < rotated / 2; ++pair) {
      local_frequencies_.push_back(std::pow(double{spec_.local_rope_base}, -2.0 * pair / rotated));
    }
  }
  layer_embeddings_ = matrix(model.weights.layer_embeddings);
  layer_projection_ = matrix(model.weights.layer_projection);
  layer_projection_norm_ = vector(model.weights.layer_projection_norm);
  if (!model.weights.tied_output) output_ = matrix(model.weights.output);
  for (const LayerWeights& weights : model.weights.layers) {
    Layer layer;
    layer.attention_norm = vector(weights.attention_norm);
    layer.attention_norm_bias = vector(weights.attention_norm_bias);
    layer.feed_forward_norm_bias = vector(weights.feed_forward_norm_bias);
    layer.attention_post_norm = vector(weights.attention_post_norm);
    layer.feed_forward_norm = vector(weights.feed_forward_norm);
    layer.feed_forward_post_norm = vector(weights.feed_forward_post_norm);
    const auto number = static_cast<int32_t>(layers_.size()) + 1;
    layer.window = spec_.global_every == 0            ? spec_.sliding_window
                   : number % spec_.global_every != 0 ? spec_.local_window
                                                      : 0;
    layer.rotates = spec_.unrotated_every == 0 || number % spec_.unrotated_every != 0;
    layer.rotates_locally = spec_.global_every > 0 && layer.window > 0 && !local_frequencies_.empty();
    layer.head_size =
        static_cast<size_t>(layer.window > 0 && spec_.local_head_size > 0 ? spec_.local_head_size : spec_.head_size);
    const bool has_own_count = spec_.local_kv_head_count > 0 && layer.window > 0;
    const int32_t kv_heads = has_own_count ? spec_.local_kv_head_count : spec_.kv_head_count;
    layer.shared_heads = static_cast<size_t>(spec_.head_count / kv_heads);
    layer.kv_layer = layers_.size();
    if (spec_.first_sharing_layer > 0 && number > spec_.first_sharing_layer) {
      layer.kv_layer = static_cast<size_t>(spec_.first_sharing_layer) - 1;
      while (layers_[layer.kv_layer].window != layer.window) --layer.kv_layer;
    }
    layer.embedding_gate = matrix(weights.embedding_gate);
    layer.embedding_output = matrix(weights.embedding_output);
    layer.embedding_post_norm = vector(weights.embedding_post_norm);
    layer.output_scale = vector(weights.output_scale);
    layer.query_norm = vector(weights.query_norm);
    layer.key_norm = vector(weights.key_norm);
    layer.query_gate.weight = matrix(weights.query_gate);
    layer.query_down = matrix(weights.query_down);
    layer.query_down_norm = vector(weights.query_down_norm);
    layer.latent = matrix(weights.latent);
    layer.latent_norm = vector(weights.latent_norm);
    layer.rotated_key = matrix(weights.rotated_key);
    layer.head_keys = matrix(weights.head_keys);
    layer.head_values = matrix(weights.head_values);
    layer.mixed.weight = stacked(std::array{&weights.mixed, &weights.mixed_keys, &weights.mixed_values});
    layer.convolution = matrix(weights.convolution);
    layer.output_gate.weight = matrix(weights.output_gate);
    layer.step.weight = matrix(weights.step);
    layer.correction.weight = matrix(weights.correction);
    layer.state_output.weight = matrix(weights.state_output);
    layer.convolution_bias = vector(weights.convolution_bias);
    layer.skip = vector(weights.skip);
    layer.step_bias = vector(weights.step_bias);
    layer.decay = vector(weights.decay);
    layer.state_norm = vector(weights.state_norm);
    layer.query = {matrix(weights.query), vector(weights.query_bias)};
    layer.key = {matrix(weights.key), vector(weights.key_bias)};
    layer.value = {matrix(weights.value), vector(weights.value_bias)};
    layer.attention_output = {matrix(weights.attention_output), vector(weights.attention_output_bias)};
    layer.dense = {.gate = {matrix(weights.gate), vector(weights.gate_bias)},
                   .up = {matrix(weights.up), vector(weights.up_bias)},
                   .down = {matrix(weights.down), vector(weights.down_bias)}};
    layer.sinks = vector(weights.attention_sinks);
    read_experts(weights, layer);
    layers_.push_back(std::move(layer));
  }
}

void ReferenceModel::read_experts(const LayerWeights& weights, Layer& layer) const {
  layer.router = matrix(weights.router);
  layer.router_bias = vector(weights.router_bias);
  layer.choice_bias = vector(weights.choice_bias);
  layer.shared_gate = vector(weights.shared_gate);
  layer.router_norm = vector(weights.router_norm);
  layer.expert_norm = vector(weights.expert_norm);
  layer.expert_post_norm = vector(weights.expert_post_norm);
  layer.shared_post_norm = vector(weights.shared_post_norm);
  layer.expert_scales = vector(weights.expert_scales);
  const Matrix gates = matrix(weights.expert_gate), ups = matrix(weights.expert_up),
               downs = matrix(weights.expert_down);
  const auto bias = [&](const WeightView& view, int32_t expert) {
    if (!view.present()) return Vector{};
    return part(Matrix{spec_.expert_count, view.columns, vector(view)}, expert, spec_.expert_count).numbers;
  };
  for (int32_t i = 0; i < layer.router.rows; ++i) {
    layer.experts.push_back({.gate = {part(gates, i, spec_.expert_count), bias(weights.expert_gate_bias, i)},
                             .up = {part(ups, i, spec_.expert_count), bias(weights.expert_up_bias, i)},
                             .down = {part(downs, i, spec_.expert_count), bias(weights.expert_down_bias, i)}});
  }
}

void ReferenceModel::merge(const LowRank& adapted) {
  Layer& layer = layers_.at(static_cast<size_t>(adapted.layer));
  const std::map<std::string, Linear*> linears = {
      {"attn_q", &layer.query},        {"attn_k", &layer.key},
      {"attn_v", &layer.value},        {"attn_output", &layer.attention_output},
      {"ffn_gate", &layer.dense.gate}, {"ffn_up", &layer.dense.up},
      {"ffn_down", &layer.dense.down}};
  Matrix& weight = linears.at(adapted.target)->weight;
  INFLIGHT_CHECK(weight.rows == adapted.outputs && weight.columns == adapted.depth);
  const auto depth = static_cast<size_t>(adapted.depth), rank = static_cast<size_t>(adapted.rank);
  for (size_t n = 0; n < static_cast<size_t>(adapted.outputs); ++n) {
    for (size_t k = 0; k < depth; ++k) {
      double product = 0.0;
      for (size_t j = 0; j < rank; ++j) {
        product += static_cast<double>(adapted.b[n * rank + j]) * static_cast<double>(adapted.a[j * depth + k]);
      }
      weight.numbers[n * depth + k] += adapted.scale * product;
    }
  }
}

void ReferenceModel::reset() {
  position_ = 0;
  for (Layer& layer : layers_) {
    layer.keys.clear();
    layer.values.clear();
    layer.before.clear();
    layer.states.clear();
  }
}

ReferenceModel::Vector ReferenceModel::multiply(const Matrix& matrix, const Vector& x) {
  INFLIGHT_CHECK(x.size() == static_cast<size_t>(matrix.columns));
  Vector y(static_cast<size_t>(matrix.rows));
  const double* weight = matrix.numbers.data();
  for (double& sum : y) {
    for (const double number : x) sum += *weight++ * number;
  }
  return y;
}

ReferenceModel::Vector ReferenceModel::apply(const Linear& linear, const Vector& x) {
  Vector y = multiply(linear.weight, x);
  if (!linear.bias.empty()) add(y, linear.bias);
  return y;
}

ReferenceModel::Vector ReferenceModel::norm(const Vector& x, const Vector& weight, const Vector& bias) const {
  if (weight.empty()) return x;
  const auto count = static_cast<double>(x.size());
  const double mean = spec_.mean_norms ? std::accumulate(x.begin(), x.end(), 0.0) / count : 0.0;
  double squares = 0.0;
  for (const double number : x) squares += (number - mean) * (number - mean);
  const double scale = 1.0 / std::sqrt(squares / count + double{spec_.norm_epsilon});
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = weight[i] * (x[i] - mean) * scale;
  if (!bias.empty()) add(y, bias);
  return y;
}

void ReferenceModel::norm_heads(Vector& heads, const Vector& weight, size_t size) const {
  if (weight.empty()) return;
  const auto together = static_cast<ptrdiff_t>(spec_.norms_heads_together ? heads.size() : size);
  for (auto head = heads.begin(); head != heads.end(); head += together) {
    const Vector normed = norm(Vector(head, head + together), weight);
    std::copy(normed.begin(), normed.end(), head);
  }
}

void ReferenceModel::rotate(const Layer& layer, Vector& heads, size_t size, size_t from) const {
  if (!layer.rotates) return;
  const Vector& frequencies = layer.rotates_locally ? local_frequencies_ : frequencies_;
  const size_t pairs = frequencies.size();
  const bool interleaved = spec_.rope_style == RopeStyle::Interleaved;
  for (size_t head = from; head < heads.size(); head += size) {
    for (size_t pair = 0; pair < pairs; ++pair) {
      const double angle = position_ * frequencies[pair];
      double& first = heads[head + (interleaved ? 2 * pair : pair)];
      double& second = heads[head + (interleaved ? 2 * pair + 1 : pair + pairs)];
      const double x = first, y = second;
      const double magnitude = layer.rotates_locally ? 1.0 : double{spec_.rope_scaling.magnitude};
      first = magnitude * (x * std::cos(angle) - y * std::sin(angle));
      second = magnitude * (x * std::sin(angle) + y * std::cos(angle));
    }
  }
}

ReferenceModel::Vector ReferenceModel::attend(const Layer& layer, const Vector& query, size_t size, size_t value_size,
                                              size_t shared) const {
  const auto heads = static_cast<size_t>(spec_.head_count);
  Vector result(heads * value_size);
  for (size_t head = 0; head < heads; ++head) {
    const double* const q = query.data() + head * size;
    const size_t group = head / shared;
    Vector scores;
    const size_t count = layer.keys.size(), window = static_cast<size_t>(layer.window);
    const size_t first = window > 0 && count > window ? count - window : 0;
    for (const Vector& key : std::span(layer.keys).subspan(first)) {
      double score = 0.0;
      for (size_t i = 0; i < size; ++i) score += q[i] * key[group * size + i];
      score = spec_.attention_scale > 0.0F ? score * double{spec_.attention_scale}
                                           : score / std::sqrt(static_cast<double>(size));
      scores.push_back(soft_capped(score, spec_.attention_softcap));
    }
    if (!layer.sinks.empty()) scores.push_back(layer.sinks[head]);
    const double largest = *std::max_element(scores.begin(), scores.end());
    double total = 0.0;
    for (double& score : scores) total += score = std::exp(score - largest);
    if (!layer.sinks.empty()) scores.pop_back();
    for (size_t j = 0; j < scores.size(); ++j) {
      for (size_t i = 0; i < value_size; ++i) {
        result[head * value_size + i] += scores[j] / total * layer.values[first + j][group * value_size + i];
      }
    }
  }
  return result;
}

ReferenceModel::Vector ReferenceModel::feed_forward(const FeedForward& weights, const Vector& x) const {
  const Vector up = apply(weights.up, x), gate = spec_.gated_feed_forward ? apply(weights.gate, x) : up;
  Vector hidden(up.size());
  for (size_t i = 0; i < up.size(); ++i) {
    hidden[i] = gated(gate[i], spec_.gated_feed_forward ? up[i] : 1.0, spec_.activation, gelu_of_halves_);
  }
  return apply(weights.down, hidden);
}

ReferenceModel::Vector ReferenceModel::experts_sum(const Layer& layer, const Vector& routed, const Vector& x) const {
  Vector shares = multiply(layer.router, routed);
  if (!layer.router_bias.empty()) add(shares, layer.router_bias);
  if (spec_.expert_gating == Gating::Sigmoid) {
    for (double& share : shares) share = 1.0 / (1.0 + std::exp(-share));
  } else {
    const double largest = *std::max_element(shares.begin(), shares.end());
    double total = 0.0;
    for (double& share : shares) total += share = std::exp(share - largest);
    for (double& share : shares) share /= total;
  }
  Vector scores = shares;
  if (!layer.choice_bias.empty()) add(scores, layer.choice_bias);
  keep_best_groups(scores, spec_.expert_groups, spec_.expert_groups_used);
  std::vector<size_t> order(shares.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  order.resize(static_cast<size_t>(spec_.experts_used));
  double sum = 0.0;
  for (const size_t expert : order) sum += shares[expert];
  const double divisor = spec_.expert_weights_normed ? sum : 1.0;
  Vector result(x.size());
  for (const size_t expert : order) {
    const double scale = layer.expert_scales.empty() ? 1.0 : layer.expert_scales[expert];
    add(result, feed_forward(layer.experts[expert], x),
        shares[expert] / divisor * double{spec_.expert_weight_scale} * scale);
  }
  return result;
}

ReferenceModel::Vector ReferenceModel::mixture(const Layer& layer, const Vector& x) const {
  Vector result = experts_sum(layer, x, x);
  if (layer.dense.down.weight.rows == 0) return result;
  double gate = 0.0;
  for (size_t i = 0; i < layer.shared_gate.size(); ++i) gate += layer.shared_gate[i] * x[i];
  add(result, feed_forward(layer.dense, x), layer.shared_gate.empty() ? 1.0 : 1.0 / (1.0 + std::exp(-gate)));
  return result;
}

ReferenceModel::Vector ReferenceModel::normed_mixture(const Layer& layer, const Vector& hidden) const {
  Vector routed = norm(hidden, layer.router_norm);
  for (double& number : routed) number /= std::sqrt(static_cast<double>(hidden.size()));
  Vector sum = norm(feed_forward(layer.dense, norm(hidden, layer.feed_forward_norm)), layer.shared_post_norm);
  add(sum, norm(experts_sum(layer, routed, norm(hidden, layer.expert_norm)), layer.expert_post_norm));
  return sum;
}

ReferenceModel::Vector ReferenceModel::attention(size_t index, const Vector& x) {
  Layer& layer = layers_[index];
  const size_t size = layer.head_size;
  Vector query = apply(layer.query, x);
  if (!spec_.norms_rotated) norm_heads(query, layer.query_norm, size);
  rotate(layer, query, size);
  if (spec_.temperature_scale > 0.0F) {
    const int32_t lengths = position_ / spec_.temperature_length;
    for (double& number : query) number *= 1.0 + double{spec_.temperature_scale} * std::log(1.0 + lengths);
  }
  if (spec_.norms_rotated) norm_heads(query, layer.query_norm, size);
  if (layer.kv_layer == index) {
    Vector key = apply(layer.key, x), value = layer.value.weight.rows > 0 ? apply(layer.value, x) : key;
    if (!spec_.norms_rotated) norm_heads(key, layer.key_norm, size);
    if (spec_.norms_values) norm_heads(value, Vector(size, 1.0), size);
    rotate(layer, key, size);
    if (spec_.norms_rotated) norm_heads(key, layer.key_norm, size);
    layer.keys.push_back(std::move(key));
    layer.values.push_back(std::move(value));
  }
  Vector attended = attend(layers_[layer.kv_layer], query, size, size, layer.shared_heads);
  if (spec_.gated_attention) {
    const Vector gate = apply(layer.query_gate, x);
    for (size_t i = 0; i < attended.size(); ++i) attended[i] /= 1.0 + std::exp(-gate[i]);
  }
  return apply(layer.attention_output, attended);
}

ReferenceModel::Vector ReferenceModel::latent_attention(Layer& layer, const Vector& x) const {
  const auto heads = static_cast<size_t>(spec_.head_count), rank = static_cast<size_t>(spec_.latent.rank);
  const auto plain = static_cast<size_t>(spec_.latent.unrotated_size);
  const size_t size = plain + static_cast<size_t>(spec_.rope_dimension_count);
  const bool down = layer.query_down.rows > 0;
  Vector query = apply(layer.query, down ? norm(multiply(layer.query_down, x), layer.query_down_norm) : x);
  rotate(layer, query, size, plain);
  const Vector latent = norm(multiply(layer.latent, x), layer.latent_norm), shared = multiply(layer.rotated_key, x);
  Vector key(heads * size);
  for (size_t head = 0; head < heads; ++head) {
    for (size_t i = 0; i < rank * plain; ++i) {
      key[head * size + i % plain] += layer.head_keys.numbers[head * rank * plain + i] * latent[i / plain];
    }
    std::copy(shared.begin(), shared.end(), key.begin() + static_cast<ptrdiff_t>(head * size + plain));
  }
  rotate(layer, key, size, plain);
  layer.keys.push_back(std::move(key));
  layer.values.push_back(multiply(layer.head_values, latent));
  return apply(layer.attention_output, attend(layer, query, size, static_cast<size_t>(spec_.latent.value_size), 1));
}

std::vector<ReferenceModel::Vector> ReferenceModel::layer_embeddings(TokenId id, const Vector& x) const {
  std::vector<Vector> all;
  const auto size = static_cast<ptrdiff_t>(spec_.layer_embedding_size);
  if (size == 0) return all;
  const auto row = layer_embeddings_.numbers.begin() + int64_t{id} * layer_embeddings_.columns;
  Vector projected = multiply(layer_projection_, x);
  for (double& number : projected) number /= std::sqrt(static_cast<double>(spec_.hidden_size));
  for (ptrdiff_t i = 0; i < spec_.layer_count; ++i) {
    const auto part = projected.begin() + i * size;
    Vector sum = norm(Vector(part, part + size), layer_projection_norm_);
    for (ptrdiff_t j = 0; j < size; ++j) {
      double& number = sum[static_cast<size_t>(j)];
      number = (number + std::sqrt(static_cast<double>(size)) * row[i * size + j]) / std::numbers::sqrt2;
    }
    all.push_back(std::move(sum));
  }
  return all;
}

void ReferenceModel::add_embedding(const Layer& layer, const Vector& embedding, Vector& x) const {
  Vector gate = multiply(layer.embedding_gate, x);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = gated(gate[i], embedding[i], spec_.activation, gelu_of_halves_);
  add(x, norm(multiply(layer.embedding_output, gate), layer.embedding_post_norm));
}

ReferenceModel::Vector ReferenceModel::hidden_after(TokenId id) {
  INFLIGHT_CHECK(id >= 0 && id < spec_.vocabulary_size);
  const auto row = embedding_.numbers.begin() + int64_t{id} * spec_.hidden_size;
  Vector x(row, row + spec_.hidden_size);
  scale_by(x, spec_.embedding_scale);
  const std::vector<Vector> embeddings = layer_embeddings(id, x);
  for (size_t index = 0; index < layers_.size(); ++index) {
    Layer& layer = layers_[index];
    const Vector before = x, attention_input = norm(x, layer.attention_norm, layer.attention_norm_bias);
    Vector attended = layer.latent.rows > 0         ? latent_attention(layer, attention_input)
                      : layer.query.weight.rows > 0 ? attention(index, attention_input)
                                                    : Vector(x.size());
    if (layer.mixed.weight.rows > 0) add(attended, state_layer(layer, attention_input));
    add(x, norm(attended, layer.attention_post_norm), double{spec_.residual_scale});
    if (layer.router.rows + layer.dense.down.weight.rows == 0) continue;

    const bool shared = spec_.parallel_residual && layer.feed_forward_norm.empty();
    const Vector& read = spec_.parallel_residual ? before : x;
    const Vector input = shared ? attention_input : norm(read, layer.feed_forward_norm, layer.feed_forward_norm_bias);
    const Vector output = !layer.expert_norm.empty() ? normed_mixture(layer, x)
                          : layer.router.rows > 0    ? mixture(layer, input)
                                                     : feed_forward(layer.dense, input);
    add(x, norm(output, layer.feed_forward_post_norm), double{spec_.residual_scale});
    if (!embeddings.empty()) add_embedding(layer, embeddings[index], x);
    if (layer.output_scale.empty()) continue;
    for (double& number : x) number *= layer.output_scale[0];
  }
  ++position_;
  return x;
}

ReferenceModel::Vector ReferenceModel::logits_of(const Vector& hidden) const {
  const Vector normed = norm(hidden, output_norm_, output_norm_bias_);
  Vector logits = multiply(output_.rows > 0 ? output_ : embedding_, normed);
  scale_by(logits, spec_.logit_scale);
  if (!output_bias_.empty()) add(logits, output_bias_);
  for (double& logit : logits) logit = soft_capped(logit, spec_.logit_softcap);
  return logits;
}

std::vector<double> ReferenceModel::feed(std::span<const TokenId> ids) {
  INFLIGHT_CHECK(!ids.empty());
  for (const TokenId id : ids.first(ids.size() - 1)) (void)hidden_after(id);
  return logits_of(hidden_after(ids.back()));
}

std::vector<std::vector<double>> ReferenceModel::feed_all(std::span<const TokenId> ids) {
  std::vector<std::vector<double>> all;
  for (const TokenId id : ids) all.push_back(logits_of(hidden_after(id)));
  return all;
}

std::vector<std::vector<double>> ReferenceModel::feed_hidden(std::span<const TokenId> ids) {
  std::vector<std::vector<double>> all;
  for (const TokenId id : ids) all.push_back(norm(hidden_after(id), output_norm_, output_norm_bias_));
  return all;
}

std::vector<double> ReferenceModel::logits(std::span<const TokenId> ids) {
  reset();
  return feed(ids);
}

std::vector<TokenId> ReferenceModel::greedy(std::vector<double> logits, int32_t count) {
  std::vector<TokenId> chosen;
  while (static_cast<int32_t>(chosen.size()) < count) {
    chosen.push_back(argmax(logits));
    logits = feed(std::span(chosen).last(1));
  }
  return chosen;
}

TokenId argmax(std::span<const double> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace inflight::test
