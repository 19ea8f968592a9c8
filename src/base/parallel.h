// SPDX-License-Identifier: Apache-2.0
// A loop on all processors.
#pragma once

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "base/math.h"

namespace inflight {

// Calls work(begin, end) for consecutive parts of [0, count), one a processor of this process (at most 16), and returns
// when all have ended; throws the exception of the first part that threw one.   COST: a thread's start (some 20 us).
// THREAD: any.
template <typename Work>
void in_parallel(size_t count, const Work& work) {
  constexpr size_t kThreadsMax = 16;
  const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kThreadsMax);
  const size_t part = div_ceil(count, threads);
  std::vector<std::exception_ptr> errors(threads);
  const auto run = [&](size_t i) {
    try {
      work(i * part, std::min(count, (i + 1) * part));
    } catch (...) {
      errors[i] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < threads && i * part < count; ++i) others.emplace_back(run, i);
    if (count > 0) run(0);
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace inflight
