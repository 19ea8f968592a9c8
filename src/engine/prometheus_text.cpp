// SPDX-License-Identifier: Apache-2.0
#include "engine/prometheus_text.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "base/error.h"

namespace inflight {
namespace {

std::string escaped(std::string_view text, bool quotes) {
  std::string result;
  for (const char character : text) {
    if (character == '\n') {
      result += "\\n";
    } else {
      if (character == '\\' || (quotes && character == '"')) result += '\\';
      result += character;
    }
  }
  return result;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{}", static_cast<int64_t>(value));
  return fmt::format("{}", value);
}

}  // namespace

void PrometheusText::family(std::string_view name, std::string_view type, std::string_view help) {
  INFLIGHT_CHECK(type != "counter" || name.ends_with("_total"));
  name_ = fmt::format("{}{}", prefix_, name);
  fmt::format_to(std::back_inserter(text_), "# HELP {} {}\n# TYPE {} {}\n", name_, escaped(help, false), name_, type);
}

void PrometheusText::line(std::string_view suffix, double value, std::initializer_list<MetricLabel> labels,
                          std::string_view bound) {
  text_ += name_;
  text_ += suffix;
  char separator = '{';
  const auto put = [&](std::string_view key, std::string_view content) {
    fmt::format_to(std::back_inserter(text_), "{}{}=\"{}\"", separator, key, escaped(content, true));
    separator = ',';
  };
  for (const auto& [key, content] : common_) put(key, content);
  for (const auto& [key, content] : labels) put(key, content);
  if (!bound.empty()) put("le", bound);
  if (separator == ',') text_ += '}';
  fmt::format_to(std::back_inserter(text_), " {}\n", number(value));
}

void PrometheusText::histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                               std::span<const int64_t> counts, double sum) {
  INFLIGHT_CHECK(counts.size() == bounds.size() + 1);
  family(name, "histogram", help);
  int64_t below = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    line("_bucket", static_cast<double>(below), {}, i < bounds.size() ? number(bounds[i]) : "+Inf");
  }
  line("_sum", sum, {}, {});
  line("_count", static_cast<double>(below), {}, {});
}

}  // namespace inflight
