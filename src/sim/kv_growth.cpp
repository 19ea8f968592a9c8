// SPDX-License-Identifier: Apache-2.0
#include "sim/kv_growth.h"

#include <fmt/format.h>

namespace inflight {

KvGrowthParts split_kv_growth(const KvUse& from, const KvUse& to) {
  const double length_before = from.tokens_per_sequence(), length_after = to.tokens_per_sequence();
  return {.by_concurrency = 0.5 * (length_before + length_after) * (to.sequences - from.sequences),
          .by_length = 0.5 * (from.sequences + to.sequences) * (length_after - length_before)};
}

void KvGrowth::keep(const KvUse& use) {
  samples_.push_back(use);
  if (samples_.size() < kSamplesMax) return;
  for (size_t i = 0; 2 * i < samples_.size(); ++i) samples_[i] = samples_[2 * i];
  samples_.resize(samples_.size() / 2);
  stride_ *= 2;
}

std::string describe_growth(const KvGrowth& growth) {
  const KvUse &first = growth.first(), &peak = growth.peak();
  const KvGrowthParts parts = growth.to_peak();
  return fmt::format("KV grew from {} x {:.0f} tokens to {} x {:.0f}: {:+.0f} by {} sequences, {:+.0f} by {} ones",
                     first.sequences, first.tokens_per_sequence(), peak.sequences, peak.tokens_per_sequence(),
                     parts.by_concurrency, parts.by_concurrency < 0 ? "fewer" : "more", parts.by_length,
                     parts.by_length < 0 ? "shorter" : "longer");
}

}  // namespace inflight
