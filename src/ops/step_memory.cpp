// SPDX-License-Identifier: Apache-2.0
#include "ops/step_memory.h"

namespace inflight {

uint32_t bind_memory(Kernel& kernel, const StepMemory& memory) {
  uint32_t index = 0;
  const auto next = [&](const DeviceMemory* memory_or_null, const DeviceMemory* otherwise) {
    kernel.set(index++, memory_or_null != nullptr ? *memory_or_null : *otherwise);
  };
  for (const DeviceMemory* chunk : memory.weights) next(chunk, memory.weights[0]);
  for (const DeviceMemory* chunk : memory.kv) next(chunk, memory.kv[0]);
  for (const DeviceMemory* one : {memory.vectors, memory.angles, memory.activations, memory.step, memory.row_tokens}) {
    next(one, one);
  }
  next(memory.adapters, memory.vectors);
  next(memory.states, memory.activations);
  return index;
}

}  // namespace inflight
