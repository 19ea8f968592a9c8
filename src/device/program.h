// SPDX-License-Identifier: Apache-2.0
// Kernel sources to kernels, through a cache of program binaries on disk.
// THREAD, ERRORS, LIFETIME: as device.h. A failed build's message holds the compiler's log.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "device/buffer.h"
#include "device/device.h"

struct _cl_kernel;   // NOLINT: OpenCL's names
struct _cl_program;  // NOLINT

namespace inflight {

// Text of cl_kernels/<name>, embedded at build time.  ERRORS: NotFound.
[[nodiscard]] std::string_view kernel_source(std::string_view name);

struct ProgramSource {
  std::vector<std::string> files;  // of cl_kernels, in order; each reports its own name and lines in build logs
  std::string options;             // "-D X=1"; "-cl-std=CL1.2" is added
};

// Names a program in the cache folder: a hash of device, driver, source and options.   ERRORS: NotFound for a file.
[[nodiscard]] std::string program_cache_key(const DeviceInfo& info, const ProgramSource& source);

class Program {
 public:
  // Builds, or loads what an earlier build left in the cache folder: $INFLIGHT_CACHE_DIR, else inflight/ below the XDG
  // cache folder. The key is program_cache_key(). An entry that is damaged and a folder that
  // cannot be written are ignored with one warning in the log.
  Program(Device& device, const ProgramSource& source);
  Program(Program&& other) noexcept;
  Program& operator=(Program&&) = delete;
  ~Program();

  [[nodiscard]] _cl_program* raw() const { return raw_; }
  [[nodiscard]] Device& device() const { return *device_; }

 private:
  Device* device_;
  _cl_program* raw_ = nullptr;
};

// The folder of the caches (programs, tuning results); not created. Empty: there is none.
[[nodiscard]] std::string cache_folder();

class Kernel {
 public:
  Kernel() = default;
  // ERRORS: Device when the program has no kernel of this name.
  Kernel(const Program& program, std::string name);
  Kernel(Kernel&& other) noexcept;
  Kernel& operator=(Kernel&& other) noexcept;
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel();

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] _cl_kernel* raw() const { return raw_; }

  template <typename T>
  void set(uint32_t index, const Buffer<T>& buffer) {
    set(index, buffer.memory());
  }
  void set(uint32_t index, const DeviceMemory& memory);
  void set(uint32_t index, int32_t value) { set_bytes(index, std::as_bytes(std::span(&value, 1))); }
  // A kernel's parameter that is a struct: the same bytes on both sides.
  template <typename T>
    requires std::is_trivially_copyable_v<T> && std::is_class_v<T>
  void set_struct(uint32_t index, const T& value) {
    set_bytes(index, std::as_bytes(std::span(&value, 1)));
  }
  void set(uint32_t index, float value) { set_bytes(index, std::as_bytes(std::span(&value, 1))); }
  // All arguments in order.
  template <typename... Arguments>
  void set_all(const Arguments&... arguments) {
    uint32_t index = 0;
    (set(index++, arguments), ...);
  }

 private:
  void set_bytes(uint32_t index, std::span<const std::byte> value);
  void release() noexcept;
  _cl_kernel* raw_ = nullptr;
  std::string name_;
};

}  // namespace inflight
