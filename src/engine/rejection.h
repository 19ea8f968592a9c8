// SPDX-License-Identifier: Apache-2.0
// Why a request was refused at submit, and when another attempt makes sense.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"

namespace inflight {

enum class RejectReason : uint8_t {
  MaxRequests,     // max_requests wait or run
  QueuedRequests,  // max_num_queued_reqs wait
  QueuedTokens,    // max_num_queued_tokens wait
  PredictedWait,   // it would wait longer than max_predicted_wait_ms, or than its deadline for the first token lets it
  Draining,
};
inline constexpr size_t kRejectReasonCount = 5;
[[nodiscard]] const char* to_string(RejectReason reason);  // "queued_tokens"

// The text ends in "; retry after N s" when there is a point in it.
class Rejection : public Error {
 public:
  Rejection(RejectReason reason, std::optional<int32_t> retry_after_seconds, const std::string& message)
      : Error(ErrorCode::Rejected,
              retry_after_seconds ? fmt::format("{}; retry after {} s", message, *retry_after_seconds) : message),
        reason_(reason),
        retry_after_seconds_(retry_after_seconds) {}
  [[nodiscard]] RejectReason reason() const { return reason_; }
  [[nodiscard]] std::optional<int32_t> retry_after_seconds() const { return retry_after_seconds_; }

 private:
  RejectReason reason_;
  std::optional<int32_t> retry_after_seconds_;
};

}  // namespace inflight
