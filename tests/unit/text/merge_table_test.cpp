// SPDX-License-Identifier: Apache-2.0
// The table against std::map.
#include "text/merge_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace inflight {
namespace {

TEST(MergeTable, FindsWhatWasInsertedFirst) {
  std::mt19937 random(7);
  std::map<std::pair<int32_t, int32_t>, uint32_t> truth;
  MergeTable table(5000);
  for (uint32_t rank = 0; rank < 5000; ++rank) {
    const auto left = static_cast<int32_t>(random() % 90);
    const auto right = static_cast<int32_t>(random() % 90);
    truth.try_emplace({left, right}, rank);
    table.insert(left, right, {rank, 7});
  }
  for (int32_t left = 0; left < 95; ++left) {
    for (int32_t right = 0; right < 95; ++right) {
      const auto found = truth.find({left, right});
      EXPECT_EQ(table.find(left, right).rank, found == truth.end() ? UINT32_MAX : found->second);
    }
  }
}

TEST(MergeTable, AnEmptyOneFindsNothing) { EXPECT_EQ(MergeTable(0).find(0, 0).rank, UINT32_MAX); }

}  // namespace
}  // namespace inflight
