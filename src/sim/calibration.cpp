// SPDX-License-Identifier: Apache-2.0
#include "sim/calibration.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace inflight {
namespace {

constexpr size_t kTerms = 5;  // overhead, tokens (at least the knee), sequences, context of decodes, pairs of prompts
using Vector = std::array<double, kTerms>;

Vector features_of(const DeviceWork& work, double knee) {
  return {1.0, std::max(static_cast<double>(work.tokens), knee), static_cast<double>(work.sequences),
          static_cast<double>(work.decode_context), static_cast<double>(work.prefill_pairs)};
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0.0;
  for (size_t i = 0; i < kTerms; ++i) sum += a[i] * b[i];
  return sum;
}

// min sum ((x . w - 1))^2 with w >= 0, where each x is features / measured: coordinate descent on the normal equations.
Vector solve(const std::vector<MeasuredStep>& steps, double knee) {
  std::array<Vector, kTerms> matrix{};
  Vector right{}, scale{};
  for (const MeasuredStep& step : steps) {
    const Vector x = features_of(step.work, knee);
    for (size_t i = 0; i < kTerms; ++i) scale[i] = std::max(scale[i], x[i] / step.seconds);
  }
  for (double& value : scale) value = value > 0.0 ? value : 1.0;
  for (const MeasuredStep& step : steps) {
    Vector x = features_of(step.work, knee);
    for (size_t i = 0; i < kTerms; ++i) x[i] /= step.seconds * scale[i];
    for (size_t i = 0; i < kTerms; ++i) {
      right[i] += x[i];
      for (size_t j = 0; j < kTerms; ++j) matrix[i][j] += x[i] * x[j];
    }
  }
  Vector weights{};
  constexpr int kRounds = 20'000;
  for (int round = 0; round < kRounds; ++round) {
    double moved = 0.0;
    for (size_t i = 0; i < kTerms; ++i) {
      if (matrix[i][i] <= 0.0) continue;
      const double gradient = right[i] - dot(matrix[i], weights);
      const double next = std::max(0.0, weights[i] + gradient / matrix[i][i]);
      moved = std::max(moved, std::abs(next - weights[i]));
      weights[i] = next;
    }
    if (moved < 1e-12) break;
  }
  for (size_t i = 0; i < kTerms; ++i) weights[i] /= scale[i];
  return weights;
}

}  // namespace

CalibrationFit fit_device_profile(const std::vector<MeasuredStep>& steps, const DeviceProfile& base) {
  if (steps.size() < kTerms) {
    fail(ErrorCode::InvalidArgument, "{} measured steps, allowed: at least {}", steps.size(), kTerms);
  }
  CalibrationFit best;
  double best_squares = 0.0;
  for (const double knee : {0.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0}) {
    const Vector weights = solve(steps, knee);
    double squares = 0.0, sum = 0.0, worst = 0.0;
    for (const MeasuredStep& step : steps) {
      const double error = std::abs(dot(features_of(step.work, knee), weights) / step.seconds - 1.0);
      squares += error * error;
      sum += error;
      worst = std::max(worst, error);
    }
    if (knee > 0.0 && squares >= best_squares) continue;
    best_squares = squares;
    best.mean_error = sum / static_cast<double>(steps.size());
    best.worst_error = worst;
    best.profile = base;
    best.profile.overhead_us = weights[0] * 1e6;
    best.profile.token_us = weights[1] * 1e6;
    best.profile.weights_us = weights[1] * knee * 1e6;
    best.profile.sequence_us = weights[2] * 1e6;
    best.profile.kv_read_ns = weights[3] * 1e9;
    best.profile.pair_ns = weights[4] * 1e9;
  }
  return best;
}

}  // namespace inflight
