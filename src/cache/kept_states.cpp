// SPDX-License-Identifier: Apache-2.0
#include "cache/kept_states.h"

#include <algorithm>

#include "base/error.h"

namespace inflight {

KeptStates::KeptStates(int32_t block_count, int32_t place_count)
    : places_(static_cast<size_t>(place_count)), place_of_(static_cast<size_t>(block_count), -1) {
  for (int32_t place = place_count - 1; place >= 0; --place) free_.push_back(place);
}

KeptStates::Found KeptStates::find(std::span<const BlockId> blocks, uint64_t step) const {
  for (size_t count = blocks.size(); count > 0; --count) {
    const int32_t place = place_of_[static_cast<size_t>(blocks[count - 1])];
    if (place < 0 || places_[static_cast<size_t>(place)].left >= step) continue;
    return {static_cast<int32_t>(count), place};
  }
  return {};
}

std::optional<int32_t> KeptStates::take(uint64_t step) {
  if (free_.empty()) {
    const Place* oldest = nullptr;
    for (const Place& place : places_) {
      if (place.block == kNoBlock || place.used >= step) continue;
      if (oldest == nullptr || place.used < oldest->used) oldest = &place;
    }
    if (oldest == nullptr) return std::nullopt;
    on_evict(oldest->block);
  }
  const int32_t place = free_.back();
  free_.pop_back();
  places_[static_cast<size_t>(place)] = {.left = step, .used = step};
  return place;
}

std::optional<int32_t> KeptStates::take_that_of(BlockId block, uint64_t step) {
  const int32_t place = place_of_[static_cast<size_t>(block)];
  if (place >= 0 && places_[static_cast<size_t>(place)].used < step) on_evict(block);  // the first to be taken now
  return take(step);
}

void KeptStates::keep(int32_t place, BlockId block) {
  int32_t& of_block = place_of_[static_cast<size_t>(block)];
  if (of_block >= 0) return give_back(place);
  of_block = place;
  places_[static_cast<size_t>(place)].block = block;
}

void KeptStates::on_evict(BlockId block) {
  int32_t& of_block = place_of_[static_cast<size_t>(block)];
  if (of_block < 0) return;
  places_[static_cast<size_t>(of_block)].block = kNoBlock;
  free_.push_back(of_block);
  of_block = -1;
}

int32_t KeptStates::kept_count() const {
  return static_cast<int32_t>(
      std::ranges::count_if(places_, [](const Place& place) { return place.block != kNoBlock; }));
}

void KeptStates::check_invariants() const {
  int32_t kept = 0;
  for (size_t block = 0; block < place_of_.size(); ++block) {
    if (place_of_[block] < 0) continue;
    ++kept;
    INFLIGHT_CHECK(places_[static_cast<size_t>(place_of_[block])].block == static_cast<BlockId>(block));
  }
  INFLIGHT_CHECK(kept == kept_count());
}

}  // namespace inflight
