// SPDX-License-Identifier: Apache-2.0
// One function call, {"name": ..., "arguments": {...}} ("parameters" at Llama) or NAME and {...} between marks, read as
// it is written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace inflight::server {

// Texts between which letters and digits stand: an id, a number.
using MarkTexts = std::vector<std::string>;

// How `text` begins with them; between two of them stand 1 to 64 letters and digits.
struct MarkMatch {
  enum class Kind : uint8_t { No, Half, Whole } kind;  // Half: it may with more text
  size_t length;                                       // of the match, if Whole
};
[[nodiscard]] MarkMatch match_mark(std::string_view text, const MarkTexts& mark);

class ToolCallReader {
 public:
  // names: of the functions that may be called.   LIFETIME: borrowed.
  explicit ToolCallReader(const std::vector<std::string>& names) : names_(names) {}
  // Of calls OPEN NAME MIDDLE {...}.   LIFETIME: borrowed.
  ToolCallReader(const std::vector<std::string>& names, const MarkTexts& open, const MarkTexts& middle)
      : names_(names), open_mark_(&open), middle_mark_(&middle), place_(Place::Head) {}

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
  // What is new of the arguments, a JSON text as the model writes it.   REQUIRES: begun().
  [[nodiscard]] std::string take_arguments();

 private:
  enum class Place : uint8_t { Head, BeforeArguments, Open, BeforeKey, Key, Colon, BeforeValue, Value, AfterValue };
  [[nodiscard]] Status read_head();
  [[nodiscard]] Status begin_value(char byte);
  [[nodiscard]] Status read_value(char byte);
  [[nodiscard]] Status end_value();
  [[nodiscard]] Status end_member(char byte);
  bool follow_string(char byte);

  const std::vector<std::string>& names_;
  const MarkTexts* open_mark_ = nullptr;  // null: the name stands in the JSON
  const MarkTexts* middle_mark_ = nullptr;
  Place place_ = Place::Open;
  std::string key_, token_, name_, arguments_;
  bool is_arguments_ = false;  // the value being read
  bool told_ = false;          // arguments_ has what there is of them
  int depth_ = 0;              // of brackets in the value
  bool in_string_ = false, escaped_ = false;
};

}  // namespace inflight::server
