// SPDX-License-Identifier: Apache-2.0
// The compiled kernels of one model on one device, and the ways to run a step with them: a launch a stage, or the whole
// step in one launch.   THREAD, ERRORS, LIFETIME: as device/device.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/kv_layout.h"
#include "core/model_spec.h"
#include "device/program.h"
#include "ops/clblast_linear.h"
#include "ops/stage.h"
#include "ops/step_memory.h"

namespace inflight {

// What is compiled into the kernels.
struct KernelShape {
  int32_t head_count = 0;
  int32_t kv_head_count = 0;
  int32_t local_kv_head_count = 0;  // of layers that have another number of them than the others; 0: there are none
  int32_t head_size = 0;
  float attention_scale = 0.0F;  // 0: 1 / sqrt(head_size)
  float attention_softcap = 0.0F, logit_softcap = 0.0F;
  Activation activation = Activation::Silu;
  bool gated_feed_forward = true;  // else Epilogue::Activate
  bool norms_rotated = false;      // heads are normed behind RoPE
  bool mean_norms = false;         // norms are LayerNorm: NormArgs::bias
  bool local_windows = false;      // layers' windows differ: AttentionArgs::window
  int32_t rope_pair_count = 0;
  bool rope_interleaved = true;
  int32_t block_token_count = 16;
  KvType kv_type = KvType::F16;
  int32_t sliding_window = 0;
  int32_t units_a_chunk = 0;                 // of KV storage (core/kv_layout.h); 0: all units are in the first
  PanelTypes weight_types = kAllPanelTypes;  // that matrices may have
  bool adapters = false;                     // stages of lora.cl
  bool experts = false;                      // stages of experts.cl
  bool latent = false;            // stages of heads.cl; the key's norm is of the numbers that are not rotated
  bool wide_heads = false;        // stages of wide_heads.cl
  bool layer_embeddings = false;  // stages of swiglu.cl, which adapters have, too
  StateShape state;               // stages of states.cl, if there are any
  int32_t state_layer_count = 0;
};

enum class LaunchMode : int32_t {
  Automatic = 0,    // Fused on CPUs that do not use CLBlast; where groups_linear.cl is chosen FusedGroups on NVIDIA's
                    // from compute capability 8.0 on unless there are experts or states, else Groups; else Stages
  EachStage = 1,    // as Automatic, but a launch a stage (for profiles): Groups or Stages
  Stages = 2,       // one launch a stage, a work-item an item
  Fused = 3,        // one launch a step
  Groups = 4,       // one launch a stage, a work-group an item
  FusedGroups = 5,  // as Groups, but one launch a step of few rows without adapters; not with CLBlast
};
[[nodiscard]] constexpr bool in_groups(LaunchMode mode) {
  return mode == LaunchMode::Groups || mode == LaunchMode::FusedGroups;
}

// Whether CLBlast computes linear layers of float weights.
struct ClblastUse {
  int32_t from_rows = 0;  // in steps of so many rows or more; 0: never
  ClblastParameters parameters;
};

// Parts that the rows of a linear layer are cut in, each with work-items of its own.
[[nodiscard]] int32_t row_parts(const DeviceInfo& device, int32_t rows);

// Tokens of context up to which attention is right on the device: all, but on Mesa's llvmpipe (DeviceInfo::small_items)
// as many as a work-item gets through before its loops end; measured with all storage types.
[[nodiscard]] int32_t attention_context_max(const DeviceInfo& device, const KernelShape& shape);
// Likewise the largest vocabulary that top_k and top_p draw from rightly, whatever the logits.
[[nodiscard]] int32_t drawn_vocabulary_max(const DeviceInfo& device);

// What K and V are kept as where nobody says: I16 where its products take one instruction for two, else F16.
[[nodiscard]] KvType default_kv_type(const DeviceInfo& device);

class StepProgram {
 public:
  // Drivers that compile at the first launch (PoCL, about a second) do it here, and their compiler's memory is given
  // back.
  StepProgram(Device& device, const KernelShape& shape, LaunchMode mode, const ClblastUse& clblast = {},
              const ClblastLimits& limits = {});

  // Enqueues the stages that `memory.step` holds; `stages` is the same list on the host.
  void run(const StepMemory& memory, std::span<const Stage> stages);
  // The same in one launch that may begin before the last one has ended (Device::launch_beside) and works on that one's
  // step, too. step_before: that step; none: memory.step. done: set to when no item is left to begin; the last ones may
  // be in the hands of a launch beside this one until kStepLastCount of the counter kStepLastCounter are done.
  // REQUIRES: mode() is Fused; the step before stays as it is until then.
  void run_fused(const StepMemory& memory, const DeviceMemory& step_before, Completion& done);

  [[nodiscard]] LaunchMode mode() const { return mode_; }
  // Work-items, or work-groups, of a fused step; else about as many as the device keeps busy at a time.
  [[nodiscard]] int32_t worker_count() const { return worker_count_; }
  // Queries of an item of attention at most: what StepUploadLimits::item_queries is to be.
  [[nodiscard]] int32_t item_queries() const;
  // Whether combine_item()'s items are (row, KV head), else rows.
  [[nodiscard]] static int32_t combine_slices(const KernelShape& shape);

 private:
  StepProgram(Device& device, const KernelShape& shape, LaunchMode mode, const std::string& linear_file,
              const ClblastUse& clblast, const ClblastLimits& limits);
  [[nodiscard]] Program built(Device& device, const KernelShape& shape, const std::string& linear_file, bool clblast,
                              bool may_change);
  void run_nothing();
  void bind_step(const StepMemory& memory, const DeviceMemory& step_before);
  [[nodiscard]] LaunchShape step_shape() const;
  [[nodiscard]] bool is_one_launch(std::span<const Stage> stages) const;
  [[nodiscard]] bool takes_clblast(const Stage& stage) const;
  void launch_stage(const Stage& stage, int32_t index, uint32_t index_argument);
  void launch_group_stage(const Stage& stage, uint32_t stage_argument);
  size_t launch_linear_groups(std::span<const Stage> stages, uint32_t stage_argument);

  Device& device_;
  LaunchMode mode_;
  Program program_;
  int32_t worker_count_ = 1;
  std::vector<Kernel> stage_kernels_;        // Stages, Groups: by operation; Groups has none of linear layers here
  std::vector<Operation> stage_operations_;  // those that there are
  std::vector<Kernel> linear_kernels_;       // Groups: by LinearKernel
  Kernel step_kernel_;                       // Fused, FusedGroups
  std::optional<ClblastLinear> clblast_;
  int32_t clblast_from_rows_ = 0;
};

}  // namespace inflight
