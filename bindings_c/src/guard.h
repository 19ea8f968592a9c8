// SPDX-License-Identifier: Apache-2.0
// The one place where exceptions become status codes.
#pragma once

#include <exception>
#include <new>
#include <string>

#include "base/error.h"
#include "inflight/inflight.h"

namespace inflight::c {

// The calling thread's last error.  LIFETIME: the thread's.
[[nodiscard]] std::string& last_error() noexcept;
inflight_status_t set_error(inflight_status_t status, const char* message) noexcept;

// Runs `body`, which returns a status, and turns whatever it throws into one.
template <typename Body>
inflight_status_t guard(Body&& body) noexcept {
  last_error().clear();
  try {
    return body();
  } catch (const Error& error) {
    return set_error(static_cast<inflight_status_t>(error.code()), error.what());
  } catch (const std::bad_alloc&) {
    return set_error(INFLIGHT_ERROR_OUT_OF_MEMORY, "out of host memory");
  } catch (const std::exception& error) {
    return set_error(INFLIGHT_ERROR_INTERNAL, error.what());
  } catch (...) {
    return set_error(INFLIGHT_ERROR_INTERNAL, "an exception of an unknown type");
  }
}

// ERRORS: InvalidArgument naming the argument when it is NULL.
void require(const void* pointer, const char* name);

// Writes `source` and a NUL when it fits; the buffer rule of inflight_engine_metrics_text().
[[nodiscard]] inflight_status_t write_text(const std::string& source, char* text, size_t capacity, size_t* length);

}  // namespace inflight::c
