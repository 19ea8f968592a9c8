// SPDX-License-Identifier: Apache-2.0
#include "sim/trace_lines.h"

#include <array>
#include <chrono>
#include <cmath>

#include "base/limits.h"
#include "sim/parse_number.h"

namespace inflight {
namespace {

constexpr TimeNs kSecond = 1'000'000'000;
constexpr double kSecondsMax = 9e9;  // since 1970, in the year 2255: what nanoseconds can count

std::optional<int64_t> two_digits(std::string_view text, uint32_t most) {
  const auto value = parse_number<uint32_t>(text);
  if (text.size() != 2 || !value || *value > most) return std::nullopt;
  return *value;
}

// Seconds east of UTC: "", "Z", "+hh", "-hhmm", "+hh:mm".
std::optional<int64_t> parse_utc_offset(std::string_view text) {
  if (text.empty() || text == "Z") return 0;
  const int64_t sign = text.front() == '+' ? 1 : text.front() == '-' ? -1 : 0;
  const auto hours = two_digits(text.substr(1, 2), 23);
  std::string_view rest = text.substr(std::min<size_t>(text.size(), 3));
  if (rest.starts_with(':')) rest.remove_prefix(1);
  const auto minutes = text.size() == 3 ? std::optional<int64_t>(0) : two_digits(rest, 59);
  if (sign == 0 || !hours || !minutes) return std::nullopt;
  return sign * (*hours * 3600 + *minutes * 60);
}

}  // namespace

int32_t TraceLines::tokens(std::string_view field, std::string_view text, int32_t least) const {
  const auto value = parse_number(text);
  if (!value) bad_field(field, text, fmt::format("a number of tokens, {} to {}", least, limits::kContextTokensMax));
  return tokens(field, *value, least);
}

int32_t TraceLines::tokens(std::string_view field, double value, int32_t least) const {
  if (!(value >= least && value <= limits::kContextTokensMax)) {
    bad_field(field, fmt::format("{}", value), fmt::format("{} to {}", least, limits::kContextTokensMax));
  }
  if (value != std::floor(value)) bad_field(field, fmt::format("{}", value), "a whole number");
  return static_cast<int32_t>(value);
}

TimeNs TraceTimes::read(const TraceLines& lines, std::string_view field, std::string_view text) {
  const auto time = parse_time(text);
  if (!time) lines.bad_field(field, text, "YYYY-MM-DD hh:mm:ss or seconds");
  const bool seconds = parse_number(text).has_value();
  if (are_seconds_.value_or(seconds) != seconds) {
    lines.bad_field(field, text, seconds ? "YYYY-MM-DD hh:mm:ss, as before" : "seconds, as before");
  }
  are_seconds_ = seconds;
  return *time;
}

std::vector<std::string_view> split_csv(std::string_view line) {
  std::vector<std::string_view> fields;
  for (;;) {
    const bool quoted = line.starts_with('"');
    const size_t quote = quoted ? line.find('"', 1) : 0;
    const size_t end = quote == std::string_view::npos ? std::string_view::npos : line.find(',', quote);
    std::string_view field = line.substr(0, end);
    if (quoted && field.size() >= 2 && field.ends_with('"')) field = field.substr(1, field.size() - 2);
    fields.push_back(field);
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

std::optional<TimeNs> parse_time(std::string_view text) {
  if (const auto seconds = parse_number(text)) {
    if (!(*seconds >= 0.0 && *seconds < kSecondsMax)) return std::nullopt;
    return static_cast<TimeNs>(*seconds * 1e9);
  }
  // YYYY-MM-DD?hh:mm:ss
  constexpr size_t kLength = 19;
  if (text.size() < kLength || text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  constexpr std::array<std::pair<size_t, size_t>, 6> kParts = {{{0, 4}, {5, 2}, {8, 2}, {11, 2}, {14, 2}, {17, 2}}};
  std::array<int64_t, 6> part{};
  for (size_t i = 0; i < kParts.size(); ++i) {
    const auto value = parse_number<int64_t>(text.substr(kParts[i].first, kParts[i].second));
    if (!value) return std::nullopt;
    part[i] = *value;
  }
  const std::chrono::year_month_day date(std::chrono::year(static_cast<int>(part[0])),
                                         std::chrono::month(static_cast<unsigned>(part[1])),
                                         std::chrono::day(static_cast<unsigned>(part[2])));
  if (!date.ok() || part[3] < 0 || part[3] > 23 || part[4] < 0 || part[4] > 59 || part[5] < 0 || part[5] > 60) {
    return std::nullopt;
  }
  std::string_view rest = text.substr(kLength);
  double fraction = 0.0;
  if (rest.starts_with('.')) {
    const size_t digits = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
    const auto value = parse_number(rest.substr(0, digits).size() > 1 ? std::string("0").append(rest.substr(0, digits))
                                                                      : std::string("0"));
    fraction = value.value_or(0.0);
    rest.remove_prefix(digits);
  }
  const auto offset = parse_utc_offset(rest);
  if (!offset) return std::nullopt;
  const int64_t seconds = std::chrono::sys_days(date).time_since_epoch().count() * 86400 + part[3] * 3600 +
                          part[4] * 60 + part[5] - *offset;
  if (seconds < 0 || static_cast<double>(seconds) >= kSecondsMax) return std::nullopt;
  return seconds * kSecond + static_cast<TimeNs>(fraction * 1e9);
}

}  // namespace inflight
