// SPDX-License-Identifier: Apache-2.0
// What a model takes on the device, known before anything is allocated.   THREAD: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/executor.h"
#include "core/kv_layout.h"
#include "core/model_spec.h"
#include "device/device_info.h"
#include "exec/adapter_store.h"
#include "exec/arena.h"
#include "model/weights.h"
#include "ops/step_program.h"

namespace inflight {

// Whose uploads there are: one more than may be in flight, since a launch works on the step before it, too.
inline constexpr int32_t kStepsOnDevice = Executor::kStepsInFlightMax + 1;

struct ClExecutorOptions {
  KvLayout kv;
  int32_t kv_block_count = 0;            // in device memory, >= 1
  int32_t local_slots_min = 0;           // slots of kv.local_head_count KV heads that steps need at most
  int32_t max_model_len = 0;             // tokens that one sequence can have at most; 0: the model's context length
  int32_t host_block_count = 0;          // in host memory, for preemption by swapping
  size_t populate_bytes = 0;             // of the first KV blocks, whose memory is found at creation
  int32_t max_num_seqs = 256;            // device rows; sequences of one step
  int32_t kept_states = 0;               // of models with states, besides those of the rows
  int32_t max_num_batched_tokens = 512;  // of one step
  int32_t num_speculative_tokens = 0;    // BatchEntry::draft_token_count at most
  LaunchMode launch_mode = LaunchMode::Automatic;
  ClblastUse clblast;
  // Keeps the logits of every sampled row of a step for ClExecutor::logits(), which takes the memory of max_num_seqs
  // rows.
  bool keep_logits = false;
  int32_t max_loras = 0;                   // adapters of one step; 0: requests have none
  const AdapterStore* adapters = nullptr;  // borrowed; set where max_loras is not 0
  std::string packed_folder;               // as WeightStore's; "": packed weights are not kept
  // Called while weights are packed: the share done, in [0, 1], and the tensor at hand; 0 before they are kept. True
  // stops with Error Rejected.
  std::function<bool(double fraction, const char* what)> progress;
};

struct MemoryPlan {
  size_t weight_bytes = 0;      // panels, norms, biases
  size_t kv_bytes = 0;          // of options.kv_block_count blocks, and of slots
  size_t activation_bytes = 0;  // and rotation angles and step uploads
  size_t adapter_bytes = 0;     // of options.max_loras slots
  size_t state_bytes = 0;       // of options.max_num_seqs sequences of a model with states, and of options.kept_states
  [[nodiscard]] size_t total() const {
    return weight_bytes + kv_bytes + activation_bytes + adapter_bytes + state_bytes;
  }
};

// ERRORS: InvalidArgument naming the option; OutOfMemory for what does not fit the device's buffers.
[[nodiscard]] MemoryPlan plan_memory(const DeviceInfo& device, const ModelSpec& spec, const ModelWeights& weights,
                                     const ClExecutorOptions& options);

// One of the models of an engine: the target, and perhaps a draft model, which has as many KV blocks.
// LIFETIME: borrows spec and weights.
struct PlannedModel {
  const ModelSpec* spec;
  const ModelWeights* weights;
  ClExecutorOptions options;
};
// What all of them take with `kv_block_count` blocks.   ERRORS: as plan_memory().
[[nodiscard]] MemoryPlan plan_memory(const DeviceInfo& device, std::span<const PlannedModel> models,
                                     int32_t kv_block_count);
// Bytes that may be taken at most: in all, and by K and V.
struct MemoryBudget {
  size_t total = 0, kv = 0;
};
// The largest kv_block_count, up to `wanted`, whose plan keeps to the budget; 0: not even one block fits.
[[nodiscard]] int32_t fitting_block_count(const DeviceInfo& device, std::span<const PlannedModel> models,
                                          const MemoryBudget& budget, int32_t wanted);

// Below: shared by the plan and what is then allocated.

// A tensor's place: one buffer, an offset in bytes.
struct ChunkPlace {
  int32_t chunk = 0;
  size_t offset = 0;
};
// Words of a step's upload, but for penalties of long contexts, which may take more: a mask for each token drawn, and
// the likeliest tokens of each prompt token among it.
[[nodiscard]] size_t step_upload_words(const ModelSpec& spec, const ClExecutorOptions& options);
// Tokens that a step draws at most.
[[nodiscard]] int32_t sampled_rows_max(const ClExecutorOptions& options);

// Distributes pieces, in order, over at most kWeightChunksMax buffers. ENSURES: places[i] for sizes[i];
// chunk_bytes: the size of each buffer.   ERRORS: OutOfMemory naming what the device allows.
struct ChunkPlan {
  std::vector<ChunkPlace> places;
  std::vector<size_t> chunk_bytes;
};
[[nodiscard]] ChunkPlan plan_chunks(std::span<const size_t> sizes, size_t chunk_bytes_max);

// All matrices, each once (a tied output is the embedding), in the order of use.
[[nodiscard]] std::vector<const WeightView*> weight_matrices(const ModelWeights& weights);
// All norms and biases that are present.
[[nodiscard]] std::vector<const WeightView*> weight_vectors(const ModelWeights& weights);

// Where the KV storage's units are: those of slots one after another, then those of blocks.
struct KvUnits {
  int32_t in_slot = 0, in_block = 0;  // units of a slot, of a block
  int32_t first_block = 0;            // the first unit of block 0
  int64_t count = 0;
};
[[nodiscard]] KvUnits kv_units(const ClExecutorOptions& options);
// Slots for local layers: what steps need, or a share of the blocks if that is more, for prefixes that are found again.
[[nodiscard]] int32_t local_slot_count(const ClExecutorOptions& options);
// KV blocks and units in one buffer; depend on device and layout only.
[[nodiscard]] int32_t blocks_a_chunk(const DeviceInfo& device, const KvLayout& kv);
[[nodiscard]] int32_t units_a_chunk(const DeviceInfo& device, const KvLayout& kv);
[[nodiscard]] ArenaSize arena_size(const DeviceInfo& device, const ModelSpec& spec, const ClExecutorOptions& options);
// Of the model's matrices of floats.
[[nodiscard]] ClblastLimits clblast_limits(const ModelWeights& weights, const ClExecutorOptions& options);
// States that there are; 0: the model's sequences have none.
[[nodiscard]] size_t state_count(const ModelSpec& spec, const ClExecutorOptions& options);
// Tokens that one sequence can have: positions that need rotation angles.
[[nodiscard]] int32_t position_count(const ModelSpec& spec, const ClExecutorOptions& options);

}  // namespace inflight
