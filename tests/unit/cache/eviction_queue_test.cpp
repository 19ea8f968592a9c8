// SPDX-License-Identifier: Apache-2.0
// Goal: the smallest (key0, key1, release tick) comes first, whoever withdrew in between, and memory stays bounded.
// Method: random operations against a std::set.
#include "cache/eviction_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

#include "base/rng.h"

namespace inflight {
namespace {

TEST(EvictionQueue, PopsByRankThenByReleaseTick) {
  EvictionQueue queue(8);
  queue.push(BlockId{1}, {5, 0}, 1);
  queue.push(BlockId{2}, {3, 0}, 3);
  queue.push(BlockId{3}, {3, 0}, 2);
  EXPECT_EQ(queue.try_pop(), BlockId{3});
  EXPECT_EQ(queue.try_pop(), BlockId{2});
  EXPECT_EQ(queue.try_pop(), BlockId{1});
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(EvictionQueue, AgreesWithASetOverRandomOperations) {
  constexpr int32_t kBlocks = 50;
  EvictionQueue queue(kBlocks);
  std::set<std::tuple<int64_t, int64_t, int64_t, BlockId>> model;
  std::map<BlockId, std::tuple<int64_t, int64_t, int64_t, BlockId>> of;
  Rng rng(9);
  for (int64_t tick = 0; tick < 200000; ++tick) {
    const auto block = static_cast<BlockId>(rng.below(kBlocks));
    ASSERT_EQ(queue.contains(block), of.contains(block));
    if (rng.chance(0.1)) {
      const auto popped = queue.try_pop();
      ASSERT_EQ(popped.has_value(), !model.empty());
      if (popped) {
        ASSERT_EQ(*popped, std::get<3>(*model.begin()));
        of.erase(*popped);
        model.erase(model.begin());
      }
    } else if (of.contains(block)) {
      queue.withdraw(block);
      model.erase(of[block]);
      of.erase(block);
    } else {
      const EvictKey key{rng.between(-3, 3), rng.between(0, 2)};
      queue.push(block, key, tick);
      of[block] = {key.key0, key.key1, tick, block};
      model.insert(of[block]);
    }
    ASSERT_EQ(queue.count(), static_cast<int32_t>(model.size()));
  }
}

}  // namespace
}  // namespace inflight
