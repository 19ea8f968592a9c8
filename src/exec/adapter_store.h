// SPDX-License-Identifier: Apache-2.0
// The LoRA adapters that requests may name: read, checked and packed for the kernels in host memory, by name and by id.
// An id is given once: who loads a file under an old name gets a new one, so nothing stored under the old one
// (prefixes) is taken for its own. An adapter that is unloaded stays until the last lease on it has gone. THREAD: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/model_spec.h"
#include "model/lora_file.h"

namespace inflight {

struct PackedAdapter {
  uint32_t id = 0;  // 1, 2, ...
  std::string name;
  std::string path;
  float alpha = 0.0F;
  int32_t rank = 0;
  std::vector<std::byte> bytes;  // a slot's content (cl_kernels/lora.cl)
};

class AdapterStore;

// Somebody uses an adapter. Empty: none.   LIFETIME: before its store.
class AdapterLease {
 public:
  AdapterLease() = default;
  AdapterLease(AdapterLease&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)), adapter_(std::exchange(other.adapter_, nullptr)) {}
  AdapterLease& operator=(AdapterLease&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(adapter_, other.adapter_);
    return *this;
  }
  AdapterLease(const AdapterLease&) = delete;
  AdapterLease& operator=(const AdapterLease&) = delete;
  ~AdapterLease();

  [[nodiscard]] uint32_t id() const { return adapter_ == nullptr ? 0 : adapter_->id; }  // 0: none
  [[nodiscard]] const PackedAdapter* adapter() const { return adapter_; }
  // One more of the same.
  [[nodiscard]] AdapterLease again() const;

 private:
  friend class AdapterStore;
  AdapterLease(AdapterStore& store, const PackedAdapter& adapter) : store_(&store), adapter_(&adapter) {}
  AdapterStore* store_ = nullptr;
  const PackedAdapter* adapter_ = nullptr;
};

// What is told of a loaded adapter.
struct AdapterSummary {
  std::string name;
  std::string path;
  float alpha = 0.0F;
  int32_t rank = 0;
  size_t bytes = 0;
};

class AdapterStore {
 public:
  // max_lora_rank: in [1, limits::kLoraRankMax].
  AdapterStore(const ModelSpec& spec, int32_t max_lora_rank);

  // Returns when requests may name it; the file is not needed afterwards.
  // ERRORS: InvalidArgument (the name is empty, too long or taken; the rank), else as load_lora().
  void load(const std::string& name, const std::string& path);
  // Frees the name at once, the memory when nobody uses it any more.   ERRORS: NotFound naming what is loaded.
  void unload(const std::string& name);

  // ERRORS: NotFound naming what is loaded.
  [[nodiscard]] AdapterLease lease(const std::string& name);
  // REQUIRES: there is a lease on it.   LIFETIME: the lease's.
  [[nodiscard]] const PackedAdapter& find(uint32_t id) const;
  [[nodiscard]] std::vector<AdapterSummary> list() const;  // those that can be named, by name
  [[nodiscard]] size_t held_count() const;                 // unloaded ones that somebody still uses included

  [[nodiscard]] int32_t max_lora_rank() const { return max_lora_rank_; }
  // Of any adapter at most; a multiple of kWeightAlignment.
  [[nodiscard]] size_t slot_bytes() const { return slot_bytes_; }

 private:
  friend class AdapterLease;
  struct Entry {
    PackedAdapter adapter;
    int32_t leases = 0;
    bool named = true;
  };
  [[nodiscard]] AdapterLease lease_of(uint32_t id);
  void release(uint32_t id);
  [[nodiscard]] std::string names() const;
  void check_name(const std::string& name) const;
  [[nodiscard]] uint32_t id_of(const std::string& name) const;

  ModelSpec spec_;
  int32_t max_lora_rank_;
  size_t slot_bytes_;
  mutable std::mutex mutex_;  // guards everything below
  uint32_t last_id_ = 0;
  std::map<std::string, uint32_t> id_by_name_;
  std::map<uint32_t, Entry> by_id_;  // a node stays where it is
};

}  // namespace inflight
