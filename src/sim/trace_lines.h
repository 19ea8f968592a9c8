// SPDX-License-Identifier: Apache-2.0
// Lines and fields of text traces, with errors that name file, line, field, what was found and what is allowed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace inflight {

class TraceLines {
 public:
  // LIFETIME: borrowed.
  TraceLines(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  // The next line that is not empty; false at the end.
  bool next() {
    while (!rest_.empty()) {
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      line_ = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      ++number_;
      if (line_.ends_with('\r')) line_.remove_suffix(1);
      if (!line_.empty()) return true;
    }
    return false;
  }
  [[nodiscard]] std::string_view line() const { return line_; }

  [[noreturn]] void bad_field(std::string_view field, std::string_view found, std::string_view allowed) const {
    fail(ErrorCode::CorruptFile, "{}:{}: field {} is '{}', allowed: {}", name_, number_, field, found.substr(0, 80),
         allowed);
  }
  [[noreturn]] void bad_line(std::string_view what) const {
    fail(ErrorCode::CorruptFile, "{}:{}: {}", name_, number_, what);
  }
  // A token count: a whole number, `least` to limits::kContextTokensMax.
  [[nodiscard]] int32_t tokens(std::string_view field, std::string_view text, int32_t least) const;
  [[nodiscard]] int32_t tokens(std::string_view field, double value, int32_t least) const;

 private:
  std::string_view rest_, line_;
  const std::string& name_;
  int64_t number_ = 0;
};

// The times in a field of a trace: all dates or all seconds, as the first of them is.
class TraceTimes {
 public:
  [[nodiscard]] TimeNs read(const TraceLines& lines, std::string_view field, std::string_view text);

 private:
  std::optional<bool> are_seconds_;
};

// The fields of a CSV line; quotes around a field are taken off.
[[nodiscard]] std::vector<std::string_view> split_csv(std::string_view line);
// "2023-11-16 18:17:03.9799600", "2023-11-16T18:17:03Z", "...+02:00" (east of UTC) in ns since 1970, or seconds as a
// number; nullopt: none of these, or no time of the years 1970 to 2254.
[[nodiscard]] std::optional<TimeNs> parse_time(std::string_view text);

}  // namespace inflight
