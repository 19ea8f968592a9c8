// SPDX-License-Identifier: Apache-2.0
// One opened OpenCL device: its context, its queue, a ledger of the memory taken and, if asked for, the times of its
// kernels. Everything submitted runs in the order of submission, but for what launch_beside() says.
//
// THREAD: one thread at a time.   ERRORS of everything here: Device with OpenCL's code and call, OutOfMemory.
// LIFETIME: buffers, programs and events must be gone before the Device is.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "device/device_info.h"

struct _cl_event;          // NOLINT: OpenCL's names
struct _cl_command_queue;  // NOLINT
struct _cl_device_id;      // NOLINT

namespace inflight {

struct DeviceState;
class Kernel;

inline constexpr size_t kProfiledLaunchesMax = size_t{1} << 18;

struct DeviceOptions {
  std::string spec;  // see choose_device()
  // Keep the times of the launches, at most kProfiledLaunchesMax, for take_profile(); costs some microseconds a launch.
  bool profile = false;
  // Before each compilation whose result is not in the cache: it takes seconds.
  std::function<void()> on_compile;
};

struct LedgerEntry {
  std::string label;
  size_t bytes = 0;
};

// One launch, on the device's own clock.
struct ProfileRecord {
  std::string name;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Sizes of a launch; a local size of 0 leaves it to the driver.
struct LaunchShape {
  size_t global = 1;
  size_t local = 0;
};

// Completion of one command.
class Completion {
 public:
  Completion() = default;
  explicit Completion(_cl_event* raw) : raw_(raw) {}  // takes the reference
  Completion(Completion&& other) noexcept;
  Completion& operator=(Completion&& other) noexcept;
  Completion(const Completion&) = delete;
  Completion& operator=(const Completion&) = delete;
  ~Completion();

  // Blocks until the command is done.  REQUIRES: valid().   ERRORS: Device when the command failed.
  void wait() const;
  [[nodiscard]] bool valid() const { return raw_ != nullptr; }

  // When the command is done or has failed, by SteadyClock, as the driver's callback tells: some microseconds late.
  // REQUIRES: valid().   ERRORS: Device.
  [[nodiscard]] std::future<TimeNs> completion_time() const;

 private:
  void release() noexcept;
  _cl_event* raw_ = nullptr;
};

class Device {
 public:
  // ERRORS: NoDevice, NotFound (as choose_device), Device.
  [[nodiscard]] static Device open(const DeviceOptions& options);
  Device(Device&&) noexcept;
  Device& operator=(Device&&) = delete;
  ~Device();

  [[nodiscard]] const DeviceInfo& info() const;

  // Enqueues a kernel with the arguments it has been given. done: set to when it has run; null = nobody asks.
  void launch(const Kernel& kernel, const LaunchShape& shape, Completion* done = nullptr);
  // As launch(), but where kernels are code of this process (DeviceInfo::host_code) and the last two things enqueued
  // are launches it may begin before the last one has ended or begun. So a worker that has nothing left to do in one
  // begins the next: a driver's worker that sleeps between two launches needs microseconds to wake.
  // REQUIRES: the launch before the last one is done. The kernel waits by itself for what it needs of the last one,
  // which comes to its end even if it begins after this one.
  void launch_beside(const Kernel& kernel, const LaunchShape& shape, Completion* done = nullptr);
  // Done when everything enqueued so far is.
  [[nodiscard]] Completion marker();
  // Hands everything enqueued to the device.
  void flush();
  // Blocks until everything enqueued is done.
  void finish();

  // Buffers that are alive.
  [[nodiscard]] std::vector<LedgerEntry> ledger() const;
  [[nodiscard]] size_t device_bytes() const;

  // The launches since the last call, all finished.   REQUIRES: opened with profile.   THREAD: any.
  [[nodiscard]] std::vector<ProfileRecord> take_profile();

  [[nodiscard]] DeviceState& state() const { return *state_; }  // for this folder
  // For CLBlast, which enqueues by itself; the event of what it enqueued is handed over for the profile.
  [[nodiscard]] _cl_command_queue* queue() const;
  [[nodiscard]] _cl_device_id* raw_id() const;
  void note_launch(const std::string& name, _cl_event* event);

 private:
  explicit Device(std::unique_ptr<DeviceState> state);
  std::unique_ptr<DeviceState> state_;
};

// The records as a Chrome trace ("chrome://tracing", Perfetto): one complete event a launch, times in microseconds from
// the first start.
[[nodiscard]] std::string chrome_trace(std::span<const ProfileRecord> records);

}  // namespace inflight
