// SPDX-License-Identifier: Apache-2.0
#include "core/request.h"

namespace inflight {

const char* to_string(FinishReason reason) {
  switch (reason) {
    case FinishReason::None:
      return "none";
    case FinishReason::Stop:
      return "stop";
    case FinishReason::Length:
      return "length";
    case FinishReason::Abort:
      return "abort";
    case FinishReason::Error:
      return "error";
  }
  return "none";
}

}  // namespace inflight
