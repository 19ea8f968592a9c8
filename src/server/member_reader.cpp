// SPDX-License-Identifier: Apache-2.0
#include "server/member_reader.h"

#include <algorithm>
#include <string_view>

namespace inflight::server {
namespace {

constexpr size_t kMemberNameLengthMax = 256;
constexpr ValueKinds kBareKinds = kAnyKind & ~kStringKind;  // without quotes, but for what is none of these

bool is_blank(char byte) { return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n'; }

bool is_hex(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

}  // namespace

MemberReader::MemberReader(const MemberMarks& marks) : marks_(marks), levels_{{marks.end[0], false}} {}

MemberReader::Status MemberReader::read(char byte, std::string& json) {
  switch (place_) {
    case Place::BeforeName:
      return is_blank(byte) ? Status::Reading : read_before_name(byte, json);
    case Place::BehindName:
      if (text_.empty() && is_blank(byte)) return Status::Reading;
      [[fallthrough]];
    case Place::Name:
      text_ += byte;
      return read_middle(json);
    case Place::BeforeValue:
      return text_.empty() && is_blank(byte) ? Status::Reading : read_before_value(byte, json);
    case Place::Bare:
      if (byte != ',' && byte != levels_.back().end) {
        text_ += byte;
        return Status::Reading;
      }
      json += json_of(trimmed(text_), kBareKinds);
      text_.clear();
      return read_behind_value(byte, json);
    case Place::String:
      read_string(byte, json);
      return Status::Reading;
    case Place::BehindValue:
      return is_blank(byte) ? Status::Reading : read_behind_value(byte, json);
  }
  return Status::NoElement;
}

bool MemberReader::is_quote(std::string_view text) const {
  return marks_.quote.size() > 1 ? text == marks_.quote : text == "'" || text == "\"";
}

MemberReader::Status MemberReader::read_before_name(char byte, std::string& json) {
  if (byte == levels_.back().end) return read_behind_value(byte, json);
  text_ = byte;
  place_ = Place::Name;
  if (!is_quote(text_)) return read_middle(json);
  begin_item(json);
  begin_string(json, true);
  return Status::Reading;
}

// Behind a name, or its quotes.
MemberReader::Status MemberReader::read_middle(std::string& json) {
  if (!text_.ends_with(middle())) {
    const bool may = place_ == Place::Name ? text_.size() <= kMemberNameLengthMax : middle().starts_with(text_);
    return may ? Status::Reading : Status::NoElement;
  }
  if (place_ == Place::Name) {
    const std::string_view name = trimmed(std::string_view(text_).substr(0, text_.size() - middle().size()));
    if (name.empty()) return Status::NoElement;
    begin_item(json);
    json += "\"" + escaped(name) + "\": ";
  }
  text_.clear();
  place_ = Place::BeforeValue;
  return Status::Reading;
}

MemberReader::Status MemberReader::read_before_value(char byte, std::string& json) {
  Level& level = levels_.back();
  const bool first = text_.empty();
  if (first && level.is_list && byte == level.end) return read_behind_value(byte, json);
  if (first && (byte == ',' || byte == level.end)) return Status::NoElement;
  text_ += byte;
  if (first && level.is_list) begin_item(json);
  if (is_quote(text_)) {
    begin_string(json, false);
  } else if (first && (byte == '{' || byte == '[')) {
    json += byte;
    text_.clear();
    levels_.push_back({byte == '{' ? '}' : ']', byte == '['});
    place_ = byte == '{' ? Place::BeforeName : Place::BeforeValue;
  } else if (marks_.quote.size() == 1 || !marks_.quote.starts_with(text_)) {
    place_ = Place::Bare;
  }
  return Status::Reading;
}

MemberReader::Status MemberReader::read_behind_value(char byte, std::string& json) {
  const Level level = levels_.back();
  if (byte == ',') {
    place_ = level.is_list ? Place::BeforeValue : Place::BeforeName;
    return Status::Reading;
  }
  if (byte != level.end) return Status::NoElement;
  levels_.pop_back();
  json += level.is_list ? ']' : '}';
  place_ = Place::BehindValue;
  return levels_.empty() ? Status::Ended : Status::Reading;
}

void MemberReader::begin_item(std::string& json) {
  if (std::exchange(levels_.back().has_items, true)) json += ", ";
}

void MemberReader::begin_string(std::string& json, bool is_name) {
  json += '"';
  quote_ = std::exchange(text_, "");
  is_name_ = is_name;
  place_ = Place::String;
}

void MemberReader::read_string(char byte, std::string& json) {
  text_ += byte;
  if (quote_.size() == 1 && text_[0] == '\\') return read_escape(json);
  if (text_.ends_with(quote_)) {
    text_.resize(text_.size() - quote_.size());
    json += escaped(text_);
    return end_string(json);
  }
  const size_t held = begun_length(text_, quote_);
  json += escaped(std::string_view(text_).substr(0, text_.size() - held));
  text_.erase(0, text_.size() - held);
}

// One of Python's or JSON's, as far as it has come; what is none stands as it is.
void MemberReader::read_escape(std::string& json) {
  if (text_.size() < 2) return;
  const char kind = text_[1];
  const size_t digits = kind == 'u' ? 4 : kind == 'x' ? 2 : 0;
  const bool whole = text_.size() == 2 + digits;
  if (!whole && (text_.size() == 2 || is_hex(text_.back()))) return;
  if (!whole || (digits > 0 && !is_hex(text_.back()))) {
    json += escaped(text_);
  } else if (digits > 0) {
    json += (kind == 'u' ? "\\u" : "\\u00") + text_.substr(2);
  } else if (std::string_view("\"\\/bfnrt").find(kind) != std::string_view::npos) {
    json += text_;
  } else if (kind == '\'') {
    json += kind;
  } else if (kind != '\n') {
    json += escaped(text_);
  }
  text_.clear();
}

void MemberReader::end_string(std::string& json) {
  json += is_name_ ? "\": " : "\"";
  text_.clear();
  place_ = is_name_ ? Place::BehindName : Place::BehindValue;
}

}  // namespace inflight::server
