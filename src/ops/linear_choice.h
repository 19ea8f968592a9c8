// SPDX-License-Identifier: Apache-2.0
// Which kernel file computes the linear layers on a device. All files give the same bits (linear.cl's contract), so the
// choice changes speed only. A file is used after verify_linear() has found it right on this device and driver for the
// types of weights that a model has; what was found is kept in the cache folder, by device, driver, source and type. A
// file whose trial gave wrong results, failed to build or twice ended the process (trial_record.h) is not tried again
// until one of these changes or somebody runs `inflight tune`. linear.cl is used in any case where no other is good,
// with a warning when it was found wrong; on CPUs that have no other without a trial. THREAD, ERRORS, LIFETIME: as
// device/device.h. Several processes may try at once.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/stage.h"
#include "ops/trial_record.h"

namespace inflight {

struct LinearTrialResult {
  std::string file;
  TrialState state = TrialState::Untried;
  int32_t unfinished = 0;  // trials in a row that never ended
  std::string reason;      // of Bad, or why it stayed Untried
  // Of the first of kPanelTypes that was tried:
  double decode_gb_per_second = 0;  // weights read, 1 row
  double batch_gflops = 0;          // 8 rows, weights out of memory, too: few sequences that decode
};

// By work-groups: GPUs. The same bits, but no linear_tile().
inline constexpr const char* kGroupsLinear = "groups_linear.cl";
// Runs everywhere.
inline constexpr const char* kPortableLinear = "linear.cl";
inline constexpr const char* kLinearFiles[] = {kGroupsLinear,       "linear_amx.cl",      "linear_vnni.cl",
                                               "linear_vnni_l2.cl", "linear_avx_vnni.cl", "linear_avx2.cl",
                                               kPortableLinear};

// The files that the device can run, the most specialised first; linear.cl is the last.
[[nodiscard]] std::vector<std::string> linear_files(const DeviceInfo& info);

// What is known of a file, without trying it: Good where it is for all of the types, Bad where it is for one.
[[nodiscard]] LinearTrialResult stored_trial(const DeviceInfo& info, const std::string& file,
                                             PanelTypes types = kAllPanelTypes);
void forget_trial(const DeviceInfo& info, const std::string& file);
// Tries the file now and stores the result for each of the types; where memory is short it stays Untried. May end the
// process when the driver's compiler does.
LinearTrialResult try_linear_file(Device& device, const std::string& file, PanelTypes types = kAllPanelTypes);

// Of results in the order of linear_files(): groups_linear.cl or linear_amx.cl if it is good; else the fastest good
// file at 8 rows, but of files about as fast the first; linear.cl when there is no good one.
[[nodiscard]] std::string best_linear_file(std::span<const LinearTrialResult> results);

// The best file of a device for these types, trying those that are Untried (about a second each, once a device, driver
// and type; without types as for Q8_0, since attention goes by the file's instructions, too). Where
// groups_linear.cl or linear_amx.cl is good no other is tried; else, where nothing but the file of tuned_linear_file()
// has been tried, that one, if it is good.
[[nodiscard]] std::string choose_linear_file(Device& device, PanelTypes types = kAllPanelTypes);

}  // namespace inflight
