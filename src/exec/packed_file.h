// SPDX-License-Identifier: Apache-2.0
// A model's packed matrices in a file of the cache folder, which the next start maps in the place of packing them again
// (decision 0048). Anybody may cut, replace, delete or forbid the file at any time before it is mapped: then there is
// none. Its weights' bytes are not looked at: who changes them, as in the model's file, gets other answers. File: the
// chunks of a ChunkPlan, each from a multiple of 2 MiB on; behind them what they were packed from, as a hash. THREAD:
// one at a time; several processes at once: the file appears whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/buffer.h"
#include "exec/memory_plan.h"
#include "model/mapped_file.h"

namespace inflight {

class PackedFile {
 public:
  // Of the model in these files, whose matrices the plan places. Its name tells the first one's.
  // REQUIRES: there is one.
  PackedFile(const std::string& folder, std::span<const FileIdentity> model,
             const std::vector<const WeightView*>& matrices, const ChunkPlan& plan);

  // Whether the file is there and was packed from this model, as it is now, in this layout; maps it.
  [[nodiscard]] bool find();
  // REQUIRES: find() said yes.   LIFETIME: of this object; its address survives a move.
  [[nodiscard]] std::span<const std::byte> chunk(size_t index) const;

  // Writes the file, durably. What goes wrong is a warning.   REQUIRES: the plan's chunks, packed.
  void store(std::span<const Buffer<std::byte>> chunks) const;

 private:
  struct Footer;
  void write(std::span<const Buffer<std::byte>> chunks) const;

  std::string path_;
  uint64_t contents_ = 0;  // hash of what the chunks hold
  uint32_t mode_ = 0;      // the model's: who may not read it may not read this
  std::vector<size_t> offsets_, sizes_;
  size_t bytes_ = 0;  // of all chunks, to the next 2 MiB
  std::optional<MappedFile> mapping_;
};

}  // namespace inflight
