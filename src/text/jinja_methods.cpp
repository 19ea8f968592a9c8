// SPDX-License-Identifier: Apache-2.0
// Methods of strings, lists and mappings: Python's, those that leave their value as it is.
#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_lexer.h"
#include "text/jinja_strings.h"
#include "text/unicode.h"

namespace inflight::jinja {
namespace {

using Method = Value (*)(Call&);
using Methods = std::unordered_map<std::string_view, Method>;

const std::string& text_of(const Call& call) { return call.subject.text(); }

Value string_list(Call& call, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(call.heap().string(std::string(part)));
  return call.heap().list(std::move(items));
}

Value split(Call& call, bool from_right) {
  call.at_most(2);
  const Value separator = call.get(0, "sep", Value::none());
  const int64_t count = call.integer(1, "maxsplit", -1);
  if (separator.is_none()) return string_list(call, split_white_space(text_of(call), count, from_right));
  const std::string text = call.string(0, "sep", "");
  if (text.empty()) fail_at(call.line, "{}: the separator is empty", call.name);
  return string_list(call, split_text(text_of(call), text, count, from_right));
}

Value strip(Call& call, bool left, bool right) {
  call.at_most(1);
  const Value characters = call.get(0, "chars", Value::none());
  std::string_view text = text_of(call);
  if (characters.is_none()) {
    if (left) text = strip_left(text);
    if (right) text = strip_right(text);
  } else {
    const std::string set = call.string(0, "chars", "");
    if (left) text = strip_left(text, set);
    if (right) text = strip_right(text, set);
  }
  return call.heap().string(std::string(text));
}

// A part of the subject, and the number of characters before it.
struct Part {
  std::string_view text;
  int64_t begin = 0;
};

// What the arguments behind the first one, "start" and "end", cut out as a slice does; nothing where it starts behind
// its end.
std::optional<Part> part_of(Call& call) {
  call.at_most(3);
  const std::string_view text = text_of(call);
  if (call.positional.size() < 2) return Part{text};
  const Characters characters(text);
  const auto size = static_cast<int64_t>(characters.size());
  const auto place = [&](size_t index, std::string_view name, int64_t fallback) {
    if (call.get(index, name, Value::none()).is_none()) return fallback;
    const int64_t at = call.integer(index, name, fallback);
    return at < 0 ? std::max<int64_t>(at + size, 0) : at;
  };
  const int64_t begin = place(1, "start", 0);
  const int64_t end = std::min(place(2, "end", size), size);
  if (begin > end) return {};
  return Part{characters.part(static_cast<size_t>(begin), static_cast<size_t>(end)), begin};
}

std::string wanted_text(Call& call) {
  (void)call.require(0, "sub");
  return call.string(0, "sub", "");
}

// startswith, endswith: with a string or a tuple of them.
bool has_affix(Call& call, bool at_end) {
  const auto part = part_of(call);
  const Value affix = call.require(0, "prefix");
  const std::vector<Value> all =
      affix.is_list() ? call.interpreter.iterate(affix, call.line) : std::vector<Value>{affix};
  return std::ranges::any_of(all, [&](const Value& one) {
    if (!one.is_string()) fail_at(call.line, "{} needs a string, not {}", call.name, type_name(one));
    call.heap().work(one.text().size());
    return part && (at_end ? part->text.ends_with(one.text()) : part->text.starts_with(one.text()));
  });
}

Value find_text(Call& call, bool from_right, bool must) {
  const std::string wanted = wanted_text(call);
  const auto part = part_of(call);
  const size_t at = !part        ? std::string::npos
                    : from_right ? find_last(part->text, wanted)
                                 : find_first(part->text, wanted);
  if (at == std::string::npos && must) fail_at(call.line, "{}: substring not found", call.name);
  if (at == std::string::npos) return Value(int64_t{-1});
  return Value(part->begin + static_cast<int64_t>(count_utf8_characters(part->text.substr(0, at))));
}

Value remove_affix(Call& call, bool at_end) {
  std::string_view text = text_of(call);
  const std::string affix = call.string(0, "prefix", "");
  if (at_end && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!at_end && text.starts_with(affix)) text.remove_prefix(affix.size());
  return call.heap().string(std::string(text));
}

Value partition(Call& call, bool from_right) {
  const std::string separator = call.string(0, "sep", "");
  if (separator.empty()) fail_at(call.line, "{}: the separator is empty", call.name);
  const std::string& text = text_of(call);
  const size_t at = from_right ? find_last(text, separator) : find_first(text, separator);
  std::array<std::string, 3> parts;
  if (at != std::string::npos) {
    parts = {text.substr(0, at), separator, text.substr(at + separator.size())};
  } else {
    parts[from_right ? 2 : 0] = text;
  }
  std::vector<Value> items;
  for (std::string& part : parts) items.push_back(call.heap().string(std::move(part)));
  return call.heap().list(std::move(items), true);
}

Value pad(Call& call, bool left, bool right) {
  const int64_t width = std::clamp<int64_t>(call.integer(0, "width", 0), 0, 1'000'000);
  const std::string fill = call.string(1, "fillchar", " ");
  return call.heap().string(pad_text(text_of(call), static_cast<size_t>(width), fill, left, right));
}

// Whether there is a character, and `predicate` holds for each.
template <typename Predicate>
bool all_characters(Call& call, Predicate&& predicate) {
  const Characters characters(text_of(call));
  return !text_of(call).empty() && std::ranges::all_of(characters, [&](std::string_view bytes) {
    return predicate(first_utf8_character(bytes).code_point);
  });
}

Value join_method(Call& call) {
  std::string out;
  bool first = true;
  for (const Value& item : call.interpreter.iterate(call.require(0, "iterable"), call.line)) {
    if (!item.is_string() && !call.subject.is_markup())
      fail_at(call.line, "join: found {}, wanted str", type_name(item));
    if (!std::exchange(first, false)) add_text(out, text_of(call));
    add_text(out, call.joined_text(item));
  }
  return call.heap().string(std::move(out));
}

Value replace_method(Call& call) {
  call.at_most(3);
  const Value replacement = call.require(1, "new");
  if (!replacement.is_string()) fail_at(call.line, "replace: 'new' must be a string, not {}", type_name(replacement));
  return call.heap().string(replace_text(text_of(call), call.string(0, "old", ""), call.joined_text(replacement),
                                         call.integer(2, "count", -1)));
}

// str.format() with {}, {0}, {name}, and what may stand behind: !s or !r, and a format after ":".
Value format_method(Call& call) {
  const std::string& text = text_of(call);
  std::string out;
  size_t next = 0;
  bool counted = false, numbered = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "{{") == 0 || text.compare(i, 2, "}}") == 0) {
      out += text[i++];
    } else if (text[i] == '{') {
      const size_t close = text.find('}', i);
      if (close == std::string::npos) fail_at(call.line, "format: '{{' is not closed");
      const std::string_view whole = std::string_view(text).substr(i + 1, close - i - 1);
      const std::string_view before = whole.substr(0, whole.find(':'));
      const bool converts = before.ends_with("!r") || before.ends_with("!s");
      const std::string field(before.substr(0, before.size() - (converts ? 2 : 0)));
      const bool is_index = !field.empty() && std::ranges::all_of(field, [](char c) { return c >= '0' && c <= '9'; });
      if (field.size() > 64 || field.find_first_of("!.[") != std::string::npos) {
        fail_at(call.line, "format: field '{}' is not supported", whole.substr(0, 64));
      }
      if (field.empty() || is_index) {
        counted = counted || field.empty();
        numbered = numbered || is_index;
        if (counted && numbered) fail_at(call.line, "format: fields with and without numbers");
      }
      const size_t index = field.empty() ? next++ : is_index && field.size() < 6 ? std::stoul(field) : SIZE_MAX;
      Value value = call.require(index, field);
      if (converts) {
        value = call.heap().string(before.back() == 'r' ? to_repr(call.heap(), value) : to_string(call.heap(), value));
      }
      if (before.size() + 1 < whole.size()) {
        value = call.heap().string(format_value(call.heap(), value, whole.substr(before.size() + 1), call.line));
      }
      add_text(out, call.joined_text(value));
      i = close;
    } else {
      out += text[i];
    }
  }
  return call.heap().string(std::move(out));
}

Value count_method(Call& call) {
  const std::string wanted = wanted_text(call);
  const auto part = part_of(call);
  if (!part) return Value(int64_t{0});
  if (wanted.empty()) return Value(static_cast<int64_t>(count_utf8_characters(part->text) + 1));
  return Value(static_cast<int64_t>(split_text(part->text, wanted, -1, false).size() - 1));
}

const Methods& string_methods() {
  static const Methods all{
      {"split", [](Call& call) { return split(call, false); }},
      {"rsplit", [](Call& call) { return split(call, true); }},
      {"splitlines",
       [](Call& call) { return string_list(call, split_lines(text_of(call), call.flag(0, "keepends", false))); }},
      {"strip", [](Call& call) { return strip(call, true, true); }},
      {"lstrip", [](Call& call) { return strip(call, true, false); }},
      {"rstrip", [](Call& call) { return strip(call, false, true); }},
      {"startswith", [](Call& call) { return Value(has_affix(call, false)); }},
      {"endswith", [](Call& call) { return Value(has_affix(call, true)); }},
      {"find", [](Call& call) { return find_text(call, false, false); }},
      {"rfind", [](Call& call) { return find_text(call, true, false); }},
      {"index", [](Call& call) { return find_text(call, false, true); }},
      {"rindex", [](Call& call) { return find_text(call, true, true); }},
      {"count", count_method},
      {"replace", replace_method},
      {"join", join_method},
      {"format", format_method},
      {"upper", [](Call& call) { return call.heap().string(to_upper(text_of(call))); }},
      {"lower", [](Call& call) { return call.heap().string(to_lower(text_of(call))); }},
      {"casefold", [](Call& call) { return call.heap().string(to_lower(text_of(call))); }},
      {"title", [](Call& call) { return call.heap().string(title_text(text_of(call))); }},
      {"capitalize", [](Call& call) { return call.heap().string(capitalize_text(text_of(call))); }},
      {"removeprefix", [](Call& call) { return remove_affix(call, false); }},
      {"removesuffix", [](Call& call) { return remove_affix(call, true); }},
      {"partition", [](Call& call) { return partition(call, false); }},
      {"rpartition", [](Call& call) { return partition(call, true); }},
      {"ljust", [](Call& call) { return pad(call, false, true); }},
      {"rjust", [](Call& call) { return pad(call, true, false); }},
      {"center", [](Call& call) { return pad(call, true, true); }},
      {"zfill",
       [](Call& call) {
         const int64_t width = std::clamp<int64_t>(call.integer(0, "width", 0), 0, 1'000'000);
         const std::string& text = text_of(call);
         const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;  // zeros go behind it
         const size_t rest = static_cast<size_t>(width) - std::min<size_t>(static_cast<size_t>(width), sign);
         return call.heap().string(text.substr(0, sign) + pad_text(text.substr(sign), rest, "0", true, false));
       }},
      {"isspace", [](Call& call) { return Value(all_characters(call, is_white_space)); }},
      {"isalpha", [](Call& call) { return Value(all_characters(call, is_letter)); }},
      {"isdigit", [](Call& call) { return Value(all_characters(call, is_decimal)); }},
      {"isdecimal", [](Call& call) { return Value(all_characters(call, is_decimal)); }},
      {"isnumeric", [](Call& call) { return Value(all_characters(call, is_decimal)); }},
      {"isalnum",
       [](Call& call) {
         return Value(all_characters(call, [](char32_t c) { return is_letter(c) || is_decimal(c); }));
       }},
      {"isupper", [](Call& call) { return Value(call.is_upper()); }},
      {"islower", [](Call& call) { return Value(call.is_lower()); }},
  };
  return all;
}

Value dict_items(Call& call) {
  std::vector<Value> items;
  for (const auto& [key, value] : call.subject.dict().items) items.push_back(call.heap().list({key, value}, true));
  return call.heap().iterator(List::Source::Items, std::move(items));
}

Value dict_values(Call& call) {
  std::vector<Value> items;
  for (const auto& entry : call.subject.dict().items) items.push_back(entry.second);
  return call.heap().iterator(List::Source::Values, std::move(items));
}

Value dict_get(Call& call) {
  call.at_most(2);
  return call.subject.dict().find(call.heap(), call.require(0, "key")).value_or(call.get(1, "default", Value::none()));
}

Value dict_copy(Call& call) {
  const Value copy = call.heap().dict();
  for (const auto& [key, value] : call.subject.dict().items) copy.dict().set(call.heap(), key, value);
  return copy;
}

const Methods& dict_methods() {
  static const Methods all{
      {"items", dict_items},
      {"keys",
       [](Call& call) {
         return call.heap().iterator(List::Source::Keys, call.interpreter.iterate(call.subject, call.line));
       }},
      {"values", dict_values},
      {"get", dict_get},
      {"copy", dict_copy},
  };
  return all;
}

Value list_index(Call& call) {
  call.at_most(1);
  const Value wanted = call.require(0, "value");
  const auto& items = call.subject.list().items;
  const auto found = std::ranges::find_if(items, [&](const Value& item) { return equal(call.heap(), item, wanted); });
  if (found == items.end()) fail_at(call.line, "index: the value is not in the list");
  return Value(static_cast<int64_t>(found - items.begin()));
}

Value list_count(Call& call) {
  call.at_most(1);
  const Value wanted = call.require(0, "value");
  const auto& items = call.subject.list().items;
  return Value(static_cast<int64_t>(
      std::ranges::count_if(items, [&](const Value& item) { return equal(call.heap(), item, wanted); })));
}

const Methods& list_methods() {
  static const Methods all{
      {"index", list_index},
      {"count", list_count},
      {"copy", [](Call& call) { return call.heap().list(call.subject.list().items); }},
  };
  return all;
}

// The texts that a method gave, which are markup as its subject is.
Value as_markup(const Value& result) {
  if (result.is_list()) std::ranges::transform(result.list().items, result.list().items.begin(), as_markup);
  return result.is_string() ? result.as_markup() : result;
}

constexpr std::array<std::string_view, 6> kDictChanges{"clear", "pop", "popitem", "setdefault", "update", "fromkeys"};
constexpr std::array<std::string_view, 8> kListChanges{"append", "clear",  "extend",  "insert",
                                                       "pop",    "remove", "reverse", "sort"};

}  // namespace

std::optional<Value> find_method(Interpreter& interpreter, const Value& value, const std::string& name) {
  const bool changes = (value.is_dict() && std::ranges::find(kDictChanges, name) != kDictChanges.end()) ||
                       (value.kind() == Kind::List && std::ranges::find(kListChanges, name) != kListChanges.end());
  if (changes) {
    return interpreter.heap().function(name, [name](Call& call) -> Value {
      fail_at(call.line, "{}() changes its value, which templates may not", name);
    });
  }
  static const Methods none;
  const Methods& methods = value.is_string() ? string_methods()
                           : value.is_dict() ? dict_methods()
                           : value.is_list() ? list_methods()
                                             : none;
  const auto found = methods.find(name);
  if (found == methods.end()) return {};
  return interpreter.heap().function(name, [value, method = found->second](Call& call) {
    call.subject = value;
    if (value.is_string()) call.heap().work(value.text().size());
    const Value result = method(call);
    return value.is_markup() ? as_markup(result) : result;
  });
}

}  // namespace inflight::jinja
