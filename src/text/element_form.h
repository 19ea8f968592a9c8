// SPDX-License-Identifier: Apache-2.0
// An object as elements, as some models write a call's arguments: `open` NAME `middle` VALUE `close` for each member,
// such as <parameter=NAME>VALUE</parameter> or <arg_key>NAME</arg_key><arg_value>VALUE</arg_value>, one behind the
// other. Strings stand as they are, all else is JSON; some models say which it is:
// <parameter name="NAME" string="true">VALUE</parameter>.
#pragma once

#include <string>

namespace inflight {

struct ElementForm {
  std::string open;
  std::string string_middle, middle;  // before strings, before all else; the same at most models
  std::string close;
  bool python_words = false;  // JSON's words may also be True, False and None, as Python's templates write them
};

}  // namespace inflight
