// SPDX-License-Identifier: Apache-2.0
// `inflight tune`: tries every kernel file anew, each in a child process, so that a crashing compiler harms nobody.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "cli/commands.h"
#include "device/device.h"
#include "ops/linear_choice.h"

namespace inflight::cli {
namespace {

struct TuneFlags {
  std::string device;
  bool as_json = false;
};

[[noreturn]] void try_in_child(const std::string& spec, const std::string& file) {
  try {
    Device device = Device::open({.spec = spec});
    if (std::ranges::count(linear_files(device.info()), file) > 0) static_cast<void>(try_linear_file(device, file));
  } catch (const std::exception& error) {
    std::ignore = error;  // the parent opens the device too, and reports
  }
  std::fflush(nullptr);
  ::_exit(0);  // without the exit handlers of OpenCL drivers
}

// REQUIRES: no device was opened by this process: its driver's threads would be missing in the child.
void try_file(const std::string& spec, const std::string& file) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) fail(ErrorCode::Io, "no process for a trial: {}", std::strerror(errno));
  if (child == 0) try_in_child(spec, file);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

const char* state_text(TrialState state) {
  switch (state) {
    case TrialState::Good:
      return "good";
    case TrialState::Bad:
      return "bad";
    case TrialState::Running:
    case TrialState::Untried:
      break;
  }
  return "not tried";
}

void tune(const TuneFlags& flags) {
  for (const char* file : kLinearFiles) try_file(flags.device, file);
  const std::vector<DeviceInfo> devices = list_devices();
  const DeviceInfo& info = choose_device(devices, flags.device);
  const std::vector<std::string> files = linear_files(info);
  std::string chosen = files.back();
  double best = 0;
  nlohmann::ordered_json all = {{"device", info.name}, {"linear", nlohmann::ordered_json::array()}};
  for (const std::string& file : files) {
    const LinearTrialResult result = stored_trial(info, file);
    if (result.state == TrialState::Good && result.batch_gflops > best) {
      best = result.batch_gflops;
      chosen = file;
    }
    all["linear"].push_back({{"kernel", file},
                             {"state", state_text(result.state)},
                             {"reason", result.reason},
                             {"decode_gb_per_second", result.decode_gb_per_second},
                             {"batch_gflops", result.batch_gflops}});
    if (!flags.as_json) {
      fmt::print("{:<18} {:<9} Q8_0: 1 row {:.1f} GB/s, 32 rows {:.0f} GFLOP/s{}{}\n", file, state_text(result.state),
                 result.decode_gb_per_second, result.batch_gflops, result.reason.empty() ? "" : "; ", result.reason);
    }
  }
  all["chosen"] = chosen;
  if (flags.as_json) {
    fmt::print("{}\n", all.dump(2));
  } else {
    fmt::print("{} uses {}\n", info.name, chosen);
  }
}

}  // namespace

void add_tune_command(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("tune", "Try the kernels of a device anew and keep the fastest right one");
  const auto flags = std::make_shared<TuneFlags>();
  command->add_option("--device", flags->device, "Index, or a part of the name");
  command->add_flag("--json", flags->as_json, "One JSON object");
  command->callback([flags] { tune(*flags); });
}

}  // namespace inflight::cli
