// SPDX-License-Identifier: Apache-2.0
// What a schema asks of strings, as sets of texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/grammar_dfa.h"
#include "text/grammar_json_merge.h"

namespace inflight::grammar {

// A regular expression for the texts of `format`, perhaps not for all of them; "" for those that are annotations.
[[nodiscard]] std::string_view format_pattern(std::string_view format);

// The texts (UTF-8) that match `pattern` as JSON schema's "pattern" does.
// ERRORS: those of parse_regex() and texts_of().
[[nodiscard]] Dfa pattern_texts(std::string_view pattern, Budget& budget);
// Exactly these.   ERRORS: those of texts_of().
[[nodiscard]] Dfa listed_texts(const std::vector<std::string>& texts, Budget& budget);

// The expressions that strings of `schema` must match: "pattern", and that of its "format".
[[nodiscard]] std::vector<std::string> patterns_of(const Json& schema);
// The strings that satisfy these, "minLength" and "maxLength", not all of the long ones (of_length()).
// ERRORS: those of kept().
[[nodiscard]] Dfa string_texts(const Json& schema, const std::string& path, const SchemaRoot& root);
// Of those the ones that are in `texts`.
[[nodiscard]] Dfa string_texts(const Json& schema, const std::string& path, const SchemaRoot& root, Dfa texts);
// All texts (UTF-8) that do not hold `mark`.   ERRORS: those of texts_of().
[[nodiscard]] Dfa texts_without(std::string_view mark, Budget& budget);

}  // namespace inflight::grammar
