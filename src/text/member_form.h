// SPDX-License-Identifier: Apache-2.0
// An object's members in a spelling that is not JSON's, as some models write a call's arguments: NAME `middle` VALUE
// for each, with a comma between. Two kinds of strings are known:
// - with a quote of several letters strings stand as they are between two of it, and names within objects without:
//   city:<|"|>Paris<|"|>,place:{zip:75001} (Gemma 4);
// - with one of a letter they are Python's or JSON's, in quotes of either kind: city='Paris', place={"zip": 75001}.
#pragma once

#include <string>

namespace inflight {

struct MemberForm {
  std::string middle;         // between a name and its value, not within objects, where that is ":"
  std::string separator;      // between members: a comma, perhaps with blanks
  std::string quote;          // around strings, as the template writes them
  bool python_words = false;  // True, False and None in the place of JSON's words

  [[nodiscard]] bool has_long_quote() const { return quote.size() > 1; }
};

}  // namespace inflight
