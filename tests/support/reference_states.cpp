// SPDX-License-Identifier: Apache-2.0
// The layers of reference_model.h that have a state in the place of attention.
#include <algorithm>
#include <cmath>

#include "support/reference_model.h"

namespace inflight::test {

ReferenceModel::Vector ReferenceModel::convolve(const Layer& layer) const {
  const auto window = static_cast<size_t>(spec_.state.window);
  Vector sums(layer.before.back().size());
  for (size_t c = 0; c < sums.size(); ++c) {
    for (size_t back = 0; back < std::min(window, layer.before.size()); ++back) {
      sums[c] +=
          layer.convolution.numbers[c * window + window - 1 - back] * layer.before[layer.before.size() - 1 - back][c];
    }
  }
  for (size_t c = 0; c < layer.convolution_bias.size(); ++c) sums[c] += layer.convolution_bias[c];
  if (spec_.state.kind == StateKind::ShortConvolution) return sums;
  for (double& sum : sums) sum /= 1.0 + std::exp(-sum);
  return sums;
}

ReferenceModel::Vector ReferenceModel::short_convolution(Layer& layer, const Vector& x) const {
  const Vector row = apply(layer.mixed, x);
  const size_t size = row.size() / 3;
  Vector product(size);
  for (size_t i = 0; i < size; ++i) product[i] = row[i] * row[2 * size + i];
  layer.before.push_back(product);
  Vector sums = convolve(layer);
  for (size_t i = 0; i < size; ++i) sums[i] *= row[size + i];
  return apply(layer.state_output, sums);
}

ReferenceModel::Vector ReferenceModel::mamba2(Layer& layer, const Vector& x) const {
  const auto size = static_cast<size_t>(spec_.state.value_size), keys = static_cast<size_t>(spec_.state.key_size);
  const auto heads = static_cast<size_t>(spec_.state.value_heads), groups = static_cast<size_t>(spec_.state.key_heads);
  layer.before.push_back(apply(layer.mixed, x));
  layer.states.resize(heads, Vector(keys * size));
  const Vector mixed = convolve(layer), gate = apply(layer.output_gate, x), steps = apply(layer.step, x);
  Vector read;
  for (size_t head = 0; head < heads; ++head) {
    const size_t group = head / (heads / groups);
    const double* const value = &mixed[head * size];
    const double* const key = &mixed[heads * size + group * keys];
    const double* const query = &mixed[heads * size + (groups + group) * keys];
    const double step = std::log1p(std::exp(steps[head] + layer.step_bias[head]));
    const double kept = std::exp(layer.decay[head] * step);
    for (size_t j = 0; j < size; ++j) {
      double sum = layer.skip[head] * value[j];
      for (size_t i = 0; i < keys; ++i) {
        double& number = layer.states[head][i * size + j];
        number = kept * number + step * key[i] * value[j];
        sum += number * query[i];
      }
      const double z = gate[head * size + j];
      read.push_back(sum * z / (1.0 + std::exp(-z)));
    }
  }
  if (layer.state_norm.empty()) return apply(layer.state_output, read);
  const auto width = static_cast<ptrdiff_t>(read.size() / groups);
  Vector normed;
  for (ptrdiff_t i = 0; i < static_cast<ptrdiff_t>(read.size()); i += width) {
    const Vector part = norm(Vector(read.begin() + i, read.begin() + i + width),
                             Vector(layer.state_norm.begin() + i, layer.state_norm.begin() + i + width));
    normed.insert(normed.end(), part.begin(), part.end());
  }
  return apply(layer.state_output, normed);
}

ReferenceModel::Vector ReferenceModel::state_layer(Layer& layer, const Vector& x) const {
  switch (spec_.state.kind) {
    case StateKind::DeltaNet:
      return delta_net(layer, x);
    case StateKind::ShortConvolution:
      return short_convolution(layer, x);
    case StateKind::Mamba2:
      return mamba2(layer, x);
  }
  return {};  // not reached
}

ReferenceModel::Vector ReferenceModel::delta_net(Layer& layer, const Vector& x) const {
  const auto size = static_cast<size_t>(spec_.state.key_size);
  const auto key_heads = static_cast<size_t>(spec_.state.key_heads);
  const auto value_heads = static_cast<size_t>(spec_.state.value_heads);
  layer.before.push_back(apply(layer.mixed, x));
  layer.states.resize(value_heads, Vector(size * size));
  const Vector mixed = convolve(layer);
  const auto unit = [&](size_t begin) {
    Vector part(mixed.begin() + static_cast<ptrdiff_t>(begin), mixed.begin() + static_cast<ptrdiff_t>(begin + size));
    double squares = double{spec_.norm_epsilon};
    for (const double number : part) squares += number * number;
    for (double& number : part) number /= std::sqrt(squares);
    return part;
  };
  const Vector gate = apply(layer.output_gate, x), step = apply(layer.step, x), correction = apply(layer.correction, x);
  Vector read;
  for (size_t head = 0; head < value_heads; ++head) {
    const size_t key_head = spec_.state.grouped_heads ? head / (value_heads / key_heads) : head % key_heads;
    const Vector query = unit(key_head * size), key = unit((key_heads + key_head) * size);
    const double* const value = &mixed[(2 * key_heads + head) * size];
    const double kept = std::exp(layer.decay[head] * std::log1p(std::exp(step[head] + layer.step_bias[head])));
    const double share = 1.0 / (1.0 + std::exp(-correction[head]));
    Vector& state = layer.states[head];
    Vector out(size);
    for (size_t j = 0; j < size; ++j) {
      double stored = 0.0;
      for (size_t i = 0; i < size; ++i) stored += (state[i * size + j] *= kept) * key[i];
      for (size_t i = 0; i < size; ++i) {
        state[i * size + j] += key[i] * share * (value[j] - stored);
        out[j] += state[i * size + j] * query[i] / std::sqrt(static_cast<double>(size));
      }
    }
    const Vector normed = norm(out, layer.state_norm);
    for (size_t j = 0; j < size; ++j) {
      const double z = gate[head * size + j];
      read.push_back(normed[j] * z / (1.0 + std::exp(-z)));
    }
  }
  return apply(layer.state_output, read);
}

}  // namespace inflight::test
