// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_gbnf.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/error.h"
#include "base/limits.h"
#include "base/utf8.h"

namespace inflight::grammar {
namespace {

bool is_name(char character) {
  return (character >= 'a' && character <= 'z') || (character >= 'A' && character <= 'Z') ||
         (character >= '0' && character <= '9') || character == '-' || character == '_';
}

class GbnfParser {
 public:
  GbnfParser(std::string_view source, Budget& budget) : source_(source), builder_(budget) {}

  Program parse() {
    skip_space();
    while (at_ < source_.size()) {
      const std::string name = take_name();
      skip_space();
      if (source_.substr(at_, 3) != "::=") fail_here("wanted '::='");
      at_ += 3;
      const int32_t rule = rule_named(name);
      if (builder_.is_defined(rule)) fail_here("rule '" + name + "' is defined twice");
      builder_.define(rule, parse_choices());
      skip_space();
    }
    if (!rules_.contains("root")) fail(ErrorCode::InvalidArgument, "grammar: there is no rule 'root'");
    return builder_.compile(rules_["root"]);
  }

 private:
  [[noreturn]] void fail_here(const std::string& message) const {
    const auto line = 1 + std::ranges::count(source_.substr(0, at_), '\n');
    fail(ErrorCode::InvalidArgument, "grammar line {}: {}", line, message);
  }
  bool try_take(char character) {
    if (at_ >= source_.size() || source_[at_] != character) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (at_ < source_.size()) {
      if (source_[at_] == '#') {
        at_ = std::min(source_.find('\n', at_), source_.size());
      } else if (std::string_view(" \t\r\n").find(source_[at_]) != std::string_view::npos) {
        ++at_;
      } else {
        return;
      }
    }
  }
  std::string take_name() {
    const size_t begin = at_;
    while (at_ < source_.size() && is_name(source_[at_])) ++at_;
    if (at_ == begin) fail_here("wanted a rule's name");
    return std::string(source_.substr(begin, at_ - begin));
  }
  int32_t rule_named(const std::string& name) {
    const auto found = rules_.find(name);
    return found != rules_.end() ? found->second : rules_[name] = builder_.new_rule(name);
  }

  // Whether the next rule begins here.
  bool at_rule() {
    const size_t begin = at_;
    while (at_ < source_.size() && is_name(source_[at_])) ++at_;
    const bool named = at_ > begin;
    skip_space();
    const bool found = named && source_.substr(at_, 3) == "::=";
    at_ = begin;
    return found;
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
    for (skip_space(); at_ < source_.size() && source_[at_] != '|' && source_[at_] != ')' && !at_rule(); skip_space()) {
      parts.push_back(parse_repeated());
    }
    return builder_.sequence(std::move(parts));
  }

  NodeId parse_repeated() {
    NodeId part = parse_atom();
    while (true) {
      skip_space();
      if (try_take('*')) {
        part = builder_.repeat(part, 0, std::nullopt);
      } else if (try_take('+')) {
        part = builder_.repeat(part, 1, std::nullopt);
      } else if (try_take('?')) {
        part = builder_.optional(part);
      } else if (try_take('{')) {
        part = parse_counts(part);
      } else {
        return part;
      }
    }
  }

  // Behind "{": m}, m,} or m,n}.
  NodeId parse_counts(NodeId part) {
    skip_space();
    const int64_t min = take_number();
    std::optional<int64_t> max = min;
    skip_space();
    if (try_take(',')) {
      skip_space();
      max = at_ < source_.size() && source_[at_] == '}' ? std::nullopt : std::optional(take_number());
      skip_space();
    }
    if (!try_take('}')) fail_here("wanted '}'");
    if (max && *max < min) fail_here("the numbers in {} are out of order");
    return builder_.repeat(part, min, max);
  }

  int64_t take_number() {
    const auto count = take_count(source_, at_);
    if (!count) fail_here("wanted a number");
    return *count;
  }

  NodeId parse_atom() {
    if (try_take('"')) {
      std::string text;
      while (!try_take('"')) append_utf8(text, take_character());
      return builder_.literal(text);
    }
    if (try_take('[')) return parse_class();
    if (try_take('.')) return builder_.characters(CharacterSet(0, 0x10FFFF));
    if (try_take('(')) {
      if (++depth_ > limits::kGrammarDepthMax) fail_here("groups nested too deep");
      const NodeId body = parse_choices();
      --depth_;
      if (!try_take(')')) fail_here("the group is not closed");
      return body;
    }
    if (!is_name(source_[at_])) fail_here("unexpected character");
    return builder_.call(rule_named(take_name()));
  }

  NodeId parse_class() {
    const bool negated = try_take('^');
    std::vector<CharacterSet::Range> ranges;
    while (!try_take(']')) {
      const char32_t first = take_character();
      char32_t last = first;
      if (at_ + 1 < source_.size() && source_[at_] == '-' && source_[at_ + 1] != ']') {
        ++at_;
        last = take_character();
        if (last < first) fail_here("the range is out of order");
      }
      ranges.emplace_back(first, last);
    }
    const CharacterSet set(std::move(ranges));
    return builder_.characters(negated ? set.complement() : set);
  }

  // In a text or class, escapes resolved.
  char32_t take_character() {
    if (at_ >= source_.size()) fail_here("a text or class is not closed");
    const Utf8Character character = first_utf8_character(source_.substr(at_));
    if (character.status != Utf8Status::Valid) fail_here("not UTF-8");
    at_ += character.length;
    if (character.code_point != '\\') return character.code_point;
    if (at_ >= source_.size()) fail_here("a text or class is not closed");
    const char letter = source_[at_++];
    constexpr std::string_view kLetters = "nrt\\\"[]-^";
    constexpr std::string_view kValues = "\n\r\t\\\"[]-^";
    if (const size_t index = kLetters.find(letter); index != std::string_view::npos)
      return static_cast<uint8_t>(kValues[index]);
    const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    const std::string_view text = source_.substr(at_, digits);
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    const bool is_scalar = value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
    if (digits == 0 || text.size() != digits || error != std::errc() || end != text.data() + digits || !is_scalar) {
      fail_here(std::string("bad escape \\") + letter);
    }
    at_ += digits;
    return value;
  }

  std::string_view source_;
  Builder builder_;
  std::unordered_map<std::string, int32_t> rules_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Program compile_gbnf(std::string_view source, Budget& budget) { return GbnfParser(source, budget).parse(); }

}  // namespace inflight::grammar
