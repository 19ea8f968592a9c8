// SPDX-License-Identifier: Apache-2.0
// How long a step takes, learnt from the steps that ran:
//   ns = c0 + c1 * prefill tokens + c2 * decoding sequences + c3 * attended tokens + c4 * blocks swapped
// "Attended tokens" is the number of (query, key) pairs: a decode at context n counts n, a prompt of n counts n(n+1)/2.
// The scheduler (cheaper preemption), policies (estimate_step_ns) and admission (predicted wait) ask this object; the
// simulator answers from one with fixed coefficients.
//
// Method: recursive least squares with exponential forgetting (Ljung & Soederstrom 1983), features scaled to a common
// size; negative coefficients answer as 0, since more work never takes less time.
#pragma once

#include <array>
#include <cstdint>

#include "base/clock.h"

namespace inflight {

// What a step did, or would do.
struct StepWork {
  int32_t prefill_tokens = 0;  // with guesses
  int32_t decode_sequences = 0;
  int64_t attended_tokens = 0;
  int32_t swapped_blocks = 0;
};

class LatencyModel {
 public:
  static constexpr size_t kTerms = 5;
  using Coefficients = std::array<double, kTerms>;  // ns per unit of each term

  LatencyModel();
  // A fixed model: observe() does nothing.
  explicit LatencyModel(const Coefficients& coefficients);

  void observe(const StepWork& work, TimeNs duration);
  // 0 until something was learnt.
  [[nodiscard]] TimeNs estimate(const StepWork& work) const;
  [[nodiscard]] Coefficients coefficients() const;
  [[nodiscard]] int64_t observation_count() const { return observations_; }

 private:
  using Vector = std::array<double, kTerms>;
  [[nodiscard]] static Vector features(const StepWork& work);

  bool fixed_ = false;
  int64_t observations_ = 0;
  Vector weights_{};
  std::array<Vector, kTerms> covariance_{};
};

}  // namespace inflight
