// SPDX-License-Identifier: Apache-2.0
// Devices with OpenCL's handles: list_devices() for this folder.
#pragma once

#include <vector>

#include "device/cl.h"

namespace inflight {

struct EnumeratedDevice {
  DeviceInfo info;
  cl::Device device;
};
// ERRORS: NoDevice.   ENSURES: not empty.
[[nodiscard]] std::vector<EnumeratedDevice> enumerate_devices();

}  // namespace inflight
