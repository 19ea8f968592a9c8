// SPDX-License-Identifier: Apache-2.0
// Finds stop strings in text that comes in pieces, and never lets out a part of one: what could still become a stop
// string is held back until it has or has not. Knows nothing of tokens: the pieces are what text/Detokenizer gives.
//
// Whoever reads an OutputStream feeds one of these for each answer, shows what push() gives, and when stopped() calls
// Engine::stop(request, choice) and reports finish reason stop.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace inflight {

// THREAD: one at a time per object.
class StopMatcher {
 public:
  // include: the stop string itself is part of the text (include_stop_str_in_output).
  // ERRORS: InvalidArgument: more than limits::kStopStringsMax, an empty one, or one longer than kStopStringBytesMax.
  StopMatcher(std::vector<std::string> stops, bool include);

  // The text that may be shown now that `piece` has come. Nothing more comes once stopped().
  // may_end: a stop string that ends in `piece` counts; it may begin before, in pieces that none may end in, too.
  // LIFETIME: until the next call.
  std::string_view push(std::string_view piece, bool may_end = true);
  // The answer has ended by itself: what was held back. LIFETIME: until the next call.
  std::string_view flush();

  [[nodiscard]] bool includes_stop() const { return include_; }
  [[nodiscard]] bool stopped() const { return matched_.has_value(); }
  // Which one it was.  REQUIRES: stopped().
  [[nodiscard]] const std::string& matched() const { return stops_[*matched_]; }

 private:
  std::vector<std::string> stops_;
  bool include_;
  std::optional<size_t> matched_;  // of stops_
  std::string held_, shown_;
};

}  // namespace inflight
