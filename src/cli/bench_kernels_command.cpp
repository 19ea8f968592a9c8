// SPDX-License-Identifier: Apache-2.0
// `inflight bench kernels`: the linear layers' kernels on their own, beside what the device's memory and arithmetic
// allow.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/commands.h"
#include "device/bandwidth.h"
#include "device/device.h"
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
  int32_t depth = 1536;
  int32_t outputs = 4608;
  int32_t repeat = 9;
  bool as_json = false;
};

constexpr size_t kSpreadBytes = size_t{128} << 20;  // of weights, for few rows: they come from memory

TensorType weight_type(const std::string& name) {
  const std::optional<TensorType> type = parse_tensor_type(name);
  if (!type) fail(ErrorCode::InvalidArgument, "no weight type '{}'; one of: F32, F16, BF16, Q8_0, Q4_0", name);
  return *type;
}

void bench_kernels(const KernelFlags& flags) {
  Device device = Device::open({.spec = flags.device});
  const std::string file = flags.kernel.empty() ? choose_linear_file(device) : flags.kernel;
  LinearTrial trial(device, file);
  if (const std::string wrong = verify_linear(trial); !wrong.empty()) fail(ErrorCode::Device, "{}: {}", file, wrong);
  const double bandwidth = measure_read_bandwidth(device), peak_fma = measure_peak_flops(device);
  const double peak_int8 = measure_peak_int8(device);
  nlohmann::ordered_json all = {{"device", device.info().name},
                                {"kernel", file},
                                {"read_bandwidth_gb_per_second", bandwidth * 1e-9},
                                {"peak_fma_gflops", peak_fma * 1e-9},
                                {"peak_int8_gops", peak_int8 * 1e-9},
                                {"linear", nlohmann::ordered_json::array()}};
  if (!flags.as_json) {
    fmt::print("{} on {}: reads {:.1f} GB/s, float FMA {:.0f} GFLOP/s, int8 {:.0f} Gop/s\n", file, device.info().name,
               bandwidth * 1e-9, peak_fma * 1e-9, peak_int8 * 1e-9);
    fmt::print("{:>5} {:>6} {:>6} {:>5} {:>10} {:>7} {:>7} {:>9} {:>7}\n", "type", "K", "N", "rows", "us", "GB/s",
               "share", "GFLOP/s", "of peak");
  }
  for (const std::string& name : flags.types) {
    const TensorType type = weight_type(name);
    // Of the products that these weights take; where that of int8 is not known, of float ones.
    const double peak = takes_bytes(static_cast<PanelType>(type)) && peak_int8 > 0 ? peak_int8 : peak_fma;
    for (const int32_t rows : flags.rows) {
      const LinearShape shape{static_cast<PanelType>(type), flags.outputs, flags.depth, rows};
      const LinearTrial::Timing timing = trial.time(shape, flags.repeat, rows <= 64 ? kSpreadBytes : 0);
      const double bytes_rate = static_cast<double>(timing.weight_bytes) / timing.median_seconds;
      const double flops = 2.0 * rows * flags.depth * flags.outputs / timing.median_seconds;
      all["linear"].push_back({{"type", to_string(type)},
                               {"depth", flags.depth},
                               {"outputs", flags.outputs},
                               {"rows", rows},
                               {"median_us", timing.median_seconds * 1e6},
                               {"fastest_us", timing.seconds * 1e6},
                               {"weights_gb_per_second", bytes_rate * 1e-9},
                               {"bandwidth_fraction", bytes_rate / bandwidth},
                               {"gflops", flops * 1e-9},
                               {"peak_fraction", flops / peak}});
      if (!flags.as_json) {
        fmt::print("{:>5} {:>6} {:>6} {:>5} {:>10.1f} {:>7.2f} {:>6.0f}% {:>9.1f} {:>6.0f}%\n", to_string(type),
                   flags.depth, flags.outputs, rows, timing.median_seconds * 1e6, bytes_rate * 1e-9,
                   bytes_rate / bandwidth * 100, flops * 1e-9, flops / peak * 100);
      }
    }
  }
  if (flags.as_json) fmt::print("{}\n", all.dump(2));
}

}  // namespace

void add_bench_kernels(CLI::App& bench) {
  CLI::App* const command = bench.add_subcommand("kernels", "Linear layers alone, beside the device's limits");
  const auto flags = std::make_shared<KernelFlags>();
  constexpr int32_t kSizeMax = 1 << 17, kRowsMax = 4096;
  command->add_option("--device", flags->device, "Index, or a part of the name");
  command->add_option("--kernel", flags->kernel, "Kernel file instead of the chosen one, such as linear.cl");
  command->add_option("--types", flags->types, "Weight types")->delimiter(',')->capture_default_str();
  command->add_option("--rows", flags->rows, "Rows of a step")
      ->delimiter(',')
      ->check(CLI::Range(1, kRowsMax))
      ->capture_default_str();
  command->add_option("--depth", flags->depth, "K, a multiple of 32")
      ->check(CLI::Range(32, kSizeMax))
      ->check(CLI::Validator(
          [](const std::string& text) { return std::stoi(text) % 32 == 0 ? "" : "no multiple of 32"; }, ""))
      ->capture_default_str();
  command->add_option("--outputs", flags->outputs, "N")->check(CLI::Range(1, kSizeMax))->capture_default_str();
  command->add_option("--repeat", flags->repeat, "Measurements of each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", flags->as_json, "One JSON object");
  command->callback([flags] { bench_kernels(*flags); });
}

}  // namespace inflight::cli
