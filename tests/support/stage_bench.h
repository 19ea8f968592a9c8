// SPDX-License-Identifier: Apache-2.0
// Runs single stages on the device, over memory that is poisoned with NaN wherever a test has not put something.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/buffer.h"
#include "ops/step_program.h"

namespace inflight::test {

// Why attention and whole steps are not tested on the device in the mode; null: they are.
[[nodiscard]] const char* why_not_tested(const DeviceInfo& device, LaunchMode mode);

class StageBench {
 public:
  StageBench(Device& device, const KernelShape& shape, size_t activation_count, size_t kv_bytes,
             LaunchMode mode = LaunchMode::Stages);

  // Appends to `activations` or `words`; the offset.
  int32_t add_floats(std::span<const float> values);
  int32_t add_poison(size_t count);
  int32_t add_words(std::span<const int32_t> values);

  // Uploads everything, runs the stages in order, reads `activations`, `kv` and the words back.
  void run(std::vector<Stage> stages);

  std::vector<float> vectors = std::vector<float>(16);
  std::vector<float> angles = std::vector<float>(16);
  std::vector<std::byte> weights = std::vector<std::byte>(64);
  std::vector<std::byte> adapters = std::vector<std::byte>(64);
  std::vector<float> activations;
  std::vector<std::byte> kv;
  [[nodiscard]] std::span<const int32_t> words() const { return words_; }  // by the offsets of add_words()
  [[nodiscard]] static bool poisoned(float value);

 private:
  Device& device_;
  StepProgram program_;
  size_t capacity_;
  std::vector<int32_t> words_ = std::vector<int32_t>(kStepCounters);
};

}  // namespace inflight::test
