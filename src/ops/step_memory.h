// SPDX-License-Identifier: Apache-2.0
// The buffers that every kernel of a step is given: MEMORY_PARAMETERS of cl_kernels/stage.cl.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "device/program.h"
#include "ops/stage.h"

namespace inflight {

// Everything a step touches; null where a chunk is not used.
struct StepMemory {
  std::array<const DeviceMemory*, kWeightChunksMax> weights{};
  std::array<const DeviceMemory*, kKvChunksMax> kv{};
  const DeviceMemory* vectors = nullptr;
  const DeviceMemory* angles = nullptr;
  const DeviceMemory* activations = nullptr;
  const DeviceMemory* step = nullptr;
  const DeviceMemory* row_tokens = nullptr;
  const DeviceMemory* adapters = nullptr;  // null: there are none
  const DeviceMemory* states = nullptr;    // likewise
};

// Of row_tokens: those of the rows, a spare one, the number of the last launch that is done.
[[nodiscard]] constexpr size_t row_token_words(int32_t rows) { return static_cast<size_t>(rows) + 2; }

// Sets the kernel's first arguments; the number of the next one.
uint32_t bind_memory(Kernel& kernel, const StepMemory& memory);

}  // namespace inflight
