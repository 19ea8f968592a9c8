// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/limits.h"

namespace inflight {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include) : stops_(std::move(stops)), include_(include) {
  if (stops_.size() > limits::kStopStringsMax) {
    fail(ErrorCode::InvalidArgument, "{} stop strings were given, allowed: at most {}", stops_.size(),
         limits::kStopStringsMax);
  }
  for (const std::string& stop : stops_) {
    if (stop.empty() || stop.size() > limits::kStopStringBytesMax) {
      fail(ErrorCode::InvalidArgument, "a stop string has {} bytes, allowed: 1 to {}", stop.size(),
           limits::kStopStringBytesMax);
    }
  }
}

std::string_view StopMatcher::push(std::string_view piece, bool may_end) {
  shown_.clear();
  if (stopped()) return shown_;
  const size_t passed = held_.size();  // no stop string ends here any more
  held_ += piece;
  // The stop string that is complete first; of those that end together, the one that begins first.
  size_t best_end = std::string::npos, best_begin = 0;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const std::string& stop = stops_[i];
    const size_t begin = may_end ? held_.find(stop, passed + 1 - std::min(passed + 1, stop.size())) : std::string::npos;
    if (begin == std::string::npos) continue;
    const size_t end = begin + stop.size();
    if (end > best_end || (end == best_end && begin >= best_begin)) continue;
    best_end = end;
    best_begin = begin;
    matched_ = i;
  }
  if (stopped()) {
    shown_ = held_.substr(0, include_ ? best_end : best_begin);
    held_.clear();
    return shown_;
  }
  // The longest end of the text that a stop string begins with.
  size_t keep = 0;
  for (const std::string& stop : stops_) {
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, length))) keep = length;
    }
  }
  shown_ = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return shown_;
}

std::string_view StopMatcher::flush() {
  shown_ = std::exchange(held_, {});
  return shown_;
}

}  // namespace inflight
