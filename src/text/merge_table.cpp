// SPDX-License-Identifier: Apache-2.0
#include "text/merge_table.h"

#include <bit>

namespace inflight {
namespace {

uint64_t pair_of(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32U) | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t count) : slots_(std::bit_ceil(2 * count + 1)) {}

size_t MergeTable::slot_of(uint64_t pair) const {
  const size_t mask = slots_.size() - 1;
  const uint64_t mixed = (pair ^ (pair >> 29U)) * 0x9E3779B97F4A7C15U;
  size_t slot = static_cast<size_t>(mixed >> 20U) & mask;
  while (slots_[slot].pair != pair && slots_[slot].pair != UINT64_MAX) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  Slot& slot = slots_[slot_of(pair_of(left, right))];
  if (slot.pair == UINT64_MAX) slot = {pair_of(left, right), merge};
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  return slots_[slot_of(pair_of(left, right))].merge;
}

}  // namespace inflight
