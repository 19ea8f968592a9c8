// SPDX-License-Identifier: Apache-2.0
// What a schema asks of numbers.
#pragma once

#include <optional>
#include <string>

#include "text/grammar_json_merge.h"
#include "text/grammar_numbers.h"

namespace inflight::grammar {

struct NumberRange {
  std::optional<DecimalBound> min, max;
  std::optional<DecimalBound> step;  // "multipleOf"
};
// ERRORS: InvalidArgument for bounds that are no numbers, a step that is not above 0.
[[nodiscard]] NumberRange number_range(const Json& schema, const std::string& path);

// Whether `value`, a number, is within the bounds; the step is not looked at.
[[nodiscard]] bool is_within(const NumberRange& range, const DecimalBound& value);

}  // namespace inflight::grammar
