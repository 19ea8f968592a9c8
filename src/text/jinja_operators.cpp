// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/limits.h"
#include "base/utf8.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_lexer.h"
#include "text/jinja_strings.h"
#include "text/unicode.h"

namespace inflight::jinja {
namespace {

[[noreturn]] void fail_kinds(std::string_view operation, const Value& left, const Value& right, int line) {
  fail_at(line, "{} {} {} is not possible", type_name(left), operation, type_name(right));
}

int64_t floor_div(int64_t left, int64_t right) {
  const int64_t quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

int64_t integer_power(int64_t base, int64_t exponent, int line) {
  int64_t result = 1;
  for (; exponent > 0; --exponent) {
    if (__builtin_mul_overflow(result, base, &result)) fail_at(line, "an integer is too large");
    if (result == 0 || (result == 1 && base == 1)) break;
    if (base == -1) return exponent % 2 == 0 ? -result : result;
  }
  return result;
}

Value integer_operation(std::string_view operation, int64_t left, int64_t right, int line) {
  int64_t result = 0;
  bool overflow = false;
  if (operation == "+") {
    overflow = __builtin_add_overflow(left, right, &result);
  } else if (operation == "-") {
    overflow = __builtin_sub_overflow(left, right, &result);
  } else if (operation == "*") {
    overflow = __builtin_mul_overflow(left, right, &result);
  } else if (operation == "**") {
    if (right < 0) return Value(std::pow(static_cast<double>(left), static_cast<double>(right)));
    return Value(integer_power(left, right, line));
  } else {
    if (right == 0) fail_at(line, "division by zero");
    overflow = left == INT64_MIN && right == -1;
    if (operation == "/") return Value(static_cast<double>(left) / static_cast<double>(right));
    if (!overflow && operation == "//") result = floor_div(left, right);
    if (!overflow && operation == "%") result = left - floor_div(left, right) * right;
  }
  if (overflow) fail_at(line, "an integer is too large");
  return Value(result);
}

Value number_operation(std::string_view operation, double left, double right, int line) {
  if (operation == "+") return Value(left + right);
  if (operation == "-") return Value(left - right);
  if (operation == "*") return Value(left * right);
  if (operation == "**") return Value(std::pow(left, right));
  if (right == 0) fail_at(line, "division by zero");
  if (operation == "/") return Value(left / right);
  if (operation == "//") return Value(std::floor(left / right));
  const double rest = std::fmod(left, right);
  return Value(rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest);
}

// value * count
Value repeat(Heap& heap, const Value& value, int64_t count, int line) {
  const size_t size = value.is_string() ? value.text().size() : value.list().items.size() * sizeof(Value);
  if (count > 0 && size > 0 && static_cast<uint64_t>(count) > limits::kTemplateValueBytesMax / size) {
    fail_at(line, "a repeated value is too long");
  }
  std::string text;
  std::vector<Value> items;
  for (int64_t i = 0; i < count && size > 0; ++i) {
    if (value.is_string()) {
      text += value.text();
    } else {
      items.insert(items.end(), value.list().items.begin(), value.list().items.end());
    }
  }
  return value.is_string() ? heap.string(std::move(text), value.is_markup())
                           : heap.list(std::move(items), value.kind() == Kind::Tuple);
}

}  // namespace

std::string escaped_text(Heap& heap, const Value& value) {
  std::string text = to_string(heap, value);
  return value.is_markup() ? text : escape_text(text);
}

Value binary_operation(Heap& heap, std::string_view operation, const Value& left, const Value& right, int line) {
  require_defined(left, line);
  if (operation == "%" && left.is_string()) return format_percent(heap, left, right, line);
  require_defined(right, line);
  if (left.is_integer() && right.is_integer()) {
    return integer_operation(operation, left.integer(), right.integer(), line);
  }
  if (left.is_number() && right.is_number() && (left.is_large() || right.is_large()))
    fail_at(line, "an integer is too large");
  if (left.is_number() && right.is_number()) return number_operation(operation, left.number(), right.number(), line);
  if (operation == "+" && left.is_string() && right.is_string()) {
    if (!left.is_markup() && !right.is_markup()) return heap.string(left.text() + right.text());
    return heap.string(escaped_text(heap, left) + escaped_text(heap, right), true);
  }
  if (operation == "+" && left.is_list() && left.kind() == right.kind()) {
    std::vector<Value> items = left.list().items;
    items.insert(items.end(), right.list().items.begin(), right.list().items.end());
    return heap.list(std::move(items), left.kind() == Kind::Tuple);
  }
  if (operation == "*" && (left.is_string() || left.is_list()) && right.is_integer()) {
    return repeat(heap, left, right.integer(), line);
  }
  if (operation == "*" && left.is_integer() && (right.is_string() || right.is_list())) {
    return repeat(heap, right, left.integer(), line);
  }
  fail_kinds(operation, left, right, line);
}

namespace {

// One conversion of format_percent(), such as "-5.2f" behind its %.
struct Conversion {
  std::string flags;
  int width = 0;
  int precision = -1;
  char letter = 0;
};

Conversion read_conversion(std::string_view format, size_t& at, int line) {
  constexpr int kSizeMax = 1000;
  Conversion conversion;
  const auto digits = [&] {
    int value = 0;
    for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at) {
      if (value <= kSizeMax) value = value * 10 + (format[at] - '0');
    }
    if (value > kSizeMax) fail_at(line, "a format's width is {}, allowed: up to {}", value, kSizeMax);
    return value;
  };
  while (at < format.size() && std::string_view("-+ 0#").find(format[at]) != std::string_view::npos) {
    conversion.flags += format[at++];
  }
  if (conversion.flags.size() > 5) fail_at(line, "a format has too many flags");
  conversion.width = digits();
  if (at < format.size() && format[at] == '.') {
    ++at;
    conversion.precision = digits();
  }
  if (at < format.size()) conversion.letter = format[at++];
  return conversion;
}

std::string convert(Heap& heap, const Conversion& conversion, const Value& value, bool is_markup, int line) {
  const auto has = [&](char flag) { return conversion.flags.find(flag) != std::string::npos; };
  const std::string_view numbers = "dieEfFgGxXo";
  const bool is_decimal = conversion.letter == 'd' || conversion.letter == 'i';
  const bool is_radix = std::string_view("xXo").find(conversion.letter) != std::string_view::npos;
  std::string text;
  if (conversion.letter == 's' || conversion.letter == 'r') {
    text = conversion.letter == 's' ? to_string(heap, value) : to_repr(heap, value);
    if (is_markup && !(conversion.letter == 's' && value.is_markup())) text = escape_text(text);
    const Characters characters(text);
    const auto precision = static_cast<size_t>(std::max(conversion.precision, 0));
    if (conversion.precision >= 0) text = std::string(characters.part(0, std::min(precision, characters.size())));
  } else if (numbers.find(conversion.letter) == std::string_view::npos) {
    fail_at(line, "format '%{}' is not supported", conversion.letter);
  } else if (!value.is_number()) {
    fail_at(line, "format '%{}' needs a number, not {}", conversion.letter, type_name(value));
  } else if (is_decimal) {
    if (!value.is_integer() && !std::isfinite(value.number())) {
      fail_at(line, "format '%{}' needs a finite number", conversion.letter);
    }
    text = value.is_integer() ? fmt::format("{}", value.integer())
           : value.is_large() ? to_string(heap, value)
                              : fmt::format("{:.0f}", std::trunc(value.number()));
  } else if (is_radix) {
    if (!value.is_integer()) fail_at(line, "format '%{}' needs an integer", conversion.letter);
    text = fmt::format(fmt::runtime(std::string("{:") + conversion.letter + "}"), value.integer());
  } else {
    const int precision = conversion.precision < 0 ? 6 : conversion.precision;
    text = fmt::format(fmt::runtime(std::string(has('#') ? "{:#.{}" : "{:.{}") + conversion.letter + "}"),
                       value.number(), precision);
    heap.work(16 * text.size());  // exact digits are that much slower than other text
  }
  const auto width = static_cast<size_t>(conversion.width);
  if (numbers.find(conversion.letter) != std::string_view::npos) {
    const bool is_negative = text.starts_with('-');
    std::string head = is_negative ? "-" : has('+') ? "+" : has(' ') ? " " : "";
    if (is_negative) text.erase(0, 1);
    if (has('#') && is_radix) (head += '0') += conversion.letter;
    const auto add_zeros = [&text](size_t size) { text.insert(0, size > text.size() ? size - text.size() : 0, '0'); };
    if (is_radix || is_decimal) add_zeros(static_cast<size_t>(std::max(conversion.precision, 0)));
    if (has('0') && !has('-')) add_zeros(width - std::min(width, head.size()));
    text.insert(0, head);
  }
  return pad_text(text, width, " ", !has('-'), has('-'));
}

}  // namespace

Value format_percent(Heap& heap, const Value& wanted, const Value& values, int line) {
  const std::string& format = wanted.text();
  const bool is_tuple = values.kind() == Kind::Tuple;
  size_t used = 0;
  std::string out;
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      out += format[at++];
      continue;
    }
    ++at;
    std::optional<Value> named;
    if (at < format.size() && format[at] == '(') {
      const size_t close = format.find(')', at);
      if (close == std::string::npos || !values.is_dict()) fail_at(line, "a format's name needs ')' and a mapping");
      named = values.dict().find(std::string_view(format).substr(at + 1, close - at - 1));
      if (!named) fail_at(line, "a format names a missing key");
      at = close + 1;
    }
    const Conversion conversion = read_conversion(format, at, line);
    if (conversion.letter == 0) fail_at(line, "a format ends behind %");
    if (conversion.letter == '%') {
      out += '%';
      continue;
    }
    if (!named && used >= (is_tuple ? values.list().items.size() : 1)) fail_at(line, "a format has too few values");
    const Value& value = named ? *named : is_tuple ? values.list().items[used] : values;
    add_text(out, convert(heap, conversion, value, wanted.is_markup(), line));
    if (!named) ++used;
  }
  if (is_tuple && used < values.list().items.size()) fail_at(line, "a format has too many values");
  return heap.string(std::move(out), wanted.is_markup());
}

// [[fill]align][+- #0][width][.precision][letter]
std::string format_value(Heap& heap, const Value& value, std::string_view specification, int line) {
  if (specification.empty()) return to_string(heap, value);
  const std::string shown(specification.substr(0, 64));
  constexpr std::string_view kAligns = "<>^";
  const auto align_at = [&](size_t at) {
    return at < specification.size() && kAligns.find(specification[at]) != kAligns.npos ? specification[at] : '\0';
  };
  const size_t first_length = first_utf8_character(specification).length;
  const size_t fill_length = align_at(first_length) == '\0' ? 0 : first_length;
  const std::string_view fill = fill_length == 0 ? " " : specification.substr(0, fill_length);
  char align = align_at(fill_length);
  size_t at = fill_length + (align == '\0' ? 0 : 1);
  Conversion conversion = read_conversion(specification, at, line);
  const bool is_float = value.kind() == Kind::Float;
  if (conversion.letter == 0) conversion.letter = value.is_string() ? 's' : 'd';
  const std::string_view letters = value.is_string() ? "s" : is_float ? "eEfFgG" : "dxXoeEfFgG";
  const bool is_whole = std::string_view("dxXo").find(conversion.letter) != std::string_view::npos;
  if ((!value.is_string() && !value.is_number()) || letters.find(conversion.letter) == letters.npos ||
      at != specification.size() || (is_whole && conversion.precision >= 0) ||
      (value.is_string() && !conversion.flags.empty())) {
    fail_at(line, "format '{}' of {} is not supported", shown, type_name(value));
  }
  const auto width = static_cast<size_t>(conversion.width);
  if (align != '\0' || conversion.flags.find('0') == std::string::npos) conversion.width = 0;
  if (align == '\0') align = value.is_string() ? '<' : '>';
  return pad_text(convert(heap, conversion, value, false, line), width, fill, align != '<', align != '>');
}

}  // namespace inflight::jinja
