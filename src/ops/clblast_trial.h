// SPDX-License-Identifier: Apache-2.0
// CLBlast's linear stages on their own: verified bit for bit, and timed.
// THREAD, ERRORS, LIFETIME: as device/device.h.
#pragma once

#include <string>
#include <vector>

#include "device/program.h"
#include "ops/clblast_linear.h"
#include "ops/linear_case.h"
#include "ops/linear_trial.h"

namespace inflight {

class ClblastTrial {
 public:
  // limits: of the shapes to come.
  ClblastTrial(Device& device, const ClblastParameters& parameters, const ClblastLimits& limits);

  // y [rows][outputs], stored by the epilogue.
  [[nodiscard]] std::vector<float> run(const LinearCase& linear_case);
  // Seconds of one stage, unpacking included: the fastest of `repeats`.
  [[nodiscard]] double time(const LinearShape& shape, int32_t repeats);

  // Of its program.
  [[nodiscard]] static std::vector<std::string> files();

 private:
  void prepare(const LinearShape& shape, const std::vector<std::byte>& panels, const std::vector<float>& x);
  void launch();

  Device& device_;
  Program program_;
  ClblastLinear linear_;
  Buffer<std::byte> weights_;
  Buffer<float> activations_;
  Buffer<int32_t> words_;
  Buffer<float> unused_;
  Stage stage_{};
};

// Empty when all float types give the expected bits for many numbers of rows, depths with tails, and NaN in x; else
// what was wrong.
[[nodiscard]] std::string verify_clblast(ClblastTrial& trial);

}  // namespace inflight
