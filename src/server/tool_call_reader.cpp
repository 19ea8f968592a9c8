// SPDX-License-Identifier: Apache-2.0
#include "server/tool_call_reader.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "server/json_body.h"

namespace inflight::server {
namespace {

// What may stand before a call's name. Any other member is that of an object which is no call.
constexpr std::array<std::string_view, 5> kMembers = {"name", "arguments", "parameters", "id", "type"};

bool is_space(char byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

}  // namespace

std::string ToolCallReader::take_arguments() { return std::exchange(arguments_, {}); }

// Within a string: whether `byte` ends it.
bool ToolCallReader::follow_string(char byte) {
  if (escaped_) {
    escaped_ = false;
  } else if (byte == '\\') {
    escaped_ = true;
  } else if (byte == '"') {
    in_string_ = false;
  }
  return !in_string_;
}

ToolCallReader::Status ToolCallReader::read(char byte) {
  const bool between = place_ != Place::Key && place_ != Place::Value;
  if (between && is_space(byte)) return Status::Reading;
  switch (place_) {
    case Place::Open:
      place_ = Place::BeforeKey;
      return byte == '{' ? Status::Reading : Status::NoCall;
    case Place::BeforeKey:
      if (byte == '}') return end_member(byte);
      token_ = byte;
      place_ = Place::Key;
      in_string_ = true;
      return byte == '"' ? Status::Reading : Status::NoCall;
    case Place::Key: {
      token_ += byte;
      if (!follow_string(byte)) return Status::Reading;
      const Json key = Json::parse(token_, nullptr, false);
      if (!key.is_string()) return Status::NoCall;
      key_ = key.get<std::string>();
      if (name_.empty() && std::ranges::find(kMembers, key_) == kMembers.end()) return Status::NoCall;
      place_ = Place::Colon;
      return Status::Reading;
    }
    case Place::Colon:
      place_ = Place::BeforeValue;
      return byte == ':' ? Status::Reading : Status::NoCall;
    case Place::BeforeValue:
      return begin_value(byte);
    case Place::Value:
      return read_value(byte);
    case Place::AfterValue:
      return end_member(byte);
  }
  return Status::NoCall;
}

ToolCallReader::Status ToolCallReader::begin_value(char byte) {
  place_ = Place::Value;
  token_.clear();
  depth_ = 0;
  in_string_ = false;
  is_arguments_ = key_ == "arguments" || key_ == "parameters";
  if (is_arguments_ && byte != '"') {
    arguments_.clear();
    told_ = true;
  }
  return read_value(byte);
}

ToolCallReader::Status ToolCallReader::read_value(char byte) {
  const bool first = token_.empty();
  const bool scalar = !first && depth_ == 0 && token_[0] != '"';
  if (scalar && (is_space(byte) || byte == ',' || byte == '}')) {
    const Status status = end_value();
    return status != Status::Reading || is_space(byte) ? status : end_member(byte);
  }
  if (is_arguments_ && (first ? byte : token_[0]) != '"') {
    arguments_ += byte;
    if (first) token_ = byte;  // its kind is all that counts
  } else {
    token_ += byte;
  }
  if (in_string_) {
    if (follow_string(byte) && depth_ == 0) return end_value();
  } else if (byte == '"') {
    in_string_ = true;
  } else if (byte == '{' || byte == '[') {
    ++depth_;
  } else if (byte == '}' || byte == ']') {
    if (--depth_ <= 0) return depth_ == 0 ? end_value() : Status::NoCall;
  }
  return Status::Reading;
}

ToolCallReader::Status ToolCallReader::end_value() {
  place_ = Place::AfterValue;
  if (is_arguments_ && told_) return Status::Reading;
  const Json value = Json::parse(token_, nullptr, false);
  if (value.is_discarded()) return Status::NoCall;
  if (is_arguments_) {  // a text of JSON
    arguments_ = value.get<std::string>();
    told_ = true;
  } else if (key_ == "name") {
    const bool known = value.is_string() && std::ranges::find(names_, value.get<std::string>()) != names_.end();
    if (!known) return Status::NoCall;
    name_ = value.get<std::string>();
  }
  return Status::Reading;
}

// Behind a value: "," or the object's end.
ToolCallReader::Status ToolCallReader::end_member(char byte) {
  if (byte == ',') {
    place_ = Place::BeforeKey;
    return Status::Reading;
  }
  if (byte != '}' || name_.empty()) return Status::NoCall;
  if (!told_) arguments_ = "{}";
  told_ = true;
  return Status::Ended;
}

}  // namespace inflight::server
