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

constexpr size_t kIdLengthMax = 64;  // of an id or number; what is longer is none

bool is_space(char byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

bool is_letter_or_digit(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

}  // namespace

MarkMatch match_mark(std::string_view text, const MarkTexts& mark) {
  using Kind = MarkMatch::Kind;
  size_t at = 0;
  for (size_t i = 0; i < mark.size(); ++i) {
    if (i > 0) {
      const size_t begin = at;
      while (at < text.size() && is_letter_or_digit(text[at])) ++at;
      if (at == begin ? at < text.size() : at - begin > kIdLengthMax) return {Kind::No, 0};
      if (at == text.size()) return {Kind::Half, 0};
    }
    const std::string_view rest = text.substr(at);
    if (!rest.starts_with(mark[i])) return {mark[i].starts_with(rest) ? Kind::Half : Kind::No, 0};
    at += mark[i].size();
  }
  return {Kind::Whole, at};
}

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
  const bool between =
      place_ != Place::Key && place_ != Place::Value && place_ != Place::Head && place_ != Place::Parts;
  if (between && is_space(byte)) return Status::Reading;
  switch (place_) {
    case Place::Head:
      token_ += byte;
      return read_head();
    case Place::Parts:
      return read_parts(byte);
    case Place::BeforeArguments:
      key_ = "arguments";
      return byte == '{' ? begin_value(byte) : Status::NoCall;
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

// Up to the arguments.
ToolCallReader::Status ToolCallReader::read_head() {
  using Kind = MarkMatch::Kind;
  const MarkMatch open = match_mark(token_, *open_mark_);
  if (open.kind != Kind::Whole) return open.kind == Kind::Half ? Status::Reading : Status::NoCall;
  const std::string_view text = std::string_view(token_).substr(open.length);
  bool half = false;
  const bool has_middle = marks_->middle.size() > 1 || !marks_->middle.front().empty();
  for (const CallableFunction& function : functions_) {
    const std::string& name = function.name;
    half = half || name.starts_with(text);
    if (!text.starts_with(name)) continue;
    const std::string_view behind = text.substr(name.size());
    const Kind middle = match_mark(behind, marks_->middle).kind;
    half = half || middle == Kind::Half;
    if (middle != Kind::Whole || (!has_middle && !begins_elements(behind))) continue;
    begin_arguments(function);
    return has_middle ? Status::Reading : read_parts(behind[0]);
  }
  return half ? Status::Reading : Status::NoCall;
}

// Whether an element, or what ends a call, may begin `text`: where no mark stands behind names, these end there.
bool ToolCallReader::begins_elements(std::string_view text) const {
  return !text.empty() && (is_space(text[0]) || marks_->elements->open.starts_with(text[0]) ||
                           marks_->elements->end.starts_with(text[0]));
}

void ToolCallReader::begin_arguments(const CallableFunction& function) {
  name_ = function.name;
  place_ = Place::BeforeArguments;
  if (marks_->elements) {
    elements_.emplace(*marks_->elements, function.parameters);
  } else if (marks_->members) {
    members_.emplace(*marks_->members);
  } else {
    return;
  }
  place_ = Place::Parts;
  arguments_ = "{";
  told_ = true;
}

ToolCallReader::Status ToolCallReader::read_parts(char byte) {
  switch (elements_ ? elements_->read(byte, arguments_) : members_->read(byte, arguments_)) {
    case ElementReader::Status::Reading:
      return Status::Reading;
    case ElementReader::Status::Ended:
      return Status::Ended;
    case ElementReader::Status::NoElement:
      break;
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
  if (open_mark_ != nullptr) return Status::Ended;
  if (is_arguments_ && told_) return Status::Reading;
  const Json value = Json::parse(token_, nullptr, false);
  if (value.is_discarded()) return Status::NoCall;
  if (is_arguments_) {  // a text of JSON
    arguments_ = value.get<std::string>();
    told_ = true;
  } else if (key_ == "name") {
    const bool known = value.is_string() && std::ranges::find(functions_, value.get<std::string>(),
                                                              &CallableFunction::name) != functions_.end();
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
