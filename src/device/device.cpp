// SPDX-License-Identifier: Apache-2.0
#include "device/device.h"

#include <algorithm>

#include "base/log.h"
#include "device/cl.h"
#include "device/enumerate.h"
#include "device/program.h"

namespace inflight {

Completion::Completion(Completion&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}

Completion& Completion::operator=(Completion&& other) noexcept {
  if (this != &other) {
    release();
    raw_ = std::exchange(other.raw_, nullptr);
  }
  return *this;
}

Completion::~Completion() { release(); }

void Completion::release() noexcept {
  if (raw_ != nullptr) clReleaseEvent(raw_);
  raw_ = nullptr;
}

void Completion::wait() const {
  INFLIGHT_CHECK(valid());
  cl_check(clWaitForEvents(1, &raw_), "clWaitForEvents");
}

std::future<TimeNs> Completion::completion_time() const {
  INFLIGHT_CHECK(valid());
  using Promise = std::promise<TimeNs>;
  auto promise = std::make_unique<Promise>();
  std::future<TimeNs> time = promise->get_future();
  const auto tell = [](cl_event, cl_int, void* data) {
    const std::unique_ptr<Promise> told(static_cast<Promise*>(data));
    told->set_value(SteadyClock().now());
  };
  cl_check(clSetEventCallback(raw_, CL_COMPLETE, tell, promise.get()), "clSetEventCallback");
  static_cast<void>(promise.release());  // the callback's now
  return time;
}

Device::Device(std::unique_ptr<DeviceState> state) : state_(std::move(state)) {}
Device::Device(Device&&) noexcept = default;

Device::~Device() {
  if (state_ == nullptr) return;
  for (const cl::CommandQueue& queue : state_->queues) {
    const cl_int status = queue() == nullptr ? CL_SUCCESS : clFinish(queue());
    if (status != CL_SUCCESS) log(LogLevel::Warning, "closing device: clFinish: {}", cl_status_name(status));
  }
}

Device Device::open(const DeviceOptions& options) {
  std::vector<EnumeratedDevice> found = enumerate_devices();
  std::vector<DeviceInfo> infos;
  for (const EnumeratedDevice& entry : found) infos.push_back(entry.info);
  const auto index = static_cast<size_t>(choose_device(infos, options.spec).index);
  auto state = std::make_unique<DeviceState>();
  state->info = infos[index];
  state->profile = options.profile;
  state->on_compile = options.on_compile;
  const std::scoped_lock lock(driver_entry());
  cl_guard(state->info.name, [&] {
    state->device = found[index].device;
    state->context = cl::Context(state->device);
    const cl_command_queue_properties properties = options.profile ? CL_QUEUE_PROFILING_ENABLE : 0;
    for (size_t i = 0; i < (state->info.host_code ? 2 : 1); ++i) {
      state->queues[i] = cl::CommandQueue(state->context, state->device, properties);
    }
  });
  return Device(std::move(state));
}

const DeviceInfo& Device::info() const { return state_->info; }

_cl_command_queue* Device::queue() const { return state_->queue(); }
_cl_device_id* Device::raw_id() const { return state_->device(); }

void Device::note_launch(const std::string& name, _cl_event* event) {
  const cl::Event owned(event, false);
  if (!state_->profile) return;
  const std::lock_guard lock(state_->pending_mutex);
  if (state_->pending.size() == kProfiledLaunchesMax) {
    log(LogLevel::Warning, "the profile has {} launches, the first half is dropped", kProfiledLaunchesMax);
    state_->pending.erase(state_->pending.begin(), state_->pending.begin() + ptrdiff_t{kProfiledLaunchesMax / 2});
  }
  state_->pending.push_back({name, owned});
}

void Device::launch(const Kernel& kernel, const LaunchShape& shape, Completion* done) {
  cl_event event = nullptr;
  const bool wanted = state_->profile || done != nullptr;
  const int launches = std::min(state_->launches + 1, 2);
  cl_check(clEnqueueNDRangeKernel(state_->queue(), kernel.raw(), 1, nullptr, &shape.global,
                                  shape.local == 0 ? nullptr : &shape.local, 0, nullptr, wanted ? &event : nullptr),
           "clEnqueueNDRangeKernel", kernel.name());
  if (state_->profile) {
    if (done != nullptr) clRetainEvent(event);
    note_launch(kernel.name(), event);
  }
  if (done != nullptr) *done = Completion(event);
  state_->launches = launches;
}

void Device::launch_beside(const Kernel& kernel, const LaunchShape& shape, Completion* done) {
  if (state_->info.host_code && state_->launches == 2) state_->current_queue ^= 1U;
  launch(kernel, shape, done);
}

Completion Device::marker() {
  cl_event event = nullptr;
  cl_check(clEnqueueMarkerWithWaitList(state_->queue(), 0, nullptr, &event), "clEnqueueMarkerWithWaitList");
  return Completion(event);
}

void Device::flush() { cl_check(clFlush(state_->queues[state_->current_queue]()), "clFlush"); }

void Device::finish() {
  for (const cl::CommandQueue& queue : state_->queues) {
    if (queue() != nullptr) cl_check(clFinish(queue()), "clFinish");
  }
}

std::vector<LedgerEntry> Device::ledger() const {
  const std::lock_guard lock(state_->ledger_mutex);
  return state_->ledger;
}

size_t Device::device_bytes() const {
  size_t total = 0;
  for (const LedgerEntry& entry : ledger()) total += entry.bytes;
  return total;
}

std::vector<ProfileRecord> Device::take_profile() {
  INFLIGHT_CHECK(state_->profile);
  std::vector<DeviceState::PendingRecord> taken;
  {
    const std::lock_guard lock(state_->pending_mutex);
    taken.swap(state_->pending);
  }
  finish();
  std::vector<ProfileRecord> records;
  for (DeviceState::PendingRecord& pending : taken) {
    cl_guard(pending.name, [&] {
      const auto time = [](cl_ulong ns) { return static_cast<int64_t>(ns); };
      records.push_back({.name = pending.name,
                         .start_ns = time(pending.event.getProfilingInfo<CL_PROFILING_COMMAND_START>()),
                         .end_ns = time(pending.event.getProfilingInfo<CL_PROFILING_COMMAND_END>())});
    });
  }
  return records;
}

std::string chrome_trace(std::span<const ProfileRecord> records) {
  int64_t origin = records.empty() ? 0 : records[0].start_ns;
  for (const ProfileRecord& record : records) origin = std::min(origin, record.start_ns);
  std::string text = "{\"traceEvents\":[";
  for (const ProfileRecord& record : records) {
    const auto microseconds = [](int64_t ns) { return static_cast<double>(ns) / 1e3; };
    // Kernel names are C identifiers: nothing to escape.
    text += fmt::format(R"({}{{"name":"{}","ph":"X","pid":0,"tid":0,"ts":{:.3f},"dur":{:.3f}}})",
                        text.back() == '[' ? "\n" : ",\n", record.name, microseconds(record.start_ns - origin),
                        microseconds(record.end_ns - record.start_ns));
  }
  return text + "\n]}\n";
}

}  // namespace inflight
