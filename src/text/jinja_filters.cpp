// SPDX-License-Identifier: Apache-2.0
// Filters of single values: texts, numbers, JSON. Those of lists are in jinja_list_filters.cpp.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja_filter_table.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_lexer.h"
#include "text/jinja_strings.h"
#include "text/unicode.h"

namespace inflight::jinja {
namespace {

Value use_default(Call& call) {
  const bool missing = call.subject.is_undefined() || (call.flag(1, "boolean", false) && !truth(call.subject));
  return missing ? call.get(0, "default_value", call.heap().string("")) : call.subject;
}

Value trim(Call& call) {
  const Value characters = call.get(0, "chars", Value::none());
  const std::string text = call.text();
  if (characters.is_none()) return call.like_subject(std::string(strip_right(strip_left(text))));
  const std::string set = call.string(0, "chars", "");
  return call.like_subject(std::string(strip_right(strip_left(text, set), set)));
}

Value replace(Call& call) {
  const Value count = call.get(2, "count", Value::none());
  return call.heap().string(replace_text(call.text(), to_string(call.heap(), call.require(0, "old")),
                                         to_string(call.heap(), call.require(1, "new")),
                                         count.is_none() ? -1 : call.integer(2, "count", -1)));
}

// Jinja2's own: words begin behind blanks, hyphens and opening brackets.
Value title(Call& call) {
  const std::string text = call.text();
  std::string out;
  bool begins = true;
  for (const std::string_view bytes : Characters(text)) {
    const char32_t character = first_utf8_character(bytes).code_point;
    const bool separates =
        is_white_space(character) || std::u32string_view(U"-({[<").find(character) != std::u32string_view::npos;
    out += separates ? std::string(bytes) : begins ? to_upper(bytes) : to_lower(bytes);
    begins = separates;
  }
  return call.heap().string(std::move(out));
}

Value indent(Call& call) {
  if (!call.subject.is_string()) fail_at(call.line, "indent needs a text, not {}", type_name(call.subject));
  const Value width = call.get(0, "width", Value(int64_t{4}));
  const std::string margin =
      width.is_string()
          ? width.text()
          : std::string(static_cast<size_t>(std::clamp<int64_t>(call.integer(0, "width", 4), 0, 1000)), ' ');
  const bool first = call.flag(1, "first", false);
  const bool blank = call.flag(2, "blank", false);
  const std::string text = call.text() + "\n";
  std::string out = first ? margin : "";
  const auto lines = split_lines(text, false);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) add_text(out, "\n");
    if (i > 0 && (blank || !lines[i].empty())) add_text(out, margin);
    add_text(out, lines[i]);
  }
  return call.like_subject(std::move(out));
}

Value truncate(Call& call) {
  if (call.subject.is_undefined()) return call.subject;
  if (!call.subject.is_string()) fail_at(call.line, "truncate needs a text, not {}", type_name(call.subject));
  const auto length = static_cast<size_t>(std::clamp<int64_t>(call.integer(0, "length", 255), 0, INT32_MAX));
  const std::string end = call.string(2, "end", "...");
  const auto leeway = static_cast<size_t>(std::clamp<int64_t>(call.integer(3, "leeway", 5), 0, INT32_MAX));
  const std::string text = call.text();
  const Characters characters(text);
  const size_t end_length = count_utf8_characters(end);
  if (length < end_length) fail_at(call.line, "truncate: the length is less than that of '{}'", end);
  if (characters.size() <= length + leeway) return call.like_subject(text);
  std::string out(characters.part(0, length - end_length));
  if (!call.flag(1, "killwords", false)) out = out.substr(0, out.rfind(' '));
  return call.like_subject(out + call.joined_text(call.heap().string(end)));
}

// Unlike "value.name" it does not look into mappings.
Value get_attribute(Call& call) {
  const Value name = call.require(0, "name");
  if (!name.is_string()) fail_at(call.line, "attr: the name is no text but {}", type_name(name));
  if (!call.subject.is_dict()) return call.interpreter.attribute(call.subject, name.text(), call.line);
  return find_method(call.interpreter, call.subject, name.text()).value_or(Value::undefined(&name.text()));
}

// The numeral without the underscores between its digits; "" where others are in it.
template <typename IsDigit>
std::string without_underscores(std::string_view numeral, IsDigit&& is_digit) {
  std::string out;
  for (size_t i = 0; i < numeral.size(); ++i) {
    if (numeral[i] != '_') {
      out += numeral[i];
    } else if (i == 0 || i + 1 == numeral.size() || !is_digit(numeral[i - 1]) || !is_digit(numeral[i + 1])) {
      return "";
    }
  }
  return out;
}

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }
bool is_digit_or_letter(char c) { return is_decimal_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string_view without_blanks(std::string_view text) { return strip_right(strip_left(text)); }

// int(text, base), if it is an integer.
std::optional<Value> integer_of(std::string_view text, int64_t base, int line) {
  text = without_blanks(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  constexpr std::pair<char, int64_t> kPrefixes[] = {{'x', 16}, {'o', 8}, {'b', 2}};
  for (const auto& [letter, meant] : kPrefixes) {
    if ((base != 0 && base != meant) || text.size() < 3 || text[0] != '0' || (text[1] | 0x20) != letter) continue;
    text.remove_prefix(text[2] == '_' ? 3 : 2);
    base = meant;
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36) return {};
  const std::string digits = without_underscores(text, is_digit_or_letter);
  const char* const end = digits.data() + digits.size();
  uint64_t magnitude = 0;
  const auto [stop, error] = std::from_chars(digits.data(), end, magnitude, static_cast<int>(base));
  if (digits.empty() || stop != end) return {};
  constexpr auto kMax = static_cast<uint64_t>(INT64_MAX);
  if (error != std::errc() || (negative && magnitude > kMax + 1)) fail_at(line, "an integer is too large");
  if (negative) return Value(static_cast<int64_t>(0 - magnitude));
  return magnitude > kMax ? Value::large(magnitude) : Value(static_cast<int64_t>(magnitude));
}

// float(text), if it is a number.
std::optional<double> number_of(std::string_view text) {
  text = without_blanks(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const std::string digits = without_underscores(text, is_decimal_digit);
  const char* const end = digits.data() + digits.size();
  double number = 0;
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  return !digits.empty() && error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

Value to_integer_filter(Call& call) {
  const Value fallback = call.get(0, "default", Value(int64_t{0}));
  const Value& value = call.subject;
  require_defined(value, call.line);
  if (value.is_integer()) return Value(value.integer());
  if (value.is_large()) return value;
  std::optional<double> number;
  if (value.kind() == Kind::Float) {
    number = value.number();
  } else if (value.is_string()) {
    if (const auto integer = integer_of(value.text(), call.integer(1, "base", 10), call.line)) return *integer;
    number = number_of(value.text());  // int("3.7") is int(float("3.7")) here
  }
  if (!number || !std::isfinite(*number)) return fallback;
  constexpr double kLimit = 9.2e18;
  if (std::abs(*number) > kLimit) fail_at(call.line, "an integer is too large");
  return Value(static_cast<int64_t>(*number));
}

Value to_float_filter(Call& call) {
  const Value& value = call.subject;
  require_defined(value, call.line);
  if (value.is_number()) return Value(value.number());
  const auto number = value.is_string() ? number_of(value.text()) : std::nullopt;
  return number ? Value(*number) : call.get(0, "default", Value(0.0));
}

double require_number(const Call& call) {
  if (!call.subject.is_number()) fail_at(call.line, "{} needs a number, not {}", call.name, type_name(call.subject));
  if (call.subject.is_large()) fail_at(call.line, "an integer is too large");
  return call.subject.number();
}

Value absolute(Call& call) {
  if (!call.subject.is_integer()) return Value(std::abs(require_number(call)));
  return call.subject.integer() < 0 ? binary_operation(call.heap(), "-", Value(int64_t{0}), call.subject, call.line)
                                    : Value(call.subject.integer());
}

// round() of an integer to `zeros` zeros, halves to the even neighbour.
Value round_integer(const Call& call, int zeros) {
  int64_t unit = 1;
  for (int i = 0; i < zeros; ++i) {
    if (__builtin_mul_overflow(unit, 10, &unit)) return Value(int64_t{0});
  }
  const int64_t value = call.subject.integer();
  int64_t quotient = value / unit;
  const int64_t rest = value % unit < 0 ? -(value % unit) : value % unit;
  if (rest > unit - rest || (rest == unit - rest && quotient % 2 != 0)) quotient += value < 0 ? -1 : 1;
  return binary_operation(call.heap(), "*", Value(quotient), Value(unit), call.line);
}

Value round_number(Call& call) {
  const double number = require_number(call);
  const auto precision = static_cast<int>(std::clamp<int64_t>(call.integer(0, "precision", 0), -300, 300));
  const std::string method = call.string(1, "method", "common");
  const double factor = std::pow(10.0, precision);
  if (method == "ceil") return Value(std::ceil(number * factor) / factor);
  if (method == "floor") return Value(std::floor(number * factor) / factor);
  if (method != "common") fail_at(call.line, "round: method '{}', allowed: common, ceil, floor", method);
  if (call.subject.is_integer()) return round_integer(call, -std::min(precision, 0));
  if (precision <= 0) return Value(std::nearbyint(number * factor) / factor);
  // As Python: correctly rounded decimal text, read back.
  const std::string text = fmt::format("{:.{}f}", number, std::min(precision, 30));
  double rounded = 0.0;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return Value(rounded);
}

Value write_json(Call& call) {
  JsonFormat format;
  format.ensure_ascii = call.flag(0, "ensure_ascii", false);
  const Value indent = call.get(1, "indent", Value::none());
  if (indent.is_string()) {
    format.indent = indent.text();
  } else if (!indent.is_none()) {
    format.indent = std::string(static_cast<size_t>(std::clamp<int64_t>(call.integer(1, "indent", 0), 0, 100)), ' ');
  }
  const Value separators = call.get(2, "separators", Value::none());
  if (separators.is_list() && separators.list().items.size() == 2) {
    format.item_separator = to_string(call.heap(), separators.list().items[0]);
    format.key_separator = to_string(call.heap(), separators.list().items[1]);
  }
  format.sort_keys = call.flag(3, "sort_keys", false);
  return call.heap().string(to_json(call.heap(), call.subject, format));
}

Value count_words(Call& call) {
  const std::string text = call.text();
  int64_t count = 0;
  bool in_word = false;
  for (const std::string_view bytes : Characters(text)) {
    const char32_t character = first_utf8_character(bytes).code_point;
    const bool is_word = is_letter(character) || is_decimal(character) || character == '_';
    if (is_word && !in_word) ++count;
    in_word = is_word;
  }
  return Value(count);
}

Value force_escape(Call& call) { return call.heap().string(escape_text(call.text()), true); }

Value escape(Call& call) { return call.subject.is_markup() ? call.subject : force_escape(call); }

Value format(Call& call) {
  const Value values = call.named.empty() ? call.heap().list(call.positional, true) : call.heap().dict();
  for (const auto& [name, value] : call.named) values.dict().set(call.heap(), call.heap().string(name), value);
  return format_percent(call.heap(), call.like_subject(call.text()), values, call.line);
}

}  // namespace

void add_value_filters(FilterTable& table) {
  table.insert({
      {"default", use_default},
      {"d", use_default},
      {"string", [](Call& call) { return call.like_subject(call.text()); }},
      {"safe", [](Call& call) { return call.heap().string(call.text(), true); }},
      {"escape", escape},
      {"e", escape},
      {"forceescape", force_escape},
      {"trim", trim},
      {"replace", replace},
      {"upper", [](Call& call) { return call.like_subject(to_upper(call.text())); }},
      {"lower", [](Call& call) { return call.like_subject(to_lower(call.text())); }},
      {"capitalize", [](Call& call) { return call.like_subject(capitalize_text(call.text())); }},
      {"title", title},
      {"indent", indent},
      {"truncate", truncate},
      {"center",
       [](Call& call) {
         const int64_t width = std::clamp<int64_t>(call.integer(0, "width", 80), 0, 1'000'000);
         return call.like_subject(pad_text(call.text(), static_cast<size_t>(width), " ", true, true));
       }},
      {"format", format},
      {"wordcount", count_words},
      {"int", to_integer_filter},
      {"float", to_float_filter},
      {"abs", absolute},
      {"round", round_number},
      {"tojson", write_json},
      {"attr", get_attribute},
  });
}

Value Interpreter::apply_filter(Call& call) {
  const Step step(*this, call.line);  // map's filter may be map
  static const FilterTable all = [] {
    FilterTable table;
    add_value_filters(table);
    add_list_filters(table);
    return table;
  }();
  const auto found = all.find(call.name);
  if (found == all.end()) fail_at(call.line, "filter '{}' is not supported", call.name);
  return found->second(call);
}

}  // namespace inflight::jinja
