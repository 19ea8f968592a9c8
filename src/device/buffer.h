// SPDX-License-Identifier: Apache-2.0
// Typed device memory: an element count, a label, its bytes in the device's ledger. Move-only.
// THREAD, ERRORS, LIFETIME: as device.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "device/device.h"

struct _cl_mem;  // NOLINT: OpenCL's name

namespace inflight {

// Untyped part of Buffer.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  // Not initialised.  ERRORS: OutOfMemory naming label, bytes and the device's limit, before anything is enqueued.
  DeviceMemory(Device& device, std::string label, size_t bytes);
  // What kernels only read: these bytes themselves, which then outlive it, where kernels are code of this process
  // (DeviceInfo::host_code), else a copy.  REQUIRES: aligned to 4096.   ERRORS: as above.
  DeviceMemory(Device& device, std::string label, std::span<const std::byte> contents);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] _cl_mem* raw() const { return raw_; }

  // REQUIRES of all: offset + the span's bytes <= bytes(). Spans of asynchronous calls must live until the command ran.
  void write(size_t offset, std::span<const std::byte> from);
  void read(size_t offset, std::span<std::byte> to) const;
  void write_async(size_t offset, std::span<const std::byte> from);
  [[nodiscard]] Completion read_async(size_t offset, std::span<std::byte> to) const;
  // Enqueued: sets [offset, offset + bytes) to zero.
  void clear(size_t offset, size_t bytes);
  // Enqueued: copies within or between buffers of one device. The ranges do not overlap.
  void copy_from(const DeviceMemory& source, size_t source_offset, size_t offset, size_t bytes);
  // Blocks; the bytes as host memory until unmap(). For packing weights in place.
  [[nodiscard]] std::span<std::byte> map_for_write(size_t offset, size_t bytes);
  void unmap(std::span<std::byte> mapped);
  // Has the system find the memory of the first `bytes` (at most bytes()) now, on all processors, and not when they are
  // first written, as it would. Contents stay. No effect where the memory is not this process's.
  void populate(size_t bytes);
  // The bytes as host memory while the buffer lives, where kernels are code of this process (DeviceInfo::host_code);
  // else empty. Whoever uses it sees to it that no command does at the same time.
  [[nodiscard]] std::span<std::byte> in_place();

 private:
  // contents: of a buffer that is memory of the host; null: memory of its own.
  void allocate(Device& device, std::string label, uint64_t flags, const std::byte* contents, size_t bytes);
  void release() noexcept;
  [[nodiscard]] std::span<std::byte> map(uint64_t flags, size_t offset, size_t bytes);
  DeviceState* state_ = nullptr;
  _cl_mem* raw_ = nullptr;
  size_t bytes_ = 0;
  std::string label_;
  std::span<std::byte> in_place_;
};

template <typename T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  Buffer() = default;
  Buffer(Device& device, std::string label, size_t count) : memory_(device, std::move(label), count * sizeof(T)) {}
  // As DeviceMemory's.
  Buffer(Device& device, std::string label, std::span<const T> contents)
      : memory_(device, std::move(label), std::as_bytes(contents)) {}

  [[nodiscard]] size_t size() const { return memory_.bytes() / sizeof(T); }
  [[nodiscard]] DeviceMemory& memory() { return memory_; }
  [[nodiscard]] const DeviceMemory& memory() const { return memory_; }

  // offset: in elements.
  void write(std::span<const T> from, size_t offset = 0) { memory_.write(offset * sizeof(T), std::as_bytes(from)); }
  void read(std::span<T> to, size_t offset = 0) const { memory_.read(offset * sizeof(T), std::as_writable_bytes(to)); }
  void write_async(std::span<const T> from, size_t offset = 0) {
    memory_.write_async(offset * sizeof(T), std::as_bytes(from));
  }
  [[nodiscard]] Completion read_async(std::span<T> to, size_t offset = 0) const {
    return memory_.read_async(offset * sizeof(T), std::as_writable_bytes(to));
  }
  void clear() { memory_.clear(0, memory_.bytes()); }
  [[nodiscard]] std::span<T> in_place() {
    const std::span<std::byte> bytes = memory_.in_place();
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

 private:
  DeviceMemory memory_;
};

}  // namespace inflight
