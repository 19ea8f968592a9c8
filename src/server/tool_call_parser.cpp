// SPDX-License-Identifier: Apache-2.0
#include "server/tool_call_parser.h"

#include <algorithm>
#include <array>
#include <utility>

namespace inflight::server {
namespace {

constexpr std::string_view kTagBegin = "<tool_call>";
constexpr std::string_view kTagEnd = "</tool_call>";
constexpr std::array<std::string_view, 2> kRestMarkers = {"[TOOL_CALLS]", "<|python_tag|>"};
constexpr std::string_view kSpace = " \t\r\n";

// The longest end of `text` that begins one of the markers.
size_t marker_start(std::string_view text) {
  size_t longest = 0;
  for (const std::string_view marker : {kTagBegin, kRestMarkers[0], kRestMarkers[1]}) {
    for (size_t length = std::min(marker.size() - 1, text.size()); length > longest; --length) {
      if (text.ends_with(marker.substr(0, length))) longest = length;
    }
  }
  return text.size() - longest;
}

}  // namespace

ToolCallParser::ToolCallParser(const Json& tools) {
  for (const Json& tool : tools) names_.push_back(tool["function"]["name"].get<std::string>());
}

ToolCallParser::Found ToolCallParser::push(std::string_view text) {
  Found found;
  if (names_.empty()) {
    found.text = text;
    return found;
  }
  held_ += text;
  step(found, false);
  return found;
}

ToolCallParser::Found ToolCallParser::finish() {
  Found found;
  step(found, true);
  return found;
}

void ToolCallParser::step(Found& found, bool at_end) {
  for (bool more = true; more;) {
    switch (state_) {
      case State::Start:
        more = scan_start(at_end);
        break;
      case State::Text:
        more = scan_text(found, at_end);
        break;
      case State::Tag:
        more = scan_tag(found, at_end);
        break;
      case State::Rest:
        if (at_end) scan_rest(found);
        more = false;
        break;
    }
  }
}

// An answer that begins with a bracket may be a call without marker.
bool ToolCallParser::scan_start(bool at_end) {
  const size_t first = held_.find_first_not_of(kSpace);
  if (first == std::string::npos && !at_end) return false;
  const bool marked = first != std::string::npos && std::string_view(held_).substr(first).starts_with(kRestMarkers[0]);
  const bool half_marked =
      first != std::string::npos && !at_end && kRestMarkers[0].starts_with(std::string_view(held_).substr(first));
  if (half_marked) return false;
  const bool bracket = first != std::string::npos && (held_[first] == '{' || held_[first] == '[');
  state_ = bracket && !marked ? State::Rest : State::Text;
  return true;
}

bool ToolCallParser::scan_text(Found& found, bool at_end) {
  if (after_call_) {  // what separates calls is not shown
    held_.erase(0, held_.find_first_not_of(kSpace));
    if (held_.empty()) return false;
    after_call_ = false;
  }
  size_t begin = held_.find(kTagBegin);
  State next = State::Tag;
  std::string_view marker = kTagBegin;
  for (const std::string_view other : kRestMarkers) {
    if (const size_t at = held_.find(other); at < begin) {
      begin = at;
      marker = other;
      next = State::Rest;
    }
  }
  if (begin == std::string::npos) {
    const size_t end = at_end ? held_.size() : marker_start(held_);
    found.text.append(held_, 0, end);
    held_.erase(0, end);
    return false;
  }
  found.text.append(held_, 0, begin);
  held_.erase(0, begin + marker.size());
  marker_ = marker;
  state_ = next;
  return true;
}

bool ToolCallParser::scan_tag(Found& found, bool at_end) {
  const size_t end = held_.find(kTagEnd);
  if (end == std::string::npos && !at_end) return false;
  const std::string_view inside = std::string_view(held_).substr(0, end);
  const size_t used = end == std::string::npos ? held_.size() : end + kTagEnd.size();
  if (!read_calls(inside, found.calls)) {
    found.text += marker_ + held_.substr(0, used);
    held_.erase(0, used);
  } else {
    held_.erase(0, used);
    after_call_ = true;
  }
  state_ = State::Text;
  return true;
}

void ToolCallParser::scan_rest(Found& found) {
  if (!read_calls(held_, found.calls)) found.text += marker_ + held_;
  held_.clear();
}

bool ToolCallParser::read_calls(std::string_view json, std::vector<ToolCall>& calls) const {
  const Json value = Json::parse(json, nullptr, false);
  if (value.is_discarded()) return false;
  const Json list = value.is_array() ? value : Json::array({value});
  std::vector<ToolCall> read;
  for (const Json& call : list) {
    if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return false;
    const auto name = call["name"].get<std::string>();
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) return false;
    const char* const key = call.contains("arguments") ? "arguments" : "parameters";
    const Json arguments = call.value(key, Json::object());
    read.push_back({name, arguments.is_string() ? arguments.get<std::string>() : to_text(arguments)});
  }
  if (read.empty()) return false;
  calls.insert(calls.end(), read.begin(), read.end());
  return true;
}

}  // namespace inflight::server
