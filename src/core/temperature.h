// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace inflight {

// What logits are multiplied by; 0 = greedy, also for temperatures so small that their inverse would not be finite.
[[nodiscard]] constexpr float inverse_temperature(float temperature) {
  return temperature >= 1e-30F ? 1.0F / temperature : 0.0F;
}

}  // namespace inflight
