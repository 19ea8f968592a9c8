// SPDX-License-Identifier: Apache-2.0
// The LoRA adapters that requests may name: read, checked and packed for the kernels in host memory, by name and by id.
// An id is given once: who loads a file under an old name gets a new one, so nothing stored under the old one
// (prefixes) is taken for its own. An adapter that is unloaded lives on as long as somebody holds it. THREAD: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
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

class AdapterStore {
 public:
  // max_lora_rank: in [1, limits::kLoraRankMax].
  AdapterStore(const ModelSpec& spec, int32_t max_lora_rank);

  // The file is not needed afterwards.
  // ERRORS: InvalidArgument (the name is empty, too long or taken; the rank), else as load_lora().
  std::shared_ptr<const PackedAdapter> load(const std::string& name, const std::string& path);
  // The name is free from then on.   ERRORS: NotFound naming what is loaded.
  void unload(const std::string& name);

  // ERRORS: NotFound naming what is loaded.
  [[nodiscard]] std::shared_ptr<const PackedAdapter> find(const std::string& name) const;
  // REQUIRES: somebody holds it.
  [[nodiscard]] std::shared_ptr<const PackedAdapter> find(uint32_t id) const;
  [[nodiscard]] std::vector<std::shared_ptr<const PackedAdapter>> list() const;  // by name

  [[nodiscard]] int32_t max_lora_rank() const { return max_lora_rank_; }
  // Of any adapter at most; a multiple of kWeightAlignment.
  [[nodiscard]] size_t slot_bytes() const { return slot_bytes_; }

 private:
  [[nodiscard]] std::string names() const;
  void check_name(const std::string& name) const;

  ModelSpec spec_;
  int32_t max_lora_rank_;
  size_t slot_bytes_;
  mutable std::mutex mutex_;  // guards everything below
  uint32_t last_id_ = 0;
  std::map<std::string, std::shared_ptr<const PackedAdapter>> by_name_;
  std::map<uint32_t, std::weak_ptr<const PackedAdapter>> by_id_;
};

}  // namespace inflight
