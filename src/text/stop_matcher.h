// SPDX-License-Identifier: Apache-2.0
// Stop strings in text that comes in pieces: what might be the beginning of one is held back until it is certain.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace inflight {

// THREAD: one at a time.
class StopMatcher {
 public:
  // REQUIRES: no string is empty.
  explicit StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Appends to `out` the text that is certainly not part of a stop string. True: one was found (the first to end, and
  // of those the longest); `out` then has everything before it, and nothing may be pushed any more. COST: O(text * stop
  // strings).
  [[nodiscard]] bool push(std::string_view text, std::string& out);

  // The text is complete: appends what was held back.
  void flush(std::string& out);

 private:
  std::vector<std::string> stops_;
  std::string held_;
};

}  // namespace inflight
