// SPDX-License-Identifier: Apache-2.0
// A call's arguments as elements, <parameter=NAME>VALUE</parameter> for each, read as they are written and given as a
// JSON object. What a value is says the function's schema: a string stands as it is, all else is JSON. What may be
// either is what the element says that it is, or else a string only if it is no JSON of a type that the schema allows;
// what may be no string is one where it is no JSON. Python's True, False and None, which templates write into earlier
// calls, count as JSON's words.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/json_body.h"

namespace inflight::server {

// Texts before a name, between it and its value, which is a string or something else, and behind that; what ends the
// last element's call.
struct ElementMarks {
  std::string open, string_middle, middle, close, end;
};

// JSON types that a value may be of, a bit each.
using ValueKinds = uint8_t;
inline constexpr ValueKinds kStringKind = 1, kAnyKind = 0x3F;

struct ParameterKinds {
  std::map<std::string, ValueKinds> declared;
  ValueKinds others = kAnyKind;
};
// Steps that looking at all functions of a request may take, some 10 ns each.
inline constexpr int64_t kKindStepsMax = 200'000;
// parameters: a function's JSON schema. What cannot be told, or not within `steps`, from which those taken are
// subtracted, may be anything.
[[nodiscard]] ParameterKinds parameter_kinds(const Json& parameters, int64_t& steps);

// What a value is as JSON: a value of one of these kinds, a Python word counting as JSON's, or else a string.
[[nodiscard]] std::string json_of(std::string_view text, ValueKinds kinds);
// What a JSON string has for `text`, which may end within a character.
[[nodiscard]] std::string escaped(std::string_view text);
// How long the longest end of `text` is that begins `mark` and is not all of it.
[[nodiscard]] size_t begun_length(std::string_view text, std::string_view mark);
// Without the blanks around it.
[[nodiscard]] std::string_view trimmed(std::string_view text);

class ElementReader {
 public:
  // LIFETIME: kinds are borrowed.
  ElementReader(const ElementMarks& marks, const ParameterKinds& kinds);

  enum class Status : uint8_t { Reading, Ended, NoElement };
  // The next byte; blanks between elements do not count. Adds to `json` what is new of the object: strings as they
  // come, other values once they are whole.
  [[nodiscard]] Status read(char byte, std::string& json);

 private:
  enum class Place : uint8_t { Between, Name, Value };
  [[nodiscard]] Status read_between(std::string& json);
  [[nodiscard]] Status read_name(std::string& json);
  void read_value(std::string& json);
  [[nodiscard]] bool may_be_null() const;
  void end_value(std::string& json);

  // What stands between a name and a value.
  struct Middle {
    std::string mark, blanks;  // blanks: behind it, which are not the value's
    ValueKinds kinds;          // of the value, by what the mark says
  };
  std::string open_, close_, end_;  // without the blanks around them
  std::vector<Middle> middles_;
  std::string before_, behind_;  // blanks that stand around the value and are not its own
  const ParameterKinds& kinds_;
  Place place_ = Place::Between;
  std::string text_;  // not yet understood, or given
  ValueKinds kind_ = kAnyKind;
  bool begins_ = false;  // nothing of the value was looked at
  int count_ = 0;        // of elements
};

}  // namespace inflight::server
