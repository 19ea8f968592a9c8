// SPDX-License-Identifier: Apache-2.0
// Executor on an OpenCL device: the whole forward pass of the llama family and the sampling of the next token.
//
// Outputs are a function of the device, the model, the sequence and its sampling parameters: bitwise the same whatever
// else is in the step, however the prompt was cut, wherever its blocks lie, after recomputing or swapping
// (docs/KERNELS.md says why).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "core/executor.h"
#include "core/model_spec.h"
#include "device/device.h"
#include "exec/adapter_slots.h"
#include "exec/forward_pass.h"
#include "exec/kv_storage.h"
#include "exec/memory_plan.h"
#include "exec/rope_angles.h"
#include "exec/step_upload.h"
#include "exec/weight_store.h"

namespace inflight {

class ClExecutor final : public Executor {
 public:
  // Packs and uploads the weights; `weights` is not needed afterwards. `device` must outlive this object.
  // ERRORS: InvalidArgument, OutOfMemory, Device; Rejected when options.progress asks to stop.
  ClExecutor(Device& device, const ModelSpec& spec, const ModelWeights& weights, const ClExecutorOptions& options);
  ~ClExecutor() override;

  void submit(const BatchPlan& plan) override;
  [[nodiscard]] const StepResult& wait() override;

  // The logits of the step last waited for: [sampled row in the plan's order][V].
  // REQUIRES: options.keep_logits, and no step submitted since.
  [[nodiscard]] std::vector<std::vector<float>> logits();

  [[nodiscard]] const Device& device() const { return device_; }

 private:
  struct Flight {
    StepUpload upload;
    std::vector<int32_t> results;  // as read back
    struct Sampled {
      SequenceId sequence;
      size_t result;  // index of its (first) words in results
      size_t drafts;  // how many of the flight's, in order
    };
    std::vector<Sampled> sampled;
    std::vector<TokenId> drafts;
    struct Told {
      SequenceId sequence;
      int32_t position;  // of the first prompt token
      size_t result;     // index of its words in results
      int32_t count;
    };
    std::vector<Told> told;
    std::vector<float> logits;  // what was wanted of the step, see read_logits
    std::vector<EntryLogits> entry_logits;
    std::vector<float> hidden;  // what was wanted of the step, see told_hidden
    std::vector<EntryHidden> told_hidden;
    Buffer<int32_t> words;        // the step on the device
    std::span<int32_t> in_place;  // the same for the host to write and read, if the step is fused; else empty
    std::span<const int32_t> results_in_place;  // where wait() finds the results; else they are read back
    size_t last_counter = 0;                    // of in_place: how many of the last stages' items are done
    KvStorage::SwapTime swap_time;
    Completion done;  // not valid: done at submit
    uint64_t step = 0;
    TimeNs submitted = 0;
  };

  void follow_states(const BatchPlan& plan);
  void upload_and_run(const BatchPlan& plan, Flight& flight, const Flight& before);
  void run_and_read_logits(const BatchPlan& plan, const StepTables& tables, Flight& flight);
  void read_logits(const BatchPlan& plan, Flight& flight, size_t begin, size_t end);
  void read_hidden(const BatchPlan& plan, Flight& flight);
  // The output layer's norm of a row [E] of hidden states, in place.
  void norm_hidden(std::span<float> row) const;
  static void await_last_items(const Flight& flight);
  void reserve_words(Flight& flight, size_t words);
  void read_results(const Flight& flight);
  [[nodiscard]] StepMemory memory(const Flight& flight) const;

  Device& device_;
  ModelSpec spec_;
  ClExecutorOptions options_;
  ArenaSize size_;
  Arena arena_;
  KernelShape shape_;
  StepProgram program_;  // before the weights: the driver's compiler is done when they come
  WeightStore weights_;
  KvStorage kv_;
  RopeAngles angles_;
  ForwardPass forward_;
  AdapterSlots adapters_;
  Buffer<float> activations_;
  Buffer<int32_t> row_tokens_;
  std::vector<Flight> flights_;  // a ring
  int32_t first_flight_ = 0;
  int32_t flight_count_ = 0;
  uint32_t launch_number_ = 0;        // of the last launch of the program
  const Flight* launched_ = nullptr;  // the last step, if it was one launch
  StepResult result_;
  std::vector<float> logits_, hidden_;   // what result_.logits and result_.hidden point into
  std::vector<TokenLogprob> further_;    // what result_.sampled points into
  std::vector<TokenLogprob> told_;       // likewise, and result_.prompt_logprobs
  std::vector<float> output_norm_;       // [E]
  std::vector<float> output_norm_bias_;  // [E], or empty
  std::optional<Buffer<float>> states_;  // of rows, if the model has any
  std::vector<int32_t> state_tokens_;    // of each row: how many its state has seen
  SteadyClock clock_;
  TimeNs last_finish_ = 0;
};

}  // namespace inflight
