// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: draw n of a stream is a pure function of (key, n), so a draw can be repeated after a
// preemption, made on the device, or made in any order. Philox4x32-10: Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC'11. cl_kernels/prelude.cl holds the device twin; tests compare both with the paper's known answers.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/fnv1a.h"

namespace inflight {

// The Philox4x32-10 block function: four random words for a 128-bit counter and a 64-bit key.
[[nodiscard]] constexpr std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = kMultiplier0 * counter[0], p1 = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(p0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return counter;
}

// The uniform number in [0, 1) that decides output position `position` of a request with `seed`: the top 24 bits of the
// first word, so that it is exact in float on host and device.
[[nodiscard]] constexpr float sampling_uniform(uint64_t seed, uint32_t position) {
  const auto words = philox({position, 0, 0, 0}, {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<float>(words[0] >> 8) * 0x1p-24F;
}

// The seed of a stream of its own for `name`, independent of those of other names and of `seed` itself: the
// name's hash, enciphered under the seed.
[[nodiscard]] constexpr uint64_t named_seed(uint64_t seed, std::string_view name) {
  const uint64_t hash = fnv1a(name);
  const auto words = philox({static_cast<uint32_t>(hash), static_cast<uint32_t>(hash >> 32), 0, 1},
                            {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return uint64_t{words[0]} << 32 | words[1];
}

// A sequential generator over philox for tests, simulations and policies. Copyable; equal seeds give equal streams.
class Rng {
 public:
  explicit constexpr Rng(uint64_t seed) : seed_(seed) {}

  constexpr uint64_t next() {
    const auto words = philox({static_cast<uint32_t>(draw_), static_cast<uint32_t>(draw_ >> 32), 0, 0},
                              {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    ++draw_;
    return static_cast<uint64_t>(words[0]) << 32 | words[1];
  }
  // Uniform in [0, bound).  REQUIRES: bound > 0. The bias is below 2^-32 for bounds below 2^32.
  constexpr uint64_t below(uint64_t bound) { return next() % bound; }
  // Uniform in [low, high].
  constexpr int32_t between(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(below(static_cast<uint64_t>(int64_t{high} - low + 1)));
  }
  // Uniform in [0, 1).
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  constexpr bool chance(double probability) { return uniform() < probability; }

 private:
  uint64_t seed_;
  uint64_t draw_ = 0;
};

}  // namespace inflight
