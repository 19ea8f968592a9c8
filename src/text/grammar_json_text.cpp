// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_json_text.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/utf8.h"
#include "text/grammar_json_string.h"
#include "text/token_trie.h"

namespace inflight::grammar {
namespace {

constexpr int kIndentMax = 40;
constexpr size_t kPrefixSteps = 2;  // of one more character
constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
constexpr std::string_view kEscapeLetters = "\"\\bfnrt";

ByteSet byte_set(std::string_view bytes) {
  ByteSet set;
  for (const char byte : bytes) set.set(static_cast<uint8_t>(byte));
  return set;
}

// How JSON spells a character that does not stand for itself.
std::string escaped(char32_t special) {
  const size_t index = kEscaped.find(static_cast<char>(special));
  return index != std::string_view::npos ? std::string("\\") + kEscapeLetters[index]
                                         : fmt::format("\\u{:04x}", static_cast<uint32_t>(special));
}

// Characters that stand for themselves in a string.
CharacterSet plain_characters(char quote = '"') {
  CharacterSet special(0, 0x1F);
  special.add(static_cast<uint8_t>(quote), static_cast<uint8_t>(quote));
  special.add('\\', '\\');
  return special.complement();
}

// The JSON string `text` in quotes of the other kind.
std::string in_single_quotes(std::string_view text) {
  std::string spelled = "'";
  for (size_t at = 1; at + 1 < text.size(); ++at) {
    if (text[at] == '\'') spelled += '\\';
    if (text[at] == '\\' && text[++at] != '"') spelled += '\\';
    spelled += text[at];
  }
  return spelled + "'";
}

}  // namespace

JsonText::JsonText(Builder& builder, std::optional<MemberForm> spelling)
    : builder_(builder), spelling_(std::move(spelling)) {
  string_rule_ = builder.new_rule("string");
  number_rule_ = builder.new_rule("number");
  integer_rule_ = builder.new_rule("integer");
  value_rule_ = builder.new_rule("value");
  object_rule_ = builder.new_rule("object");
  array_rule_ = builder.new_rule("array");
  builder.define(string_rule_, any_string());
  const NodeId digit = builder.bytes(byte_set("0123456789"));
  const NodeId digits = builder.repeat(digit, 1, std::nullopt);
  const NodeId more = builder.repeat(digit, 0, std::nullopt);
  const NodeId whole =
      builder.any_of({builder.literal("0"), builder.sequence({builder.bytes(byte_set("123456789")), more})});
  const NodeId minus = builder.optional(builder.literal("-"));
  builder.define(integer_rule_, builder.sequence({minus, whole}));
  const NodeId fraction = builder.optional(builder.sequence({builder.literal("."), digits}));
  // Three digits are enough for every double.
  const NodeId exponent = builder.optional(builder.sequence(
      {builder.bytes(byte_set("eE")), builder.optional(builder.bytes(byte_set("+-"))), builder.repeat(digit, 1, 3)}));
  builder.define(number_rule_, builder.sequence({minus, whole, fraction, exponent}));
  builder.define(value_rule_, builder.any_of({string(), number(), object(), array(), constant(true), constant(false),
                                              constant(nullptr)}));
  const NodeId key = has_long_quote() ? builder.automaton(bare_names()) : string();
  builder.define(object_rule_, list("{", member(key, value()), 0, std::nullopt, "}"));
  builder.define(array_rule_, list("[", value(), 0, std::nullopt, "]"));
}

NodeId JsonText::string() { return builder_.call(string_rule_); }
NodeId JsonText::number() { return builder_.call(number_rule_); }
NodeId JsonText::integer() { return builder_.call(integer_rule_); }
NodeId JsonText::value() { return builder_.call(value_rule_); }
NodeId JsonText::object() { return builder_.call(object_rule_); }
NodeId JsonText::array() { return builder_.call(array_rule_); }

NodeId JsonText::any_string() {
  if (has_long_quote()) return quoted(builder_.automaton(quotable_texts()));
  const NodeId json = quoted(builder_.repeat(any_character(), 0, std::nullopt));
  if (!spelling_) return json;
  const NodeId quote = builder_.literal("'");
  return builder_.any_of(
      {json, builder_.sequence({quote, builder_.repeat(any_character('\''), 0, std::nullopt), quote})});
}

Dfa JsonText::quotable_texts() {
  std::string mark = spelling_->quote;
  std::erase_if(mark, [](char byte) { return byte == kControlBegin || byte == kControlEnd; });
  return texts_without(mark, builder_.budget());
}

Dfa JsonText::bare_names() { return pattern_texts(kBareNamePattern, builder_.budget()); }

NodeId JsonText::space() {
  if (has_long_quote()) return builder_.empty();
  const NodeId indent = builder_.repeat(builder_.bytes(byte_set(" \t")), 0, kIndentMax);
  return builder_.any_of(
      {builder_.empty(), builder_.literal(" "), builder_.sequence({builder_.literal("\n"), indent})});
}

NodeId JsonText::any_character(char quote) {
  const auto hex = [this](std::string_view digits) { return builder_.bytes(byte_set(digits)); };
  const NodeId any = hex("0123456789abcdefABCDEF");
  // Surrogates in pairs only: alone they are no character.
  const NodeId pair = builder_.sequence(
      {hex("dD"), hex("89abAB"), any, any, builder_.literal("\\u"), hex("dD"), hex("cdefCDEF"), any, any});
  const NodeId plain = builder_.sequence({hex("0123456789abcefABCEF"), any, any, any});
  const NodeId below = builder_.sequence({hex("dD"), hex("01234567"), any, any});
  const NodeId unicode = builder_.sequence({hex("u"), builder_.any_of({plain, below, pair})});
  const NodeId letter = hex(std::string("\\/bfnrt") + quote);
  const NodeId escape = builder_.sequence({hex("\\"), builder_.any_of({letter, unicode})});
  return builder_.any_of({builder_.characters(plain_characters(quote)), escape});
}

NodeId JsonText::character(const CharacterSet& set) {
  CharacterSet plain = set.minus(plain_characters().complement());
  std::vector<NodeId> choices;
  if (!plain.ranges().empty()) choices.push_back(builder_.characters(plain));
  for (char32_t special = 0; special < 0x80; ++special) {
    if (!set.contains(special) || plain.contains(special)) continue;
    choices.push_back(builder_.literal(escaped(special)));
  }
  return builder_.any_of(std::move(choices));
}

NodeId JsonText::quoted(NodeId characters) {
  const NodeId quote = builder_.literal(has_long_quote() ? spelling_->quote : "\"");
  return builder_.sequence({quote, characters, quote});
}

NodeId JsonText::string_of(const Dfa& texts) {
  const CharacterSet unescaped = plain_characters();
  Dfa spelled;
  spelled.states.resize(texts.states.size());
  for (size_t at = 0; at < texts.states.size(); ++at) {
    const auto from = static_cast<int32_t>(at);
    spelled.states[at].accepts = texts.states[at].accepts;
    for (const auto& [bytes, to] : texts.states[at].arcs) {
      ByteSet plain = bytes;
      for (char32_t special = 0; special < 0x80; ++special) {
        if (!bytes.test(special) || unescaped.contains(special)) continue;
        plain.reset(special);
        spelled.add_path(from, escaped(special), to);
      }
      if (plain.any()) spelled.add_arc(from, plain, to);
    }
  }
  builder_.budget().charge(spelled.states.size());
  return quoted(builder_.automaton(std::move(spelled)));
}

// What names begin with.
struct JsonText::Prefix {
  std::map<char32_t, size_t> longer;  // by the next character; each stands behind this one
  bool is_name = false;
};

// Without \u and \/ there is one spelling a string, so the names' own are all there is to leave out.
NodeId JsonText::string_except(const std::vector<std::string>& names) {
  std::vector<Prefix> prefixes(1);
  for (std::string_view name : names) {
    size_t at = 0;
    while (!name.empty()) {
      builder_.budget().charge(kPrefixSteps);
      const Utf8Character character = first_utf8_character(name);
      name.remove_prefix(character.length);
      const auto [next, is_new] = prefixes[at].longer.try_emplace(character.code_point, prefixes.size());
      at = next->second;
      if (is_new) prefixes.emplace_back();
    }
    prefixes[at].is_name = true;
  }
  std::vector<NodeId> rests(prefixes.size());
  for (size_t i = prefixes.size(); i-- > 0;) rests[i] = rest_behind(prefixes[i], rests);
  return builder_.sequence({builder_.literal("\""), rests[0]});
}

// What may follow `prefix` in a string.   rests: the same for all longer ones.
NodeId JsonText::rest_behind(const Prefix& prefix, const std::vector<NodeId>& rests) {
  CharacterSet spelled = plain_characters();
  for (const char escaped : kEscaped) spelled.add(static_cast<uint8_t>(escaped), static_cast<uint8_t>(escaped));
  std::vector<NodeId> choices;
  std::vector<CharacterSet::Range> taken;
  const NodeId quote = builder_.literal("\"");
  for (const auto& [next, longer] : prefix.longer) {
    taken.emplace_back(next, next);
    if (spelled.contains(next))
      choices.push_back(builder_.sequence({character(CharacterSet(next, next)), rests[longer]}));
  }
  const CharacterSet others = spelled.minus(CharacterSet(std::move(taken)));
  choices.push_back(
      builder_.sequence({character(others), builder_.repeat(character(spelled), 0, std::nullopt), quote}));
  if (!prefix.is_name) choices.push_back(quote);
  return builder_.any_of(std::move(choices));
}

NodeId JsonText::constant(const Json& value) {
  if (value.is_object()) {
    std::vector<NodeId> parts{builder_.literal("{"), space()};
    for (const auto& [key, item] : value.items()) {
      if (parts.size() > 2) parts.push_back(comma());
      parts.push_back(member(name(key), constant(item)));
    }
    if (parts.size() > 2) parts.push_back(space());
    parts.push_back(builder_.literal("}"));
    return builder_.sequence(std::move(parts));
  }
  if (value.is_array()) {
    std::vector<NodeId> parts{builder_.literal("["), space()};
    for (const Json& item : value) {
      if (parts.size() > 2) parts.push_back(comma());
      parts.push_back(constant(item));
    }
    if (parts.size() > 2) parts.push_back(space());
    parts.push_back(builder_.literal("]"));
    return builder_.sequence(std::move(parts));
  }
  const std::string json = value.dump();
  if (!spelling_) return builder_.literal(json);
  if (value.is_string() && has_long_quote()) {
    const auto& text = value.get_ref<const std::string&>();
    return quotable_texts().accepts(text) ? quoted(builder_.literal(text)) : builder_.nothing();
  }
  if (value.is_string()) return builder_.any_of({builder_.literal(json), builder_.literal(in_single_quotes(json))});
  if (spelling_->python_words && value.is_boolean()) return builder_.literal(value.get<bool>() ? "True" : "False");
  return builder_.literal(spelling_->python_words && value.is_null() ? "None" : json);
}

NodeId JsonText::name(const std::string& text) { return has_long_quote() ? builder_.literal(text) : constant(text); }

NodeId JsonText::member(NodeId key, NodeId value) {
  return builder_.sequence({key, space(), builder_.literal(":"), space(), value});
}

NodeId JsonText::comma() { return builder_.sequence({space(), builder_.literal(","), space()}); }

NodeId JsonText::list(std::string_view open, NodeId item, int64_t min, std::optional<int64_t> max,
                      std::string_view close) {
  const NodeId begin = builder_.sequence({builder_.literal(open), space()});
  const NodeId end = builder_.literal(close);
  if (max && *max < min) return builder_.nothing();
  std::vector<NodeId> choices;
  if (!max || *max > 0) {
    const NodeId more = builder_.repeat(builder_.sequence({comma(), item}), std::max<int64_t>(min - 1, 0),
                                        max ? std::optional(*max - 1) : max);
    choices.push_back(builder_.sequence({item, more, space(), end}));
  }
  if (min <= 0) choices.push_back(end);
  return builder_.sequence({begin, builder_.any_of(std::move(choices))});
}

}  // namespace inflight::grammar
