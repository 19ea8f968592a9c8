// SPDX-License-Identifier: Apache-2.0
#include "ops/clblast_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <locale>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "device/binary_cache.h"
#include "ops/clblast_trial.h"
#include "ops/linear_trial.h"

namespace inflight {
namespace {

constexpr int32_t kTrialDepth = 1536, kTrialOutputs = 1536, kRepeats = 3;
constexpr double kClearlyFaster = 1.1;

// By all sources that decide who is faster: CLBlast's and those of the own kernels.
std::string clblast_key(const DeviceInfo& info) {
  ProgramSource source{.files = ClblastTrial::files(), .options = ""};
  for (const std::string& file : linear_files(info)) {
    const std::vector<std::string> files = linear_trial_source(info, file).files;
    source.files.insert(source.files.end(), files.begin(), files.end());
  }
  return "clblast-" + program_cache_key(info, source);
}

double flops_of(int32_t rows) { return 2.0 * rows * kTrialDepth * kTrialOutputs; }

// From how many rows on it is clearly faster than the own kernels, for all tried numbers; 0: not even with the most.
void compare(Device& device, ClblastTrial& clblast, ClblastTrialResult& result) {
  constexpr PanelTypes kTypes = type_bit(PanelType::F16);
  LinearTrial panels(device, choose_linear_file(device, kTypes), kTypes);
  result.use.from_rows = 0;
  for (const int32_t rows : {kClblastTrialRows, 256, 64, 16}) {
    const LinearShape shape{PanelType::F16, kTrialOutputs, kTrialDepth, rows};
    const double theirs = clblast.time(shape, kRepeats), ours = panels.time(shape, kRepeats, 0).seconds;
    if (rows == kClblastTrialRows) {
      result.gflops = flops_of(rows) / theirs * 1e-9;
      result.panel_gflops = flops_of(rows) / ours * 1e-9;
    }
    if (theirs * kClearlyFaster > ours) return;
    result.use.from_rows = rows;
  }
}

}  // namespace

std::optional<LinearBackend> parse_linear_backend(std::string_view name) {
  constexpr std::array kNames = {"auto", "panel", "clblast"};
  const auto* const found = std::ranges::find(kNames, name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<LinearBackend>(found - kNames.begin());
}

std::string to_text(const ClblastTrialResult& result) {
  std::string text =
      fmt::format("{} {} {} {} {}", mark_text({.state = result.state, .unfinished = result.unfinished}),
                  result.use.from_rows, result.gflops, result.panel_gflops, result.use.parameters.size());
  for (const auto& [name, value] : result.use.parameters) text += fmt::format(" {} {}", name, value);
  std::string reason = result.reason.substr(0, kTrialReasonBytesMax);
  std::ranges::replace(reason, '\n', ' ');
  return text + " " + reason;
}

ClblastTrialResult parse_clblast_trial(std::string_view text) {
  constexpr size_t kParametersMax = 64;
  std::istringstream stream{std::string(text)};
  stream.imbue(std::locale::classic());  // a program may have another one
  const TrialMark mark = read_trial_mark(stream);
  ClblastTrialResult result{.state = mark.state, .unfinished = mark.unfinished};
  size_t count = 0;
  stream >> result.use.from_rows >> result.gflops >> result.panel_gflops >> count;
  if (!stream || count > kParametersMax || result.use.from_rows < 0) return {};
  for (size_t i = 0; i < count; ++i) {
    std::string name;
    size_t value = 0;
    stream >> name >> value;
    result.use.parameters.emplace_back(std::move(name), value);
  }
  if (!stream) return {};
  std::getline(stream >> std::ws, result.reason);
  if (mark.unfinished > 0) result.reason = kTrialNeverEnded;
  return result;
}

ClblastTrialResult stored_clblast_trial(const DeviceInfo& info) {
  const std::optional<std::vector<std::byte>> content = BinaryCache(cache_folder()).find(clblast_key(info));
  if (!content) return {};
  const std::string_view text(reinterpret_cast<const char*>(content->data()), content->size());
  const size_t line_end = std::min(text.find('\n'), text.size());
  if (text.substr(0, line_end) != Clblast::identity()) return {};
  return parse_clblast_trial(text.substr(line_end));
}

void store_clblast_trial(const DeviceInfo& info, const ClblastTrialResult& result) {
  const std::string text = Clblast::identity() + '\n' + to_text(result);
  BinaryCache(cache_folder()).store(clblast_key(info), std::as_bytes(std::span(text)));
}

ClblastTrialResult try_clblast(Device& device, const ClblastParameters& parameters) {
  ClblastTrialResult result{.use = {.from_rows = 0, .parameters = parameters}};
  try {
    ClblastTrial trial(device, parameters, {.rows = kClblastTrialRows, .depth = 4096, .outputs = kTrialOutputs});
    result.reason = verify_clblast(trial);
    result.state = result.reason.empty() ? TrialState::Good : TrialState::Bad;
    if (result.state == TrialState::Good) compare(device, trial, result);
  } catch (const Error& error) {
    result.state = error.code() == ErrorCode::OutOfMemory ? TrialState::Untried : TrialState::Bad;
    result.reason = error.what();
  }
  return result;
}

ClblastUse choose_clblast(Device& device, LinearBackend backend) {
  const DeviceInfo& info = device.info();
  if (backend == LinearBackend::Panel) return {};
  const bool forced = backend == LinearBackend::Clblast;
  if (forced) Clblast{};  // tells what to install
  ClblastTrialResult result = stored_clblast_trial(info);
  if (result.state == TrialState::Untried || result.state == TrialState::Running) {
    if (!forced && (info.host_code || !Clblast::available())) return {};
    store_clblast_trial(info, {.state = TrialState::Running, .unfinished = result.unfinished});
    result = try_clblast(device, {});
    store_clblast_trial(info, result);
  }
  if (!forced) {
    if (result.state == TrialState::Good) return result.use;
    warn_of_trial("CLBlast", "not used", info.name, result.reason);
    return {};
  }
  if (result.state != TrialState::Good) {
    fail(ErrorCode::Unsupported, "linear_backend is clblast, which does not give the right results on '{}': {}",
         info.name, result.reason);
  }
  result.use.from_rows = 1;
  return result.use;
}

std::vector<ClblastParameters> clblast_candidates(const DeviceInfo& info) {
  // Tiles of a work-group, its size, vectors, local copies of x; the rest is the same everywhere.
  struct Set {
    size_t mwg, nwg, kwg, mdim, ndim, vwm, vwn, local;
  };
  constexpr Set kSets[] = {
      {64, 16, 16, 4, 4, 8, 4, 0},     {64, 32, 16, 8, 8, 8, 4, 0},    {128, 32, 32, 8, 8, 8, 4, 0},
      {64, 64, 16, 8, 8, 8, 8, 0},     {128, 64, 16, 16, 16, 8, 4, 0}, {64, 64, 32, 8, 16, 4, 4, 0},
      {128, 128, 16, 16, 16, 8, 8, 0}, {64, 64, 16, 8, 8, 8, 8, 1},    {128, 128, 16, 16, 16, 4, 4, 1},
      {128, 64, 32, 16, 16, 4, 4, 1},  {64, 64, 32, 16, 16, 4, 4, 1},  {32, 32, 32, 8, 8, 4, 4, 0},
  };
  std::vector<ClblastParameters> candidates;
  for (const Set& set : kSets) {
    if (set.mdim * set.ndim > static_cast<size_t>(info.work_group_size_max)) continue;
    const size_t local_bytes = set.local * (set.mwg + set.nwg) * set.kwg * sizeof(float);
    if (local_bytes > info.local_memory_bytes) continue;
    candidates.push_back({{"GEMMK", 0},
                          {"KREG", 1},
                          {"KWG", set.kwg},
                          {"KWI", 2},
                          {"MDIMA", set.mdim},
                          {"MDIMC", set.mdim},
                          {"MWG", set.mwg},
                          {"NDIMB", set.ndim},
                          {"NDIMC", set.ndim},
                          {"NWG", set.nwg},
                          {"SA", set.local},
                          {"SB", set.local},
                          {"STRM", 0},
                          {"STRN", 0},
                          {"VWM", set.vwm},
                          {"VWN", set.vwn}});
  }
  return candidates;
}

}  // namespace inflight
