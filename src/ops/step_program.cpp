// SPDX-License-Identifier: Apache-2.0
#include "ops/step_program.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "base/error.h"
#include "base/math.h"
#include "device/driver_pages.h"
#include "ops/linear_choice.h"
#include "ops/linear_trial.h"

namespace inflight {
namespace {

constexpr int32_t kSmallItems = 1024;    // a compute unit, where work has to be cut finely
constexpr int32_t kRowsOfSmallItem = 4;  // on GPUs; on llvmpipe 1: 5,632 deep, 3 rows of 2 panels are too long a loop

// llvmpipe: the only such CPU.
bool ends_loops(const DeviceInfo& device) { return device.type == DeviceType::Cpu && device.small_items; }

// The kernels' name of the KV storage's numbers: TYPE_* of stage.cl.
const char* kernel_name(KvType type) {
  switch (type) {
    case KvType::F16:
      return "TYPE_F16";
    case KvType::F32:
      return "TYPE_F32";
    case KvType::Q8_0:
      return "TYPE_Q8_0";
    case KvType::I16:
      return "TYPE_I16";
  }
  INFLIGHT_CHECK(false);
}

// Whether kernels may hold inline assembly and system calls.
bool x86_linux(const DeviceInfo& device) {
#if defined(__x86_64__) && defined(__linux__)
  return device.host_code;
#else
  static_cast<void>(device);
  return false;
#endif
}

std::string options_of(const KernelShape& shape, const DeviceInfo& device) {
  return fmt::format(
      "-D LAYERS={} -D HEADS={} -D KV_HEADS={} -D HEAD_SIZE={} -D QUERY_SCALE={:.8e}f -D "
      "ROPE_PAIRS={} "
      "-D ROPE_INTERLEAVED={} -D BLOCK_TOKENS={} -D KV_GROUP={} -D KV_TYPE={} -D BLOCKS_A_CHUNK={} "
      "-D WINDOW={} -D SMALL_ITEMS={} -D INFLIGHT_X86_LINUX={} -D INFLIGHT_F16C={}",
      shape.layer_count, shape.head_count, shape.kv_head_count, shape.head_size,
      1.0F / std::sqrt(static_cast<float>(shape.head_size)), shape.rope_pair_count, int{shape.rope_interleaved},
      shape.block_token_count, shape.block_token_count < 16 ? 8 : 16, kernel_name(shape.kv_type), shape.blocks_a_chunk,
      shape.sliding_window, int{device.small_items}, int{x86_linux(device)}, int{x86_linux(device) && device.cpu.f16c});
}

ProgramSource source_of(const KernelShape& shape, const DeviceInfo& device, LaunchMode mode,
                        const std::string& linear_file, bool clblast) {
  ProgramSource source{.files = linear_sources(linear_file), .options = options_of(shape, device)};
  const char* attention = shape.kv_type == KvType::I16 ? "attention_ints.cl" : "attention_floats.cl";
  for (const char* file :
       {"linear_item.cl", "rows.cl", "attention.cl", attention, "attention_item.cl", "sampling.cl"}) {
    source.files.emplace_back(file);
  }
  if (shape.adapters) {
    source.files.emplace_back("lora.cl");
    source.options += " -D ADAPTERS=1";
  }
  source.files.emplace_back(mode == LaunchMode::Fused ? "run_step.cl" : "run_stages.cl");
  if (clblast) source.files.emplace_back(kDenseFile);
  return source;
}

LaunchMode resolve(LaunchMode mode, const Device& device, bool clblast) {
  const bool together = device.info().host_code && !clblast;
  if (mode == LaunchMode::Automatic) return together ? LaunchMode::Fused : LaunchMode::Stages;
  if (mode == LaunchMode::Fused && !together) {
    fail(ErrorCode::Unsupported,
         "device '{}' cannot run a fused step: that needs workers that run at the same time, and no CLBlast",
         device.info().name);
  }
  return mode;
}

}  // namespace

const char* to_string(Operation operation) {
  constexpr std::array kNames = {"embed",      "norm",   "linear", "rope",   "attention", "combine",
                                 "statistics", "sample", "shrink", "expand", "swiglu"};
  static_assert(kNames.size() == kOperationCount);
  return kNames.at(static_cast<size_t>(operation));
}

int32_t StepProgram::combine_slices(const KernelShape& shape) {
  return shape.head_count / shape.kv_head_count * shape.head_size % 32 == 0 ? shape.kv_head_count : 1;
}

int32_t attention_context_max(const DeviceInfo& device, const KernelShape& shape) {
  if (!ends_loops(device)) return std::numeric_limits<int32_t>::max();
  constexpr int32_t kProducts = 55'000;  // of a query and a key, numbers of all heads that share it: 65,535 iterations
  return kProducts / (shape.head_count / shape.kv_head_count * shape.head_size);
}

int32_t drawn_vocabulary_max(const DeviceInfo& device) {
  // 16 passes at most, 16 tokens an iteration, and some thousand iterations over bins.
  return ends_loops(device) ? 60'000 : std::numeric_limits<int32_t>::max();
}

int32_t row_parts(const DeviceInfo& device, int32_t rows) {
  if (!device.small_items) return 1;
  return ends_loops(device) ? rows : div_ceil(rows, kRowsOfSmallItem);
}

KvType default_kv_type(const DeviceInfo& device) {
  return x86_linux(device) && device.cpu.avx2 ? KvType::I16 : KvType::F16;
}

StepProgram::StepProgram(Device& device, const KernelShape& shape, LaunchMode mode, const ClblastUse& clblast,
                         const ClblastLimits& limits)
    : device_(device),
      mode_(resolve(mode, device, clblast.from_rows > 0)),
      worker_count_(device.info().compute_units * (device.info().small_items ? kSmallItems : 1)),
      program_(device, source_of(shape, device.info(), mode_, choose_linear_file(device), clblast.from_rows > 0)) {
  if (mode_ == LaunchMode::Fused) {
    step_kernel_ = Kernel(program_, "run_step");
    run_nothing();
    return;
  }
  if (clblast.from_rows > 0 && limits.depth > 0) {
    clblast_.emplace(device, program_, limits, clblast.parameters);
    clblast_from_rows_ = clblast.from_rows;
  }
  stage_kernels_.resize(static_cast<size_t>(shape.adapters ? kOperationCount : kPlainOperationCount));
  for (size_t i = 0; i < stage_kernels_.size(); ++i) {
    stage_kernels_[i] = Kernel(program_, std::string(to_string(static_cast<Operation>(i))) + "_stage");
  }
}

void StepProgram::run_nothing() {
  Buffer<int32_t> zeros(device_, "step without stages", kStepCounters);
  zeros.clear();
  StepMemory memory;
  memory.weights[0] = memory.kv[0] = memory.vectors = memory.angles = memory.activations = memory.step =
      memory.row_tokens = &zeros.memory();
  run(memory, {});
  device_.finish();
  give_back_driver_pages();
}

void StepProgram::run_fused(const StepMemory& memory, const DeviceMemory& step_before, Completion& done) {
  bind_step(memory, step_before);
  device_.launch_beside(step_kernel_, step_shape(), &done);
}

void StepProgram::bind_step(const StepMemory& memory, const DeviceMemory& step_before) {
  INFLIGHT_CHECK(mode_ == LaunchMode::Fused);
  step_kernel_.set(bind_memory(step_kernel_, memory), step_before);
}

LaunchShape StepProgram::step_shape() const { return {.global = static_cast<size_t>(worker_count_), .local = 1}; }

void StepProgram::run(const StepMemory& memory, std::span<const Stage> stages) {
  if (mode_ == LaunchMode::Fused) {
    bind_step(memory, *memory.step);
    return device_.launch(step_kernel_, step_shape());
  }
  uint32_t index_argument = 0;
  for (Kernel& kernel : stage_kernels_) index_argument = bind_memory(kernel, memory);
  const size_t local = device_.info().type == DeviceType::Cpu ? 1 : 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    if (stages[i].items == 0) continue;
    if (clblast_ && ClblastLinear::takes(stages[i]) && stages[i].linear.rows >= clblast_from_rows_) {
      clblast_->run(memory, stages[i], static_cast<int32_t>(i));
      continue;
    }
    Kernel& kernel = stage_kernels_.at(static_cast<size_t>(stages[i].operation));
    kernel.set(index_argument, static_cast<int32_t>(i));
    const bool linear = stages[i].operation == Operation::Linear;
    const int32_t parts = linear ? row_parts(device_.info(), stages[i].linear.rows) : 1;
    device_.launch(kernel,
                   {.global = static_cast<size_t>(stages[i].items) * static_cast<size_t>(parts), .local = local});
  }
}

}  // namespace inflight
