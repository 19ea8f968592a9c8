// SPDX-License-Identifier: Apache-2.0
#include "device/bandwidth.h"

#include <algorithm>
#include <chrono>

#include "base/math.h"
#include "device/buffer.h"
#include "device/program.h"

namespace inflight {

double measure_read_bandwidth(Device& device) {
  constexpr size_t kBytesWanted = size_t{512} << 20;
  constexpr int kPasses = 8;
  const DeviceInfo& info = device.info();
  const bool cpu = info.type == DeviceType::Cpu;
  const size_t most = std::min({kBytesWanted, info.allocation_bytes_max, info.memory_bytes / 4});
  size_t items = cpu ? static_cast<size_t>(info.compute_units) : size_t{1} << 18;
  constexpr size_t kItemBytes = size_t{64} * 8;  // each item reads vectors of 64 bytes, 8 at a time
  while (items > 1 && items * kItemBytes > most) items /= 2;
  const size_t step = items * kItemBytes, bytes = std::max(most / step, size_t{1}) * step;

  Buffer<float> data(device, "bandwidth probe", bytes / sizeof(float));
  Buffer<float> sums(device, "bandwidth probe sums", items);
  data.clear();
  const Program program(device, {.files = {"bandwidth.cl"}, .options = ""});
  Kernel kernel(program, "read_bandwidth");
  kernel.set_all(sums, data, static_cast<int32_t>(bytes / 64 / items), int32_t{cpu});
  const LaunchShape shape{.global = items, .local = cpu ? size_t{1} : size_t{0}};
  double best = 0.0;
  for (int pass = 0; pass <= kPasses; ++pass) {  // the first one warms up: pages, compiler
    device.finish();
    const auto begin = std::chrono::steady_clock::now();
    device.launch(kernel, shape);
    device.finish();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    if (pass > 0) best = std::max(best, static_cast<double>(bytes) / seconds.count());
  }
  return best;
}

}  // namespace inflight
