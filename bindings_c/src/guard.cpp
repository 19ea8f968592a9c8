// SPDX-License-Identifier: Apache-2.0
#include "guard.h"

#include <cstring>

#include "base/quote.h"

namespace inflight::c {

// The numbers of inflight.h are those of base/error.h.
static_assert(static_cast<int>(ErrorCode::InvalidArgument) == INFLIGHT_ERROR_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorCode::NotFound) == INFLIGHT_ERROR_NOT_FOUND);
static_assert(static_cast<int>(ErrorCode::Unsupported) == INFLIGHT_ERROR_UNSUPPORTED);
static_assert(static_cast<int>(ErrorCode::Io) == INFLIGHT_ERROR_IO);
static_assert(static_cast<int>(ErrorCode::CorruptFile) == INFLIGHT_ERROR_CORRUPT_FILE);
static_assert(static_cast<int>(ErrorCode::Device) == INFLIGHT_ERROR_DEVICE);
static_assert(static_cast<int>(ErrorCode::NoDevice) == INFLIGHT_ERROR_NO_DEVICE);
static_assert(static_cast<int>(ErrorCode::OutOfMemory) == INFLIGHT_ERROR_OUT_OF_MEMORY);
static_assert(static_cast<int>(ErrorCode::Plugin) == INFLIGHT_ERROR_PLUGIN);
static_assert(static_cast<int>(ErrorCode::Rejected) == INFLIGHT_ERROR_REJECTED);
static_assert(static_cast<int>(ErrorCode::EngineFailed) == INFLIGHT_ERROR_ENGINE_FAILED);
static_assert(static_cast<int>(ErrorCode::Internal) == INFLIGHT_ERROR_INTERNAL);

std::string& last_error() noexcept {
  thread_local std::string text;
  return text;
}

const char*& last_error_field() noexcept {
  thread_local const char* field = "";
  return field;
}

// Reasons are numbered in the same order, one higher.
static_assert(static_cast<int>(RejectReason::MaxRequests) + 1 == INFLIGHT_REJECT_MAX_REQUESTS);
static_assert(static_cast<int>(RejectReason::QueuedRequests) + 1 == INFLIGHT_REJECT_QUEUED_REQUESTS);
static_assert(static_cast<int>(RejectReason::QueuedTokens) + 1 == INFLIGHT_REJECT_QUEUED_TOKENS);
static_assert(static_cast<int>(RejectReason::PredictedWait) + 1 == INFLIGHT_REJECT_PREDICTED_WAIT);
static_assert(static_cast<int>(RejectReason::Draining) + 1 == INFLIGHT_REJECT_DRAINING);
static_assert(kRejectReasonCount == 5);

LastRejection& last_rejection() noexcept {
  thread_local LastRejection last;
  return last;
}

inflight_status_t set_error(inflight_status_t status, const char* message) noexcept {
  try {
    last_error() = one_line(message);
  } catch (...) {
    last_error().clear();
  }
  return status;
}

void require(const void* pointer, const char* name) {
  if (pointer == nullptr) fail(ErrorCode::InvalidArgument, "{} is NULL", name);
}

inflight_status_t write_text(const std::string& source, char* text, size_t capacity, size_t* length,
                             const char* text_name, const char* length_name) {
  require(length, length_name);
  if (capacity > 0) require(text, text_name);
  *length = source.size();
  if (capacity <= source.size()) return INFLIGHT_WOULD_BLOCK;
  std::memcpy(text, source.c_str(), source.size() + 1);
  return INFLIGHT_OK;
}

}  // namespace inflight::c
