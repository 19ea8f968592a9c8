// SPDX-License-Identifier: Apache-2.0
// Goal: every block is free, referenced or stored, and taking one costs the same at any occupancy.
// Method: direct cases, then 10^5 random operations against a plain map of reference counts.
#include "cache/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "base/rng.h"

namespace inflight {
namespace {

TEST(BlockPool, HandsOutEachBlockOnceInAscendingOrder) {
  BlockPool pool(4, std::nullopt);
  for (int32_t i = 0; i < 4; ++i) EXPECT_EQ(pool.try_take(), static_cast<BlockId>(i));
  EXPECT_EQ(pool.try_take(), std::nullopt);
  EXPECT_EQ(pool.free_count(), 0);
  EXPECT_EQ(pool.referenced_count(), 4);
}

TEST(BlockPool, ShuffledOrderIsAPermutationThatDependsOnTheSeed) {
  const auto order = [](uint64_t seed) {
    BlockPool pool(100, seed);
    std::vector<int32_t> ids;
    while (const auto block = pool.try_take()) ids.push_back(to_integer(*block));
    return ids;
  };
  const std::vector<int32_t> once = order(1);
  EXPECT_EQ(std::set<int32_t>(once.begin(), once.end()).size(), 100U);
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(BlockPool, LastReferenceLeavesTheBlockStoredUntilFreed) {
  BlockPool pool(2, std::nullopt);
  const BlockId block = *pool.try_take();
  EXPECT_FALSE(pool.reference(block));
  EXPECT_FALSE(pool.dereference(block));
  EXPECT_TRUE(pool.dereference(block));
  EXPECT_EQ(pool.stored_count(), 1);
  EXPECT_TRUE(pool.reference(block));
  EXPECT_TRUE(pool.dereference(block));
  pool.free(block);
  EXPECT_EQ(pool.free_count(), 2);
  EXPECT_THROW(static_cast<void>(pool.dereference(block)), InternalError);
}

TEST(BlockPool, FreeingAReferencedBlockIsABug) {
  BlockPool pool(2, std::nullopt);
  EXPECT_THROW(pool.free(*pool.try_take()), InternalError);
}

// checklist 80: an allocator that needs its blocks in a row (first fit) refuses requests for which enough are free; the
// pool refuses none of them.
TEST(BlockPool, RefusesNothingThatARowWouldRefuse) {
  constexpr int32_t kBlocks = 200;
  BlockPool pool(kBlocks, 3);
  std::vector<bool> row(kBlocks, false);
  struct Held {
    int32_t begin, count;  // in the row; begin -1: it was refused there
    std::vector<BlockId> blocks;
  };
  std::vector<Held> held;
  Rng rng(80);
  int32_t refused_in_a_row = 0, row_used = 0;
  for (int step = 0; step < 20000; ++step) {
    if (!held.empty() && (rng.chance(0.45) || pool.free_count() == 0)) {
      std::swap(held[rng.below(held.size())], held.back());
      if (held.back().begin >= 0) {
        std::fill_n(row.begin() + held.back().begin, held.back().count, false);
        row_used -= held.back().count;
      }
      for (const BlockId block : held.back().blocks) {
        ASSERT_TRUE(pool.dereference(block));
        pool.free(block);
      }
      held.pop_back();
      continue;
    }
    const int32_t count = rng.between(1, 40);
    Held next{.begin = -1, .count = count, .blocks = {}};
    for (int32_t begin = 0; begin + count <= kBlocks && next.begin < 0; ++begin) {
      if (std::none_of(row.begin() + begin, row.begin() + begin + count, [](bool used) { return used; })) {
        next.begin = begin;
      }
    }
    if (next.begin >= 0) {
      std::fill_n(row.begin() + next.begin, count, true);
      row_used += count;
    } else if (kBlocks - row_used >= count) {
      ++refused_in_a_row;
    }
    if (pool.free_count() < count) continue;  // too large for any allocator, as full as the pool is
    for (int32_t i = 0; i < count; ++i) {
      const auto block = pool.try_take();
      ASSERT_TRUE(block.has_value());
      next.blocks.push_back(*block);
    }
    held.push_back(std::move(next));
  }
  EXPECT_GT(refused_in_a_row, 500);
}

TEST(BlockPool, AgreesWithAPlainModelOverRandomOperations) {
  constexpr int32_t kBlocks = 37;
  BlockPool pool(kBlocks, 5);
  std::map<BlockId, int32_t> references;  // stored: 0; free: absent
  Rng rng(11);
  for (int step = 0; step < 100000; ++step) {
    const auto pick = [&] {
      auto it = references.begin();
      std::advance(it, static_cast<std::ptrdiff_t>(rng.below(references.size())));
      return it;
    };
    switch (rng.below(4)) {
      case 0:
        if (const auto block = pool.try_take()) {
          ASSERT_TRUE(references.emplace(*block, 1).second);
        } else {
          ASSERT_EQ(references.size(), static_cast<size_t>(kBlocks));
        }
        break;
      case 1:
        if (!references.empty()) {
          const auto it = pick();
          ASSERT_EQ(pool.reference(it->first), it->second++ == 0);
        }
        break;
      case 2:
        if (!references.empty()) {
          const auto it = pick();
          if (it->second > 0) {
            ASSERT_EQ(pool.dereference(it->first), --it->second == 0);
          }
        }
        break;
      default:
        if (!references.empty()) {
          const auto it = pick();
          if (it->second == 0) {
            pool.free(it->first);
            references.erase(it);
          }
        }
    }
    ASSERT_EQ(pool.free_count(), kBlocks - static_cast<int32_t>(references.size()));
    if (step % 1000 == 0) pool.check_invariants();
  }
  for (const auto& [block, count] : references) EXPECT_EQ(pool.references(block), count);
}

}  // namespace
}  // namespace inflight
