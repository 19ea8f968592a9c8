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

EvictionQueue::EvictionQueue(int32_t block_count)
    : stamps_(static_cast<size_t>(block_count), 0), queued_(static_cast<size_t>(block_count), 0) {
  heap_.reserve(2 * static_cast<size_t>(block_count) + 1);
}

bool EvictionQueue::valid(const Entry& entry) const {
  const auto i = static_cast<size_t>(entry.block);
  return queued_[i] != 0 && stamps_[i] == entry.stamp;
}

void EvictionQueue::push(BlockId block, EvictKey key, int64_t release_tick) {
  const auto i = static_cast<size_t>(block);
  INFLIGHT_CHECK(queued_[i] == 0);
  if (heap_.size() >= 2 * stamps_.size()) drop_stale();  // keeps the reserved size: never allocates
  queued_[i] = 1;
  ++count_;
  heap_.push_back({key, release_tick, block, ++stamps_[i]});
  std::ranges::push_heap(heap_, kLater);
}

void EvictionQueue::withdraw(BlockId block) {
  const auto i = static_cast<size_t>(block);
  if (queued_[i] == 0) return;
  queued_[i] = 0;
  --count_;
}

std::optional<BlockId> EvictionQueue::try_pop() {
  while (!heap_.empty()) {
    std::ranges::pop_heap(heap_, kLater);
    const Entry entry = heap_.back();
    heap_.pop_back();
    if (!valid(entry)) continue;
    withdraw(entry.block);
    return entry.block;
  }
  return std::nullopt;
}

void EvictionQueue::drop_stale() {
  std::erase_if(heap_, [this](const Entry& entry) { return !valid(entry); });
  std::ranges::make_heap(heap_, kLater);
}

}  // namespace inflight
