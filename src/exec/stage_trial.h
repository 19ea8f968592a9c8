// SPDX-License-Identifier: Apache-2.0
// The operations of a step besides linear layers, each on its own, timed: embedding, norm, RoPE with the writing of K
// and V, attention, merging its partitions, statistics of the logits, sampling. Linear layers: ops/linear_trial.h.
// THREAD, ERRORS, LIFETIME: as device/device.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/batch_plan.h"
#include "core/kv_layout.h"
#include "core/model_spec.h"
#include "exec/arena.h"
#include "exec/rope_angles.h"
#include "exec/step_upload.h"
#include "ops/step_program.h"

namespace inflight {

struct StageTrialShape {
  ModelSpec spec;  // layer_count: so many layers take turns, so that K and V come from memory
  KvType kv_type = KvType::F16;
  int32_t block_token_count = 16;  // of KV storage
  int32_t sequences = 1;
  int32_t rows = 1;     // tokens that each computes: 1 = decode
  int32_t context = 1;  // tokens that each attends to with its last row; >= rows
};

struct StageTiming {
  Operation operation = Operation::Embed;
  double median_seconds = 0;  // of one stage
  double bytes = 0;           // read and written; of K and V each number once a sequence
  double flops = 0;           // of attention: 4 * H * D a pair of tokens; else 0
};

// REQUIRES: a valid spec; rope_dimension_count == head_size.
class StageTrial {
 public:
  // ERRORS: OutOfMemory when K and V do not fit one buffer.
  StageTrial(Device& device, const StageTrialShape& shape);

  // Median of `repeats` launches of spec.layer_count stages.
  // ERRORS: Device when attention over equal values does not give that value.
  [[nodiscard]] std::vector<StageTiming> time(int32_t repeats);

 private:
  [[nodiscard]] Stage stage_of(Operation operation, const StepTables& tables, int32_t layer) const;
  [[nodiscard]] StageTiming time_operation(Operation operation, int32_t repeats);
  [[nodiscard]] StageTiming cost_of(Operation operation) const;
  void check_attended() const;

  Device& device_;
  StageTrialShape shape_;
  KvLayout layout_;
  KernelShape kernel_shape_;
  StepProgram program_;
  Arena arena_;
  RopeAngles angles_;
  Buffer<std::byte> table_, kv_;
  Buffer<float> vectors_, activations_;
  Buffer<int32_t> row_tokens_, words_;
  StepUpload upload_;
  SamplingParams sampling_;
  std::vector<TokenId> tokens_;  // of a sequence
  std::vector<BlockId> blocks_;  // of all sequences
  BatchPlan plan_;
};

}  // namespace inflight
