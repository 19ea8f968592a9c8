// SPDX-License-Identifier: Apache-2.0
// How long a step takes, learnt from the steps that ran:
//   ns = c0 + c1 * prefill tokens + c2 * decoding sequences + c3 * prefill pairs + c4 * decode context
//        + c5 * blocks swapped
// Attention is two terms: a pair of a prompt's token and one that it sees is arithmetic, a token that a decode sees is
// read from memory (docs/decisions/0051).
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
  int64_t prefill_pairs = 0;   // of a prefill token and one that it sees: n(n+1)/2 for a prompt of n
  int64_t decode_context = 0;  // tokens that the decodes see, each its own
  int32_t swapped_blocks = 0;

  [[nodiscard]] int64_t attended_tokens() const { return prefill_pairs + decode_context; }
};

class LatencyModel {
 public:
  static constexpr size_t kTerms = 6;
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
