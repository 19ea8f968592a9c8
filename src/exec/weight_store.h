// SPDX-License-Identifier: Apache-2.0
// A model's weights on the device: matrices in panels, norms and biases as floats.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "device/buffer.h"
#include "exec/memory_plan.h"
#include "exec/packed_file.h"
#include "ops/stage.h"

namespace inflight {

class WeightStore {
 public:
  // Packs and uploads everything; the views are not needed afterwards. packed_folder: where what was packed is kept and
  // found again, see PackedFile, for weights that lie in a file; "": nowhere.
  // ERRORS: OutOfMemory, Device; Rejected when `progress` asks to stop.
  WeightStore(Device& device, const ModelWeights& weights, const std::string& packed_folder,
              const std::function<bool(double fraction, const char* what)>& progress);

  // REQUIRES: `view` is one of the ModelWeights that this was made of (by its bytes).
  [[nodiscard]] StageWeight matrix(const WeightView& view) const;
  // Offset in vectors(); kNone when the view is not present.
  [[nodiscard]] int32_t vector(const WeightView& view) const;

  [[nodiscard]] const std::vector<Buffer<std::byte>>& chunks() const { return chunks_; }
  [[nodiscard]] const Buffer<float>& vectors() const { return vectors_; }

 private:
  // returns where each matrix is
  ChunkPlan place_matrices(const Device& device, const std::vector<const WeightView*>& matrices);
  void pack_matrices(const std::vector<const WeightView*>& matrices, const ChunkPlan& plan, bool mapped,
                     const std::function<bool(double fraction, const char* what)>& progress);
  void upload_vectors(Device& device, const std::vector<const WeightView*>& vectors);

  std::optional<PackedFile> packed_;  // what chunks_ may lie in
  std::vector<Buffer<std::byte>> chunks_;
  Buffer<float> vectors_;
  std::map<const std::byte*, StageWeight> matrix_places_;  // by the view's first byte
  std::map<const std::byte*, int32_t> vector_places_;
};

}  // namespace inflight
