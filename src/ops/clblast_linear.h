// SPDX-License-Identifier: Apache-2.0
// Linear stages of float weights by CLBlast: panels are unpacked to a matrix, some at a time, multiplied, and finished
// by the same epilogue as linear_item.cl's. Gives the bits of linear.cl's contract wherever verify_clblast() says so.
// THREAD, ERRORS, LIFETIME: as device/device.h.
#pragma once

#include <cstdint>

#include "device/program.h"
#include "ops/clblast.h"
#include "ops/stage.h"
#include "ops/step_memory.h"

namespace inflight {

// What the stages of a model need at most.
struct ClblastLimits {
  int32_t rows = 0;     // of a step
  int32_t depth = 0;    // of a matrix of floats; 0: there is none
  int32_t outputs = 0;  // likewise
};

// Device memory that a ClblastLinear takes, besides what CLBlast takes for a product.
[[nodiscard]] size_t clblast_scratch_bytes(const ClblastLimits& limits);

// Sources that its program is made of, in front of what else the program holds.
inline constexpr const char* kDenseFile = "dense.cl";  // after linear_item.cl

class ClblastLinear {
 public:
  // program: holds kDenseFile.
  ClblastLinear(Device& device, const Program& program, const ClblastLimits& limits,
                const ClblastParameters& parameters);

  // Whether it computes the stage: a linear one, weights F32, F16 or BF16.
  [[nodiscard]] static bool takes(const Stage& stage);
  // Enqueues the stage, number `index` of memory.step's.   REQUIRES: takes(stage); within the limits.
  void run(const StepMemory& memory, const Stage& stage, int32_t index);

 private:
  [[nodiscard]] int32_t panels_at_a_time(const Stage& stage) const;

  Device& device_;
  Clblast clblast_;
  Kernel unpack_, finish_;
  Buffer<float> weights_, y_, up_;
};

}  // namespace inflight
