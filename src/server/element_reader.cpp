// SPDX-License-Identifier: Apache-2.0
#include "server/element_reader.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

namespace inflight::server {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";
constexpr size_t kNameLengthMax = 256;  // of a parameter
constexpr int kSchemaDepthMax = 16;
constexpr ValueKinds kNullKind = 8;  // as kTypeNames has them
constexpr std::array<std::string_view, 6> kTypeNames = {"string", "number", "boolean", "null", "array", "object"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPythonWords = {
    {{"True", "true"}, {"False", "false"}, {"None", "null"}}};

ValueKinds kind_named(std::string_view type) {
  if (type == "integer") type = "number";
  const auto found = std::ranges::find(kTypeNames, type);
  return found == kTypeNames.end() ? kAnyKind : static_cast<ValueKinds>(1U << (found - kTypeNames.begin()));
}

ValueKinds kind_of(const Json& value) { return kind_named(value.type_name()); }

ValueKinds joined(ValueKinds one, ValueKinds other) { return static_cast<ValueKinds>(one | other); }
ValueKinds common(ValueKinds one, ValueKinds other) { return static_cast<ValueKinds>(one & other); }

class KindFinder {
 public:
  // LIFETIME: borrowed.
  KindFinder(const Json& root, int64_t& steps) : root_(root), steps_(steps) {}

  [[nodiscard]] ValueKinds kinds(const Json& schema, int depth = 0) {
    if (schema.is_boolean()) return schema.get<bool>() ? kAnyKind : ValueKinds{0};
    if (!schema.is_object() || depth > kSchemaDepthMax || !spend(schema.size())) return kAnyKind;
    ValueKinds found = stated(schema);
    if (const Json* const referred = referred_by(schema)) found = common(found, kinds(*referred, depth + 1));
    for (const char* const keyword : {"anyOf", "oneOf", "allOf"}) {
      const Json* const list = find(schema, keyword);
      if (list == nullptr || !list->is_array()) continue;
      const bool all = keyword == std::string_view("allOf");
      ValueKinds of_list = all ? kAnyKind : ValueKinds{0};
      for (const Json& one : *list) {
        const ValueKinds more = kinds(one, depth + 1);
        of_list = all ? common(of_list, more) : joined(of_list, more);
      }
      found = common(found, of_list);
    }
    return found;
  }

 private:
  // Whether so many members may be looked at.
  bool spend(size_t count) {
    steps_ -= static_cast<int64_t>(count) + 1;
    return steps_ > 0;
  }

  // By the schema's own type and values.
  ValueKinds stated(const Json& schema) {
    ValueKinds found = kAnyKind;
    if (const Json* const type = find(schema, "type")) {
      found = 0;
      for (const Json& one : type->is_array() ? *type : Json::array({*type})) {
        found = joined(found, one.is_string() ? kind_named(one.get_ref<const std::string&>()) : kAnyKind);
      }
    } else if (find(schema, "minLength") || find(schema, "maxLength") || find(schema, "pattern")) {
      found = kStringKind;
    }
    if (const Json* const value = find(schema, "const")) found = common(found, kind_of(*value));
    if (const Json* const list = find(schema, "enum"); list && list->is_array() && spend(list->size())) {
      ValueKinds listed = 0;
      for (const Json& value : *list) listed = joined(listed, kind_of(value));
      found = common(found, listed);
    }
    return found;
  }

  // Null: nothing within the root.
  const Json* referred_by(const Json& schema) {
    const Json* const reference = find(schema, "$ref");
    if (reference == nullptr || !reference->is_string()) return nullptr;
    const auto& text = reference->get_ref<const std::string&>();
    if (!text.starts_with('#')) return nullptr;
    std::vector<std::string> names;
    try {
      for (Json::json_pointer place(text.substr(1)); !place.empty(); place.pop_back()) names.push_back(place.back());
    } catch (const Json::exception&) {
      return nullptr;
    }
    const Json* found = &root_;
    for (; found != nullptr && !names.empty(); names.pop_back()) {
      if (!found->is_object() || !spend(found->size())) return nullptr;
      found = find(*found, names.back().c_str());
    }
    return found;
  }

  const Json& root_;
  int64_t& steps_;
};

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string escaped(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') {
      (out += '\\') += byte;
    } else if (byte == '\n') {
      out += "\\n";
    } else if (const auto value = static_cast<unsigned char>(byte); value < 0x20) {
      ((out += "\\u00") += kHex[value >> 4U]) += kHex[value & 0xFU];
    } else {
      out += byte;
    }
  }
  return out;
}

std::string json_of(std::string_view text, ValueKinds kinds) {
  std::string_view json = trimmed(text);
  const bool may_be_string = (kinds & kStringKind) != 0;
  for (const auto& [word, meant] : kPythonWords) {
    if (json == word) json = meant;
  }
  if (const Json value = parse_json(json); !value.is_discarded()) {
    const bool is_other = (kind_of(value) & kinds & ~kStringKind) != 0;
    if (is_other || !may_be_string) return std::string(json);
  }
  return "\"" + escaped(text) + "\"";
}

size_t begun_length(std::string_view text, std::string_view mark) {
  size_t length = std::min(text.size(), mark.size() - 1);
  while (!text.ends_with(mark.substr(0, length))) --length;
  return length;
}

ParameterKinds parameter_kinds(const Json& parameters, int64_t& steps) {
  ParameterKinds kinds;
  KindFinder finder(parameters, steps);
  const Json* const properties = parameters.is_object() ? find(parameters, "properties") : nullptr;
  if (properties != nullptr && properties->is_object()) {
    for (const auto& [name, schema] : properties->items()) kinds.declared[name] = finder.kinds(schema);
  }
  if (const Json* const others = parameters.is_object() ? find(parameters, "additionalProperties") : nullptr) {
    if (others->is_object()) kinds.others = finder.kinds(*others);
  }
  return kinds;
}

ElementReader::ElementReader(const ElementMarks& marks, const ParameterKinds& kinds)
    : open_(trimmed(marks.open)),
      close_(trimmed(marks.close)),
      end_(trimmed(marks.end)),
      behind_(marks.close.substr(0, marks.close.find_first_not_of(kBlanks))),
      kinds_(kinds) {
  const auto add = [&](const std::string& middle, ValueKinds said) {
    const size_t blanks = middle.find_last_not_of(kBlanks) + 1;
    middles_.push_back({middle.substr(0, blanks), middle.substr(blanks), said});
  };
  if (marks.string_middle == marks.middle) {
    add(marks.middle, kAnyKind);
  } else {
    add(marks.string_middle, kStringKind);
    add(marks.middle, static_cast<ValueKinds>(kAnyKind & ~kStringKind));
  }
}

ElementReader::Status ElementReader::read(char byte, std::string& json) {
  text_ += byte;
  switch (place_) {
    case Place::Between:
      return read_between(json);
    case Place::Name:
      return read_name(json);
    case Place::Value:
      read_value(json);
      return Status::Reading;
  }
  return Status::NoElement;
}

ElementReader::Status ElementReader::read_between(std::string& json) {
  if (trimmed(text_).empty()) text_.clear();
  if (text_ == end_) {
    json += '}';
    return Status::Ended;
  }
  if (text_ == open_) {
    text_.clear();
    place_ = Place::Name;
    return Status::Reading;
  }
  return open_.starts_with(text_) || end_.starts_with(text_) ? Status::Reading : Status::NoElement;
}

ElementReader::Status ElementReader::read_name(std::string& json) {
  const auto middle = std::ranges::find_if(middles_, [&](const Middle& one) { return text_.ends_with(one.mark); });
  if (middle == middles_.end()) {
    const size_t longest = std::max(middles_.front().mark.size(), middles_.back().mark.size());
    return text_.size() > kNameLengthMax + longest ? Status::NoElement : Status::Reading;
  }
  const std::string name = text_.substr(0, text_.size() - middle->mark.size());
  const auto found = kinds_.declared.find(name);
  kind_ = found == kinds_.declared.end() ? kinds_.others : found->second;
  if (const ValueKinds both = common(kind_, middle->kinds); both != 0) kind_ = both;
  before_ = middle->blanks;
  json += (count_++ == 0 ? "\"" : ", \"") + escaped(name) + (kind_ == kStringKind ? "\": \"" : "\": ");
  text_.clear();
  place_ = Place::Value;
  begins_ = true;
  return Status::Reading;
}

void ElementReader::read_value(std::string& json) {
  if (begins_ && !before_.empty()) {
    if (text_ != before_ && before_.starts_with(text_)) return;
    if (text_ == before_) text_.clear();
  }
  begins_ = false;
  if (text_.ends_with(close_)) return end_value(json);
  if (kind_ == joined(kStringKind, kNullKind) && !may_be_null()) {
    kind_ = kStringKind;
    json += '"';
  }
  if (kind_ != kStringKind) return;
  const size_t held = std::max(begun_length(text_, behind_ + close_), begun_length(text_, close_));
  json += escaped(std::string_view(text_).substr(0, text_.size() - held));
  text_.erase(0, text_.size() - held);
}

bool ElementReader::may_be_null() const {
  const auto begins = [&](const std::string& value) { return value.starts_with(text_); };
  return begins("null" + behind_ + close_) || begins("null" + close_) || begins("None" + behind_ + close_) ||
         begins("None" + close_);
}

void ElementReader::end_value(std::string& json) {
  text_.resize(text_.size() - close_.size());
  if (text_.ends_with(behind_)) text_.resize(text_.size() - behind_.size());
  json += kind_ == kStringKind ? escaped(text_) + "\"" : json_of(text_, kind_);
  text_.clear();
  place_ = Place::Between;
}

}  // namespace inflight::server
