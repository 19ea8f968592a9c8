// SPDX-License-Identifier: Apache-2.0
// Text from files and programs made fit for one line of a message or table.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace inflight {

// `text` with backslashes, control characters and bytes that are no UTF-8 written as \\, \n, \t, \r
// or \xNN; cut after `bytes_max` bytes of text, with "..." in their place.
[[nodiscard]] std::string escape(std::string_view text, size_t bytes_max);

inline constexpr size_t kLineBytesMax = 8000;
// A whole message, whose names may have been quoted before: as escape(.., kLineBytesMax), but backslashes stay.
[[nodiscard]] std::string one_line(std::string_view text);

// 'text': for names in messages.
[[nodiscard]] std::string quote(std::string_view text);

}  // namespace inflight
