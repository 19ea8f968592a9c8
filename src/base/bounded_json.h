// SPDX-License-Identifier: Apache-2.0
// JSON that a caller gives, read within bounds: nested so little that copying and writing it, which nlohmann does by
// recursion, are safe; and with objects so small that looking for each member among those before it is soon done.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/limits.h"

namespace inflight {

inline constexpr int kJsonDepthMax = limits::kTemplateValueDepthMax;  // lists and objects within one another
inline constexpr size_t kJsonComparisonsMax = 100'000'000;            // of names: one object of 14,000, or more smaller

// what: stands before an error's text.
// ERRORS: InvalidArgument for what is no JSON, telling where, is nested deeper than kJsonDepthMax or needs more than
//         kJsonComparisonsMax.
[[nodiscard]] nlohmann::ordered_json parse_json(std::string_view text, std::string_view what);

// The same of files, whose objects may have any number of members, which are sorted by name.
// ERRORS: CorruptFile.
[[nodiscard]] nlohmann::json parse_large_json(std::string_view text, std::string_view what);

}  // namespace inflight
