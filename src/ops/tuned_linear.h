// SPDX-License-Identifier: Apache-2.0
// What was measured before: the fastest kernel file for drivers and processors that many people have. It saves the
// first start the trials of the other files; a file named here is verified like any other before it is used.
// THREAD: any.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "device/device_info.h"

namespace inflight {

struct TunedLinear {
  std::string_view platform;  // equal
  std::string_view driver;    // what the driver's version begins with
  std::string_view name;      // a part of the device's name
  std::string_view features;  // HostCpuFeatures::describe(), equal
  std::string_view file;
  std::string_view measured_on;
};
[[nodiscard]] std::span<const TunedLinear> tuned_linear_table();

// Empty: nothing is known of such a device.
[[nodiscard]] std::string tuned_linear_file(const DeviceInfo& info);

}  // namespace inflight
