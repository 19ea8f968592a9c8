// SPDX-License-Identifier: Apache-2.0
// The parts that every JSON document is made of, as grammar nodes; the same in the spelling of a MemberForm.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "text/grammar_program.h"
#include "text/member_form.h"

namespace inflight::grammar {

using Json = nlohmann::ordered_json;

// Names of undeclared members where no quote ends them.
inline constexpr const char* kBareNamePattern = "^[A-Za-z0-9_.-]{1,64}$";

class JsonText {
 public:
  // spelling: of all values; nothing: JSON's.
  explicit JsonText(Builder& builder, std::optional<MemberForm> spelling = std::nullopt);

  // Strings stand as they are between long quotes, names in objects without any. REQUIRES then: string_of(),
  // string_except(), character() and any_character() are not asked for.
  [[nodiscard]] bool has_long_quote() const { return spelling_ && spelling_->has_long_quote(); }
  // With a long quote: the texts that strings may be, and those of names in objects.
  [[nodiscard]] Dfa quotable_texts();
  [[nodiscard]] Dfa bare_names();

  [[nodiscard]] NodeId space();   // between tokens
  [[nodiscard]] NodeId string();  // any
  [[nodiscard]] NodeId number();
  [[nodiscard]] NodeId integer();
  [[nodiscard]] NodeId value();
  [[nodiscard]] NodeId object();
  [[nodiscard]] NodeId array();

  // One character of a string, in any of its spellings.
  [[nodiscard]] NodeId any_character(char quote = '"');
  // One of `set`, as json.dumps spells it.
  [[nodiscard]] NodeId character(const CharacterSet& set);
  [[nodiscard]] NodeId quoted(NodeId characters);
  // A string that is one of these texts, as json.dumps spells it.   REQUIRES: they are UTF-8.
  [[nodiscard]] NodeId string_of(const Dfa& texts);
  // A string that is none of `names`.
  [[nodiscard]] NodeId string_except(const std::vector<std::string>& names);
  // Exactly this value.
  [[nodiscard]] NodeId constant(const Json& value);
  // The name of a member.
  [[nodiscard]] NodeId name(const std::string& text);
  // "key": value
  [[nodiscard]] NodeId member(NodeId key, NodeId value);
  [[nodiscard]] NodeId comma();  // with space on both sides
  // `open` items `close` with commas between: at least min, at most max.
  [[nodiscard]] NodeId list(std::string_view open, NodeId item, int64_t min, std::optional<int64_t> max,
                            std::string_view close);

 private:
  struct Prefix;
  [[nodiscard]] NodeId any_string();
  [[nodiscard]] NodeId rest_behind(const Prefix& prefix, const std::vector<NodeId>& rests);

  Builder& builder_;
  std::optional<MemberForm> spelling_;
  int32_t string_rule_ = 0, number_rule_ = 0, integer_rule_ = 0, value_rule_ = 0, object_rule_ = 0, array_rule_ = 0;
};

}  // namespace inflight::grammar
