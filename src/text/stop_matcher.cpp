// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.h"

#include <algorithm>

namespace inflight {
namespace {

// Length of the longest end of `text` that is the beginning of `stop`, but not all of it.
size_t overlap(std::string_view text, std::string_view stop) {
  size_t length = std::min(text.size(), stop.size() - 1);
  while (length > 0 && !stop.starts_with(text.substr(text.size() - length))) --length;
  return length;
}

}  // namespace

bool StopMatcher::push(std::string_view text, std::string& out) {
  held_ += text;
  size_t begin = std::string::npos, end = std::string::npos;
  size_t hold = 0;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) {
      hold = std::max(hold, overlap(held_, stop));
    } else if (at + stop.size() < end || (at + stop.size() == end && at < begin)) {
      begin = at;
      end = at + stop.size();
    }
  }
  if (begin != std::string::npos) {
    out.append(held_, 0, begin);
    held_.clear();
    return true;
  }
  out.append(held_, 0, held_.size() - hold);
  held_.erase(0, held_.size() - hold);
  return false;
}

void StopMatcher::flush(std::string& out) {
  out += held_;
  held_.clear();
}

}  // namespace inflight
