// SPDX-License-Identifier: Apache-2.0
// Text to numbers, whole text or nothing.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

namespace inflight {

// nullopt unless all of `text` is one finite number of the type.
template <typename Number = double>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

}  // namespace inflight
