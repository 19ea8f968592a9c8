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
[[nodiscard]] ProgramSource linear_trial_source(const std::string& file);

class LinearTrial {
 public:
  // file: of cl_kernels, such as "linear.cl".   ERRORS: Device when it does not compile.
  LinearTrial(Device& device, const std::string& file);

  // y [rows][16 * panels].
  [[nodiscard]] std::vector<float> run(const LinearCase& linear_case);

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
  void launch(const LinearShape& shape, int32_t first_panel);

  Device& device_;
  Program program_;
  Kernel kernel_;
  Buffer<std::byte> weights_;
  Buffer<float> x_, scales_, y_;
  Buffer<int8_t> bytes_;
  Buffer<int32_t> sums_;
};

// Empty when y [rows][stride] is expected_output() everywhere, bit for bit; else the first difference.
[[nodiscard]] std::string linear_difference(const LinearCase& linear_case, std::span<const float> y, size_t stride);

// Empty when linear_tile() of the file gives the expected bits in all types, for row counts that make every tile size
// and depths that leave tails, with NaN in x reaching y; else what was wrong.
[[nodiscard]] std::string verify_linear(LinearTrial& trial);

// The most fused multiply-adds that the device does, in floating-point operations a second.
[[nodiscard]] double measure_peak_flops(Device& device);
// Likewise exact sums of int8 products, two operations each; 0: not known how to reach it here (x86 processors only).
[[nodiscard]] double measure_peak_int8(Device& device);

}  // namespace inflight
