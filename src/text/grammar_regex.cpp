// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_regex.h"

#include <charconv>

#include "base/error.h"
#include "base/limits.h"
#include "base/utf8.h"

namespace inflight::grammar {
namespace {

class RegexParser {
 public:
  RegexParser(Builder& builder, std::string_view pattern, const CharacterWriter& write)
      : builder_(builder), pattern_(pattern), write_(write) {}

  NodeId parse(bool anchored) {
    std::vector<NodeId> choices;
    do {
      const bool at_start = try_take('^');
      const NodeId body = parse_sequence();
      const bool at_end = try_take('$');
      if (at_ < pattern_.size() && pattern_[at_] != '|')
        fail_here(pattern_[at_] == ')' ? "')' without '('" : "'$' before the end");
      std::vector<NodeId> parts;
      if (!anchored && !at_start) parts.push_back(anything());
      parts.push_back(body);
      if (!anchored && !at_end) parts.push_back(anything());
      choices.push_back(builder_.sequence(std::move(parts)));
    } while (try_take('|'));
    return builder_.any_of(std::move(choices));
  }

 private:
  [[noreturn]] void fail_here(std::string_view message, ErrorCode code = ErrorCode::InvalidArgument) const {
    fail(code, "regular expression, position {}: {}", at_, message);
  }
  bool try_take(char character) {
    if (at_ >= pattern_.size() || pattern_[at_] != character) return false;
    ++at_;
    return true;
  }
  NodeId anything() { return builder_.repeat(write_(builder_, CharacterSet(0, 0x10FFFF)), 0, std::nullopt); }

  char32_t take_character() {
    if (at_ >= pattern_.size()) fail_here("the expression ends too early");
    const Utf8Character character = first_utf8_character(pattern_.substr(at_));
    if (character.status != Utf8Status::Valid) fail_here("not UTF-8");
    at_ += character.length;
    return character.code_point;
  }

  NodeId parse_choices() {
    std::vector<NodeId> choices;
    do {
      choices.push_back(parse_sequence());
    } while (try_take('|'));
    return builder_.any_of(std::move(choices));
  }

  NodeId parse_sequence() {
    std::vector<NodeId> parts;
    while (at_ < pattern_.size() && pattern_[at_] != '|' && pattern_[at_] != ')' && pattern_[at_] != '$') {
      parts.push_back(parse_quantified());
    }
    return builder_.sequence(std::move(parts));
  }

  NodeId parse_quantified() {
    const NodeId part = parse_atom();
    int64_t min = 1;
    std::optional<int64_t> max = 1;
    if (try_take('*')) {
      min = 0;
      max.reset();
    } else if (try_take('+')) {
      max.reset();
    } else if (try_take('?')) {
      min = 0;
    } else if (!try_braces(min, max)) {
      return part;
    }
    if (try_take('+')) fail_here("possessive quantifiers are not supported", ErrorCode::Unsupported);
    (void)try_take('?');  // lazy: the same texts
    const bool follows = at_ < pattern_.size() && std::string_view("*+?").find(pattern_[at_]) != std::string_view::npos;
    int64_t again_min = 0;
    std::optional<int64_t> again_max;
    if (follows || try_braces(again_min, again_max)) fail_here("nothing to repeat");
    return builder_.repeat(part, min, max);
  }

  // {3}, {3,}, {3,5}; anything else is the character '{'.
  bool try_braces(int64_t& min, std::optional<int64_t>& max) {
    if (at_ >= pattern_.size() || pattern_[at_] != '{') return false;
    size_t place = at_ + 1;
    const auto low = take_count(pattern_, place);
    if (!low || place == pattern_.size()) return false;
    auto high = low;
    if (pattern_[place] == ',') high = take_count(pattern_, ++place);
    if (place == pattern_.size() || pattern_[place] != '}') return false;
    at_ = place + 1;
    if (high && *high < *low) fail_here("the numbers in {} are out of order");
    min = *low;
    max = high;
    return true;
  }

  NodeId parse_atom() {
    if (try_take('(')) return parse_group();
    if (try_take('[')) return write_(builder_, parse_class());
    if (try_take('.')) {
      CharacterSet newlines('\n', '\n');
      newlines.add('\r', '\r');
      newlines.add(0x2028, 0x2029);
      return write_(builder_, newlines.complement());
    }
    if (try_take('\\')) return write_(builder_, parse_escape(false));
    const char next = pattern_[at_];
    if (next == '^') fail_here("'^' behind the beginning", ErrorCode::Unsupported);
    if (next == '*' || next == '+' || next == '?') fail_here("nothing to repeat");
    const char32_t character = take_character();
    return write_(builder_, CharacterSet(character, character));
  }

  NodeId parse_group() {
    if (try_take('?')) {
      const std::string_view rest = pattern_.substr(at_);
      if (rest.starts_with("<") && !rest.starts_with("<=") && !rest.starts_with("<!")) {
        const size_t close = rest.find('>');
        if (close == std::string_view::npos) fail_here("the group's name is not closed");
        at_ += close + 1;
      } else if (!try_take(':')) {
        fail_here("looking ahead or behind is not supported", ErrorCode::Unsupported);
      }
    }
    if (++depth_ > limits::kGrammarDepthMax) fail_here("groups nested too deep");
    const NodeId body = parse_choices();
    --depth_;
    if (at_ < pattern_.size() && pattern_[at_] == '$') fail_here("'$' before the end", ErrorCode::Unsupported);
    if (!try_take(')')) fail_here("the group is not closed");
    return body;
  }

  // Behind "[".
  CharacterSet parse_class() {
    const bool negated = try_take('^');
    std::vector<CharacterSet::Range> ranges;
    while (!try_take(']')) {
      builder_.budget().charge(1);
      CharacterSet first = parse_class_part();
      const bool is_range = at_ + 1 < pattern_.size() && pattern_[at_] == '-' && pattern_[at_ + 1] != ']';
      if (is_range) {
        ++at_;
        const CharacterSet last = parse_class_part();
        const auto single = [](const CharacterSet& one) {
          return one.ranges().size() == 1 && one.ranges()[0].first == one.ranges()[0].second;
        };
        if (!single(first) || !single(last)) {  // beside a class '-' is itself (ECMA-262, annex B)
          first.add('-', '-');
          first.add(last);
        } else if (first.ranges()[0].first > last.ranges()[0].first) {
          fail_here("the range is out of order");
        } else {
          first.add(first.ranges()[0].first, last.ranges()[0].first);
        }
      }
      ranges.insert(ranges.end(), first.ranges().begin(), first.ranges().end());
    }
    const CharacterSet set(std::move(ranges));
    return negated ? set.complement() : set;
  }

  CharacterSet parse_class_part() {
    if (try_take('\\')) return parse_escape(true);
    const char32_t character = take_character();
    return {character, character};
  }

  uint32_t take_hex(size_t digits) {
    uint32_t value = 0;
    const std::string_view text = pattern_.substr(at_, digits);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (text.size() != digits || error != std::errc() || end != text.data() + digits)
      fail_here("bad hexadecimal digits");
    at_ += digits;
    return value;
  }

  // Behind the backslash.
  CharacterSet parse_escape(bool in_class) {
    const char32_t letter = take_character();
    const auto one = [](char32_t character) { return CharacterSet(character, character); };
    CharacterSet set;
    switch (letter) {
      case 'd':
      case 'D':
        set.add('0', '9');
        return letter == 'd' ? set : set.complement();
      case 'w':
      case 'W':
        set.add('0', '9');
        set.add('A', 'Z');
        set.add('_', '_');
        set.add('a', 'z');
        return letter == 'w' ? set : set.complement();
      case 's':
      case 'S':
        for (const char32_t space : {U' ', char32_t{0xA0}, char32_t{0xFEFF}, char32_t{0x1680}, char32_t{0x202F},
                                     char32_t{0x205F}, char32_t{0x3000}}) {
          set.add(space, space);
        }
        set.add('\t', '\r');
        set.add(0x2000, 0x200A);
        set.add(0x2028, 0x2029);
        return letter == 's' ? set : set.complement();
      case 'n':
        return one('\n');
      case 't':
        return one('\t');
      case 'r':
        return one('\r');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case '0':
        return one(0);
      case 'x':
        return one(take_hex(2));
      case 'u':
        if (try_take('{')) {
          const size_t close = pattern_.find('}', at_);
          if (close == std::string_view::npos || close - at_ > 6) fail_here("bad \\u{}");
          const uint32_t value = take_hex(close - at_);
          if (value > 0x10FFFF) fail_here("bad \\u{}");
          ++at_;
          return one(value);
        }
        return one(take_hex(4));
      default:
        break;
    }
    if (letter == 'b' && in_class) return one('\b');
    const bool is_word =
        (letter >= '1' && letter <= '9') || (letter >= 'A' && letter <= 'Z') || (letter >= 'a' && letter <= 'z');
    if (is_word)
      fail_here(std::string("escape \\") + static_cast<char>(letter) + " is not supported", ErrorCode::Unsupported);
    return one(letter);
  }

  Builder& builder_;
  std::string_view pattern_;
  const CharacterWriter& write_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

NodeId parse_regex(Builder& builder, std::string_view pattern, bool anchored, const CharacterWriter& write) {
  return RegexParser(builder, pattern, write).parse(anchored);
}

Program compile_regex(std::string_view pattern, Budget& budget) {
  Builder builder(budget);
  const int32_t root = builder.new_rule("regular expression");
  builder.define(root, parse_regex(builder, pattern, true,
                                   [](Builder& target, const CharacterSet& set) { return target.characters(set); }));
  return builder.compile(root);
}

}  // namespace inflight::grammar
