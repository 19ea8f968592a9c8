// SPDX-License-Identifier: Apache-2.0
// Covers: base/parallel.h
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace inflight {
namespace {

TEST(InParallel, DoesEachOnce) {
  for (const size_t count : {0, 1, 2, 3, 1000}) {
    std::vector<std::atomic<int>> done(count);
    in_parallel(count, [&](size_t i) { ++done.at(i); });
    for (const std::atomic<int>& times : done) EXPECT_EQ(times, 1);
  }
}

TEST(InParallel, ThrowsTheFirstErrorInOrder) {
  for (int round = 0; round < 200; ++round) {
    try {
      in_parallel(64, [](size_t i) {
        if (i >= 7) throw std::runtime_error(std::to_string(i));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "7");
    }
  }
}

TEST(InParallel, DrawsNoMoreAfterAnError) {
  std::atomic<size_t> last = 0;
  const auto work = [&](size_t i) {
    last = i;
    if (i == 3) throw std::runtime_error("stop");
  };
  EXPECT_THROW(in_parallel(1'000'000, work), std::runtime_error);
  EXPECT_LT(last, 999'999U);
}

}  // namespace
}  // namespace inflight
