// SPDX-License-Identifier: Apache-2.0
// What GGUF files of each model family hold: the names and shapes of their tensors, as data. A
// family that differs in no more than this is added by one row of the table in architecture.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/model_spec.h"
#include "model/weights.h"

namespace inflight {

// A dimension of a tensor, in terms of ModelSpec.
enum class Extent : int32_t { One, Hidden, FeedForward, Query, KeyValue, Head };
[[nodiscard]] int32_t extent_of(const ModelSpec& spec, Extent extent);

// Which families have a tensor: all of them; any, as its file has it; those that list it as needed.
enum class Presence : int32_t { Always, Optional, WhereNeeded };

// One tensor of each layer. rows == One: a vector (norm, bias), always F32.
struct LayerTensor {
  std::string_view name;  // behind "blk.<layer>."
  WeightView LayerWeights::* role;
  Extent rows;
  Extent columns;
  Presence presence;
};
[[nodiscard]] std::span<const LayerTensor> layer_tensors();

struct Architecture {
  std::string_view name;  // value of general.architecture, prefix of its keys
  RopeStyle rope_style;
  std::span<const std::string_view> needed;  // layer tensors, not always there, that this family must have
};
// ERRORS: Unsupported naming the architecture and those there are.
[[nodiscard]] const Architecture& find_architecture(std::string_view name);

}  // namespace inflight
