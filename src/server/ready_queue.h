// SPDX-License-Identifier: Apache-2.0
// Which answers have something new: filled by the engine's thread, emptied by the network thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace inflight::server {

class ReadyQueue {
 public:
  // wake: called when the queue was empty, from the thread that pushes; must not block.
  explicit ReadyQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  // THREAD: any.
  void push(uint64_t exchange) {
    bool was_empty = false;
    {
      const std::scoped_lock lock(mutex_);
      was_empty = ready_.empty();
      ready_.push_back(exchange);
    }
    if (was_empty) wake_();  // one wake-up for all the tokens of a step
  }

  // THREAD: any. An exchange may be in it several times.
  [[nodiscard]] std::vector<uint64_t> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(ready_, {});
  }

 private:
  std::function<void()> wake_;
  std::mutex mutex_;
  std::vector<uint64_t> ready_;
};

}  // namespace inflight::server
