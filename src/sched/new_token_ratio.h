// SPDX-License-Identifier: Apache-2.0
// The share of their remaining output that running sequences are expected to produce: what admission keeps free for
// them. Starts at 0.7 * conservativeness, falls in 600 decode steps to 14 % of that as long as nobody is preempted, and
// after a preemption is set by what the others have really produced. Source: SGLang 0.5 (schedule_policy,
// new_token_ratio).
#pragma once

#include <algorithm>
#include <cstdint>

namespace inflight {

class NewTokenRatio {
 public:
  static constexpr double kInitial = 0.7;
  static constexpr double kMinimumFactor = 0.14;
  static constexpr double kDecaySteps = 600.0;
  static constexpr int64_t kRetractSteps = 20;  // decode steps that a preemption is meant to buy

  // conservativeness >= 0; 0 gives a ratio of 0.
  explicit NewTokenRatio(double conservativeness)
      : initial_(std::min(kInitial * conservativeness, 1.0)), minimum_(initial_ * kMinimumFactor), value_(initial_) {}

  [[nodiscard]] double value() const { return value_; }

  // A step decoded and preempted nobody.
  void on_decode_step() { value_ = std::max(value_ - (initial_ - minimum_) / kDecaySteps, minimum_); }

  // Sequences were preempted; `kept` go on, have produced output_tokens and may produce max_output_tokens in all.
  void on_preemption(int64_t kept, int64_t output_tokens, int64_t max_output_tokens) {
    if (initial_ == 0.0) return;
    const auto produced = static_cast<double>(output_tokens + kRetractSteps * kept);
    value_ = std::min(1.0, produced / static_cast<double>(max_output_tokens + 1));
  }

  // Nothing runs or waits.
  void on_idle() { value_ = initial_; }

 private:
  double initial_;
  double minimum_;
  double value_;
};

}  // namespace inflight
