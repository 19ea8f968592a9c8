// SPDX-License-Identifier: Apache-2.0
// JSON's numbers, within bounds, as grammars over their decimal digits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "text/grammar_program.h"

namespace inflight::grammar {

struct DecimalBound {
  bool negative = false;
  std::string digits = "0";  // before the point, without leading zeros
  std::string fraction;      // behind it, without trailing zeros
  bool exclusive = false;

  [[nodiscard]] std::string text() const {
    return (negative ? "-" : "") + digits + (fraction.empty() ? "" : "." + fraction);
  }
  [[nodiscard]] bool is_zero() const { return digits == "0" && fraction.empty(); }
};
// number as JSON spells it, of 64 bits: an exponent becomes digits, some hundreds at most.
[[nodiscard]] DecimalBound decimal_bound(const std::string& number, bool exclusive);
// left < right, exactly.
[[nodiscard]] bool is_below(const DecimalBound& left, const DecimalBound& right);

// -?(0|[1-9][0-9]*) in [min, max], the bounds themselves where they are whole and not exclusive.
[[nodiscard]] NodeId integer_between(Builder& builder, const std::optional<DecimalBound>& min,
                                     const std::optional<DecimalBound>& max);
// Numbers without exponent in [min, max], the bounds themselves where they are not exclusive.
[[nodiscard]] NodeId number_between(Builder& builder, const std::optional<DecimalBound>& min,
                                    const std::optional<DecimalBound>& max);

// All multiples of `step` > 0, of any sign: whole ones only, or with as many digits behind the point as it has, at
// most. ERRORS: Unsupported for a step whose digits are too many for limits::kGrammarDfaStatesMax.
[[nodiscard]] Dfa multiples_of(const DecimalBound& step, bool whole);

}  // namespace inflight::grammar
