// SPDX-License-Identifier: Apache-2.0
#include "support/stage_bench.h"

#include <bit>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace inflight::test {
namespace {

constexpr uint32_t kPoison = 0x7FC0DEAD;  // a NaN that no arithmetic makes

}  // namespace

const char* why_not_tested(const DeviceInfo& device, LaunchMode mode) {
  if (!in_groups(mode)) return nullptr;
  if (device.host_code) {
    return "PoCL 3.1 miscompiles attention by work-groups; Intel's runtime and NVIDIA's give the right bits";
  }
  const bool vectorises = device.type == DeviceType::Cpu && std::getenv("CL_CONFIG_CPU_VECTORIZER_MODE") == nullptr;
  if (mode != LaunchMode::FusedGroups || !vectorises) return nullptr;
  return "Intel's vectoriser for CPUs miscompiles fused steps of work-groups: set CL_CONFIG_CPU_VECTORIZER_MODE=1";
}

bool StageBench::poisoned(float value) { return std::bit_cast<uint32_t>(value) == kPoison; }

StageBench::StageBench(Device& device, const KernelShape& shape, size_t activation_count, size_t kv_bytes,
                       LaunchMode mode)
    : kv(kv_bytes, std::byte{0xFF}), device_(device), program_(device, shape, mode), capacity_(activation_count) {}

int32_t StageBench::add_floats(std::span<const float> values) {
  const auto offset = static_cast<int32_t>(activations.size());
  activations.insert(activations.end(), values.begin(), values.end());
  return offset;
}

int32_t StageBench::add_poison(size_t count) {
  const auto offset = static_cast<int32_t>(activations.size());
  activations.resize(activations.size() + count, std::bit_cast<float>(kPoison));
  return offset;
}

int32_t StageBench::add_words(std::span<const int32_t> values) {
  const auto offset = static_cast<int32_t>(words_.size());
  words_.insert(words_.end(), values.begin(), values.end());
  return offset;
}

void StageBench::run(std::vector<Stage> stages) {
  INFLIGHT_CHECK(activations.size() <= capacity_);
  add_poison(capacity_ - activations.size());
  words_[kStepStageCount] = static_cast<int32_t>(stages.size());
  words_[kStepStages] = static_cast<int32_t>(words_.size());
  std::vector<int32_t> words = words_;
  words.resize(words_.size() + stages.size() * kStageWords);
  std::memcpy(&words[words_.size()], stages.data(), stages.size() * sizeof(Stage));

  Buffer<std::byte> weight_buffer(device_, "weights", weights.size()), kv_buffer(device_, "KV", kv.size());
  Buffer<std::byte> adapter_buffer(device_, "adapters", adapters.size());
  Buffer<float> vector_buffer(device_, "vectors", vectors.size()), angle_buffer(device_, "angles", angles.size());
  Buffer<float> activation_buffer(device_, "activations", activations.size());
  Buffer<int32_t> word_buffer(device_, "words", words.size()), token_buffer(device_, "tokens", 4);
  weight_buffer.write(weights);
  adapter_buffer.write(adapters);
  kv_buffer.write(kv);
  vector_buffer.write(vectors);
  angle_buffer.write(angles);
  activation_buffer.write(activations);
  word_buffer.write(words);
  token_buffer.write(std::vector<int32_t>{3, 2, 1, 0});
  StepMemory memory;
  memory.weights[0] = &weight_buffer.memory();
  memory.kv[0] = &kv_buffer.memory();
  memory.vectors = &vector_buffer.memory();
  memory.angles = &angle_buffer.memory();
  memory.activations = &activation_buffer.memory();
  memory.step = &word_buffer.memory();
  memory.row_tokens = &token_buffer.memory();
  memory.adapters = &adapter_buffer.memory();
  program_.run(memory, stages);
  activation_buffer.read(activations);
  kv_buffer.read(kv);
  word_buffer.read(words_);
}

}  // namespace inflight::test
