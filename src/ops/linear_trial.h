// SPDX-License-Identifier: Apache-2.0
// A kernel file's linear_tile() on its own: verified bit for bit, and timed.
// THREAD, ERRORS, LIFETIME: as device/device.h.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "device/program.h"
#include "ops/linear_case.h"

namespace inflight {

// What a program with one of kLinearFiles (linear_choice.h) begins with: files of cl_kernels, in order.
[[nodiscard]] std::vector<std::string> linear_sources(const std::string& file);
[[nodiscard]] ProgramSource linear_trial_source(const DeviceInfo& info, const std::string& file,
                                                PanelTypes types = kAllPanelTypes);
// -D of a program for these types alone.
[[nodiscard]] std::string type_options(PanelTypes types);

// NVIDIA's from here on have what PTX the kernels of work-groups hold: mma.m16n8k32 of s8, and fence.acq_rel (of 7.0).
inline constexpr int32_t kMmaCapability = 80;
// -D of groups_linear.cl: what the device's instructions are.
[[nodiscard]] std::string group_options(const DeviceInfo& info);
// Which kernel of groups_linear.cl computes a linear layer, by how many work-groups.
enum class LinearKernel : int32_t { Few = 0, FewFloats = 1, Many = 2 };
inline constexpr const char* kLinearKernels[] = {"few", "few_floats", "many"};  // behind "linear_", "linear_trial_"
struct LinearGroups {
  LinearKernel kernel = LinearKernel::Many;
  int32_t count = 0;
};
// Panels of an item for few rows: pairs of panels where there are two matrices.
[[nodiscard]] constexpr int32_t few_panels(bool pairs) { return pairs ? 2 : 1; }
// bytes, floats: all its weights take quantised rows, or none. panels: of one matrix.
[[nodiscard]] LinearGroups linear_groups(bool bytes, bool floats, int32_t panels, int32_t rows, bool pairs);

class LinearTrial {
 public:
  // file: of cl_kernels, such as "linear.cl". types: what it is compiled for.   ERRORS: Device when it does not
  // compile.
  LinearTrial(Device& device, const std::string& file, PanelTypes types = kAllPanelTypes);

  // y [rows][16 * panels]. pairs: of groups_linear.cl, panels of few rows two at a time, as SWIGLU has them.
  [[nodiscard]] std::vector<float> run(const LinearCase& linear_case, bool pairs = false);
  [[nodiscard]] bool by_groups() const { return by_groups_; }
  [[nodiscard]] PanelTypes types() const { return types_; }

  // Seconds of one layer: the fastest and the median of `repeats` times as many launches, one directly after the other,
  // as take seconds_each (at least one, at most 100). The weights are read from memory as in a step: the panels lie
  // several times in the buffer, spread_bytes in all, and each launch reads the next ones.
  struct Timing {
    double seconds = 0;  // fastest
    double median_seconds = 0;
    size_t weight_bytes = 0;
  };
  [[nodiscard]] Timing time(const LinearShape& shape, int32_t repeats, size_t spread_bytes, double seconds_each = 0);

 private:
  void launch(const LinearShape& shape, int32_t first_panel, bool pairs);

  Device& device_;
  bool by_groups_;
  PanelTypes types_;
  Program program_;
  std::vector<Kernel> kernels_;  // by groups one a LinearKernel
  Buffer<std::byte> weights_;
  Buffer<float> x_, scales_, y_;
  Buffer<int8_t> bytes_;
  Buffer<int32_t> sums_;
};

// Empty when y [rows][stride] is expected_output() everywhere, bit for bit; else the first difference.
[[nodiscard]] std::string linear_difference(const LinearCase& linear_case, std::span<const float> y, size_t stride);

// Empty when linear_tile() of the file gives the expected bits in all the trial's types, for row counts that make every
// tile size and depths that leave tails, with NaN in x reaching y; else what was wrong.
[[nodiscard]] std::string verify_linear(LinearTrial& trial);

// The most fused multiply-adds that the device does, in floating-point operations a second.
[[nodiscard]] double measure_peak_flops(Device& device);
// Likewise exact sums of int8 products, two operations each; 0: not known how to reach it here (x86 processors only).
[[nodiscard]] double measure_peak_int8(Device& device);

}  // namespace inflight
