// SPDX-License-Identifier: Apache-2.0
// One function call, {"name": ..., "arguments": {...}} ("parameters" at Llama), or NAME and {...}, elements or members
// between marks, read as it is written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/element_reader.h"
#include "server/member_reader.h"

namespace inflight::server {

// Texts between which letters and digits stand: an id, a number.
using MarkTexts = std::vector<std::string>;

// How `text` begins with them; between two of them stand 1 to 64 letters and digits.
struct MarkMatch {
  enum class Kind : uint8_t { No, Half, Whole } kind;  // Half: it may with more text
  size_t length;                                       // of the match, if Whole
};
[[nodiscard]] MarkMatch match_mark(std::string_view text, const MarkTexts& mark);

struct CallMarks {
  std::string begin, end{};  // before the JSON of calls or the first name, and behind it all (or nothing)
  // Where names are plain text: between `begin` and the first, behind each, between calls (empty: there is one only).
  MarkTexts open{}, middle{}, separator{};
  // What arguments are in the place of a JSON object, at most one of the two. Only with elements there may be nothing
  // in the middle.
  std::optional<ElementMarks> elements{};
  std::optional<MemberMarks> members{};

  [[nodiscard]] bool has_plain_name() const { return !middle.empty(); }
};

struct CallableFunction {
  std::string name;
  ParameterKinds parameters{};  // where arguments are elements
};

class ToolCallReader {
 public:
  // functions: that may be called.   LIFETIME: borrowed.
  explicit ToolCallReader(const std::vector<CallableFunction>& functions) : functions_(functions) {}
  // Of calls OPEN NAME and what the marks say of arguments.   LIFETIME: borrowed.   REQUIRES: marks.has_plain_name().
  ToolCallReader(const std::vector<CallableFunction>& functions, const MarkTexts& open, const CallMarks& marks)
      : functions_(functions), open_mark_(&open), marks_(&marks), place_(Place::Head) {}

  enum class Status : uint8_t {
    Reading,
    Ended,   // with this byte
    NoCall,  // no JSON object, or none with the name of such a function
  };
  // The next byte, the object's "{" first, or what follows the mark that begins calls.
  [[nodiscard]] Status read(char byte);

  // Whether it is certain that this is a call: its name is known, and its arguments have begun.
  [[nodiscard]] bool begun() const { return !name_.empty() && told_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  // What is new of the arguments, a JSON text: as the model writes it, or made of what it writes.   REQUIRES: begun().
  [[nodiscard]] std::string take_arguments();

 private:
  enum class Place : uint8_t {
    Head,
    BeforeArguments,
    Parts,
    Open,
    BeforeKey,
    Key,
    Colon,
    BeforeValue,
    Value,
    AfterValue
  };
  [[nodiscard]] Status read_head();
  [[nodiscard]] bool begins_elements(std::string_view text) const;
  void begin_arguments(const CallableFunction& function);
  [[nodiscard]] Status read_parts(char byte);
  [[nodiscard]] Status begin_value(char byte);
  [[nodiscard]] Status read_value(char byte);
  [[nodiscard]] Status end_value();
  [[nodiscard]] Status end_member(char byte);
  bool follow_string(char byte);

  const std::vector<CallableFunction>& functions_;
  const MarkTexts* open_mark_ = nullptr;  // null: the name stands in the JSON
  const CallMarks* marks_ = nullptr;
  std::optional<ElementReader> elements_;
  std::optional<MemberReader> members_;
  Place place_ = Place::Open;
  std::string key_, token_, name_, arguments_;
  bool is_arguments_ = false;  // the value being read
  bool told_ = false;          // arguments_ has what there is of them
  int depth_ = 0;              // of brackets in the value
  bool in_string_ = false, escaped_ = false;
};

}  // namespace inflight::server
