// SPDX-License-Identifier: Apache-2.0
// A loop on all processors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace inflight {

// Calls work(i) for each i of [0, count) on the processors of this process (at most 16), which draw them in order, and
// returns when all have ended. Where one throws no more are drawn, and the exception of the lowest i that threw one is
// thrown.   COST: starting a thread for each further processor (some 20 us).   THREAD: any.
template <typename Work>
void in_parallel(size_t count, const Work& work) {
  constexpr size_t kThreadsMax = 16;
  const size_t threads = std::min(count, std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kThreadsMax));
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  size_t failed = count;
  std::exception_ptr error;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (i < failed) error = std::current_exception();
        failed = std::min(failed, i);
        next = count;  // all before i have been drawn
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < threads; ++i) others.emplace_back(run);
    run();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace inflight
