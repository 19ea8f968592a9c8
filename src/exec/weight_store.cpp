// SPDX-License-Identifier: Apache-2.0
#include "exec/weight_store.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/math.h"
#include "base/parallel.h"
#include "model/convert_rows.h"
#include "model/mapped_file.h"
#include "model/quote.h"
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

// Packs as many panels as `packed` holds, from panel `first` on; returns the rows that it read.
std::span<const std::byte> pack_rows(const WeightView& view, size_t first, std::span<std::byte> packed) {
  const PanelType type = panel_type(view);
  const size_t first_row = first * kPanelOutputs;
  const size_t count = std::min(packed.size() / panel_bytes(type, view.columns) * kPanelOutputs,
                                static_cast<size_t>(view.rows) - first_row);
  const size_t stride = row_bytes(view.type, view.columns);
  const std::span<const std::byte> rows = view.bytes.subspan(first_row * stride, count * stride);
  const auto outputs = static_cast<int32_t>(count);
  try {
    if (computed_type(view.type) == view.type) {
      pack_panels({type, outputs, view.columns, rows}, packed);
      return rows;
    }
    std::vector<std::byte> converted(row_bytes(computed_type(view.type), view.columns) * count);
    convert_rows(view.type, computed_type(view.type), view.columns, rows, first_row, converted);
    pack_panels({type, outputs, view.columns, converted}, packed);
  } catch (const Error& error) {
    fail(ErrorCode::CorruptFile, "tensor {}, {}", quote(view.name), error.what());
  }
  return rows;
}

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
    sizes.push_back(packed_bytes(panel_type(*view), view->rows, view->columns));
    total += sizes.back();
  }
  const ChunkPlan plan = plan_chunks(sizes, device.info().allocation_bytes_max);
  for (const size_t bytes : plan.chunk_bytes) chunks_.emplace_back(device, "weights", bytes);
  for (size_t i = 0; i < matrices.size(); ++i) {
    const WeightView& view = *matrices[i];
    const ChunkPlace& place = plan.places[i];
    matrix_places_[view.bytes.data()] = {.type = panel_type(view),
                                         .chunk = place.chunk,
                                         .offset = static_cast<int32_t>(place.offset / kWeightAlignment),
                                         .depth = view.columns,
                                         .outputs = view.rows};
  }
  const std::vector<Piece> pieces = pieces_of(matrices, plan);
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
    const std::string& name = pieces[end - 1].view->name;
    if (progress && progress(static_cast<double>(done) / static_cast<double>(total), name.c_str())) {
      fail(ErrorCode::Rejected, "loading the weights was stopped at '{}'", name);
    }
  }
  device.finish();
}

StageWeight WeightStore::matrix(const WeightView& view) const { return matrix_places_.at(view.bytes.data()); }

int32_t WeightStore::vector(const WeightView& view) const {
  return view.present() ? vector_places_.at(view.bytes.data()) : kNone;
}

}  // namespace inflight
