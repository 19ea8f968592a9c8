// SPDX-License-Identifier: Apache-2.0
#include "exec/adapter_store.h"

#include <cstring>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/limits.h"
#include "base/math.h"
#include "base/quote.h"
#include "model/convert_rows.h"
#include "ops/panel.h"

namespace inflight {
namespace {

static_assert(kAdapterPairs == kLoraTargetCount);

size_t padded(size_t bytes) { return align_up(bytes, size_t{kWeightAlignment}); }

size_t table_bytes(const ModelSpec& spec) {
  return padded(static_cast<size_t>(spec.layer_count) * kAdapterPairs * sizeof(AdapterPair));
}

// With matrices of the largest rank and type for all targets.
size_t largest_bytes(const ModelSpec& spec, int32_t rank) {
  size_t layer = 0;
  for (int32_t target = 0; target < kLoraTargetCount; ++target) {
    const LoraShape shape = lora_shape(spec, static_cast<LoraTarget>(target));
    layer += padded(packed_bytes(PanelType::F32, rank, shape.depth));
    layer += padded(packed_bytes(PanelType::F32, shape.outputs, rank));
  }
  return table_bytes(spec) + layer * static_cast<size_t>(spec.layer_count);
}

// Appends the matrix as panels: float types as they are, others as the floats that they mean.
std::pair<PanelType, int32_t> append_panels(const WeightView& view, std::vector<std::byte>& bytes) {
  const bool floats = view.type == TensorType::F32 || view.type == TensorType::F16 || view.type == TensorType::BF16;
  const PanelType type = floats ? static_cast<PanelType>(view.type) : PanelType::F32;
  std::vector<std::byte> converted;
  if (!floats) {
    converted.resize(row_bytes(TensorType::F32, view.columns) * static_cast<size_t>(view.rows));
    convert_rows(view.type, TensorType::F32, view.columns, view.bytes, 0, converted);
  }
  const size_t offset = bytes.size(), size = packed_bytes(type, view.rows, view.columns);
  bytes.resize(offset + padded(size));
  pack_panels({type, view.rows, view.columns, floats ? view.bytes : std::span<const std::byte>(converted)},
              std::span(bytes).subspan(offset, size));
  return {type, static_cast<int32_t>(offset / kWeightAlignment)};
}

std::vector<std::byte> pack(const LoraFile& lora, const ModelSpec& spec) {
  std::vector<std::byte> bytes(table_bytes(spec));
  size_t place = 0;
  for (const auto& layer : lora.layers) {
    for (const LoraPair& pair : layer) {
      AdapterPair packed;
      if (pair.a.present()) {
        std::tie(packed.type_a, packed.offset_a) = append_panels(pair.a, bytes);
        std::tie(packed.type_b, packed.offset_b) = append_panels(pair.b, bytes);
        packed.rank = pair.rank();
        packed.scale = lora.scale(pair);
      }
      std::memcpy(bytes.data() + place, &packed, sizeof packed);
      place += sizeof packed;
    }
  }
  return bytes;
}

}  // namespace

AdapterLease::~AdapterLease() {
  if (store_ != nullptr) store_->release(adapter_->id);
}

AdapterLease AdapterLease::again() const { return store_ == nullptr ? AdapterLease() : store_->lease_of(adapter_->id); }

AdapterStore::AdapterStore(const ModelSpec& spec, int32_t max_lora_rank)
    : spec_(spec), max_lora_rank_(max_lora_rank), slot_bytes_(largest_bytes(spec, max_lora_rank)) {
  INFLIGHT_CHECK(max_lora_rank >= 1 && max_lora_rank <= limits::kLoraRankMax);
}

// REQUIRES of the next three: mutex_ is held.
std::string AdapterStore::names() const {
  std::string all;
  for (const auto& [name, id] : id_by_name_) all += (all.empty() ? "" : ", ") + name;
  return all.empty() ? "none" : all;
}

void AdapterStore::check_name(const std::string& name) const {
  if (name.empty() || name.size() > limits::kLoraNameBytesMax) {
    fail(ErrorCode::InvalidArgument, "the adapter's name has {} bytes, allowed: 1 to {}", name.size(),
         limits::kLoraNameBytesMax);
  }
  if (id_by_name_.contains(name)) {
    fail(ErrorCode::InvalidArgument, "adapter {} is loaded already: unload it first, or take another name",
         quote(name));
  }
}

uint32_t AdapterStore::id_of(const std::string& name) const {
  const auto found = id_by_name_.find(name);
  if (found == id_by_name_.end()) fail(ErrorCode::NotFound, "there is no adapter {}, loaded: {}", quote(name), names());
  return found->second;
}

void AdapterStore::load(const std::string& name, const std::string& path) {
  {
    const std::scoped_lock lock(mutex_);
    check_name(name);
  }
  const LoraFile lora = load_lora(path, spec_, max_lora_rank_);
  Entry entry{
      .adapter = {.name = name, .path = path, .alpha = lora.alpha, .rank = lora.rank, .bytes = pack(lora, spec_)}};
  INFLIGHT_CHECK(entry.adapter.bytes.size() <= slot_bytes_);
  const std::scoped_lock lock(mutex_);
  check_name(name);  // another thread may have taken it meanwhile
  entry.adapter.id = ++last_id_;
  id_by_name_[name] = last_id_;
  by_id_.emplace(last_id_, std::move(entry));
}

void AdapterStore::unload(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  const auto entry = by_id_.find(id_of(name));
  id_by_name_.erase(name);
  entry->second.named = false;
  if (entry->second.leases == 0) by_id_.erase(entry);
}

AdapterLease AdapterStore::lease(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  Entry& entry = by_id_.at(id_of(name));
  ++entry.leases;
  return {*this, entry.adapter};
}

AdapterLease AdapterStore::lease_of(uint32_t id) {
  const std::scoped_lock lock(mutex_);
  Entry& entry = by_id_.at(id);
  ++entry.leases;
  return {*this, entry.adapter};
}

void AdapterStore::release(uint32_t id) {
  const std::scoped_lock lock(mutex_);
  const auto entry = by_id_.find(id);
  if (--entry->second.leases == 0 && !entry->second.named) by_id_.erase(entry);
}

const PackedAdapter& AdapterStore::find(uint32_t id) const {
  const std::scoped_lock lock(mutex_);
  const auto found = by_id_.find(id);
  INFLIGHT_CHECK(found != by_id_.end() && found->second.leases > 0);
  return found->second.adapter;
}

std::vector<AdapterSummary> AdapterStore::list() const {
  const std::scoped_lock lock(mutex_);
  std::vector<AdapterSummary> all;
  for (const auto& [name, id] : id_by_name_) {
    const PackedAdapter& adapter = by_id_.at(id).adapter;
    all.push_back({name, adapter.path, adapter.alpha, adapter.rank, adapter.bytes.size()});
  }
  return all;
}

size_t AdapterStore::held_count() const {
  const std::scoped_lock lock(mutex_);
  return by_id_.size();
}

}  // namespace inflight
