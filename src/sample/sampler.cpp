// SPDX-License-Identifier: Apache-2.0
#include "sample/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "core/sampling_numbers.h"

namespace inflight {
namespace {

constexpr size_t kLanes = 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The loops over the vocabulary exist twice: as the program is built, and for processors with fused multiply-add, where
// std::fma is an instruction instead of a call. It is rounded once either way, so the bits are the same.
#define INFLIGHT_IN_BOTH [[gnu::always_inline]] inline
#ifdef __x86_64__
#define INFLIGHT_FMA [[gnu::target("avx2,fma")]]
const bool kHasFma = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
#else
#define INFLIGHT_FMA
constexpr bool kHasFma = false;
#endif

INFLIGHT_IN_BOTH float exp_body(float x) {
  if (x < -87.0F) x = -87.0F;
  const float shifted = std::fma(x, 1.44269504F, 12582912.0F);
  const float n = shifted - 12582912.0F;
  float r = std::fma(n, -0.693359375F, x);
  r = std::fma(n, 2.12194440e-4F, r);
  float p = std::fma(1.9875691500e-4F, r, 1.3981999507e-3F);
  p = std::fma(p, r, 8.3334519073e-3F);
  p = std::fma(p, r, 4.1665795894e-2F);
  p = std::fma(p, r, 1.6666665459e-1F);
  p = std::fma(p, r, 5.0000001201e-1F);
  p = std::fma(p, r * r, r) + 1.0F;
  const uint32_t power = (std::bit_cast<uint32_t>(shifted) - 0x4B400000U) << 23;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(p) + power);
}

// The kernels' order of adding up 16 lanes.
float sum_lanes(std::array<float, kLanes> lanes) {
  for (size_t width = kLanes / 2; width >= 1; width /= 2) {
    for (size_t i = 0; i < width; ++i) lanes[i] = lanes[i] + lanes[i + width];
  }
  return lanes[0];
}

INFLIGHT_IN_BOTH float chunk_exp_sum_body(std::span<const float> logits, float largest) {
  std::array<float, kLanes> lanes{};
  const size_t whole = logits.size() / kLanes * kLanes;
  for (size_t begin = 0; begin < whole; begin += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += exp_body(logits[begin + lane] - largest);
  }
  for (size_t i = whole; i < logits.size(); ++i) {
    if (logits[i] != -kInfinity) lanes[i % kLanes] += exp_body(logits[i] - largest);
  }
  return sum_lanes(lanes);
}
float chunk_exp_sum(std::span<const float> logits, float largest) { return chunk_exp_sum_body(logits, largest); }
INFLIGHT_FMA float chunk_exp_sum_fma(std::span<const float> logits, float largest) {
  return chunk_exp_sum_body(logits, largest);
}

struct Largest {
  float value = -kInfinity;
  size_t id = 0;  // the lowest
  bool nan = false;
};

Largest largest_of(std::span<const float> logits) {
  Largest result;
  for (size_t i = 0; i < logits.size(); ++i) {
    result.nan = result.nan || std::isnan(logits[i]);
    if (logits[i] > result.value) {
      result.value = logits[i];
      result.id = i;
    }
  }
  return result;
}

struct Threshold {
  uint32_t key = 0;
  uint32_t ties = std::numeric_limits<uint32_t>::max();
};

uint64_t high_product(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((Wide{a} * b) >> 64);
}

uint32_t order_key(float logit) {
  const auto bits = std::bit_cast<uint32_t>(logit);
  return bits ^ ((bits & 0x80000000U) != 0 ? 0xFFFFFFFFU : 0x80000000U);
}
float logit_of_key(uint32_t key) {
  return std::bit_cast<float>(key ^ ((key & 0x80000000U) != 0 ? 0x80000000U : 0xFFFFFFFFU));
}

// Weight floor(w * 2^40) of each logit: sums of these are exact in any order.
struct Scale {
  float largest, inverse_temperature, min_p;
};
INFLIGHT_IN_BOTH uint64_t weight_body(float logit, const Scale& scale) {
  const float w = exp_body((logit - scale.largest) * scale.inverse_temperature);
  return w < scale.min_p ? 0 : static_cast<uint64_t>(static_cast<int64_t>(w * 0x1p40F));
}
INFLIGHT_IN_BOTH void weigh_body(std::span<const float> logits, const Scale& scale, std::span<uint64_t> weights) {
  for (size_t i = 0; i < logits.size(); ++i) weights[i] = weight_body(logits[i], scale);
}
void weigh(std::span<const float> logits, const Scale& scale, std::span<uint64_t> weights) {
  weigh_body(logits, scale, weights);
}
INFLIGHT_FMA void weigh_fma(std::span<const float> logits, const Scale& scale, std::span<uint64_t> weights) {
  weigh_body(logits, scale, weights);
}

class Distribution {
 public:
  Distribution(std::span<const float> logits, float largest, const SamplingParams& sampling)
      : logits_(logits),
        scale_{largest, inverse_temperature(sampling.temperature), sampling.min_p},
        weights_(logits.size()) {
    kHasFma ? weigh_fma(logits, scale_, weights_) : weigh(logits, scale_, weights_);
  }

  enum class By { Count, Mass };
  // The shortest prefix, in the order (larger logit, lower id), whose count or weight reaches `wanted`.
  [[nodiscard]] Threshold find(By by, uint64_t wanted) const {
    uint32_t prefix = 0;
    uint64_t above = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
      std::array<uint64_t, 256> bins{};
      for (size_t i = 0; i < logits_.size(); ++i) {
        const uint32_t key = order_key(logits_[i]);
        if (shift < 24 && key >> (shift + 8) != prefix >> (shift + 8)) continue;
        const uint64_t mass = weights_[i];
        bins[(key >> shift) & 255] += by == By::Mass ? mass : uint64_t{mass != 0};
      }
      uint32_t bin = 255;
      while (bin > 0 && above + bins[bin] < wanted) above += bins[bin--];
      prefix |= bin << shift;
    }
    const uint64_t each = by == By::Mass ? weight_body(logit_of_key(prefix), scale_) : 1;
    const uint64_t missing = wanted - above;  // at least 1: the walk stops before `above` reaches it
    Threshold threshold{.key = prefix};
    if (each != 0) {
      threshold.ties = static_cast<uint32_t>(std::min((missing + each - 1) / each, uint64_t{threshold.ties}));
    }
    return threshold;
  }

  // Walks the kept tokens by id until their running weight exceeds `limit`: that token, or the whole weight.
  struct Walk {
    uint64_t sum = 0;
    TokenId token = 0;
  };
  [[nodiscard]] Walk walk(Threshold threshold, uint64_t limit) const {
    Walk result;
    for (size_t i = 0; i < logits_.size(); ++i) {
      const uint32_t key = order_key(logits_[i]);
      if (key < threshold.key) continue;
      const uint64_t mass = weights_[i];
      if (mass == 0) continue;
      if (key == threshold.key) {
        if (threshold.ties == 0) continue;
        --threshold.ties;
      }
      result.sum += mass;
      if (result.sum > limit) {
        result.token = static_cast<TokenId>(i);
        return result;
      }
    }
    return result;
  }

 private:
  std::span<const float> logits_;
  Scale scale_;
  std::vector<uint64_t> weights_;
};

TokenId draw(const Distribution& distribution, size_t vocabulary_size, const SamplingParams& sampling,
             int32_t position) {
  constexpr uint64_t kEverything = std::numeric_limits<uint64_t>::max();
  Threshold threshold;
  if (sampling.top_k > 0 && static_cast<size_t>(sampling.top_k) < vocabulary_size) {
    threshold = distribution.find(Distribution::By::Count, static_cast<uint64_t>(sampling.top_k));
  }
  uint64_t total = distribution.walk(threshold, kEverything).sum;
  if (sampling.top_p < 1.0F) {
    const auto share = static_cast<uint64_t>(sampling.top_p * 0x1p32F);
    threshold = distribution.find(Distribution::By::Mass, std::max(high_product(total, share << 32), uint64_t{1}));
    total = distribution.walk(threshold, kEverything).sum;
  }
  const auto words = philox({static_cast<uint32_t>(position), 0, 0, 0},
                            {static_cast<uint32_t>(sampling.seed), static_cast<uint32_t>(sampling.seed >> 32)});
  return distribution.walk(threshold, high_product(total, uint64_t{words[0] >> 8} << 40)).token;
}

}  // namespace

float exp_nonpositive(float x) { return exp_body(x); }

float exp_sum(std::span<const float> logits, float largest) {
  constexpr size_t kChunk = kStatisticsChunk;
  float sum = 0.0F;
  for (size_t begin = 0; begin < logits.size(); begin += kChunk) {
    const auto chunk = logits.subspan(begin, std::min(kChunk, logits.size() - begin));
    const float here = largest_of(chunk).value;
    if (here == -kInfinity) continue;  // all are banned
    const float part = kHasFma ? chunk_exp_sum_fma(chunk, here) : chunk_exp_sum(chunk, here);
    const float scaled = part * exp_body(here - largest);
    sum = sum + scaled;
  }
  return sum;
}

Draw draw_token(std::span<const float> logits, const SamplingParams& sampling, int32_t position) {
  INFLIGHT_CHECK(!logits.empty());
  const Largest largest = largest_of(logits);
  Draw result;
  result.valid = !largest.nan && largest.value > -kInfinity && largest.value < kInfinity;
  if (!result.valid) return result;
  result.token = static_cast<TokenId>(largest.id);
  if (inverse_temperature(sampling.temperature) > 0.0F) {
    result.token = draw(Distribution(logits, largest.value, sampling), logits.size(), sampling, position);
  }
  return result;
}

}  // namespace inflight
