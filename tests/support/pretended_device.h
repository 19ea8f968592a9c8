// SPDX-License-Identifier: Apache-2.0
// The device at hand, made to look like another one: what GPUs are given, and small limits, run on any machine.
#pragma once

#include "device/device.h"

namespace inflight::test {

// What the device says of itself, to be changed before anything is made on it.
[[nodiscard]] DeviceInfo& info_of(Device& device);

// Says that it is a GPU: a launch a stage, small items, portable kernels, work-groups of the driver's choice.
[[nodiscard]] Device open_as_gpu();

}  // namespace inflight::test
