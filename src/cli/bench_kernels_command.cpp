// SPDX-License-Identifier: Apache-2.0
// `inflight bench kernels`: the kernels of linear layers and of the other operations of a step on their own, beside
// what the device's memory and arithmetic allow.
#include <fmt/format.h>
#include <fmt/ranges.h>
#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/quote.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "device/bandwidth.h"
#include "device/device.h"
#include "exec/stage_trial.h"
#include "model/tensor_type.h"
#include "ops/linear_choice.h"
#include "ops/linear_trial.h"
#include "ops/panel.h"

namespace inflight::cli {
namespace {

struct KernelFlags {
  std::string device;
  std::string kernel;
  std::vector<std::string> types = {"Q8_0", "Q4_0", "F16"};
  std::vector<int32_t> rows = {1, 8, 32, 512};
  std::vector<int32_t> stage_rows = {1, 512};  // one that decodes, and a prompt's last tokens
  int32_t depth = 1536;
  int32_t outputs = 4608;
  std::vector<std::string> kv_types = {"f16", "i16", "q8_0"};
  std::vector<int32_t> contexts = {4096};
  int32_t heads = 14;
  int32_t kv_heads = 2;
  int32_t head_size = 64;
  int32_t layers = 24;
  int32_t block_size = 16;
  int32_t repeat = 9;
  bool as_json = false;
};

constexpr int32_t kVocabulary = 49'152;
constexpr size_t kSpreadBytes = size_t{128} << 20;  // of weights, for few rows: they come from memory

TensorType weight_type(const std::string& name) {
  const std::optional<TensorType> type = parse_computed_type(name);
  if (!type) fail(ErrorCode::InvalidArgument, "no weight type '{}'; one of: {}", name, computed_type_names());
  return *type;
}

struct Limits {
  double bandwidth, peak_fma, peak_int8;  // bytes and operations a second
};

KvType kv_type(const std::string& name) {
  for (const KvType type : {KvType::F16, KvType::F32, KvType::Q8_0, KvType::I16}) {
    if (name == to_string(type)) return type;
  }
  fail(ErrorCode::InvalidArgument, "no KV type '{}'; one of: f16, f32, q8_0, i16", name);
}

// One sequence that decodes behind each context, and a prompt's last tokens there.
void bench_stages(Device& device, const KernelFlags& flags, const Limits& limits, nlohmann::ordered_json& to) {
  if (!flags.as_json) {
    fmt::print("{:>10} {:>5} {:>8} {:>5} {:>10} {:>7} {:>7} {:>9} {:>7}\n", "stage", "KV", "context", "rows", "us",
               "GB/s", "share", "GFLOP/s", "of peak");
  }
  StageTrialShape shape;
  shape.block_token_count = flags.block_size;
  shape.spec = {.architecture = "llama",
                .layer_count = flags.layers,
                .hidden_size = flags.heads * flags.head_size,
                .feed_forward_size = flags.heads * flags.head_size,
                .head_count = flags.heads,
                .kv_head_count = flags.kv_heads,
                .head_size = flags.head_size,
                .vocabulary_size = kVocabulary,
                .rope_style = RopeStyle::HalfSplit,
                .rope_dimension_count = flags.head_size};
  for (const std::string& type : flags.kv_types) {
    shape.kv_type = kv_type(type);
    for (const int32_t context : flags.contexts) {
      shape.context = shape.spec.context_length = context;
      for (const int32_t wanted : flags.stage_rows) {
        const int32_t rows = shape.rows = std::min(context, wanted);
        for (const StageTiming& timing : StageTrial(device, shape).time(flags.repeat)) {
          const double bytes = timing.bytes / timing.median_seconds, flops = timing.flops / timing.median_seconds;
          to.push_back({{"stage", to_string(timing.operation)},
                        {"kv_cache_dtype", type},
                        {"context", context},
                        {"rows", rows},
                        {"median_us", timing.median_seconds * 1e6},
                        {"gb_per_second", bytes * 1e-9},
                        {"bandwidth_fraction", bytes / limits.bandwidth},
                        {"gflops", flops * 1e-9},
                        {"peak_fraction", flops / limits.peak_fma}});
          if (flags.as_json) continue;
          fmt::print("{:>10} {:>5} {:>8} {:>5} {:>10.1f} {:>7.2f} {:>6.0f}% {:>9.1f} {:>6.0f}%\n",
                     to_string(timing.operation), type, context, rows, timing.median_seconds * 1e6, bytes * 1e-9,
                     bytes / limits.bandwidth * 100, flops * 1e-9, flops / limits.peak_fma * 100);
        }
      }
    }
  }
}

void bench_linear(LinearTrial& trial, const KernelFlags& flags, const Limits& limits, nlohmann::ordered_json& to) {
  if (!flags.as_json) {
    fmt::print("{:>5} {:>6} {:>6} {:>5} {:>10} {:>7} {:>7} {:>9} {:>7}\n", "type", "K", "N", "rows", "us", "GB/s",
               "share", "GFLOP/s", "of peak");
  }
  for (const std::string& name : flags.types) {
    const TensorType type = weight_type(name);
    // Of the products that these weights take; where that of int8 is not known, of float ones.
    const double peak =
        takes_bytes(static_cast<PanelType>(type)) && limits.peak_int8 > 0 ? limits.peak_int8 : limits.peak_fma;
    for (const int32_t rows : flags.rows) {
      const LinearShape shape{static_cast<PanelType>(type), flags.outputs, flags.depth, rows};
      const LinearTrial::Timing timing = trial.time(shape, flags.repeat, rows <= 64 ? kSpreadBytes : 0);
      const double bytes_rate = static_cast<double>(timing.weight_bytes) / timing.median_seconds;
      const double flops = 2.0 * rows * flags.depth * flags.outputs / timing.median_seconds;
      to.push_back({{"type", to_string(type)},
                    {"depth", flags.depth},
                    {"outputs", flags.outputs},
                    {"rows", rows},
                    {"median_us", timing.median_seconds * 1e6},
                    {"fastest_us", timing.seconds * 1e6},
                    {"weights_gb_per_second", bytes_rate * 1e-9},
                    {"bandwidth_fraction", bytes_rate / limits.bandwidth},
                    {"gflops", flops * 1e-9},
                    {"peak_fraction", flops / peak}});
      if (!flags.as_json) {
        fmt::print("{:>5} {:>6} {:>6} {:>5} {:>10.1f} {:>7.2f} {:>6.0f}% {:>9.1f} {:>6.0f}%\n", to_string(type),
                   flags.depth, flags.outputs, rows, timing.median_seconds * 1e6, bytes_rate * 1e-9,
                   bytes_rate / limits.bandwidth * 100, flops * 1e-9, flops / peak * 100);
      }
    }
  }
}

// PoCL's workers rest between short launches, and Linux may wake two of them on one processor again and again: the
// figures then are half of what the kernels reach in an engine. So each gets its own, where all are this process's.
void keep_workers_apart() {
#if defined(__linux__)
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  if (CPU_COUNT(&allowed) == sysconf(_SC_NPROCESSORS_CONF)) setenv("POCL_AFFINITY", "1", 0);
#endif
}

void bench_kernels(const KernelFlags& flags) {
  keep_workers_apart();
  if (flags.heads % flags.kv_heads != 0) {
    fail(ErrorCode::InvalidArgument, "--kv-heads is {}, allowed: a divisor of --heads, {}", flags.kv_heads,
         flags.heads);
  }
  for (const std::string& name : flags.kv_types) static_cast<void>(kv_type(name));
  for (const std::string& name : flags.types) {
    const int32_t unit = panel_unit(static_cast<PanelType>(weight_type(name))).numbers;
    if (flags.depth % unit == 0) continue;
    fail(ErrorCode::InvalidArgument, "--depth is {}, allowed with {}: a multiple of {}", flags.depth, name, unit);
  }
  if (!flags.kernel.empty() && std::ranges::find(kLinearFiles, flags.kernel) == std::end(kLinearFiles)) {
    fail(ErrorCode::InvalidArgument, "--kernel is {}, allowed: {}", quote(flags.kernel), fmt::join(kLinearFiles, ", "));
  }
  Device device = Device::open({.spec = flags.device});
  PanelTypes types = 0;
  for (const std::string& name : flags.types) types |= type_bit(static_cast<PanelType>(weight_type(name)));
  const std::string file = flags.kernel.empty() ? choose_linear_file(device, types) : flags.kernel;
  LinearTrial trial(device, file, types);
  if (const std::string wrong = verify_linear(trial); !wrong.empty()) fail(ErrorCode::Device, "{}: {}", file, wrong);
  const Limits limits{measure_read_bandwidth(device), measure_peak_flops(device), measure_peak_int8(device)};
  nlohmann::ordered_json all = {{"device", device.info().name},
                                {"kernel", file},
                                {"read_bandwidth_gb_per_second", limits.bandwidth * 1e-9},
                                {"peak_fma_gflops", limits.peak_fma * 1e-9},
                                {"peak_int8_gops", limits.peak_int8 * 1e-9},
                                {"linear", nlohmann::ordered_json::array()},
                                {"stages", nlohmann::ordered_json::array()}};
  if (!flags.as_json) {
    fmt::print("{} on {}: reads {:.1f} GB/s, float FMA {:.0f} GFLOP/s, int8 {:.0f} Gop/s\n", file, device.info().name,
               limits.bandwidth * 1e-9, limits.peak_fma * 1e-9, limits.peak_int8 * 1e-9);
  }
  bench_linear(trial, flags, limits, all["linear"]);
  if (flags.layers > 0) bench_stages(device, flags, limits, all["stages"]);
  if (flags.as_json) print_json(all);
}

}  // namespace

void add_bench_kernels(CLI::App& bench) {
  CLI::App* const command =
      bench.add_subcommand("kernels", "Linear layers and the other stages of a step alone, beside the device's limits");
  const auto flags = std::make_shared<KernelFlags>();
  constexpr int32_t kSizeMax = 1 << 17, kRowsMax = 4096;
  const auto multiple_of_32 = [](const std::string& text) {
    return std::stoi(text) % 32 == 0 ? "" : "no multiple of 32";
  };
  command->add_option("--device", flags->device, "Index, or a part of the name");
  command->add_option("--kernel", flags->kernel, "Kernel file instead of the chosen one, such as linear.cl");
  command->add_option("--types", flags->types, "Weight types")->delimiter(',')->capture_default_str();
  command->add_option("--rows", flags->rows, "Rows of a step, for linear layers")
      ->delimiter(',')
      ->check(CLI::Range(1, kRowsMax))
      ->capture_default_str();
  command->add_option("--depth", flags->depth, "K, a multiple of 32")
      ->check(CLI::Range(32, kSizeMax))
      ->check(CLI::Validator(multiple_of_32, ""))
      ->capture_default_str();
  command->add_option("--outputs", flags->outputs, "N")->check(CLI::Range(1, kSizeMax))->capture_default_str();
  command->add_option("--kv-cache-dtypes", flags->kv_types, "KV types")->delimiter(',')->capture_default_str();
  command->add_option("--contexts", flags->contexts, "Tokens that attention sees")
      ->delimiter(',')
      ->check(CLI::Range(1, kSizeMax))
      ->capture_default_str();
  command->add_option("--stage-rows", flags->stage_rows, "Tokens of the context that the other stages compute")
      ->delimiter(',')
      ->check(CLI::Range(1, kRowsMax))
      ->capture_default_str();
  command->add_option("--heads", flags->heads, "Query heads")->check(CLI::Range(1, 256))->capture_default_str();
  command->add_option("--kv-heads", flags->kv_heads, "KV heads, a divisor of --heads")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  command->add_option("--head-size", flags->head_size, "Numbers of a head, a multiple of 32")
      ->check(CLI::Range(32, 256))
      ->check(CLI::Validator(multiple_of_32, ""))
      ->capture_default_str();
  command->add_option("--layers", flags->layers, "Layers that take turns; 0: linear layers only")
      ->check(CLI::Range(0, 128))
      ->capture_default_str();
  command->add_option("--block-size", flags->block_size, "Tokens of a KV block")
      ->check(CLI::IsMember({8, 16, 32, 64, 128}))
      ->capture_default_str();
  command->add_option("--repeat", flags->repeat, "Measurements of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", flags->as_json, "One JSON object");
  command->callback([flags] { bench_kernels(*flags); });
}

}  // namespace inflight::cli
