// SPDX-License-Identifier: Apache-2.0
// What the JSON library says is wrong, without its label, of
// "[json.exception.parse_error.101] parse error at line 1, ...".
#pragma once

#include <string_view>

namespace inflight {

[[nodiscard]] inline std::string_view json_problem(std::string_view what) {
  const size_t end = what.starts_with("[json.exception.") ? what.find("] ") : std::string_view::npos;
  return end == std::string_view::npos ? what : what.substr(end + 2);
}

}  // namespace inflight
