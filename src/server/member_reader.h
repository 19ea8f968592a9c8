// SPDX-License-Identifier: Apache-2.0
// A call's arguments as members in a spelling that is not JSON's, city='Paris', place={"zip": 75001}, read as they are
// written and given as a JSON object. Read is more than the template writes: quotes of both kinds where they are of one
// letter, JSON's words and Python's, names within objects with quotes and without. What is no value of any kind is a
// string.
#pragma once

#include <string>
#include <vector>

#include "server/element_reader.h"

namespace inflight::server {

struct MemberMarks {
  std::string middle;  // between a name and its value
  std::string quote;   // around strings; those between quotes of several letters have no escapes
  std::string end;     // a bracket, which ends the members
};

class MemberReader {
 public:
  // LIFETIME: marks are borrowed.
  explicit MemberReader(const MemberMarks& marks);

  using Status = ElementReader::Status;  // NoElement: no member
  // The next byte. Adds to `json` what is new of the object: strings as they come, other values once they are whole.
  [[nodiscard]] Status read(char byte, std::string& json);

 private:
  enum class Place : uint8_t { BeforeName, Name, BehindName, BeforeValue, Bare, String, BehindValue };
  // An object or list that has begun.
  struct Level {
    char end;
    bool is_list;
    bool has_items = false;
  };

  [[nodiscard]] Status read_before_name(char byte, std::string& json);
  [[nodiscard]] Status read_middle(std::string& json);
  [[nodiscard]] Status read_before_value(char byte, std::string& json);
  [[nodiscard]] Status read_behind_value(char byte, std::string& json);
  void begin_item(std::string& json);
  void begin_string(std::string& json, bool is_name);
  void read_string(char byte, std::string& json);
  void read_escape(std::string& json);
  void end_string(std::string& json);
  [[nodiscard]] bool is_quote(std::string_view text) const;
  [[nodiscard]] std::string_view middle() const { return levels_.size() == 1 ? std::string_view(marks_.middle) : ":"; }

  const MemberMarks& marks_;
  Place place_ = Place::BeforeName;
  std::vector<Level> levels_;
  std::string text_;      // not yet understood, or given
  std::string quote_;     // of the string being read
  bool is_name_ = false;  // which it is
};

}  // namespace inflight::server
