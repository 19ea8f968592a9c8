// SPDX-License-Identifier: Apache-2.0
#include "cache/host_tier.h"

#include <algorithm>

#include "base/error.h"

namespace inflight {

HostTier::HostTier(const KvBlocks& device, int32_t block_count, int32_t first_block)
    : device_(device),
      first_block_(first_block),
      watch_(*this),
      host_({.block_count = block_count, .block_token_count = device.block_token_count()}, lru_),
      host_of_(static_cast<size_t>(device.pool().block_count()), kNoBlock),
      device_of_(static_cast<size_t>(block_count), kNoBlock) {
  host_.add_observer(watch_);
}

void HostTier::match(uint64_t salt, std::span<const PrefixKey> keys, std::span<const TokenId> tokens,
                     std::vector<BlockId>& out) const {
  const size_t begin = out.size();
  host_.match(salt, keys, tokens, out);
  for (size_t i = begin; i < out.size(); ++i) out[i] = plan_id(out[i]);
}

void HostTier::pin(std::span<const BlockId> blocks) {
  const auto begin = static_cast<std::ptrdiff_t>(pinned_.size());
  for (const BlockId block : blocks) pinned_.push_back(own_id(block));
  host_.share(std::span(pinned_.begin() + begin, pinned_.end()));
}

void HostTier::begin_plan(TimeNs now, uint64_t step) {
  host_.set_time(now, step);
  host_.release(pinned_);
}

void HostTier::take_copies(std::vector<SwapCopy>& out) {
  out.insert(out.end(), copies_.begin(), copies_.end());
  copies_.clear();
}

void HostTier::clear() {
  copies_.clear();
  host_.release(pinned_);
  host_.clear_stored();
}

void HostTier::link(BlockId device, BlockId host) {
  unlink_host(host);
  host_of_[static_cast<size_t>(device)] = host;
  device_of_[static_cast<size_t>(host)] = device;
}

void HostTier::unlink_host(BlockId host) {
  BlockId& device = device_of_[static_cast<size_t>(host)];
  if (device != kNoBlock) host_of_[static_cast<size_t>(device)] = kNoBlock;
  device = kNoBlock;
}

void HostTier::unlink_device(BlockId device) {
  const BlockId host = host_of_[static_cast<size_t>(device)];
  if (host != kNoBlock) unlink_host(host);
}

// Called when the block is out of the device's tree but its node, tokens and bytes are still there. Its ancestors are
// stored: leaves are evicted first. A path that is longer than the tier is not walked: it could not be kept whole.
void HostTier::on_evict(BlockId block) {
  const bool may_fit = device_.tree().node(block).depth < host_.pool().block_count();
  if (may_fit && host_of_[static_cast<size_t>(block)] == kNoBlock) {
    path_.clear();
    for (BlockId at = block; at != kNoBlock; at = device_.tree().node(at).parent) path_.push_back(at);
    std::ranges::reverse(path_);
    table_.clear();
    for (size_t i = 0; i < path_.size() && keep(path_[i], static_cast<int32_t>(i)); ++i) {
    }
    host_.release(table_);
  }
  unlink_device(block);
}

// Appends the block's copy to table_, which holds those of its ancestors. False: there is no room for one.
bool HostTier::keep(BlockId device, int32_t depth) {
  const RadixNode& node = device_.tree().node(device);
  const BlockId parent = depth > 0 ? table_.back() : kNoBlock;
  const RadixTree::Content content{node.key, node.salt, parent, device_.tree().tokens(device)};
  if (const auto copy = host_.tree().find(content)) {
    table_.push_back(*copy);
    host_.share(std::span(table_).last(1));
  } else {
    if (!host_.try_extend(table_, 1)) return false;
    const bool published = host_.try_publish(table_, {.index = depth, .content = content, .owner = node.owner});
    INFLIGHT_CHECK(published);
    copies_.push_back({.device = device, .host = plan_id(table_.back())});
  }
  link(device, table_.back());
  return true;
}

void HostTier::check_invariants() const {
  host_.check_invariants();
  for (size_t i = 0; i < host_of_.size(); ++i) {
    if (host_of_[i] == kNoBlock) continue;
    const auto device = static_cast<BlockId>(i);
    const BlockId host = host_of_[i];
    INFLIGHT_CHECK(device_of_[static_cast<size_t>(host)] == device);
    INFLIGHT_CHECK(device_.tree().contains(device) && host_.tree().contains(host));
    INFLIGHT_CHECK(std::ranges::equal(device_.tree().tokens(device), host_.tree().tokens(host)));
    INFLIGHT_CHECK(device_.tree().node(device).key == host_.tree().node(host).key);
  }
}

}  // namespace inflight
