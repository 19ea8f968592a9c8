// SPDX-License-Identifier: Apache-2.0
// CLBlast's matrix product of floats. The library is loaded when somebody wants it, so that nobody else waits for it or
// needs it installed.   THREAD, ERRORS, LIFETIME: as device/device.h.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/buffer.h"

namespace inflight {

// Parameters of CLBlast's kernel Xgemm by name, all of them; empty: those of its own database.
using ClblastParameters = std::vector<std::pair<std::string, size_t>>;

struct ClblastProduct {
  const DeviceMemory* x = nullptr;  // [rows][depth], from x_offset on, in floats
  size_t x_offset = 0;
  const DeviceMemory* weights = nullptr;  // [depth][outputs]
  const DeviceMemory* y = nullptr;        // [rows][outputs]
  int32_t rows = 0, depth = 0, outputs = 0;
};

class Clblast {
 public:
  [[nodiscard]] static bool available();
  // Path, size and time of the library's file, which change when another one is installed; empty: it is not there.
  [[nodiscard]] static std::string identity();
  // ERRORS: Unsupported when libclblast.so.1 is not there, naming the package.
  Clblast();
  ~Clblast();
  Clblast(const Clblast&) = delete;
  Clblast& operator=(const Clblast&) = delete;

  // Makes every product on the device run the kernel that reads padded copies, with these parameters. That kernel adds
  // along the depth in order, whatever the number of rows; the other one, for small matrices, has an order of its own.
  // For the whole process.   ERRORS: Device for parameters that CLBlast refuses.
  void configure(const Device& device, const ClblastParameters& parameters) const;

  // Enqueues y = x * weights.   COST: the first call compiles, seconds.
  void multiply(Device& device, const ClblastProduct& product) const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

}  // namespace inflight
