// SPDX-License-Identifier: Apache-2.0
#include "ops/step_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "device/driver_pages.h"
#include "ops/linear_choice.h"
#include "ops/linear_trial.h"
#include "ops/panel.h"

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
  std::string options = fmt::format(
      "-D HEADS={} -D KV_HEADS={} -D HEAD_SIZE={} -D QUERY_SCALE={:.8e}f -D "
      "ROPE_PAIRS={} "
      "-D ROPE_INTERLEAVED={} -D BLOCK_TOKENS={} -D KV_GROUP={} -D KV_TYPE={} "
      "-D WINDOW={} -D SMALL_ITEMS={} -D INFLIGHT_X86_LINUX={} -D INFLIGHT_F16C={}",
      shape.head_count, shape.kv_head_count, shape.head_size,
      shape.attention_scale > 0.0F ? shape.attention_scale : 1.0F / std::sqrt(static_cast<float>(shape.head_size)),
      shape.rope_pair_count, int{shape.rope_interleaved}, shape.block_token_count,
      shape.block_token_count < 16 ? 8 : 16, kernel_name(shape.kv_type),
      shape.local_windows ? "window" : std::to_string(shape.sliding_window), int{device.small_items},
      int{x86_linux(device)}, int{x86_linux(device) && device.cpu.f16c});
  options += type_options(shape.weight_types);
  if (shape.units_a_chunk > 0) options += fmt::format(" -D UNITS_A_CHUNK={}", shape.units_a_chunk);
  if (shape.local_windows) options += " -D LOCAL_WINDOWS=1";
  if (shape.local_kv_head_count > 0) options += " -D LOCAL_KV_HEADS=1";
  if (shape.activation == Activation::Gelu) options += " -D GELU=1";
  if (shape.activation == Activation::ClampedSwiglu) options += " -D CLAMPED_SWIGLU=1";
  if (shape.activation == Activation::ReluSquared) options += " -D RELU_SQUARED=1";
  if (!shape.gated_feed_forward) options += " -D UNGATED=1";
  if (shape.norms_rotated) options += " -D NORM_ROTATED=1";
  if (shape.mean_norms) options += " -D MEAN_NORMS=1";
  if (shape.attention_softcap > 0.0F) options += fmt::format(" -D ATTENTION_SOFTCAP={:.8e}f", shape.attention_softcap);
  if (shape.logit_softcap > 0.0F) options += fmt::format(" -D LOGIT_SOFTCAP={:.8e}f", shape.logit_softcap);
  return options;
}

ProgramSource source_of(const KernelShape& shape, const DeviceInfo& device, LaunchMode mode,
                        const std::string& linear_file, bool clblast) {
  const bool groups = in_groups(mode);
  ProgramSource source{.files = linear_sources(linear_file == kGroupsLinear || groups ? kPortableLinear : linear_file),
                       .options = options_of(shape, device)};
  const char* attention = shape.kv_type == KvType::I16 ? "attention_ints.cl" : "attention_floats.cl";
  for (const char* file : {"linear_item.cl", "rows.cl", "attention.cl", attention, "attention_item.cl", "sampling.cl",
                           "sampling_item.cl"}) {
    source.files.emplace_back(file);
  }
  if (shape.adapters) {
    source.files.emplace_back("lora.cl");
    source.options += " -D ADAPTERS=1";
  }
  if (shape.experts) {
    source.files.emplace_back("experts.cl");
    source.options += " -D EXPERTS=1";
  }
  if (shape.latent) {
    source.files.emplace_back("heads.cl");
    source.options += " -D LATENT=1";
  }
  if (shape.wide_heads) {
    source.files.emplace_back("wide_heads.cl");
    source.options += " -D WIDE_HEADS=1";
  }
  if (shape.adapters || shape.layer_embeddings) {
    source.files.emplace_back("swiglu.cl");
    source.options += " -D SWIGLU=1";
  }
  if (shape.state_layer_count > 0) {
    source.files.emplace_back("states.cl");
    source.options += fmt::format(
        " -D STATE_KIND={} -D KEY_HEADS={} -D VALUE_HEADS={} -D KEY_SIZE={} -D VALUE_SIZE={} -D CONVOLVE_WINDOW={} "
        "-D STATE_LAYERS={}",
        static_cast<int32_t>(shape.state.kind), shape.state.key_heads, shape.state.value_heads, shape.state.key_size,
        shape.state.value_size, shape.state.window, shape.state_layer_count);
    if (shape.state.grouped_heads) source.options += " -D GROUPED_HEADS=1";
  }
  if (groups) {
    source.options += group_options(device);
    for (const char* file : {"groups.cl", "groups_dots.cl", "groups_linear.cl", "groups_rows.cl", "groups_attention.cl",
                             "groups_sampling.cl"}) {
      source.files.emplace_back(file);
    }
  }
  source.files.emplace_back(mode == LaunchMode::Fused ? "run_step.cl" : "run_stages.cl");
  if (groups) source.files.emplace_back("run_groups.cl");
  if (mode == LaunchMode::FusedGroups) source.files.emplace_back("run_group_step.cl");
  if (clblast) source.files.emplace_back(kDenseFile);
  return source;
}

constexpr auto kLocal = static_cast<size_t>(kWorkGroup);
constexpr int32_t kGroupHeadMax = 256;  // of attention's local memory

LinearGroups groups_of(const LinearArgs& linear) {
  const bool swiglu = linear.epilogue == Epilogue::Swiglu;
  const bool first = takes_bytes(linear.weight[0].type), second = swiglu ? takes_bytes(linear.weight[1].type) : first;
  return linear_groups(first && second, !first && !second, panel_count(linear.weight[0].outputs), linear.rows,
                       writes_rows(linear.epilogue));
}

// What is left to StepProgram.
bool is_open(LaunchMode mode) { return mode == LaunchMode::Automatic || mode == LaunchMode::EachStage; }

// The trial of groups_linear.cl, the one file that GPUs have beside linear.cl, answers what an open mode is; other
// modes need none.
std::string linear_file_of(Device& device, LaunchMode mode, PanelTypes types) {
  const bool answered = !is_open(mode) && device.info().type != DeviceType::Cpu;
  return answered ? kPortableLinear : choose_linear_file(device, types);
}

// Work-groups of a fused step see each other's writes by a fence that PTX has, and those that run go on running.
bool fuses_groups(const DeviceInfo& device) { return device.nvidia_capability >= kMmaCapability; }

// Of experts, states, latent attention, wide heads and layers' embeddings there are stages of work-items alone.
bool has_group_stages_alone(const KernelShape& shape) {
  return !shape.experts && !shape.latent && !shape.wide_heads && !shape.layer_embeddings &&
         shape.state_layer_count == 0;
}

bool has_stages(const KernelShape& shape, Operation operation) {
  if (is_plain(operation)) return true;
  if (of_experts(operation)) return shape.experts;
  if (of_heads(operation)) return shape.latent;
  if (of_wide_heads(operation)) return shape.wide_heads;
  if (operation == Operation::Swiglu) return shape.adapters || shape.layer_embeddings;
  if (!of_states(operation)) return shape.adapters;
  return shape.state_layer_count > 0 && (operation == Operation::Convolve || shape.state.has_matrices());
}

LaunchMode resolve(LaunchMode mode, const Device& device, const KernelShape& shape, const std::string& linear_file,
                   bool clblast) {
  const bool together = device.info().host_code && !clblast;
  const bool groups = shape.kv_type != KvType::I16 && shape.head_size <= kGroupHeadMax;
  if (is_open(mode)) {
    const bool fused = mode == LaunchMode::Automatic;
    if (linear_file == kGroupsLinear && groups) {
      return fused && !clblast && has_group_stages_alone(shape) && fuses_groups(device.info()) ? LaunchMode::FusedGroups
                                                                                               : LaunchMode::Groups;
    }
    return fused && together ? LaunchMode::Fused : LaunchMode::Stages;
  }
  INFLIGHT_CHECK(!in_groups(mode) || groups);
  INFLIGHT_CHECK(mode != LaunchMode::FusedGroups || (!clblast && has_group_stages_alone(shape)));
  if (mode == LaunchMode::Fused && !together) {
    fail(ErrorCode::Unsupported,
         "device '{}' cannot run a fused step: that needs workers that run at the same time, and no CLBlast",
         device.info().name);
  }
  return mode;
}

}  // namespace

const char* to_string(Operation operation) {
  constexpr std::array kNames = {"embed",      "norm",   "linear", "rope",    "attention", "combine",
                                 "statistics", "sample", "change", "shrink",  "expand",    "swiglu",
                                 "route",      "sort",   "gather", "experts", "merge",     "convolve",
                                 "update",     "read",   "divide", "heads",   "widen",     "narrow"};
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
    : StepProgram(device, shape, mode, linear_file_of(device, mode, shape.weight_types), clblast, limits) {}

StepProgram::StepProgram(Device& device, const KernelShape& shape, LaunchMode mode, const std::string& linear_file,
                         const ClblastUse& clblast, const ClblastLimits& limits)
    : device_(device),
      mode_(resolve(mode, device, shape, linear_file, clblast.from_rows > 0)),
      program_(built(device, shape, linear_file, clblast.from_rows > 0, is_open(mode))),
      worker_count_(device.info().compute_units * (device.info().small_items && !in_groups(mode_) ? kSmallItems : 1)) {
  if (mode_ == LaunchMode::Fused) {
    step_kernel_ = Kernel(program_, "run_step");
    run_nothing();
    return;
  }
  if (clblast.from_rows > 0 && limits.depth > 0) {
    clblast_.emplace(device, program_, limits, clblast.parameters);
    clblast_from_rows_ = clblast.from_rows;
  }
  stage_kernels_.resize(static_cast<size_t>(kOperationCount));
  for (size_t i = 0; i < stage_kernels_.size(); ++i) {
    const auto operation = static_cast<Operation>(i);
    if (in_groups(mode_) && operation == Operation::Linear) continue;
    if (!has_stages(shape, operation)) continue;
    stage_operations_.push_back(operation);
    stage_kernels_[i] = Kernel(program_, std::string(to_string(operation)) + "_stage");
  }
  if (mode_ == LaunchMode::FusedGroups) step_kernel_ = Kernel(program_, "run_group_step");
  if (!in_groups(mode_)) return;
  for (const char* name : kLinearKernels) linear_kernels_.emplace_back(program_, fmt::format("linear_{}_stage", name));
}

// groups_linear.cl has been tried, but not the kernels that come with it: where a driver does not take them there are
// others.
Program StepProgram::built(Device& device, const KernelShape& shape, const std::string& linear_file, bool clblast,
                           bool may_change) {
  try {
    return Program(device, source_of(shape, device.info(), mode_, linear_file, clblast));
  } catch (const Error& error) {
    if (!in_groups(mode_) || !may_change || error.code() != ErrorCode::Device) throw;
    log(LogLevel::Warning, "kernels for work-groups are not used on {}, which is slower: {}", device.info().name,
        error.what());
    mode_ = LaunchMode::Stages;
    return Program(device, source_of(shape, device.info(), mode_, linear_file, clblast));
  }
}

int32_t StepProgram::item_queries() const {
  if (in_groups(mode_)) return kGroupQueries;
  return device_.info().small_items ? 1 : kAttentionQueriesMax;
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

LaunchShape StepProgram::step_shape() const {
  const size_t local = in_groups(mode_) ? kLocal : 1;
  return {.global = static_cast<size_t>(worker_count_) * local, .local = local};
}

bool StepProgram::is_one_launch(std::span<const Stage> stages) const {
  if (mode_ == LaunchMode::Fused) return true;
  return mode_ == LaunchMode::FusedGroups && std::ranges::all_of(stages, [&](const Stage& stage) {
           if (!is_plain(stage.operation)) return false;
           return stage.operation != Operation::Linear || groups_of(stage.linear).kernel != LinearKernel::Many;
         });
}

void StepProgram::run(const StepMemory& memory, std::span<const Stage> stages) {
  if (is_one_launch(stages)) {
    if (mode_ == LaunchMode::Fused) {
      bind_step(memory, *memory.step);
    } else {
      bind_memory(step_kernel_, memory);
    }
    return device_.launch(step_kernel_, step_shape());
  }
  uint32_t index_argument = 0;
  for (Kernel& kernel : linear_kernels_) bind_memory(kernel, memory);
  const bool groups = in_groups(mode_);
  for (const Operation operation : stage_operations_) {
    index_argument = bind_memory(stage_kernels_[static_cast<size_t>(operation)], memory);
  }
  for (size_t i = 0; i < stages.size(); ++i) {
    INFLIGHT_CHECK(mode_ != LaunchMode::FusedGroups || stages[i].batch > 0);  // such stages are in one launch alone
    if (stages[i].items == 0) continue;
    if (takes_clblast(stages[i])) {
      clblast_->run(memory, stages[i], static_cast<int32_t>(i));
      continue;
    }
    if (!groups || !is_plain(stages[i].operation)) {
      launch_stage(stages[i], static_cast<int32_t>(i), index_argument);
    } else if (stages[i].operation == Operation::Linear) {
      i += launch_linear_groups(stages.subspan(i), index_argument) - 1;
    } else {
      launch_group_stage(stages[i], index_argument);
    }
  }
}

bool StepProgram::takes_clblast(const Stage& stage) const {
  return clblast_ && ClblastLinear::takes(stage) && stage.linear.rows >= clblast_from_rows_;
}

void StepProgram::launch_stage(const Stage& stage, int32_t index, uint32_t index_argument) {
  Kernel& kernel = stage_kernels_.at(static_cast<size_t>(stage.operation));
  kernel.set(index_argument, index);
  const int32_t parts = stage.operation == Operation::Linear    ? row_parts(device_.info(), stage.linear.rows)
                        : stage.operation == Operation::Experts ? row_parts(device_.info(), stage.experts.rows)
                        : stage.operation == Operation::Heads   ? row_parts(device_.info(), stage.heads.rows)
                                                                : 1;
  const size_t local = device_.info().type == DeviceType::Cpu ? 1 : 0;
  device_.launch(kernel, {.global = static_cast<size_t>(stage.items) * static_cast<size_t>(parts), .local = local});
}

void StepProgram::launch_group_stage(const Stage& stage, uint32_t stage_argument) {
  Kernel& kernel = stage_kernels_.at(static_cast<size_t>(stage.operation));
  kernel.set_struct(stage_argument, stage);
  device_.launch(kernel, {.global = static_cast<size_t>(stage.items) * kLocal, .local = kLocal});
}

// The first of the stages and those behind it that read the same rows, up to three; how many.
size_t StepProgram::launch_linear_groups(std::span<const Stage> stages, uint32_t stage_argument) {
  constexpr size_t kTogetherMax = 3;
  const LinearGroups first = groups_of(stages[0].linear);
  int32_t begins[kTogetherMax] = {0, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::max()};
  int32_t total = first.count;
  size_t together = 1;
  for (; together < std::min(stages.size(), kTogetherMax); ++together) {
    const Stage& next = stages[together];
    if (next.operation != Operation::Linear || next.counter != stages[0].counter || takes_clblast(next)) break;
    const LinearGroups groups = groups_of(next.linear);
    if (groups.kernel != first.kernel) break;
    begins[together] = total;
    total += groups.count;
  }
  Kernel& kernel = linear_kernels_.at(static_cast<size_t>(first.kernel));
  for (size_t i = 0; i < kTogetherMax; ++i) {
    kernel.set_struct(stage_argument + static_cast<uint32_t>(i), stages[std::min(i, together - 1)].linear);
  }
  kernel.set(stage_argument + kTogetherMax, begins[1]);
  kernel.set(stage_argument + kTogetherMax + 1, begins[2]);
  device_.launch(kernel, {.global = static_cast<size_t>(total) * kLocal, .local = kLocal});
  return together;
}

}  // namespace inflight
