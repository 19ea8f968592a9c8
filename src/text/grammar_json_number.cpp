// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_json_number.h"

namespace inflight::grammar {
namespace {

DecimalBound decimal(const Json& schema, const char* keyword, bool exclusive, const std::string& path) {
  if (!schema[keyword].is_number()) malformed(path, keyword, schema[keyword], "a number");
  return decimal_bound(schema[keyword].dump(), exclusive);
}

// The narrower one of a bound that may be reached and one that may not.
std::optional<DecimalBound> bound(const Json& schema, const char* plain, const char* exclusive, bool is_min,
                                  const std::string& path) {
  std::optional<DecimalBound> found;
  if (schema.contains(plain)) found = decimal(schema, plain, false, path);
  if (!schema.contains(exclusive)) return found;
  const auto other = decimal(schema, exclusive, true, path);
  return found && (is_min ? is_below(other, *found) : is_below(*found, other)) ? found : other;
}

std::optional<DecimalBound> step_of(const Json& schema, const std::string& path) {
  if (!schema.contains("multipleOf")) return {};
  const auto step = decimal(schema, "multipleOf", false, path);
  if (step.negative || step.is_zero()) malformed(path, "multipleOf", schema["multipleOf"], "above 0");
  return step;
}

}  // namespace

NumberRange number_range(const Json& schema, const std::string& path) {
  return {bound(schema, "minimum", "exclusiveMinimum", true, path),
          bound(schema, "maximum", "exclusiveMaximum", false, path), step_of(schema, path)};
}

bool is_within(const NumberRange& range, const DecimalBound& value) {
  const auto in_order = [](const DecimalBound& low, const DecimalBound& high) {
    return low.exclusive || high.exclusive ? is_below(low, high) : !is_below(high, low);
  };
  return (!range.min || in_order(*range.min, value)) && (!range.max || in_order(value, *range.max));
}

}  // namespace inflight::grammar
