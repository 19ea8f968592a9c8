// SPDX-License-Identifier: Apache-2.0
#include "ops/step_program.h"

#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "ops/linear_choice.h"

namespace inflight {
namespace {

int32_t head_vector(int32_t head_size) {
  for (const int32_t width : {16, 8, 4}) {
    if (head_size % width == 0) return width;
  }
  return 2;
}

// The kernels name the KV storage's numbers as they name those of weights.
PanelType panel_type(KvType type) {
  switch (type) {
    case KvType::F16:
      return PanelType::F16;
    case KvType::F32:
      return PanelType::F32;
    case KvType::Q8_0:
      return PanelType::Q8_0;
  }
  INFLIGHT_CHECK(false);
}

std::string options_of(const KernelShape& shape, const DeviceInfo& device) {
#if defined(__x86_64__) && defined(__linux__)
  const bool x86_linux = device.host_code;
#else
  const bool x86_linux = false;
#endif
  return fmt::format(
      "-D LAYERS={} -D HEADS={} -D KV_HEADS={} -D HEAD_SIZE={} -D HEAD_VECTOR={} -D QUERY_SCALE={:a}f -D ROPE_PAIRS={} "
      "-D ROPE_INTERLEAVED={} -D BLOCK_TOKENS={} -D KV_GROUP={} -D KV_TYPE={} -D BLOCKS_A_CHUNK={} "
      "-D WINDOW={} -D INFLIGHT_X86_LINUX={}",
      shape.layer_count, shape.head_count, shape.kv_head_count, shape.head_size, head_vector(shape.head_size),
      1.0F / std::sqrt(static_cast<float>(shape.head_size)), shape.rope_pair_count, int{shape.rope_interleaved},
      shape.block_token_count, shape.block_token_count < 16 ? 8 : 16, static_cast<int32_t>(panel_type(shape.kv_type)),
      shape.blocks_a_chunk, shape.sliding_window, int{x86_linux});
}

ProgramSource source_of(const KernelShape& shape, const DeviceInfo& device, const std::string& linear_file) {
  return {.files = {"stage.cl", linear_file, "linear_item.cl", "rows.cl", "attention.cl", "sampling.cl", "step.cl"},
          .options = options_of(shape, device)};
}

LaunchMode resolve(LaunchMode mode, const Device& device) {
  const bool together = device.info().host_code;
  if (mode == LaunchMode::Automatic) return together ? LaunchMode::Fused : LaunchMode::Stages;
  if (mode == LaunchMode::Fused && !together) {
    fail(ErrorCode::Unsupported, "device '{}' cannot run a fused step: that needs workers that run at the same time",
         device.info().name);
  }
  return mode;
}

}  // namespace

const char* to_string(Operation operation) {
  constexpr std::array kNames = {"embed", "norm", "linear", "rope", "attention", "combine", "statistics", "sample"};
  static_assert(kNames.size() == kOperationCount);
  return kNames.at(static_cast<size_t>(operation));
}

int32_t StepProgram::combine_slices(const KernelShape& shape) {
  return shape.head_count / shape.kv_head_count * shape.head_size % 32 == 0 ? shape.kv_head_count : 1;
}

StepProgram::StepProgram(Device& device, const KernelShape& shape, LaunchMode mode)
    : device_(device),
      mode_(resolve(mode, device)),
      worker_count_(device.info().compute_units),
      program_(device, source_of(shape, device.info(), choose_linear_file(device))) {
  if (mode_ == LaunchMode::Fused) {
    step_kernel_ = Kernel(program_, "run_step");
    return;
  }
  for (size_t i = 0; i < stage_kernels_.size(); ++i) {
    stage_kernels_[i] = Kernel(program_, std::string(to_string(static_cast<Operation>(i))) + "_stage");
  }
}

void StepProgram::bind(Kernel& kernel, const StepMemory& memory) {
  uint32_t index = 0;
  const auto next = [&](const DeviceMemory* memory_or_null, const DeviceMemory* otherwise) {
    kernel.set(index++, memory_or_null != nullptr ? *memory_or_null : *otherwise);
  };
  for (const DeviceMemory* chunk : memory.weights) next(chunk, memory.weights[0]);
  for (const DeviceMemory* chunk : memory.kv) next(chunk, memory.kv[0]);
  for (const DeviceMemory* one : {memory.vectors, memory.angles, memory.activations, memory.step, memory.row_tokens}) {
    next(one, one);
  }
}

void StepProgram::run(const StepMemory& memory, std::span<const Stage> stages) {
  if (mode_ == LaunchMode::Fused) {
    bind(step_kernel_, memory);
    device_.launch(step_kernel_, {.global = static_cast<size_t>(worker_count_), .local = 1});
    return;
  }
  for (Kernel& kernel : stage_kernels_) bind(kernel, memory);
  constexpr uint32_t kIndexArgument = kWeightChunksMax + kKvChunksMax + 5;
  const size_t local = device_.info().type == DeviceType::Cpu ? 1 : 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].items == 0) continue;
    Kernel& kernel = stage_kernels_.at(static_cast<size_t>(stages[i].operation));
    kernel.set(kIndexArgument, static_cast<int32_t>(i));
    device_.launch(kernel, {.global = static_cast<size_t>(stages[i].items), .local = local});
  }
}

}  // namespace inflight
