// SPDX-License-Identifier: Apache-2.0
// Regular expressions in ECMAScript's notation: literals, classes, \d \w \s, groups, alternatives, quantifiers, ^ and $
// at the ends. What a pushdown automaton over bytes cannot do (back references, looking around) is an error.
#pragma once

#include <functional>
#include <string_view>

#include "text/grammar_program.h"

namespace inflight::grammar {

// How one character of a set is written in the output: in UTF-8, or escaped within a JSON string.
using CharacterWriter = std::function<NodeId(Builder&, const CharacterSet&)>;

// anchored: the whole text matches; else, as JSON schema's "pattern", a part of it is enough unless ^ and $ say
// otherwise. ERRORS: InvalidArgument, Unsupported "regular expression, position N: ..."; those of Budget::charge().
[[nodiscard]] NodeId parse_regex(Builder& builder, std::string_view pattern, bool anchored,
                                 const CharacterWriter& write);

[[nodiscard]] Program compile_regex(std::string_view pattern, Budget& budget);

}  // namespace inflight::grammar
