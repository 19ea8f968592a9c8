// SPDX-License-Identifier: Apache-2.0
#include "cache/kv_blocks.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace inflight {

KvBlocks::KvBlocks(const Options& options, EvictPolicy& policy)
    : options_(options),
      policy_(&policy),
      ranked_(policy.ranks()),
      pool_(options.block_count, options.shuffle_seed),
      tree_(options.block_count, options.block_token_count),
      queue_(options.block_count),
      local_slots_(options.block_count, options.local_slots) {
  scratch_.reserve(static_cast<size_t>(options.block_count));
  picked_.reserve(static_cast<size_t>(options.block_count));
}

void KvBlocks::match(uint64_t salt, std::span<const PrefixKey> keys, std::span<const TokenId> tokens,
                     std::vector<BlockId>& out) const {
  if (!options_.prefix_caching) return;
  const auto width = static_cast<size_t>(options_.block_token_count);
  BlockId parent = kNoBlock;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto block = tree_.find({keys[i], salt, parent, tokens.subspan(i * width, width)});
    if (!block) return;
    out.push_back(*block);
    parent = *block;
  }
}

void KvBlocks::set_time(TimeNs now, uint64_t step) {
  now_ = now;
  step_ = step;
  picked_.clear();  // of what it named earlier, another may be the better one now
  policy_->set_time(now, step);
  if (policy_->ranks() != ranked_) hand_policy_to(*policy_);  // keys of two rules do not compare
}

void KvBlocks::note_hits(std::span<const BlockId> blocks, int32_t priority) {
  if (blocks.empty()) return;
  for (const BlockId block : blocks) tree_.count_hit(block, priority, now_);
  policy_->on_hit(blocks);
}

void KvBlocks::share(std::span<const BlockId> blocks) {
  if (blocks.empty()) return;
  scratch_.clear();
  if (!options_.prefix_caching) {  // another choice of the same request: nothing is in the tree
    for (const BlockId block : blocks) pool_.reference(block);
    return;
  }
  for (const BlockId block : blocks) {
    if (pool_.reference(block)) {
      queue_.withdraw(block);
      scratch_.push_back(block);
    }
  }
  if (!scratch_.empty()) policy_->on_pin(scratch_);
}

// This, drop_references() and the scheduler's publishing are flattened: every block goes through them, and as calls
// they would take as long to enter and leave as to do.
[[gnu::flatten]] bool KvBlocks::try_extend(std::vector<BlockId>& table, int32_t count) {
  if (count > available_count()) return false;
  for (int32_t i = 0; i < count; ++i) {
    if (pool_.free_count() == 0) {
      const bool evicted = try_evict_one();
      INFLIGHT_CHECK(evicted);
    }
    table.push_back(*pool_.try_take());
  }
  return true;
}

void KvBlocks::adopt_twin(std::vector<BlockId>& table, const FullBlock& full, bool holds_slot) {
  const auto twin = tree_.find(full.content);
  INFLIGHT_CHECK(twin.has_value());
  const BlockId pinned[] = {*twin};
  if (pool_.reference(*twin)) {
    queue_.withdraw(*twin);
    policy_->on_pin(pinned);
  }
  BlockId& own = table[static_cast<size_t>(full.index)];
  INFLIGHT_CHECK(own != *twin);
  if (holds_slot && !local_slots_.has(*twin)) {
    local_slots_.move(own, *twin);
  } else if (holds_slot) {
    local_slots_.hold(*twin);
    local_slots_.let_go(own, false);
  }
  if (pool_.dereference(own)) pool_.free(own);
  own = *twin;
}

size_t KvBlocks::usable_count(std::span<const BlockId> blocks) const {
  if (!has_local_slots()) return blocks.size();
  size_t usable = 0, without_slot_end = 0;  // the latter: behind the last one so far that has none
  for (size_t count = 1; count <= blocks.size(); ++count) {
    if (!local_slots_.has(blocks[count - 1])) without_slot_end = count;
    const auto tokens = static_cast<int32_t>(count) * options_.block_token_count;
    if (without_slot_end <= static_cast<size_t>(first_local_block(tokens))) usable = count;
  }
  return usable;
}

void KvBlocks::hold_slots(std::span<const BlockId> table, int32_t first, int32_t end) {
  for (int32_t i = first; i < end; ++i) local_slots_.hold(table[static_cast<size_t>(i)]);
}

void KvBlocks::let_go_of_slots(std::span<const BlockId> table, int32_t first, int32_t end) {
  for (int32_t i = first; i < end; ++i) {
    const BlockId block = table[static_cast<size_t>(i)];
    local_slots_.let_go(block, tree_.contains(block));
  }
}

void KvBlocks::release(std::vector<BlockId>& table) {
  drop_references(table);
  table.clear();
}

void KvBlocks::release_passed(std::vector<BlockId>& table, int32_t first, int32_t end) {
  const auto passed = std::span(table).subspan(static_cast<size_t>(first), static_cast<size_t>(end - first));
  drop_references(passed);
  std::ranges::fill(passed, kNoBlock);
}

[[gnu::flatten]] void KvBlocks::drop_references(std::span<const BlockId> blocks) {
  constexpr size_t kAhead = 8;
  scratch_.clear();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (i + kAhead < blocks.size() && blocks[i + kAhead] != kNoBlock) tree_.prefetch_release(blocks[i + kAhead]);
    const BlockId block = blocks[i];
    if (block == kNoBlock || !pool_.dereference(block)) continue;
    if (!tree_.contains(block)) {
      pool_.free(block);
      continue;
    }
    tree_.release(block, now_, ++tick_);
    scratch_.push_back(block);
  }
  if (scratch_.empty()) return;
  policy_->on_release(scratch_);
  for (const BlockId block : scratch_) enqueue_if_evictable(block);
}

void KvBlocks::enqueue_if_evictable(BlockId block) {
  if (pool_.references(block) > 0 || !tree_.is_leaf(block)) return;
  const int64_t tick = tree_.node(block).release_tick;
  queue_.push(block, policy_->rank(block, tick), tick);
}

std::optional<BlockId> KvBlocks::next_victim() {
  if (policy_->keeps_order()) {
    if (picked_.empty()) {
      policy_->pick(1, picked_);
      std::ranges::reverse(picked_);
    }
    while (!picked_.empty()) {
      const BlockId block = picked_.back();
      picked_.pop_back();
      if (!queue_.contains(block)) continue;  // referenced, has stored children, or gone
      queue_.withdraw(block);
      return block;
    }
  }
  return queue_.try_pop();
}

bool KvBlocks::try_evict_one() {
  const auto block = next_victim();
  if (!block) return false;
  evict(*block);
  return true;
}

void KvBlocks::evict(BlockId block) {
  const BlockId parent = tree_.node(block).parent;
  tree_.remove(block);
  if (has_local_slots()) local_slots_.drop(block);
  pool_.free(block);
  ++evicted_total_;
  policy_->on_evict(block);
  for (TreeObserver* const observer : observers_) observer->on_evict(block);
  if (parent == kNoBlock) return;
  tree_.prefetch_remove(parent);  // likely the next to go
  enqueue_if_evictable(parent);
}

int32_t KvBlocks::stored_among(std::span<const BlockId> blocks) const {
  return static_cast<int32_t>(
      std::ranges::count_if(blocks, [this](BlockId block) { return pool_.references(block) == 0; }));
}

int32_t KvBlocks::freeable_count(std::span<const BlockId> table) const {
  return static_cast<int32_t>(std::ranges::count_if(
      table, [this](BlockId block) { return block != kNoBlock && pool_.references(block) == 1; }));
}

void KvBlocks::clear_stored() {
  while (try_evict_one()) {
  }
}

void KvBlocks::set_policy(EvictPolicy& policy) {
  policy.set_time(now_, step_);
  std::vector<BlockId> known;
  for (int32_t i = 0; i < pool_.block_count(); ++i) {
    if (tree_.contains(static_cast<BlockId>(i))) known.push_back(static_cast<BlockId>(i));
  }
  // A child is never older than its parent, and deeper.
  std::ranges::sort(known, {}, [this](BlockId block) {
    const RadixNode& node = tree_.node(block);
    return std::tuple(node.created, node.depth, block);
  });
  policy.on_insert(known);
  std::erase_if(known, [this](BlockId block) { return pool_.references(block) > 0; });
  std::ranges::sort(known, {}, [this](BlockId block) { return tree_.node(block).release_tick; });
  policy.on_release(known);
  hand_policy_to(policy);
}

void KvBlocks::hand_policy_to(EvictPolicy& policy) {
  scratch_.clear();
  while (const auto block = queue_.try_pop()) scratch_.push_back(*block);
  policy_ = &policy;
  ranked_ = policy.ranks();
  picked_.clear();
  for (const BlockId block : scratch_) enqueue_if_evictable(block);
}

void KvBlocks::check_invariants() const {
  pool_.check_invariants();
  tree_.check_invariants();
  local_slots_.check_invariants();
  int32_t stored = 0, evictable = 0;
  for (int32_t i = 0; i < pool_.block_count(); ++i) {
    const auto block = static_cast<BlockId>(i);
    const bool referenced = pool_.references(block) > 0;
    INFLIGHT_CHECK(local_slots_.holders(block) <= pool_.references(block));
    if (!tree_.contains(block)) {
      INFLIGHT_CHECK(!queue_.contains(block));
      INFLIGHT_CHECK(local_slots_.has(block) == (local_slots_.holders(block) > 0));
      continue;
    }
    const BlockId parent = tree_.node(block).parent;
    INFLIGHT_CHECK(!referenced || parent == kNoBlock || pool_.references(parent) > 0);
    stored += !referenced;
    evictable += queue_.contains(block);
    INFLIGHT_CHECK(queue_.contains(block) == (!referenced && tree_.is_leaf(block)));
  }
  INFLIGHT_CHECK(stored == pool_.stored_count());
  INFLIGHT_CHECK(evictable == queue_.count());
}

}  // namespace inflight
