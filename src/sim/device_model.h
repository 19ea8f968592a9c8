// SPDX-License-Identifier: Apache-2.0
// How long a simulated device takes for a step:
//   step = overhead + linear(tokens) + kv_read * context of the decodes + pair * attended pairs of prompts
//          + prompt * prompts + mixed (where there are both) + sequence * sequences + swap * blocks
//          + wake (the first one after a rest, by its length) + warm (the ones that follow it, less and less)
//          + idle * share of the time in which nothing ran
// then divided over tensor- and pipeline-parallel devices, with what they must exchange. linear() is the roofline
// max(weights, tokens * token): few rows cost as much as reading the weights once, many rows cost arithmetic (Williams
// et al. 2009); or a measured curve, since kernels that take rows in tiles cost in steps. Host time (planning,
// submitting) runs beside the device with overlap, else adds. Profiles are JSON objects with these fields; `inflight
// calibrate` writes one from measured steps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "core/attended_tokens.h"
#include "core/batch_plan.h"
#include "sched/latency_model.h"

namespace inflight {

// A point of a measured curve.
struct LinearCost {
  int64_t tokens = 1;
  double us = 0.0;
};

// Of steps that should take from_us or longer (up to the next point): what they take over what they should, equally
// likely values.
struct Jitter {
  double from_us = 0.0;
  std::vector<double> values;
};

struct DeviceProfile {
  std::string name = "custom";
  std::string description;
  double overhead_us = 0.0;             // each step: launches, synchronisation
  double weights_us = 0.0;              // reading all weights once
  double token_us = 0.0;                // arithmetic of one token's linear layers
  std::vector<LinearCost> linear_us{};  // instead of these two: lines between points of rising tokens
  // Drawn for each step, of steps without and with prompt tokens; rising from_us. Empty: just what the formula says.
  std::vector<Jitter> decode_jitter{}, prompt_jitter{};
  double kv_read_ns = 0.0;          // reading the K and V of one context token of a decoding sequence
  double pair_ns = 0.0;             // one (query, key) pair of a prompt's attention, over all layers and heads
  double prompt_us = 0.0;           // each prompt or chunk of one
  double mixed_us = 0.0;            // a step with decodes and prompts: launches of its own for either
  double sequence_us = 0.0;         // each sequence: logits, sampling
  double host_us = 0.0;             // host time of a step
  double host_sequence_us = 0.0;    // host time of each sequence of a step
  double pickup_us = 0.0;           // a request that finds the engine idle waits longer: until that has woken
  double wake_us = 0.0;             // the first step after a rest: for each doubling of the rest, see AfterRest
  double warm_us = 0.0;             // the steps after that one: the first of them, the others less and less
  double idle_us = 0.0;             // each step of an engine that has nothing to do most of the time
  double swap_block_us = 0.0;       // copying a KV block to or from host memory
  double kv_bytes_per_token = 0.0;  // size of K and V of a token, over all layers
  int64_t kv_tokens = 65536;        // what the KV storage holds
  int32_t sliding_window = 0;       // last tokens that a token of the model attends to; 0 = all
  int32_t local_window = 0;         // the same in its local layers; the others see all then
  double local_share = 0.0;         // of the KV heads of all layers, those of local ones; 0 = there are none
  int32_t layers = 32;              // for what parallel devices exchange
  int32_t tensor_parallel = 1;      // devices that share each layer, 1..64
  int32_t pipeline_parallel = 1;    // devices that hold a share of the layers each, 1..64
  double hidden_bytes = 8192.0;     // of one token's hidden state
  double tensor_link_gb_per_second = 450.0;  // all-reduces of tensor parallel devices, each way
  double tensor_link_latency_us = 5.0;       // of each of these
  double link_gb_per_second = 50.0;  // the network: between pipeline stages, and between prefill and decode pools
  double link_latency_us = 5.0;

  [[nodiscard]] AttentionWindows windows() const {
    return {.sliding_window = sliding_window, .local_window = local_window, .local_share = local_share};
  }
  // The linear layers of so many tokens, weights read once.
  [[nodiscard]] double linear_time_us(double tokens) const;

  // ERRORS: InvalidArgument naming the field, the value and the range.
  void validate() const;
};

// What a step asks of the device, summed over its entries.
struct DeviceWork {
  int64_t tokens = 0;          // scheduled
  int64_t sequences = 0;       // entries
  int64_t decode_context = 0;  // tokens that the decodes attend to, in the mean of the layers
  int64_t draft_tokens = 0;    // of the tokens, guesses
  int64_t draft_pairs = 0;     // attended pairs of these
  int64_t prefill_pairs = 0;   // attended pairs of the other entries
  int64_t prompts = 0;         // the other entries
  int64_t swapped_blocks = 0;
  double wake = 0.0, warm = 0.0, idle = 0.0;  // how many times wake_us, warm_us and idle_us, see AfterRest
  // windows: the model's.
  [[nodiscard]] static DeviceWork of(const BatchPlan& plan, const AttentionWindows& windows);
};

inline constexpr TimeNs kRestBeforeTheBegin = 20'000'000;  // as between two runs that `inflight calibrate` makes

// What a rest costs the steps after it: threads and processors have gone to sleep, caches and tables hold something
// else. The first one takes wake_us * log2(1 + rest / 0.1 ms); the next was submitted beside it, the ones that follow
// take warm_us, and each 0.7 times what the one before took. All take idle_us * the share of the last 0.1 s in which
// nothing ran (exponentially weighted): a machine that has little to do runs slower.
class AfterRest {
 public:
  AfterRest() = default;
  explicit AfterRest(TimeNs since) : since_(since) {}

  // Nothing ran between these times.   REQUIRES: from <= until; neither is before the last one given here.
  void rested(TimeNs from, TimeNs until);
  // The work of the step that is submitted at `now`, in the order of the steps.   MODIFIES: work.wake, warm and idle.
  void count(DeviceWork& work, TimeNs now);

 private:
  double wake_ = 0.0;
  double idle_ = 0.0;           // the share at since_
  TimeNs since_ = 0;            // when the last rest ended
  int64_t steps_ = kWarmSteps;  // since then
  static constexpr int64_t kWarmSteps = 30;
};

// ERRORS: InvalidArgument: so long that a simulation cannot count it.   REQUIRES: 0 or more.
[[nodiscard]] TimeNs whole_ns(double ns);

class DeviceModel {
 public:
  explicit DeviceModel(const DeviceProfile& profile);

  [[nodiscard]] TimeNs device_time(const DeviceWork& work) const;
  [[nodiscard]] TimeNs host_time(const DeviceWork& work) const;
  // Moving the K and V of a prompt of `tokens` tokens (those in each layer's window) to another machine.
  [[nodiscard]] TimeNs transfer_time(int32_t tokens) const;
  [[nodiscard]] const DeviceProfile& profile() const { return profile_; }

  // The same in the terms of the scheduler's latency model: exact but for the roofline's knee and how full a pipeline
  // is.
  [[nodiscard]] LatencyModel latency_model() const;

 private:
  DeviceProfile profile_;
  double exchange_ns_per_token_ = 0.0;  // tensor parallel: two all-reduces a layer
  double exchange_ns_ = 0.0;
};

// "unit", "pocl-135m", ...: the profiles that ship.
[[nodiscard]] const std::vector<DeviceProfile>& shipped_device_profiles();
// The file that find_device_profile() reads; empty: none.
[[nodiscard]] std::string device_file(std::string_view spec);
// A shipped profile by name, or a JSON file (contains '/' or ends in .json), then ",key=value" for single fields.
// ERRORS: InvalidArgument (unknown name or field), NotFound, CorruptFile.
[[nodiscard]] DeviceProfile find_device_profile(std::string_view spec);
[[nodiscard]] std::string to_json(const DeviceProfile& profile);
// `name`: of the file, begins every message.
// ERRORS: CorruptFile naming the file, the field, what was found and what is allowed.
[[nodiscard]] DeviceProfile parse_device_profile(std::string_view json_text, std::string_view name);

}  // namespace inflight
