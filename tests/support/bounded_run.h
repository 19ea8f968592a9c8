// SPDX-License-Identifier: Apache-2.0
// What must come to an end without taking the stack or much time.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>

namespace inflight::test {

#ifdef INFLIGHT_SANITIZED
inline constexpr rlim_t kSecondsMax = 100;  // sanitizers take several times as long
#else
inline constexpr rlim_t kSecondsMax = 10;
#endif

// `function` returns true, without a crash and within kSecondsMax of processor time, in a process of its own.
template <typename Function>
void expect_bounded(Function&& function) {
  const auto run = [&function] {
    rlimit seconds{};
    seconds.rlim_cur = seconds.rlim_max = kSecondsMax;
    setrlimit(RLIMIT_CPU, &seconds);
    std::_Exit(function() ? 0 : 1);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

}  // namespace inflight::test
