// SPDX-License-Identifier: Apache-2.0
#include "cache/block_pool.h"

#include <algorithm>
#include <utility>

#include "base/rng.h"

namespace inflight {

BlockPool::BlockPool(int32_t block_count, std::optional<uint64_t> shuffle_seed)
    : references_(static_cast<size_t>(block_count), 0) {
  free_.reserve(references_.size());
  for (int32_t i = block_count - 1; i >= 0; --i) free_.push_back(static_cast<BlockId>(i));
  if (shuffle_seed) {
    Rng rng(*shuffle_seed);
    for (size_t i = free_.size(); i > 1; --i) std::swap(free_[i - 1], free_[rng.below(i)]);
  }
}

void BlockPool::check_invariants() const {
  std::vector<bool> seen(references_.size(), false);
  for (const BlockId block : free_) {
    INFLIGHT_CHECK(index(block) < references_.size());
    INFLIGHT_CHECK(!seen[index(block)]);
    INFLIGHT_CHECK(references_[index(block)] == 0);
    seen[index(block)] = true;
  }
  INFLIGHT_CHECK(std::ranges::all_of(references_, [](int32_t count) { return count >= 0; }));
  const auto referenced = std::ranges::count_if(references_, [](int32_t count) { return count > 0; });
  INFLIGHT_CHECK(referenced == referenced_count_);
  INFLIGHT_CHECK(stored_count() >= 0);
}

}  // namespace inflight
