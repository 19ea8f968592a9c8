// SPDX-License-Identifier: Apache-2.0
// The one place where exceptions become status codes.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "base/error.h"
#include "engine/rejection.h"
#include "engine/request_error.h"
#include "inflight/inflight.h"

namespace inflight::c {

// The calling thread's last error.  LIFETIME: the thread's.
[[nodiscard]] std::string& last_error() noexcept;
// Makes `message` the last error, as one line of valid UTF-8, and returns `status`.
inflight_status_t set_error(inflight_status_t status, const char* message) noexcept;
// What inflight_last_error_field() tells the calling thread.
[[nodiscard]] const char*& last_error_field() noexcept;

// What inflight_last_rejection() tells the calling thread.
struct LastRejection {
  inflight_reject_reason_t reason = INFLIGHT_REJECT_NONE;
  int32_t retry_after_s = 0;
};
[[nodiscard]] LastRejection& last_rejection() noexcept;

// Runs `body`, which returns a status, and turns whatever it throws into one.
template <typename Body>
inflight_status_t guard(Body&& body) noexcept {
  last_error().clear();
  last_error_field() = "";
  last_rejection() = {};
  try {
    return body();
  } catch (const Rejection& rejection) {
    last_rejection() = {.reason = static_cast<inflight_reject_reason_t>(rejection.reason()) + 1,
                        .retry_after_s = rejection.retry_after_seconds().value_or(0)};
    return set_error(INFLIGHT_ERROR_REJECTED, rejection.what());
  } catch (const RequestError& error) {
    last_error_field() = error.field();
    return set_error(INFLIGHT_ERROR_INVALID_ARGUMENT, error.what());
  } catch (const Error& error) {
    return set_error(static_cast<inflight_status_t>(error.code()), error.what());
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again)
      return set_error(INFLIGHT_ERROR_INTERNAL, error.what());
    return set_error(INFLIGHT_ERROR_OUT_OF_MEMORY, "no thread can be started: the process has as many as it may");
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

// Writes `source` and a NUL when it fits; the buffer rule of inflight_engine_metrics_text(). The last two name the
// function's parameters for errors.
[[nodiscard]] inflight_status_t write_text(const std::string& source, char* text, size_t capacity, size_t* length,
                                           const char* text_name = "text", const char* length_name = "length");

}  // namespace inflight::c
