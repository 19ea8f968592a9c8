// SPDX-License-Identifier: Apache-2.0
// `inflight tune`: tries every kernel file anew, and sets of CLBlast's parameters, each in a child process, so that a
// crashing compiler harms nobody.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/quote.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "device/binary_cache.h"
#include "device/device.h"
#include "ops/clblast_choice.h"
#include "ops/linear_choice.h"

namespace inflight::cli {
namespace {

constexpr int32_t kClblastSetsMax = 13;        // CLBlast's own and those of clblast_candidates()
constexpr int32_t kClblastTrialSeconds = 120;  // a compiler may hang, too

struct TuneFlags {
  std::string device;
  int32_t clblast_sets = kClblastSetsMax;
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

// Again when the trial ends the child, until its record says Bad and no engine tries it.
// REQUIRES: no device was opened by this process: its driver's threads would be missing in the child.
void try_file(const std::string& spec, const std::string& file) {
  for (int32_t unfinished = 0; unfinished <= kUnfinishedTrialsMax; ++unfinished) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0) fail(ErrorCode::Io, "no process for a trial: {}", std::strerror(errno));
    if (child == 0) try_in_child(spec, file);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) return;
  }
}

// Writes the trial's record to `to`; nothing when there are not so many sets.
[[noreturn]] void try_clblast_in_child(const std::string& spec, int32_t set, int to) {
  try {
    Device device = Device::open({.spec = spec});
    std::vector<ClblastParameters> sets = clblast_candidates(device.info());
    sets.insert(sets.begin(), ClblastParameters{});
    if (static_cast<size_t>(set) < sets.size()) {
      const std::string text = to_text(try_clblast(device, sets[static_cast<size_t>(set)]));
      std::ignore = ::write(to, text.data(), text.size());
    }
  } catch (const std::exception& error) {
    std::ignore = error;
  }
  std::fflush(nullptr);
  ::_exit(0);
}

// What the child writes before it ends or its time is over.
std::string read_until_end(int from, pid_t child) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(kClblastTrialSeconds);
  std::string text;
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd wait{.fd = from, .events = POLLIN, .revents = 0};
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) == 0) {
      ::kill(child, SIGKILL);
      return text;
    }
    char piece[512];
    const ssize_t count = ::read(from, piece, sizeof(piece));
    if (count == 0 || (count < 0 && errno != EINTR)) return text;
    if (count > 0) text.append(piece, static_cast<size_t>(count));
  }
}

struct ClblastTuning {
  ClblastTrialResult best;
  int32_t tried = 0, bad = 0;
};

// REQUIRES: as try_file().
ClblastTuning tune_clblast(const TuneFlags& flags) {
  ClblastTuning tuning;
  tuning.best = {.state = TrialState::Bad, .reason = "no set of parameters works"};
  for (int32_t set = 0; set < flags.clblast_sets; ++set) {
    int ends[2];
    if (::pipe(ends) != 0) fail(ErrorCode::Io, "no pipe for a trial: {}", std::strerror(errno));
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child < 0) fail(ErrorCode::Io, "no process for a trial: {}", std::strerror(errno));
    if (child == 0) try_clblast_in_child(flags.device, set, ends[1]);
    ::close(ends[1]);
    const std::string text = read_until_end(ends[0], child);
    ::close(ends[0]);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (text.empty() && WIFEXITED(status)) break;  // no more sets
    const ClblastTrialResult result = parse_clblast_trial(text);
    ++tuning.tried;
    if (result.state != TrialState::Good) {
      ++tuning.bad;
      if (set == 0) tuning.best.reason = result.reason;
    } else if (tuning.best.state != TrialState::Good || result.gflops > tuning.best.gflops) {
      tuning.best = result;
    }
  }
  return tuning;
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

nlohmann::ordered_json report_clblast(const ClblastTuning& tuning, bool as_json) {
  const ClblastTrialResult& best = tuning.best;
  nlohmann::ordered_json parameters = nlohmann::ordered_json::object();
  for (const auto& [name, value] : best.use.parameters) parameters[name] = value;
  if (!as_json) {
    if (best.state == TrialState::Good) {
      const std::string use =
          best.use.from_rows > 0 ? fmt::format("used from {} rows on", best.use.from_rows) : "not used";
      fmt::print("{:<18} {:<9} F16: {} rows {:.1f} GFLOP/s, own kernels {:.1f}: {}; {} of {} parameter sets work\n",
                 "CLBlast", state_text(best.state), kClblastTrialRows, best.gflops, best.panel_gflops, use,
                 tuning.tried - tuning.bad, tuning.tried);
    } else {
      fmt::print("{:<18} {:<9} {}\n", "CLBlast", state_text(best.state), best.reason);
    }
  }
  return {{"state", state_text(best.state)},   {"reason", best.reason},
          {"from_rows", best.use.from_rows},   {"gflops", best.gflops},
          {"panel_gflops", best.panel_gflops}, {"parameters", parameters},
          {"sets_tried", tuning.tried},        {"sets_bad", tuning.bad}};
}

void tune(const TuneFlags& flags) {
  for (const char* file : kLinearFiles) try_file(flags.device, file);
  const bool with_clblast = flags.clblast_sets > 0 && Clblast::available();
  const ClblastTuning clblast = with_clblast ? tune_clblast(flags) : ClblastTuning{};
  const std::vector<DeviceInfo> devices = list_devices();
  const DeviceInfo& info = choose_device(devices, flags.device);
  const std::vector<std::string> files = linear_files(info);
  std::vector<LinearTrialResult> results;
  nlohmann::ordered_json all = {{"device", info.name}, {"linear", nlohmann::ordered_json::array()}};
  for (const std::string& file : files) {
    const LinearTrialResult& result = results.emplace_back(stored_trial(info, file));
    all["linear"].push_back({{"kernel", file},
                             {"state", state_text(result.state)},
                             {"reason", result.reason},
                             {"decode_gb_per_second", result.decode_gb_per_second},
                             {"batch_gflops", result.batch_gflops}});
    if (!flags.as_json) {
      fmt::print("{:<18} {:<9} Q8_0: 1 row {:.1f} GB/s, 8 rows {:.0f} GFLOP/s{}{}\n", file, state_text(result.state),
                 result.decode_gb_per_second, result.batch_gflops, result.reason.empty() ? "" : "; ", result.reason);
    }
  }
  if (std::ranges::all_of(results, [](const auto& result) { return result.state == TrialState::Untried; })) {
    fail(ErrorCode::Io,
         "the trials' results are not in the cache folder {}: allowed: $INFLIGHT_CACHE_DIR, a folder that "
         "can be written",
         quote(cache_folder()));
  }
  const std::string chosen = best_linear_file(results);
  all["chosen"] = chosen;
  if (with_clblast && clblast.tried > 0) {
    store_clblast_trial(info, clblast.best);
    all["clblast"] = report_clblast(clblast, flags.as_json);
  }
  if (flags.as_json) {
    print_json(all);
  } else {
    fmt::print("{} uses {}\n", info.name, chosen);
  }
}

}  // namespace

void add_tune_command(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("tune", "Try the kernels of a device anew and keep the fastest right ones");
  const auto flags = std::make_shared<TuneFlags>();
  command->add_option("--device", flags->device, "Index, or a part of the name");
  command->add_option("--clblast-sets", flags->clblast_sets, "Sets of CLBlast's parameters to try, some seconds each")
      ->check(CLI::Range(0, kClblastSetsMax))
      ->capture_default_str();
  command->add_flag("--json", flags->as_json, "One JSON object");
  command->callback([flags] { tune(*flags); });
}

}  // namespace inflight::cli
