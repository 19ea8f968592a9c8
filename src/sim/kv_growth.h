// SPDX-License-Identifier: Apache-2.0
// Why KV use grew: more sequences at once, or longer ones. At any time the KV storage holds
// tokens = sequences * tokens a sequence; the growth between two times is split into what either factor would have
// brought at the other's midpoint, which sums up exactly:
//
//   d tokens = mean(tokens a sequence) * d sequences + mean(sequences) * d tokens a sequence
//
// Tokens are those of whole blocks that running sequences refer to, a shared block once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"

namespace inflight {

struct KvUse {
  TimeNs time = 0;
  int32_t sequences = 0;
  int64_t tokens = 0;
  [[nodiscard]] double tokens_per_sequence() const {
    return sequences > 0 ? static_cast<double>(tokens) / sequences : 0.0;
  }
};

// In tokens; either may be negative (fewer sequences, or shorter ones). The sum is to.tokens - from.tokens.
struct KvGrowthParts {
  double by_concurrency = 0.0;
  double by_length = 0.0;
};
// REQUIRES: both hold at least one sequence, or no tokens.
[[nodiscard]] KvGrowthParts split_kv_growth(const KvUse& from, const KvUse& to);

// A run's KV use: the first, the most, and so many between as a picture needs.   COST: O(1) a note.
class KvGrowth {
 public:
  static constexpr size_t kSamplesMax = 512;

  // Times without a running sequence say nothing about either factor and are left out.
  void note(const KvUse& use) {
    if (use.sequences == 0 || use.tokens == 0) return;
    if (samples_.empty()) first_ = use;
    if (use.tokens > peak_.tokens) peak_ = use;
    if (noted_++ % stride_ == 0) keep(use);
  }

  // All zero before anything was noted.
  [[nodiscard]] const KvUse& first() const { return first_; }
  [[nodiscard]] const KvUse& peak() const { return peak_; }  // the earliest with the most tokens
  [[nodiscard]] KvGrowthParts to_peak() const { return split_kv_growth(first_, peak_); }
  // In order of time, evenly thinned out.
  [[nodiscard]] const std::vector<KvUse>& samples() const { return samples_; }

 private:
  void keep(const KvUse& use);

  KvUse first_, peak_;
  std::vector<KvUse> samples_;
  int64_t stride_ = 1;
  int64_t noted_ = 0;
};

// One line for people: "KV grew from 12 x 90 tokens to 31 x 412: +4769 by more sequences, +6923 by longer ones".
[[nodiscard]] std::string describe_growth(const KvGrowth& growth);

}  // namespace inflight
