// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <locale>
#include <span>
#include <sstream>

#include "base/error.h"
#include "device/binary_cache.h"
#include "ops/linear_trial.h"
#include "ops/tuned_linear.h"

namespace inflight {
namespace {

constexpr const char* kTiles = "linear_amx.cl";

// Taken wherever it is good: kTiles is linear_vnni.cl but for many rows, so that a trial's few would tell noise;
// kGroupsLinear comes with kernels of the other stages.
bool taken_untimed(const std::string& file) { return file == kTiles || file == kGroupsLinear; }

// What a work-group of groups_*.cl needs.
bool runs_groups(const DeviceInfo& info) {
  constexpr size_t kLocalBytes = size_t{44} << 10;
  return info.type == DeviceType::Gpu && info.work_group_size_max >= kWorkGroup &&
         info.local_memory_bytes >= kLocalBytes;
}

// Times of one file differ by this much from minute to minute: so a less specialised file has to be faster by more.
constexpr double kClearly = 1.2;

std::string trial_key(const DeviceInfo& info, const std::string& file, PanelType type) {
  return "linear-" + program_cache_key(info, linear_trial_source(info, file, type_bit(type)));
}

template <typename Do>
void for_each_type(PanelTypes types, Do&& act) {
  for (const PanelType type : kPanelTypes) {
    if ((types & type_bit(type)) != 0) act(type);
  }
}

// "mark decode_gb_per_second batch_gflops reason", for each type. The times are of the first one, for all of them: a
// model with one of the others has to find which file is faster.
void store_trial(const DeviceInfo& info, const LinearTrialResult& result, PanelTypes types) {
  const std::string text =
      fmt::format("{} {} {} {}", mark_text({.state = result.state, .unfinished = result.unfinished}),
                  result.decode_gb_per_second, result.batch_gflops, result.reason.substr(0, kTrialReasonBytesMax));
  for_each_type(types, [&](PanelType type) {
    BinaryCache(cache_folder()).store(trial_key(info, result.file, type), std::as_bytes(std::span(text)));
  });
}

LinearTrialResult stored_for(const DeviceInfo& info, const std::string& file, PanelType type) {
  const std::optional<std::vector<std::byte>> content = BinaryCache(cache_folder()).find(trial_key(info, file, type));
  if (!content) return {.file = file, .reason = {}};
  std::istringstream stream(std::string(reinterpret_cast<const char*>(content->data()), content->size()));
  stream.imbue(std::locale::classic());  // a program may have another one
  const TrialMark mark = read_trial_mark(stream);
  LinearTrialResult result{.file = file, .state = mark.state, .unfinished = mark.unfinished, .reason = {}};
  stream >> result.decode_gb_per_second >> result.batch_gflops;
  if (!stream) return {.file = file, .reason = {}};
  std::getline(stream >> std::ws, result.reason, '\0');
  if (mark.unfinished > 0) result.reason = kTrialNeverEnded;
  return result;
}

bool to_be_tried(TrialState state) { return state == TrialState::Untried || state == TrialState::Running; }

// linear.cl is used all the same where nothing else is good: choose_linear_file() says so.
void warn_if_excluded(const DeviceInfo& info, const LinearTrialResult& result) {
  if (result.state == TrialState::Good || result.file == kPortableLinear) return;
  warn_of_trial("kernel " + result.file, "not used", info.name, result.reason);
}

LinearTrialResult known_or_tried(Device& device, const std::string& file, PanelTypes types) {
  PanelTypes open = 0;
  for_each_type(types, [&](PanelType type) {
    if (to_be_tried(stored_for(device.info(), file, type).state)) open |= type_bit(type);
  });
  const LinearTrialResult known = stored_trial(device.info(), file, types);
  if (open == 0 || known.state == TrialState::Bad) {
    warn_if_excluded(device.info(), known);
    return known;
  }
  const LinearTrialResult tried = try_linear_file(device, file, open);
  return tried.state == TrialState::Good ? stored_trial(device.info(), file, types) : tried;
}

}  // namespace

std::vector<std::string> linear_files(const DeviceInfo& info) {
  std::vector<std::string> files;
  if (runs_groups(info)) files.emplace_back(kGroupsLinear);
  if (info.type == DeviceType::Cpu && info.cpu.amx_int8) files.emplace_back(kTiles);
  if (info.type == DeviceType::Cpu && info.cpu.avx512_vnni) {
    files.emplace_back("linear_vnni.cl");
    files.emplace_back("linear_vnni_l2.cl");
  }
  if (info.type == DeviceType::Cpu && info.cpu.avx2 && info.cpu.fma && info.cpu.f16c) {
    if (info.cpu.avx_vnni) files.emplace_back("linear_avx_vnni.cl");
    files.emplace_back("linear_avx2.cl");
  }
  files.emplace_back(kPortableLinear);
  return files;
}

LinearTrialResult stored_trial(const DeviceInfo& info, const std::string& file, PanelTypes types) {
  LinearTrialResult result{.file = file, .state = TrialState::Good, .reason = {}};
  for_each_type(types, [&](PanelType type) {
    const LinearTrialResult of_type = stored_for(info, file, type);
    const bool first = result.batch_gflops <= 0;
    const double decode = first ? of_type.decode_gb_per_second : result.decode_gb_per_second;
    const double batch = first ? of_type.batch_gflops : result.batch_gflops;
    const int32_t unfinished = std::max(result.unfinished, of_type.unfinished);
    if (result.state != TrialState::Bad && of_type.state != TrialState::Good) result = of_type;
    result.decode_gb_per_second = decode;
    result.batch_gflops = batch;
    result.unfinished = unfinished;
  });
  return result;
}

void forget_trial(const DeviceInfo& info, const std::string& file) {
  store_trial(info, {.file = file, .reason = {}}, kAllPanelTypes);
}

LinearTrialResult try_linear_file(Device& device, const std::string& file, PanelTypes types) {
  LinearTrialResult result{.file = file, .state = TrialState::Running, .reason = {}};
  result.unfinished = stored_trial(device.info(), file, types).unfinished;
  store_trial(device.info(), result, types);
  result.unfinished = 0;
  try {
    LinearTrial trial(device, file, types);
    result.reason = verify_linear(trial);
    result.state = result.reason.empty() ? TrialState::Good : TrialState::Bad;
    if (result.state == TrialState::Good) {
      const PanelType timed =
          *std::ranges::find_if(kPanelTypes, [types](PanelType type) { return (types & type_bit(type)) != 0; });
      constexpr size_t kSpreadBytes = size_t{64} << 20;
      constexpr int32_t kRepeats = 8;
      // Linux may wake two workers of PoCL on one processor after a rest; within some times as long it moves one away.
      constexpr double kSeconds = 5e-3;
      const auto decode = trial.time({timed, 8192, 2048, 1}, kRepeats, kSpreadBytes, kSeconds);
      const auto batch = trial.time({timed, 9216, 576, 8}, kRepeats, kSpreadBytes, kSeconds);
      result.decode_gb_per_second = static_cast<double>(decode.weight_bytes) / decode.seconds * 1e-9;
      result.batch_gflops = 2.0 * 8 * 9216 * 576 / batch.seconds * 1e-9;
    }
  } catch (const Error& error) {
    result.state = error.code() == ErrorCode::OutOfMemory ? TrialState::Untried : TrialState::Bad;
    result.reason = error.what();
  }
  warn_if_excluded(device.info(), result);
  store_trial(device.info(), result, types);
  return result;
}

std::string best_linear_file(std::span<const LinearTrialResult> results) {
  LinearTrialResult best{.file = kPortableLinear, .reason = {}};
  for (const LinearTrialResult& result : results) {
    if (result.state == TrialState::Good && taken_untimed(result.file)) return result.file;
    if (result.state == TrialState::Good && result.batch_gflops > kClearly * best.batch_gflops) best = result;
  }
  return best.file;
}

std::string choose_linear_file(Device& device, PanelTypes types) {
  if (types == 0) types = type_bit(PanelType::Q8_0);
  const std::vector<std::string> files = linear_files(device.info());
  // Interpreters and Mesa's driver for CPUs have no other file, and would take minutes for a trial.
  if (files.size() == 1 && device.info().type == DeviceType::Cpu) return kPortableLinear;
  const std::string& first = files.front();
  if (taken_untimed(first) && known_or_tried(device, first, types).state == TrialState::Good) return first;
  const std::string tuned = tuned_linear_file(device.info());
  const bool only_tuned = !tuned.empty() && std::ranges::all_of(files, [&](const std::string& file) {
    return file == tuned || stored_trial(device.info(), file, types).state == TrialState::Untried;
  });
  if (only_tuned && known_or_tried(device, tuned, types).state == TrialState::Good) return tuned;
  std::vector<LinearTrialResult> results;
  for (const std::string& file : files) results.push_back(known_or_tried(device, file, types));
  std::string best = best_linear_file(results);
  const LinearTrialResult& portable = results.back();
  if (best == kPortableLinear && portable.state == TrialState::Bad) {
    warn_of_trial("kernel " + best, "used, for want of another,", device.info().name, portable.reason);
  }
  return best;
}

}  // namespace inflight
