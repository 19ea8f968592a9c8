// SPDX-License-Identifier: Apache-2.0
#include "exec/packed_file.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "exec/arena.h"
#include "exec/pack_rows.h"
#include "model/output_file.h"
#include "ops/panel.h"

namespace inflight {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

uint64_t hash_of(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
uint64_t hash_of(const std::string& text) { return hash_of(std::as_bytes(std::span(text))); }

// Tells this version's layout of a format from another's: a hash of how it packs rows of a pattern, which is a finite
// number in every format.
uint64_t layout_of(TensorType type) {
  constexpr int32_t kColumns = 256;
  constexpr size_t kPeriod = 61;
  std::vector<std::byte> rows(row_bytes(type, kColumns) * kPanelOutputs);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::byte>(i % kPeriod);
  const WeightView view{.name = "pattern", .type = type, .rows = kPanelOutputs, .columns = kColumns, .bytes = rows};
  std::vector<std::byte> packed(panel_bytes(panel_type(view), kColumns));
  pack_rows(view, 0, packed);
  return hash_of(packed);
}

// Everything that the chunks' bytes depend on.
std::string description(std::span<const FileIdentity> model, const std::vector<const WeightView*>& matrices,
                        const ChunkPlan& plan) {
  std::string text;
  for (const FileIdentity& file : model) {
    text += fmt::format("{} {} {} {}\n", file.path, file.inode, file.bytes, file.changed_ns);
  }
  std::set<TensorType> types;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const WeightView& view = *matrices[i];
    types.insert(view.type);
    text += fmt::format("{} {} {} {} at {} {}\n", view.name, static_cast<int32_t>(view.type), view.rows, view.columns,
                        plan.places[i].chunk, plan.places[i].offset);
  }
  for (const TensorType type : types) text += fmt::format("{} {}\n", static_cast<int32_t>(type), layout_of(type));
  return text;
}

}  // namespace

struct PackedFile::Footer {
  std::array<char, 8> magic = {'i', 'n', 'f', 'l', 'p', 'a', 'c', 'k'};
  uint64_t contents = 0;
  bool operator==(const Footer&) const = default;
};

PackedFile::PackedFile(const std::string& folder, std::span<const FileIdentity> model,
                       const std::vector<const WeightView*>& matrices, const ChunkPlan& plan)
    : contents_(hash_of(description(model, matrices, plan))), mode_(model.front().mode), sizes_(plan.chunk_bytes) {
  std::string where = model.front().path;  // one file a model and kind of device, so that another version's is replaced
  for (const size_t size : sizes_) {
    offsets_.push_back(bytes_);
    bytes_ += align_up(size, kHugePage);
    where += fmt::format(" {}", size);
  }
  constexpr size_t kNameMost = 128;
  path_ =
      fmt::format("{}/{}.{:016x}.packed", folder,
                  std::filesystem::path(model.front().path).filename().string().substr(0, kNameMost), hash_of(where));
}

bool PackedFile::find() {
  try {
    MappedFile file(path_);
    Footer footer;
    if (file.bytes().size() != bytes_ + sizeof footer) return false;
    std::memcpy(&footer, file.bytes().data() + bytes_, sizeof footer);
    if (footer != Footer{.contents = contents_}) return false;
    mapping_ = std::move(file);
  } catch (const Error&) {  // missing, or not to be read: store() says why
    return false;
  }
  return true;
}

std::span<const std::byte> PackedFile::chunk(size_t index) const {
  return mapping_->bytes().subspan(offsets_[index], sizes_[index]);
}

void PackedFile::store(std::span<const Buffer<std::byte>> chunks) const {
  try {
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
    write(chunks);
    log(LogLevel::Info, "kept the packed weights, {} MiB, in {}", bytes_ >> 20, path_);
  } catch (const std::exception& error) {
    log(LogLevel::Warning, "cannot keep the packed weights: {}", error.what());
  }
}

void PackedFile::write(std::span<const Buffer<std::byte>> chunks) const {
  constexpr uint32_t kOwner = 0600, kNobodyRuns = 0666;
  OutputFile file(path_, bytes_ + sizeof(Footer), (mode_ & kNobodyRuns) | kOwner);
  std::vector<std::byte> piece(size_t{4} << 20);
  for (const Buffer<std::byte>& chunk : chunks) {
    const size_t padded = align_up(chunk.size(), kHugePage);
    for (size_t at = 0, bytes = 0; at < padded; at += bytes) {
      bytes = std::min(padded - at, piece.size());
      const size_t held = at < chunk.size() ? std::min(bytes, chunk.size() - at) : 0;
      std::fill(piece.begin() + static_cast<std::ptrdiff_t>(held), piece.end(), std::byte{0});
      if (held > 0) chunk.memory().read(at, std::span(piece).first(held));
      file.write(std::span(piece).first(bytes));
    }
  }
  const Footer footer{.contents = contents_};
  file.write(std::as_bytes(std::span(&footer, 1)));
  file.commit();
}

}  // namespace inflight
