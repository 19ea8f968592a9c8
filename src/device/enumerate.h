// SPDX-License-Identifier: Apache-2.0
// Devices with OpenCL's handles: list_devices() for this folder.
#pragma once

#include <mutex>
#include <vector>

#include "device/cl.h"

namespace inflight {

struct EnumeratedDevice {
  DeviceInfo info;
  cl::Device device;
};
// Who first calls a driver holds it: PoCL's is not ready for a second thread while it finds its devices.
[[nodiscard]] std::mutex& driver_entry();

// ERRORS: NoDevice.   ENSURES: not empty.
[[nodiscard]] std::vector<EnumeratedDevice> enumerate_devices();

}  // namespace inflight
