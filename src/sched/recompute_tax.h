// SPDX-License-Identifier: Apache-2.0
// How much of the recent work was done before: tokens recomputed after preemptions over tokens computed. A high tax
// means that sequences push each other out (thrashing); admission then keeps room for everything that running ones may
// produce.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace inflight {

class RecomputeTax {
 public:
  static constexpr size_t kWindow = 64;       // steps
  static constexpr double kThrashing = 0.20;  // share from which on it counts as thrashing...
  static constexpr double kCalm = 0.02;       // ...until it has fallen below this

  void add_step(int64_t recomputed_tokens, int64_t scheduled_tokens) {
    Step& oldest = steps_[next_];
    recomputed_ += recomputed_tokens - oldest.recomputed;
    scheduled_ += scheduled_tokens - oldest.scheduled;
    oldest = {recomputed_tokens, scheduled_tokens};
    next_ = (next_ + 1) % kWindow;
    thrashing_ = value() > (thrashing_ ? kCalm : kThrashing);
  }
  [[nodiscard]] bool thrashing() const { return thrashing_; }

  // In [0, 1]; recomputed tokens are counted when they are admitted, which may be before they are scheduled.
  [[nodiscard]] double value() const {
    if (scheduled_ == 0) return 0.0;
    const double share = static_cast<double>(recomputed_) / static_cast<double>(scheduled_);
    return share < 1.0 ? share : 1.0;
  }

 private:
  struct Step {
    int64_t recomputed = 0, scheduled = 0;
  };
  std::array<Step, kWindow> steps_{};
  size_t next_ = 0;
  int64_t recomputed_ = 0;
  int64_t scheduled_ = 0;
  bool thrashing_ = false;
};

}  // namespace inflight
