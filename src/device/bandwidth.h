// SPDX-License-Identifier: Apache-2.0
// How fast the device reads its memory: the yardstick of everything that is bound by it.
#pragma once

#include "device/device.h"

namespace inflight {

// Bytes per second that all compute units together read from a buffer far larger than the caches: the best of several
// passes. About half a second.   ERRORS: as device.h.
[[nodiscard]] double measure_read_bandwidth(Device& device);

}  // namespace inflight
