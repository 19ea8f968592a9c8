// SPDX-License-Identifier: Apache-2.0
// From a model file's rows to what the device holds: converted where the format is not computed with, then in panels.
#pragma once

#include <cstddef>
#include <span>

#include "model/weights.h"

namespace inflight {

// Packs as many panels as `packed` holds, from panel `first` on; returns the rows that it read.
// REQUIRES: `packed` holds whole panels of panel_type(view).   ERRORS: CorruptFile naming the tensor.   THREAD: any.
std::span<const std::byte> pack_rows(const WeightView& view, size_t first, std::span<std::byte> packed);

}  // namespace inflight
