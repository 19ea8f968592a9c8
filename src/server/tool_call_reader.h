// SPDX-License-Identifier: Apache-2.0
// One function call, {"name": ..., "arguments": {...}} ("parameters" at Llama), read as it is written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace inflight::server {

class ToolCallReader {
 public:
  // names: of the functions that may be called.   LIFETIME: borrowed.
  explicit ToolCallReader(const std::vector<std::string>& names) : names_(names) {}

  enum class Status : uint8_t {
    Reading,
    Ended,   // with this byte
    NoCall,  // no JSON object, or none with the name of such a function
  };
  // The next byte, the object's "{" first.
  [[nodiscard]] Status read(char byte);

  // Whether it is certain that this is a call: its name is known, and its arguments have begun.
  [[nodiscard]] bool begun() const { return !name_.empty() && told_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  // What is new of the arguments, a JSON text as the model writes it.   REQUIRES: begun().
  [[nodiscard]] std::string take_arguments();

 private:
  enum class Place : uint8_t { Open, BeforeKey, Key, Colon, BeforeValue, Value, AfterValue };
  [[nodiscard]] Status begin_value(char byte);
  [[nodiscard]] Status read_value(char byte);
  [[nodiscard]] Status end_value();
  [[nodiscard]] Status end_member(char byte);
  bool follow_string(char byte);

  const std::vector<std::string>& names_;
  Place place_ = Place::Open;
  std::string key_, token_, name_, arguments_;
  bool is_arguments_ = false;  // the value being read
  bool told_ = false;          // arguments_ has what there is of them
  int depth_ = 0;              // of brackets in the value
  bool in_string_ = false, escaped_ = false;
};

}  // namespace inflight::server
