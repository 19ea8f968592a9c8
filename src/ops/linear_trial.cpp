// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "ops/linear_choice.h"
#include "ops/panel.h"
#include "ops/stage.h"
#include "ops/step_program.h"

namespace inflight {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <typename T>
Buffer<T> uploaded(Device& device, const char* label, const std::vector<T>& values) {
  Buffer<T> buffer(device, label, std::max<size_t>(values.size(), 16));
  if (!values.empty()) buffer.write(values);
  return buffer;
}

const char* name_of(PanelType type) {
  switch (type) {
    case PanelType::F32:
      return "F32";
    case PanelType::F16:
      return "F16";
    case PanelType::BF16:
      return "BF16";
    case PanelType::Q8_0:
      return "Q8_0";
    case PanelType::Q4_0:
      return "Q4_0";
    case PanelType::Q4_1:
      return "Q4_1";
    case PanelType::Q5_1:
      return "Q5_1";
    case PanelType::Q6_K:
      return "Q6_K";
    case PanelType::IQ4_NL:
      return "IQ4_NL";
    case PanelType::MXFP4:
      return "MXFP4";
  }
  return "?";
}

}  // namespace

std::string linear_difference(const LinearCase& c, std::span<const float> y, size_t stride) {
  for (int32_t row = 0; row < c.shape.rows; ++row) {
    for (int32_t output = 0; output < c.shape.outputs; ++output) {
      const float found = y[static_cast<size_t>(row) * stride + static_cast<size_t>(output)];
      const float expected = expected_output(c, row, output);
      const bool same = std::isnan(expected) ? std::isnan(found)
                                             : std::bit_cast<uint32_t>(found) == std::bit_cast<uint32_t>(expected);
      if (!same) {
        return fmt::format("{} weights, depth {}, {} rows: output [{}, {}] is {:a}, not {:a}", name_of(c.shape.type),
                           c.shape.depth, c.shape.rows, row, output, found, expected);
      }
    }
  }
  return {};
}

std::vector<std::string> linear_sources(const std::string& file) {
  if (file == "linear_avx_vnni.cl") return {"stage.cl", file, "linear_avx2_floats.cl", "linear_avx2.cl"};
  if (file == "linear_avx2.cl") return {"stage.cl", "linear_avx2_floats.cl", file};
  if (file == "linear_vnni_l2.cl") return {"stage.cl", file, "linear_vnni_floats.cl", "linear_vnni.cl"};
  if (file == "linear_amx.cl") return {"stage.cl", "linear_vnni_floats.cl", file, "linear_vnni.cl"};
  if (file == "linear_vnni.cl") return {"stage.cl", "linear_vnni_floats.cl", file};
  if (file == kGroupsLinear) return {"stage.cl", "groups.cl", "groups_dots.cl", file};
  return {"stage.cl", file};
}

ProgramSource linear_trial_source(const DeviceInfo& info, const std::string& file, PanelTypes types) {
  const bool groups = file == kGroupsLinear;
  ProgramSource source{.files = linear_sources(file), .options = type_options(types)};
  if (groups) source.options += group_options(info);
  source.files.emplace_back(groups ? "groups_linear_trial.cl" : "linear_trial.cl");
  return source;
}

std::string type_options(PanelTypes types) {
  return types == kAllPanelTypes ? "" : fmt::format(" -D WEIGHT_TYPES={:#x}L", types);
}

std::string group_options(const DeviceInfo& info) {
  return fmt::format(" -D MMA_INT8={}", int{info.nvidia_capability >= kMmaCapability});
}

LinearGroups linear_groups(bool bytes, bool floats, int32_t panels, int32_t rows, bool pairs) {
  const int32_t few = div_ceil(panels, few_panels(pairs));
  if (bytes && rows <= kFewRows) return {LinearKernel::Few, few};
  if (floats && rows <= kFewFloatRows) return {LinearKernel::FewFloats, few};
  return {LinearKernel::Many, div_ceil(panels, pairs ? 2 : 4) * div_ceil(rows, kTileRows)};
}

LinearTrial::LinearTrial(Device& device, const std::string& file, PanelTypes types)
    : device_(device),
      by_groups_(file == kGroupsLinear),
      types_(types),
      program_(device, linear_trial_source(device.info(), file, types)) {
  if (!by_groups_) kernels_.emplace_back(program_, "linear_trial");
  for (const char* name : kLinearKernels) {
    if (by_groups_) kernels_.emplace_back(program_, std::string("linear_trial_") + name);
  }
}

void LinearTrial::launch(const LinearShape& shape, int32_t first_panel, bool pairs) {
  const int32_t panels = panel_count(shape.outputs);
  if (by_groups_) {
    const bool bytes = takes_bytes(shape.type);
    LinearGroups groups = linear_groups(bytes, !bytes, panels, shape.rows, false);
    if (pairs && groups.kernel != LinearKernel::Many) groups.count = div_ceil(panels, 2);
    Kernel& kernel = kernels_.at(static_cast<size_t>(groups.kernel));
    kernel.set_all(weights_, x_, bytes_, scales_, sums_, y_, static_cast<int32_t>(shape.type), shape.depth,
                   panels * kPanelOutputs, shape.rows, first_panel);
    constexpr auto kLocal = static_cast<size_t>(kWorkGroup);
    return device_.launch(kernel, {.global = static_cast<size_t>(groups.count) * kLocal, .local = kLocal});
  }
  Kernel& kernel = kernels_.front();
  kernel.set_all(weights_, x_, bytes_, scales_, sums_, y_, static_cast<int32_t>(shape.type), shape.depth,
                 panels * kPanelOutputs, shape.rows, first_panel);
  const bool cpu = device_.info().type == DeviceType::Cpu;
  const int32_t items = div_ceil(panels, 2) * row_parts(device_.info(), shape.rows);
  device_.launch(kernel, {.global = static_cast<size_t>(items), .local = cpu ? size_t{1} : size_t{0}});
}

std::vector<float> LinearTrial::run(const LinearCase& c, bool pairs) {
  weights_ = uploaded(device_, "trial weights", c.panels);
  x_ = uploaded(device_, "trial rows", c.x);
  bytes_ = uploaded(device_, "trial bytes", c.bytes);
  scales_ = uploaded(device_, "trial scales", c.scales);
  sums_ = uploaded(device_, "trial sums", c.sums);
  std::vector<float> y(
      static_cast<size_t>(c.shape.rows) * static_cast<size_t>(panel_count(c.shape.outputs) * kPanelOutputs),
      std::numeric_limits<float>::quiet_NaN());
  y_ = uploaded(device_, "trial outputs", y);
  launch(c.shape, 0, pairs);
  y_.read(y);
  return y;
}

LinearTrial::Timing LinearTrial::time(const LinearShape& shape, int32_t repeats, size_t spread_bytes,
                                      double seconds_each) {
  // One panel's random numbers serve for all panels.
  LinearShape one = shape;
  one.outputs = kPanelOutputs;
  const LinearCase c = make_linear_case(one, 1);
  const int32_t panels = panel_count(shape.outputs);
  Timing timing{.weight_bytes = c.panels.size() * static_cast<size_t>(panels)};
  const auto copies = static_cast<int32_t>(std::max(div_ceil(spread_bytes, timing.weight_bytes), size_t{1}));
  weights_ = Buffer<std::byte>(device_, "trial weights", timing.weight_bytes * static_cast<size_t>(copies));
  const std::span<std::byte> mapped = weights_.memory().map_for_write(0, weights_.size());
  for (size_t at = 0; at < mapped.size(); at += c.panels.size()) std::ranges::copy(c.panels, mapped.begin() + at);
  weights_.memory().unmap(mapped);
  x_ = uploaded(device_, "trial rows", c.x);
  bytes_ = uploaded(device_, "trial bytes", c.bytes);
  scales_ = uploaded(device_, "trial scales", c.scales);
  sums_ = uploaded(device_, "trial sums", c.sums);
  y_ = Buffer<float>(device_, "trial outputs",
                     static_cast<size_t>(shape.rows) * static_cast<size_t>(panels * kPanelOutputs));
  int32_t copy = 0;
  const auto seconds_of_launch = [&](int32_t launches) {
    const auto begin = std::chrono::steady_clock::now();
    for (int32_t i = 0; i < launches; ++i) launch(shape, copy++ % copies * panels, false);
    device_.finish();
    return seconds_since(begin) / launches;
  };
  constexpr int32_t kLaunchesMax = 100;
  static_cast<void>(seconds_of_launch(1));  // drivers that compile at the first launch have done so
  const double once = seconds_of_launch(1);
  const int32_t together = std::clamp(static_cast<int32_t>(seconds_each / once), 1, kLaunchesMax);
  std::vector<double> seconds(static_cast<size_t>(repeats));
  for (double& one_launch : seconds) one_launch = seconds_of_launch(together);
  std::ranges::sort(seconds);
  timing.seconds = seconds.front();
  timing.median_seconds = seconds[seconds.size() / 2];
  return timing;
}

std::string verify_linear(LinearTrial& trial) {
  const auto compare = [&trial](const LinearCase& c) {
    const auto stride = static_cast<size_t>(panel_count(c.shape.outputs) * kPanelOutputs);
    std::string wrong = linear_difference(c, trial.run(c), stride);
    return wrong.empty() && trial.by_groups() ? linear_difference(c, trial.run(c, true), stride) : wrong;
  };
  for (const PanelType type : kPanelTypes) {
    if ((trial.types() & type_bit(type)) == 0) continue;
    const int32_t tail = takes_bytes(type) ? 0 : 7;  // float depths need not be multiples of anything
    for (const int32_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 70}) {
      const int32_t depth = align_up(32 + 32 * rows, panel_unit(type).numbers) + tail;
      const LinearCase c = make_linear_case({type, 35, depth, rows}, static_cast<uint64_t>(rows));
      if (std::string wrong = compare(c); !wrong.empty()) return wrong;
    }
    LinearCase c = make_linear_case({type, 32, align_up(1056, panel_unit(type).numbers), 37}, 1);
    (takes_bytes(type) ? c.scales : c.x)[3] = std::numeric_limits<float>::quiet_NaN();
    if (std::string wrong = compare(c); !wrong.empty()) return wrong;
  }
  return {};
}

namespace {

// Operations a second of a kernel (out, steps): the most of launches that become longer until one takes a tenth of a
// second.
double measure_rate(Device& device, Kernel& kernel, double operations_a_step) {
  const bool cpu = device.info().type == DeviceType::Cpu;
  const auto items = static_cast<size_t>(device.info().compute_units) * (cpu ? 1 : 1024);
  Buffer<float> out(device, "peak", items);
  kernel.set_all(out, 1);
  device.launch(kernel, {.global = items, .local = cpu ? size_t{1} : size_t{0}});
  device.finish();  // drivers that compile at the first launch have done so
  double best = 0;
  for (int32_t steps = 1 << 14; steps <= 1 << 24; steps *= 4) {
    kernel.set_all(out, steps);
    const auto begin = std::chrono::steady_clock::now();
    device.launch(kernel, {.global = items, .local = cpu ? size_t{1} : size_t{0}});
    device.finish();
    const double seconds = seconds_since(begin);
    best = std::max(best, static_cast<double>(items) * steps * operations_a_step / seconds);
    if (seconds > 0.1) break;
  }
  return best;
}

}  // namespace

double measure_peak_flops(Device& device) {
  const Program program(device, {.files = {"peak_fma.cl"}, .options = ""});
  double best = 0;
  for (const int32_t chains : {6, 12}) {
    Kernel kernel(program, fmt::format("peak_fma_{}", chains));
    best = std::max(best, measure_rate(device, kernel, chains * (16.0 * 2)));
  }
  return best;
}

double measure_peak_int8(Device& device) {
  const HostCpuFeatures& cpu = device.info().cpu;
  if (!cpu.avx2) return 0;
  const int32_t vnni_bits = cpu.avx512_vnni ? 512 : cpu.avx_vnni ? 256 : 0;
  const double products = cpu.amx_int8 ? 6.0 * 16 * 16 * 64 : vnni_bits > 0 ? 12.0 * vnni_bits / 8 : 6.0 * 32;
  const std::string options = fmt::format("-D PEAK_VNNI={} -D PEAK_AMX={}", vnni_bits, int{cpu.amx_int8});
  const Program program(device, {.files = {"peak_int8.cl"}, .options = options});
  Kernel kernel(program, "peak_int8");
  return measure_rate(device, kernel, 2 * products);
}

}  // namespace inflight
