// SPDX-License-Identifier: Apache-2.0
#include "sched/latency_model.h"

#include <algorithm>

namespace inflight {
namespace {

// Brings the terms to the order of 1 for typical steps, which keeps the covariance well conditioned.
constexpr LatencyModel::Coefficients kScale = {1.0, 256.0, 32.0, 32768.0, 32768.0, 64.0};
constexpr double kForgetting = 0.999;  // about the last thousand steps count
constexpr double kUncertain = 1e4;     // initial variance: any early observation outweighs the zero start

}  // namespace

LatencyModel::LatencyModel() {
  for (size_t i = 0; i < kTerms; ++i) covariance_[i][i] = kUncertain;
}

LatencyModel::LatencyModel(const Coefficients& coefficients) : fixed_(true), observations_(1) {
  for (size_t i = 0; i < kTerms; ++i) weights_[i] = coefficients[i] * kScale[i];
}

LatencyModel::Vector LatencyModel::features(const StepWork& work) {
  return {1.0,
          work.prefill_tokens / kScale[1],
          work.decode_sequences / kScale[2],
          static_cast<double>(work.prefill_pairs) / kScale[3],
          static_cast<double>(work.decode_context) / kScale[4],
          work.swapped_blocks / kScale[5]};
}

void LatencyModel::observe(const StepWork& work, TimeNs duration) {
  if (fixed_) return;
  ++observations_;
  const Vector x = features(work);
  Vector gain{};
  double scale = kForgetting;
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) gain[i] += covariance_[i][j] * x[j];
    scale += x[i] * gain[i];
  }
  double error = static_cast<double>(duration);
  for (size_t i = 0; i < kTerms; ++i) error -= weights_[i] * x[i];
  for (size_t i = 0; i < kTerms; ++i) weights_[i] += gain[i] / scale * error;
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) {
      covariance_[i][j] = (covariance_[i][j] - gain[i] * gain[j] / scale) / kForgetting;
    }
    // A term that is never excited must not grow without bound.
    covariance_[i][i] = std::min(covariance_[i][i], kUncertain);
  }
}

TimeNs LatencyModel::estimate(const StepWork& work) const {
  if (observations_ == 0) return 0;
  const Vector x = features(work);
  double sum = 0.0;
  for (size_t i = 0; i < kTerms; ++i) sum += std::max(weights_[i], 0.0) * x[i];
  return static_cast<TimeNs>(sum);
}

LatencyModel::Coefficients LatencyModel::coefficients() const {
  Coefficients result{};
  for (size_t i = 0; i < kTerms; ++i) result[i] = std::max(weights_[i], 0.0) / kScale[i];
  return result;
}

}  // namespace inflight
