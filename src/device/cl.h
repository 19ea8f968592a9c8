// SPDX-License-Identifier: Apache-2.0
// OpenCL, fenced in: the only file that includes its C++ bindings, seen only by the .cpp files of this folder
// (and by tests/support/pretended_device.cpp).
#pragma once

#include <CL/opencl.hpp>
#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/device.h"

namespace inflight {

// "CL_INVALID_VALUE (-30)"
[[nodiscard]] std::string cl_status_name(cl_int status);

// Throws Error: OutOfMemory for the codes that mean it, else Device.  "clBuildProgram: CL_X (-n): detail"
[[noreturn]] void fail_cl(cl_int status, const char* call, std::string_view detail = {});

// Runs `function`, translating OpenCL's exceptions. `what` names the thing it was done to, for the message.
template <typename Function>
decltype(auto) cl_guard(std::string_view what, Function&& function) {
  try {
    return std::forward<Function>(function)();
  } catch (const cl::Error& error) {
    fail_cl(error.err(), error.what(), what);
  }
}

inline void cl_check(cl_int status, const char* call, std::string_view what = {}) {
  if (status != CL_SUCCESS) fail_cl(status, call, what);
}

// What one device's buffers, programs and launches share.
struct DeviceState {
  DeviceInfo info;
  cl::Device device;
  cl::Context context;
  // In order, each. What is enqueued goes to the current one; launch_beside() makes the other one current.
  std::array<cl::CommandQueue, 2> queues;
  size_t current_queue = 0;
  int launches = 0;  // since anything else was enqueued; from 2 on they are not counted
  // For what is no launch.
  [[nodiscard]] cl_command_queue queue() {
    launches = 0;
    return queues[current_queue]();
  }
  bool profile = false;
  std::function<void()> on_compile;  // may be empty
  struct PendingRecord {
    std::string name;
    cl::Event event;
  };
  std::mutex pending_mutex;
  std::vector<PendingRecord> pending;  // launches not yet read by take_profile()

  std::mutex ledger_mutex;
  std::vector<LedgerEntry> ledger;
};

}  // namespace inflight
