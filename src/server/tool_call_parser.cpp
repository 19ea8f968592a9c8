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
      case State::Calls:
        more = scan_calls(found, at_end);
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
  state_ = State::Text;
  if (bracket && !marked) begin_calls("");
  return true;
}

bool ToolCallParser::scan_text(Found& found, bool at_end) {
  if (after_call_) {  // what separates calls is not shown
    held_.erase(0, held_.find_first_not_of(kSpace));
    if (held_.empty()) return false;
    after_call_ = false;
  }
  size_t begin = held_.find(kTagBegin);
  std::string_view marker = kTagBegin;
  for (const std::string_view other : kRestMarkers) {
    if (const size_t at = held_.find(other); at < begin) {
      begin = at;
      marker = other;
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
  begin_calls(marker);
  return true;
}

void ToolCallParser::begin_calls(std::string_view marker) {
  state_ = State::Calls;
  marker_ = marker;
  tagged_ = marker == kTagBegin;
  scanned_ = 0;
  in_list_ = closed_ = told_ = false;
  call_count_ = 0;
  reader_.reset();
}

bool ToolCallParser::scan_calls(Found& found, bool at_end) {
  while (scanned_ < held_.size()) {
    switch (reader_ ? read_call(found) : between_calls(at_end)) {
      case Step::Next:
        break;
      case Step::Wait:
        return false;
      case Step::NoCall:
        give_up(found);
        return true;
    }
    if (state_ != State::Calls) return true;
  }
  if (reader_ && reader_->begun()) tell(found, false);
  // A whole call without its end tag is one; half of one that was not told of is text.
  if (at_end && (reader_ ? !told_ : call_count_ == 0)) give_up(found);
  if (call_count_ > 0 && !reader_) {
    held_.clear();
    scanned_ = 0;
  }
  return false;
}

ToolCallParser::Step ToolCallParser::read_call(Found& found) {
  const ToolCallReader::Status status = reader_->read(held_[scanned_++]);
  if (status == ToolCallReader::Status::NoCall) return Step::NoCall;
  if (status == ToolCallReader::Status::Ended) tell(found, true);
  return Step::Next;
}

// Gives what is new of the call being read.
void ToolCallParser::tell(Found& found, bool ends) {
  ToolCallDelta delta{.name = told_ ? "" : reader_->name(), .arguments = reader_->take_arguments(), .ends = ends};
  if (!told_ || !delta.arguments.empty() || ends) found.calls.push_back(std::move(delta));
  told_ = !ends;
  held_.erase(0, scanned_);
  scanned_ = 0;
  marker_.clear();
  if (!ends) return;
  ++call_count_;
  reader_.reset();
}

// Before, between and behind calls: brackets of a list, what separates them, the end tag.
ToolCallParser::Step ToolCallParser::between_calls(bool at_end) {
  const char byte = held_[scanned_];
  if (tagged_ && byte == '<') {
    const std::string_view rest = std::string_view(held_).substr(scanned_);
    const bool half = rest.size() < kTagEnd.size() && kTagEnd.starts_with(rest);
    if (half && !at_end) return Step::Wait;
    if ((!half && !rest.starts_with(kTagEnd)) || call_count_ == 0) return Step::NoCall;
    held_.erase(0, scanned_ + kTagEnd.size());
    state_ = State::Text;
    after_call_ = true;
    return Step::Next;
  }
  const bool separates = (byte == ',' || byte == ';') && call_count_ > 0;
  const bool opens = byte == '[' && !in_list_ && call_count_ == 0;
  const bool closes = byte == ']' && in_list_ && call_count_ > 0 && !closed_;
  if (byte == '{' && !closed_) {
    reader_.emplace(names_);
    return Step::Next;  // which reads it
  }
  if (!separates && !opens && !closes && kSpace.find(byte) == kSpace.npos) return Step::NoCall;
  in_list_ = in_list_ || opens;
  closed_ = closed_ || closes;
  ++scanned_;
  return Step::Next;
}

// No call after all: what was held back is text, but for what separated it from a call before.
void ToolCallParser::give_up(Found& found) {
  state_ = State::Text;
  std::string_view text = std::string_view(held_).substr(0, scanned_);
  if (call_count_ > 0) text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t\r\n,;]")));
  found.text += marker_ + std::string(text);
  held_.erase(0, scanned_);
  scanned_ = 0;
}

void append_deltas(const std::vector<ToolCallDelta>& deltas, std::vector<ToolCall>& calls) {
  for (const ToolCallDelta& delta : deltas) {
    if (!delta.name.empty()) calls.push_back({delta.name, ""});
    calls.back().arguments += delta.arguments;
  }
}

}  // namespace inflight::server
