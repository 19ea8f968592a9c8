// SPDX-License-Identifier: Apache-2.0
// Errors and checks. Inside the library a mistake of the caller or the environment is an Error, a broken invariant of
// ours an InternalError; "no block free" and the like are values, never exceptions. Only bindings_c turns these into
// status codes; the numbers are the public ones of inflight.h (asserted there).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace inflight {

enum class ErrorCode : int32_t {
  InvalidArgument = 10,  // a value out of its range, an unknown name
  NotFound = 11,         // a file, device, plugin or request that is not there
  Unsupported = 12,      // well formed, but not something this build can do
  Io = 20,               // the operating system refused: open, read, write, map
  CorruptFile = 21,      // the bytes of a file contradict its format
  Device = 30,           // an OpenCL call failed
  NoDevice = 31,         // no OpenCL platform or device at all
  OutOfMemory = 32,      // host or device memory
  Plugin = 40,           // a plugin could not be loaded or broke its contract
  Rejected = 50,         // refused at submit: queue limits, deadlines, draining
  EngineFailed = 60,     // the step loop has stopped for good
  Internal = 61,         // a bug of ours
};

class Error : public std::runtime_error {
 public:
  // message: one line; names the thing, what was found, what is allowed.
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

// A broken invariant: a bug in this library, never the caller's fault.
class InternalError : public Error {
 public:
  explicit InternalError(const std::string& message) : Error(ErrorCode::Internal, message) {}
};

// Throws Error{code} with a formatted message:  fail(ErrorCode::Io, "{}: {}", path, reason).
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

[[noreturn]] void check_failed(const char* expression, const char* file, int line);

}  // namespace inflight

// Always on, release builds included: the invariants are what the scheduler is sold on.
#define INFLIGHT_CHECK(condition) ((condition) ? void(0) : ::inflight::check_failed(#condition, __FILE__, __LINE__))
