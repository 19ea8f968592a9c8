// SPDX-License-Identifier: Apache-2.0
#include "exec/weight_store.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"
#include "exec/pack_rows.h"
#include "model/mapped_file.h"
#include "ops/panel.h"

namespace inflight {
namespace {

constexpr size_t kPieceBytes = size_t{2} << 20;    // packed by one processor at once
constexpr size_t kMappedBytes = size_t{64} << 20;  // packed between two reports of progress, or a quarter of all

// Some panels of a matrix.
struct Piece {
  const WeightView* view;
  size_t first;  // panel
  int32_t chunk;
  size_t offset, bytes;  // in the chunk
};

// Pieces of all matrices in their order.
std::vector<Piece> pieces_of(const std::vector<const WeightView*>& matrices, const ChunkPlan& plan) {
  std::vector<Piece> pieces;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const WeightView& view = *matrices[i];
    const size_t one = panel_bytes(panel_type(view), view.columns);
    const auto count = static_cast<size_t>(panel_count(view.rows)), together = std::max(kPieceBytes / one, size_t{1});
    for (size_t first = 0; first < count; first += together) {
      pieces.push_back({.view = &view,
                        .first = first,
                        .chunk = plan.places[i].chunk,
                        .offset = plan.places[i].offset + first * one,
                        .bytes = std::min(together, count - first) * one});
    }
  }
  return pieces;
}

void report(const std::function<bool(double fraction, const char* what)>& progress, double fraction,
            const std::string& name) {
  if (!progress || !progress(fraction, name.c_str())) return;
  fail(ErrorCode::Rejected, "loading the weights was stopped at '{}'", name);
}

}  // namespace

WeightStore::WeightStore(Device& device, const ModelWeights& weights, const std::string& packed_folder,
                         const std::function<bool(double fraction, const char* what)>& progress) {
  upload_vectors(device, weight_vectors(weights));
  const std::vector<const WeightView*> matrices = weight_matrices(weights);
  const ChunkPlan plan = place_matrices(device, matrices);
  if (!packed_folder.empty() && !weights.files.empty()) packed_.emplace(packed_folder, weights.files, matrices, plan);
  if (packed_ && packed_->find()) {
    for (size_t i = 0; i < plan.chunk_bytes.size(); ++i) chunks_.emplace_back(device, "weights", packed_->chunk(i));
    report(progress, 1.0, matrices.back()->name);
    return;
  }
  for (const size_t bytes : plan.chunk_bytes) chunks_.emplace_back(device, "weights", bytes);
  pack_matrices(matrices, plan, !weights.files.empty(), progress);
  device.finish();
  if (!packed_) return;
  report(progress, 0.0, "keeping the packed weights (once)");
  packed_->store(chunks_);
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

ChunkPlan WeightStore::place_matrices(const Device& device, const std::vector<const WeightView*>& matrices) {
  std::vector<size_t> sizes;
  for (const WeightView* view : matrices) {
    sizes.push_back(packed_bytes(panel_type(*view), view->rows, view->columns));
  }
  ChunkPlan plan = plan_chunks(sizes, device.info().allocation_bytes_max);
  for (size_t i = 0; i < matrices.size(); ++i) {
    const WeightView& view = *matrices[i];
    const ChunkPlace& place = plan.places[i];
    matrix_places_[view.bytes.data()] = {.type = panel_type(view),
                                         .chunk = place.chunk,
                                         .offset = static_cast<int32_t>(place.offset / kWeightAlignment),
                                         .depth = view.columns,
                                         .outputs = view.rows};
  }
  return plan;
}

void WeightStore::pack_matrices(const std::vector<const WeightView*>& matrices, const ChunkPlan& plan, bool mapped,
                                const std::function<bool(double fraction, const char* what)>& progress) {
  const std::vector<Piece> pieces = pieces_of(matrices, plan);
  size_t total = 0, done = 0;
  for (const Piece& piece : pieces) total += piece.bytes;
  const size_t together = std::min(kMappedBytes, total / 4);
  for (size_t begin = 0, end = 0; begin < pieces.size(); begin = end) {
    const size_t offset = pieces[begin].offset;
    size_t bytes = 0;
    for (; end < pieces.size() && pieces[end].chunk == pieces[begin].chunk; ++end) {
      const size_t wanted = pieces[end].offset + pieces[end].bytes - offset;
      if (end > begin && wanted > together) break;
      bytes = wanted;
      done += pieces[end].bytes;
    }
    DeviceMemory& memory = chunks_[static_cast<size_t>(pieces[begin].chunk)].memory();
    const std::span<std::byte> packed = memory.map_for_write(offset, bytes);
    in_parallel(end - begin, [&](size_t i) {
      const Piece& piece = pieces[begin + i];
      const auto rows = pack_rows(*piece.view, piece.first, packed.subspan(piece.offset - offset, piece.bytes));
      if (mapped) release_pages(rows);  // else the file and its packed copy would both be held
    });
    memory.unmap(packed);
    report(progress, static_cast<double>(done) / static_cast<double>(total), pieces[end - 1].view->name);
  }
}

StageWeight WeightStore::matrix(const WeightView& view) const { return matrix_places_.at(view.bytes.data()); }

int32_t WeightStore::vector(const WeightView& view) const {
  return view.present() ? vector_places_.at(view.bytes.data()) : kNone;
}

}  // namespace inflight
