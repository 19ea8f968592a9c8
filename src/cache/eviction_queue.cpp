// SPDX-License-Identifier: Apache-2.0
#include "cache/eviction_queue.h"

#include <algorithm>

namespace inflight {

EvictionQueue::EvictionQueue(int32_t block_count) : stamps_(static_cast<size_t>(block_count), 0) {
  heap_.reserve(2 * static_cast<size_t>(block_count) + 1);
  line_.reserve(2 * static_cast<size_t>(block_count) + 1);
}

// Forgets the places of those that have left the line.
void EvictionQueue::close_up() {
  line_.erase(line_.begin(), line_.begin() + static_cast<std::ptrdiff_t>(line_begin_));
  line_begin_ = 0;
}

void EvictionQueue::drop_stale() {
  const auto stale = [this](const Entry& entry) { return !valid(entry); };
  close_up();
  std::erase_if(line_, stale);
  std::erase_if(heap_, stale);
  std::ranges::make_heap(heap_, kLater);
}

}  // namespace inflight
