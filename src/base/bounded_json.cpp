// SPDX-License-Identifier: Apache-2.0
#include "base/bounded_json.h"

#include <array>

#include "base/error.h"
#include "base/json_problem.h"

namespace inflight {

using Json = nlohmann::ordered_json;

Json parse_json(std::string_view text, std::string_view what) {
  using Event = Json::parse_event_t;
  std::array<size_t, kJsonDepthMax + 1> members{};  // so far, of the object at each depth
  size_t comparisons = 0;
  const auto check = [&](int depth, Event event, const Json&) {
    const auto level = static_cast<size_t>(depth);
    if (event == Event::array_start || event == Event::object_start) {
      if (depth >= kJsonDepthMax) {
        fail(ErrorCode::InvalidArgument, "{}: nested deeper than {} levels", what, int{kJsonDepthMax});
      }
      members[level + 1] = 0;
    } else if (event == Event::key) {
      comparisons += members[level]++;
      if (comparisons > kJsonComparisonsMax) fail(ErrorCode::InvalidArgument, "{}: objects of too many members", what);
    }
    return true;
  };
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {  // to the library the end of the text
    fail(ErrorCode::InvalidArgument, "{}: byte {} is NUL", what, nul + 1);
  }
  try {
    return Json::parse(text, check);
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::InvalidArgument, "{}: {}", what, json_problem(error.what()));
  }
}

nlohmann::json parse_large_json(std::string_view text, std::string_view what) {
  using Event = nlohmann::json::parse_event_t;
  const auto check = [&](int depth, Event event, const nlohmann::json&) {
    if ((event == Event::array_start || event == Event::object_start) && depth >= kJsonDepthMax) {
      fail(ErrorCode::CorruptFile, "{}: nested deeper than {} levels", what, int{kJsonDepthMax});
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, check);
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::CorruptFile, "{}: {}", what, json_problem(error.what()));
  }
}

}  // namespace inflight
