// SPDX-License-Identifier: Apache-2.0
// Whether CLBlast computes the linear layers of float weights on a device, with which parameters, from how many rows
// on. It is used after it gave the bits of linear.cl's contract there; what was found is kept in the cache folder, by
// device, driver and sources. THREAD, ERRORS, LIFETIME: as device/device.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"
#include "ops/linear_choice.h"
#include "ops/step_program.h"

namespace inflight {

enum class LinearBackend : int32_t {
  Auto = 0,     // what was measured to be the fastest
  Panel = 1,    // inflight's own kernels
  Clblast = 2,  // CLBlast for all rows of float weights
};
[[nodiscard]] std::optional<LinearBackend> parse_linear_backend(std::string_view name);

struct ClblastTrialResult {
  TrialState state = TrialState::Untried;
  int32_t unfinished = 0;   // trials in a row that never ended
  std::string reason;       // of Bad, or why it stayed Untried
  ClblastUse use;           // from_rows 0: the own kernels are faster
  double gflops = 0;        // F16 weights, kClblastTrialRows rows
  double panel_gflops = 0;  // the own kernels, likewise
};
inline constexpr int32_t kClblastTrialRows = 512;

// Verifies and times CLBlast with these parameters; nothing is stored. May end the process when the driver's compiler
// does.
[[nodiscard]] ClblastTrialResult try_clblast(Device& device, const ClblastParameters& parameters);

// Of the library that is installed now; what another one did is forgotten. COST: tens of milliseconds if anything is
// stored, else nothing: the library is loaded to find its file.
[[nodiscard]] ClblastTrialResult stored_clblast_trial(const DeviceInfo& info);
void store_clblast_trial(const DeviceInfo& info, const ClblastTrialResult& result);
// One line; what is no such line is Untried.
[[nodiscard]] std::string to_text(const ClblastTrialResult& result);
[[nodiscard]] ClblastTrialResult parse_clblast_trial(std::string_view text);

// For a model with matrices of floats. Auto: what is stored; on devices whose steps are not fused it is tried with its
// own parameters if nothing is stored (seconds). Clblast: verified likewise if nothing is stored.
// ERRORS: Unsupported when Clblast is wanted and is not there, or is quarantined.
[[nodiscard]] ClblastUse choose_clblast(Device& device, LinearBackend backend);

// Sets that `inflight tune` tries, beside CLBlast's own, those that fit the device's work-groups.
[[nodiscard]] std::vector<ClblastParameters> clblast_candidates(const DeviceInfo& info);

}  // namespace inflight
