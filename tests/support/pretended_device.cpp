// SPDX-License-Identifier: Apache-2.0
#include "support/pretended_device.h"

#include "device/cl.h"

namespace inflight::test {

DeviceInfo& info_of(Device& device) { return device.state().info; }

Device open_as_gpu() {
  Device device = Device::open({});
  DeviceInfo& info = info_of(device);
  info.type = DeviceType::Gpu;
  info.small_items = true;
  info.host_code = false;
  info.cpu = {};
  return device;
}

}  // namespace inflight::test
