// SPDX-License-Identifier: Apache-2.0
#include "exec/weight_store.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/math.h"
#include "model/mapped_file.h"
#include "ops/panel.h"

namespace inflight {
namespace {

constexpr size_t kPieceBytes = size_t{8} << 20;  // packed between two reports of progress

}  // namespace

WeightStore::WeightStore(Device& device, const ModelWeights& weights,
                         const std::function<bool(double fraction, const char* what)>& progress) {
  upload_vectors(device, weight_vectors(weights));
  upload_matrices(device, weight_matrices(weights), weights.mapped, progress);
}

void WeightStore::upload_vectors(Device& device, const std::vector<const WeightView*>& vectors) {
  std::vector<float> all;
  for (const WeightView* view : vectors) {
    INFLIGHT_CHECK(view->type == TensorType::F32);
    vector_places_[view->bytes.data()] = static_cast<int32_t>(all.size());
    const size_t count = view->bytes.size() / sizeof(float);
    all.resize(align_up(all.size() + count, size_t{kPanelOutputs}), 0.0F);
    std::memcpy(all.data() + vector_places_[view->bytes.data()], view->bytes.data(), count * sizeof(float));
  }
  vectors_ = Buffer<float>(device, "norms and biases", all.size());
  vectors_.write(all);
}

void WeightStore::upload_matrices(Device& device, const std::vector<const WeightView*>& matrices, bool mapped,
                                  const std::function<bool(double fraction, const char* what)>& progress) {
  std::vector<size_t> sizes;
  size_t total = 0, done = 0;
  for (const WeightView* view : matrices) {
    sizes.push_back(packed_bytes(static_cast<PanelType>(view->type), view->rows, view->columns));
    total += sizes.back();
  }
  const ChunkPlan plan = plan_chunks(sizes, device.info().allocation_bytes_max);
  for (const size_t bytes : plan.chunk_bytes) chunks_.emplace_back(device, "weights", bytes);
  for (size_t i = 0; i < matrices.size(); ++i) {
    const WeightView& view = *matrices[i];
    const auto type = static_cast<PanelType>(view.type);
    const ChunkPlace& place = plan.places[i];
    matrix_places_[view.bytes.data()] = {.type = type,
                                         .chunk = place.chunk,
                                         .offset = static_cast<int32_t>(place.offset / kWeightAlignment),
                                         .depth = view.columns,
                                         .outputs = view.rows};
    DeviceMemory& memory = chunks_[static_cast<size_t>(place.chunk)].memory();
    const size_t one = panel_bytes(type, view.columns);
    const size_t piece = std::max(kPieceBytes / one, size_t{1}) * one;
    for (size_t offset = 0; offset < sizes[i]; offset += piece) {
      const size_t bytes = std::min(piece, sizes[i] - offset);
      const std::span<std::byte> packed = memory.map_for_write(place.offset + offset, bytes);
      pack_panels({type, view.rows, view.columns, view.bytes}, static_cast<int32_t>(offset / one), packed);
      memory.unmap(packed);
      if (mapped) {  // else the file and its packed copy would both be held
        const size_t row_bytes = view.bytes.size() / static_cast<size_t>(view.rows);
        const size_t begin = std::min(offset / one * kPanelOutputs * row_bytes, view.bytes.size());
        release_pages(
            view.bytes.subspan(begin, std::min(bytes / one * kPanelOutputs * row_bytes, view.bytes.size() - begin)));
      }
      done += bytes;
      if (progress && progress(static_cast<double>(done) / static_cast<double>(total), view.name.c_str())) {
        fail(ErrorCode::Rejected, "loading the weights was stopped at '{}'", view.name);
      }
    }
  }
  device.finish();
}

StageWeight WeightStore::matrix(const WeightView& view) const { return matrix_places_.at(view.bytes.data()); }

int32_t WeightStore::vector(const WeightView& view) const {
  return view.present() ? vector_places_.at(view.bytes.data()) : kNone;
}

}  // namespace inflight
