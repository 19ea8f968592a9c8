// SPDX-License-Identifier: Apache-2.0
// When "oneOf" may be written as a choice: when no document of one alternative satisfies another one.
#pragma once

#include <string>

#include "text/grammar_json_merge.h"

namespace inflight::grammar {

// Whether it is certain that no document which the grammar of `written` gives satisfies `other`: by type, by constant
// values, by ranges and lengths, or by a property that one wants and the other cannot have. What a grammar does not
// write (undeclared properties, unless they are allowed in so many words) counts as never there.
// path: for errors.   ERRORS: as merge_schemas().
[[nodiscard]] bool never_both(const Json& written, const Json& other, const std::string& path, const SchemaRoot& root,
                              int depth = 0);

}  // namespace inflight::grammar
