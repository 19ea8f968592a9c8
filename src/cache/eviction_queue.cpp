// SPDX-License-Identifier: Apache-2.0
#include "cache/eviction_queue.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace inflight {
namespace {

// std heaps keep the largest on top: "later" is "goes later".
constexpr auto kLater = [](const auto& a, const auto& b) {
  return std::tie(a.key.key0, a.key.key1, a.release_tick) > std::tie(b.key.key0, b.key.key1, b.release_tick);
};

}  // namespace

EvictionQueue::EvictionQueue(int32_t block_count) : stamps_(static_cast<size_t>(block_count), 0) {
  heap_.reserve(2 * static_cast<size_t>(block_count) + 1);
  line_.reserve(2 * static_cast<size_t>(block_count) + 1);
}

void EvictionQueue::push(BlockId block, EvictKey key, int64_t release_tick) {
  const auto i = static_cast<size_t>(block);
  INFLIGHT_CHECK(!contains(block));
  // Keeps the reserved sizes: never allocates.
  if (std::max(heap_.size(), line_.size()) >= 2 * stamps_.size()) drop_stale();
  ++count_;
  const Entry entry{key, release_tick, block, ++stamps_[i]};
  if (line_.empty() || kLater(entry, line_.back())) {
    constexpr size_t kWorthwhile = 64;
    if (line_begin_ > std::max(line_.size() / 2, kWorthwhile)) close_up();  // what is used stays in the CPU's caches
    line_.push_back(entry);
  } else {
    heap_.push_back(entry);
    std::ranges::push_heap(heap_, kLater);
  }
}

void EvictionQueue::withdraw(BlockId block) {
  if (!contains(block)) return;
  ++stamps_[static_cast<size_t>(block)];
  --count_;
}

std::optional<BlockId> EvictionQueue::try_pop() {
  for (;;) {
    const bool in_line = line_begin_ < line_.size();
    if (!in_line) {
      line_.clear();
      line_begin_ = 0;
      if (heap_.empty()) return std::nullopt;
    }
    Entry entry;
    if (in_line && (heap_.empty() || kLater(heap_.front(), line_[line_begin_]))) {
      entry = line_[line_begin_++];
    } else {
      std::ranges::pop_heap(heap_, kLater);
      entry = heap_.back();
      heap_.pop_back();
    }
    if (!valid(entry)) continue;
    withdraw(entry.block);
    return entry.block;
  }
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
