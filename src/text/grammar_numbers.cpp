// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_numbers.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "base/error.h"
#include "base/limits.h"

namespace inflight::grammar {
namespace {

// Texts are built from the left: what follows a digit is a node.
class Digits {
 public:
  explicit Digits(Builder& builder) : builder_(builder) {}

  NodeId range(char first, char last) {
    ByteSet set;
    for (char digit = first; digit <= last; ++digit) set.set(static_cast<uint8_t>(digit));
    return first > last ? builder_.nothing() : builder_.bytes(set);
  }
  NodeId some(int64_t min, std::optional<int64_t> max) { return builder_.repeat(range('0', '9'), min, max); }
  NodeId then(NodeId first, NodeId rest) { return builder_.sequence({first, rest}); }
  NodeId exactly(char digit, NodeId rest) { return then(range(digit, digit), rest); }

  // Texts of the same length that are >= or <= `text`, or in between.
  NodeId same_length_at_least(std::string_view text) {
    if (text.empty()) return builder_.empty();
    const NodeId greater = then(range(static_cast<char>(text[0] + 1), '9'), some(ssize(text) - 1, ssize(text) - 1));
    return builder_.any_of({exactly(text[0], same_length_at_least(text.substr(1))), greater});
  }
  NodeId same_length_at_most(std::string_view text, char first = '0') {
    if (text.empty()) return builder_.empty();
    const NodeId less = then(range(first, static_cast<char>(text[0] - 1)), some(ssize(text) - 1, ssize(text) - 1));
    return builder_.any_of({exactly(text[0], same_length_at_most(text.substr(1))), less});
  }
  NodeId same_length_between(std::string_view low, std::string_view high) {
    if (low.empty()) return builder_.empty();
    if (low[0] == high[0]) return exactly(low[0], same_length_between(low.substr(1), high.substr(1)));
    const NodeId middle = then(range(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)),
                               some(ssize(low) - 1, ssize(low) - 1));
    return builder_.any_of({exactly(low[0], same_length_at_least(low.substr(1))), middle,
                            exactly(high[0], same_length_at_most(high.substr(1)))});
  }

  // Whole numbers >= 0 without leading zeros in [low, high]; no high: no limit.
  NodeId whole_between(const std::string& low, const std::optional<std::string>& high) {
    if (high && (high->size() < low.size() || (high->size() == low.size() && *high < low))) return builder_.nothing();
    if (!high) {
      const auto length = static_cast<int64_t>(low.size());
      const NodeId longer = low == "0" ? builder_.nothing() : then(range('1', '9'), some(length, std::nullopt));
      if (low == "0") return builder_.any_of({range('0', '0'), then(range('1', '9'), some(0, std::nullopt))});
      return builder_.any_of({same_length_at_least(low), longer});
    }
    if (low.size() == high->size()) return same_length_between(low, *high);
    std::vector<NodeId> choices{same_length_at_least(low), same_length_at_most(*high, '1')};
    if (high->size() > low.size() + 1) choices.push_back(then(range('1', '9'), some(ssize(low), ssize(*high) - 2)));
    return builder_.any_of(std::move(choices));
  }

  // Digits behind the point (perhaps none) whose value is > or >= 0.text.
  NodeId fraction_digits_from(std::string_view text, bool exclusive) {
    if (text.empty()) {
      if (!exclusive) return some(0, std::nullopt);
      return builder_.sequence({some(0, std::nullopt), range('1', '9'), some(0, std::nullopt)});
    }
    return builder_.any_of({exactly(text[0], fraction_digits_from(text.substr(1), exclusive)),
                            then(range(static_cast<char>(text[0] + 1), '9'), some(0, std::nullopt))});
  }
  // The same for < or <=; digits equal so far.
  NodeId fraction_digits_to(std::string_view text, bool exclusive, bool may_stop) {
    if (text.empty())
      return exclusive ? builder_.nothing() : builder_.repeat(range('0', '0'), may_stop ? 0 : 1, std::nullopt);
    std::vector<NodeId> choices{then(range('0', static_cast<char>(text[0] - 1)), some(0, std::nullopt)),
                                exactly(text[0], fraction_digits_to(text.substr(1), exclusive, true))};
    if (may_stop) choices.push_back(builder_.empty());
    return builder_.any_of(std::move(choices));
  }
  // Both at once.  REQUIRES: low and high are of one length.
  NodeId fraction_digits_between(std::string_view low, bool low_exclusive, std::string_view high, bool high_exclusive,
                                 bool may_stop) {
    const auto is_zero = [](std::string_view text) { return text.find_first_not_of('0') == std::string_view::npos; };
    const bool stop = may_stop && is_zero(low) && !low_exclusive && (!is_zero(high) || !high_exclusive);
    if (low.empty()) {
      const bool equal = !low_exclusive && !high_exclusive;
      return equal ? builder_.repeat(range('0', '0'), may_stop ? 0 : 1, std::nullopt) : builder_.nothing();
    }
    std::vector<NodeId> choices;
    if (stop) choices.push_back(builder_.empty());
    if (low[0] == high[0]) {
      choices.push_back(
          exactly(low[0], fraction_digits_between(low.substr(1), low_exclusive, high.substr(1), high_exclusive, true)));
    } else if (low[0] < high[0]) {
      choices.push_back(exactly(low[0], fraction_digits_from(strip(low.substr(1)), low_exclusive)));
      choices.push_back(
          then(range(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)), some(0, std::nullopt)));
      choices.push_back(exactly(high[0], fraction_digits_to(strip(high.substr(1)), high_exclusive, true)));
    }
    return builder_.any_of(std::move(choices));
  }

  NodeId point() { return builder_.literal("."); }
  NodeId any_fraction() { return builder_.optional(then(point(), some(1, std::nullopt))); }

  // "" or ".digits", of value >= (>) 0.text.
  NodeId fraction_from(std::string_view text, bool exclusive) {
    if (text.empty() && !exclusive) return any_fraction();
    return then(point(), fraction_digits_from(text, exclusive));
  }
  NodeId fraction_to(std::string_view text, bool exclusive) {
    const NodeId digits = then(point(), fraction_digits_to(text, exclusive, false));
    if (text.empty() && exclusive) return builder_.nothing();
    return builder_.optional(digits);
  }

  static std::string_view strip(std::string_view text) {
    while (text.ends_with('0')) text.remove_suffix(1);
    return text;
  }

 private:
  static int64_t ssize(std::string_view text) { return static_cast<int64_t>(text.size()); }
  Builder& builder_;
};

// digits + 1, digits - 1 (> 0)
std::string next_whole(std::string digits) {
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    if (*digit != '9') {
      ++*digit;
      return digits;
    }
    *digit = '0';
  }
  return "1" + digits;
}

std::string previous_whole(std::string digits) {
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    if (*digit != '0') {
      --*digit;
      break;
    }
    *digit = '9';
  }
  const size_t first = std::min(digits.find_first_not_of('0'), digits.size() - 1);
  return digits.substr(first);
}

// The least whole number >= (>) a bound, the greatest <= (<) one, if any; signs are not looked at.
std::string least_whole(const DecimalBound& bound) {
  return bound.fraction.empty() && !bound.exclusive ? bound.digits : next_whole(bound.digits);
}

std::optional<std::string> greatest_whole(const DecimalBound& bound) {
  if (!bound.fraction.empty() || !bound.exclusive) return bound.digits;
  return bound.is_zero() ? std::nullopt : std::optional(previous_whole(bound.digits));
}

// The point of `number`, digits with or without one, moved to the right, or to the left for places < 0.
std::string with_point_moved(std::string number, int places) {
  size_t point = std::min(number.find('.'), number.size());
  if (point < number.size()) number.erase(point, 1);
  const auto count = static_cast<size_t>(std::abs(places));
  if (places < 0) {
    if (count >= point) number.insert(0, count + 1 - point, '0');
    point = std::max(point, count + 1) - count;
  } else {
    point += count;
    if (point > number.size()) number.append(point - number.size(), '0');
  }
  number.insert(point, ".");
  return number;
}

// Magnitudes in [low, high]; signs are not looked at.
NodeId magnitude_between(Builder& builder, const DecimalBound& low, const std::optional<DecimalBound>& high) {
  Digits digits(builder);
  const NodeId low_digits = builder.literal(low.digits);
  if (high && high->digits == low.digits) {
    const size_t length = std::max(low.fraction.size(), high->fraction.size());
    const auto padded = [length](std::string text) { return text + std::string(length - text.size(), '0'); };
    std::vector<NodeId> fractions{
        digits.then(digits.point(), digits.fraction_digits_between(padded(low.fraction), low.exclusive,
                                                                   padded(high->fraction), high->exclusive, false))};
    const bool whole = low.fraction.empty() && !low.exclusive && (!high->fraction.empty() || !high->exclusive);
    if (whole) fractions.push_back(builder.empty());
    return digits.then(low_digits, builder.any_of(std::move(fractions)));
  }
  std::vector<NodeId> choices{digits.then(low_digits, digits.fraction_from(low.fraction, low.exclusive))};
  const std::string second = next_whole(low.digits);
  if (!high) {
    choices.push_back(digits.then(digits.whole_between(second, std::nullopt), digits.any_fraction()));
  } else {
    if (high->digits.size() < low.digits.size() ||
        (high->digits.size() == low.digits.size() && high->digits < low.digits))
      return builder.nothing();
    choices.push_back(digits.then(builder.literal(high->digits), digits.fraction_to(high->fraction, high->exclusive)));
    if (second != high->digits) {
      choices.push_back(digits.then(digits.whole_between(second, previous_whole(high->digits)), digits.any_fraction()));
    }
  }
  return builder.any_of(std::move(choices));
}

}  // namespace

DecimalBound decimal_bound(const std::string& number, bool exclusive) {
  DecimalBound bound;
  bound.exclusive = exclusive;
  bound.negative = number.starts_with('-');
  const size_t exponent = number.find_first_of("eE");
  std::string magnitude = number.substr(bound.negative ? 1 : 0, exponent - (bound.negative ? 1 : 0));
  if (exponent != std::string::npos) magnitude = with_point_moved(magnitude, std::stoi(number.substr(exponent + 1)));
  const size_t point = magnitude.find('.');
  bound.digits = magnitude.substr(0, point);
  if (point != std::string::npos) bound.fraction = Digits::strip(std::string_view(magnitude).substr(point + 1));
  if (bound.is_zero()) bound.negative = false;
  return bound;
}

bool is_below(const DecimalBound& left, const DecimalBound& right) {
  if (left.negative != right.negative) return left.negative;
  const DecimalBound& small = left.negative ? right : left;
  const DecimalBound& large = left.negative ? left : right;
  if (small.digits.size() != large.digits.size()) return small.digits.size() < large.digits.size();
  return std::tie(small.digits, small.fraction) < std::tie(large.digits, large.fraction);
}

NodeId integer_between(Builder& builder, const std::optional<DecimalBound>& min,
                       const std::optional<DecimalBound>& max) {
  Digits digits(builder);
  const auto magnitudes = [&](const std::string& low, const std::optional<DecimalBound>& high) {
    if (!high) return digits.whole_between(low, std::nullopt);
    const auto greatest = greatest_whole(*high);
    return greatest ? digits.whole_between(low, greatest) : builder.nothing();
  };
  std::vector<NodeId> choices;
  if (!max || !max->negative) choices.push_back(magnitudes(min && !min->negative ? least_whole(*min) : "0", max));
  if (!min || min->negative) {
    const std::string low = max && max->negative ? least_whole(*max) : "1";
    choices.push_back(digits.then(builder.literal("-"), magnitudes(low, min)));
  }
  return builder.any_of(std::move(choices));
}

NodeId number_between(Builder& builder, const std::optional<DecimalBound>& min,
                      const std::optional<DecimalBound>& max) {
  std::vector<NodeId> choices;
  const DecimalBound zero;
  if (!max || !max->negative) {
    choices.push_back(magnitude_between(builder, min && !min->negative ? *min : zero, max));
  }
  if (!min || min->negative) {
    DecimalBound low = max && max->negative ? *max : zero;
    if (!max || !max->negative) low.exclusive = true;  // -0 is 0, which stands above
    choices.push_back(builder.sequence({builder.literal("-"), magnitude_between(builder, low, min)}));
  }
  return builder.any_of(std::move(choices));
}

// A state knows how many digits stand behind the point and, of the number that all digits make, the remainder: with the
// step's own places behind the point that number is to be a multiple of the step's digits.
Dfa multiples_of(const DecimalBound& step, bool whole) {
  const size_t places = step.fraction.size();
  const std::string digits = step.digits + step.fraction;
  const size_t fraction_count = whole ? 0 : places;
  if (digits.size() > 9 || std::stoul(digits) * (fraction_count + 1) >= limits::kGrammarDfaStatesMax - 3) {
    fail(ErrorCode::Unsupported, "keyword 'multipleOf' is not supported with so many digits");
  }
  const size_t modulus = std::stoul(digits);
  const auto bytes = [](std::string_view text) {
    ByteSet set;
    for (const char byte : text) set.set(static_cast<uint8_t>(byte));
    return set;
  };
  Dfa dfa;
  const int32_t unsigned_start = dfa.add_state(false);
  const int32_t zero = dfa.add_state(true);  // no digit follows a leading zero
  const auto state_of = [&](size_t place_count, size_t remainder) {
    return static_cast<int32_t>(3 + place_count * modulus + remainder);
  };
  for (size_t count = 0; count <= fraction_count; ++count) {
    for (size_t remainder = 0; remainder < modulus; ++remainder) {
      size_t whole_number = remainder;
      for (size_t i = count; i < places; ++i) whole_number = whole_number * 10 % modulus;
      (void)dfa.add_state(whole_number % modulus == 0);
    }
  }
  dfa.add_arc(0, bytes("-"), unsigned_start);
  for (const int32_t start : {0, unsigned_start}) {
    dfa.add_arc(start, bytes("0"), zero);
    for (char digit = '1'; digit <= '9'; ++digit)
      dfa.add_arc(start, bytes({&digit, 1}), state_of(0, static_cast<size_t>(digit - '0') % modulus));
  }
  const auto read_digits = [&](int32_t from, size_t place_count, size_t remainder) {
    for (char digit = '0'; digit <= '9'; ++digit) {
      const size_t next = (remainder * 10 + static_cast<size_t>(digit - '0')) % modulus;
      dfa.add_arc(from, bytes({&digit, 1}), state_of(place_count, next));
    }
  };
  for (size_t remainder = 0; remainder < modulus; ++remainder) {
    read_digits(state_of(0, remainder), 0, remainder);
    for (size_t count = 1; count < fraction_count; ++count) {
      read_digits(state_of(count, remainder), count + 1, remainder);
    }
    if (fraction_count == 0) continue;
    const int32_t behind_point = dfa.add_state(false);
    read_digits(behind_point, 1, remainder);
    dfa.add_arc(state_of(0, remainder), bytes("."), behind_point);
    if (remainder == 0) dfa.add_arc(zero, bytes("."), behind_point);
  }
  return dfa;
}

}  // namespace inflight::grammar
