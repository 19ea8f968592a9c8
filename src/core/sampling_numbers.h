// SPDX-License-Identifier: Apache-2.0
// What the host's sampler and the kernels of sampling.cl have in common, so that both draw the same token.
#pragma once

#include <cstdint>

namespace inflight {

inline constexpr int32_t kStatisticsChunk = 4096;  // logits; sampling.cl STATISTICS_CHUNK

// What logits are multiplied by; 0 = greedy, also for temperatures so small that their inverse would not be finite.
[[nodiscard]] constexpr float inverse_temperature(float temperature) {
  return temperature >= 1e-30F ? 1.0F / temperature : 0.0F;
}

}  // namespace inflight
