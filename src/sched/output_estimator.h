// SPDX-License-Identifier: Apache-2.0
// A guess of how many tokens a request will produce, for policies that order by length: the client's own guess, else
// the running mean of its tenant's finished requests, never more than the request may produce.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/limits.h"

namespace inflight {

class OutputEstimator {
 public:
  static constexpr int32_t kFinishedMin = 8;  // before that a tenant's mean says nothing
  static constexpr double kWeight = 0.05;     // of the newest length, once enough have finished

  void on_finish(uint32_t tenant, int32_t output_tokens) {
    Mean& mean = means_[tenant];
    ++mean.finished;
    const double weight = std::max(kWeight, 1.0 / mean.finished);
    mean.value += weight * (output_tokens - mean.value);
  }

  // 0: no estimate.
  [[nodiscard]] int32_t estimate(uint32_t tenant, int32_t clients_guess, int32_t max_tokens) const {
    if (clients_guess > 0) return std::min(clients_guess, max_tokens);
    const Mean& mean = means_[tenant];
    if (mean.finished < kFinishedMin) return 0;
    return std::min(static_cast<int32_t>(std::lround(mean.value)), max_tokens);
  }

 private:
  struct Mean {
    int32_t finished = 0;
    double value = 0.0;
  };
  std::array<Mean, limits::kTenantsMax> means_{};
};

}  // namespace inflight
