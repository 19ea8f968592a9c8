// SPDX-License-Identifier: Apache-2.0
// Arguments of calls, and the functions that every template sees.
#include <algorithm>
#include <array>
#include <ctime>

#include "text/jinja_interpreter.h"
#include "text/jinja_lexer.h"
#include "text/unicode.h"

namespace inflight::jinja {

std::optional<Value> Call::find(size_t index, std::string_view argument) const {
  if (index < positional.size()) return positional[index];
  heap().work(named.size() * sizeof(Value));
  const auto found = std::ranges::find_if(named, [&](const auto& one) { return one.first == argument; });
  return found == named.end() ? std::nullopt : std::optional(found->second);
}

Value Call::get(size_t index, std::string_view argument, const Value& fallback) const {
  return find(index, argument).value_or(fallback);
}

Value Call::require(size_t index, std::string_view argument) const {
  const auto value = find(index, argument);
  if (!value) fail_at(line, "{} needs an argument '{}'", name, argument);
  return *value;
}

int64_t Call::integer(size_t index, std::string_view argument, int64_t fallback) const {
  const Value value = get(index, argument, Value(fallback));
  if (!value.is_integer()) fail_at(line, "{}: '{}' must be an integer, not {}", name, argument, type_name(value));
  return value.integer();
}

std::string Call::string(size_t index, std::string_view argument, std::string_view fallback) const {
  const auto value = find(index, argument);
  if (!value) return std::string(fallback);
  if (!value->is_string()) fail_at(line, "{}: '{}' must be a string, not {}", name, argument, type_name(*value));
  return value->text();
}

bool Call::flag(size_t index, std::string_view argument, bool fallback) const {
  return truth(get(index, argument, Value(fallback)));
}

void Call::at_most(size_t count) const {
  if (positional.size() > count) fail_at(line, "{} takes {} arguments, not {}", name, count, positional.size());
}

std::string Call::text() const { return to_string(heap(), subject); }

Value Call::like_subject(std::string text) const { return heap().string(std::move(text), subject.is_markup()); }

std::string Call::joined_text(const Value& value) const {
  return subject.is_markup() ? escaped_text(heap(), value) : to_string(heap(), value);
}

bool Call::is_upper() const {
  const std::string given = text();
  heap().work(2 * given.size());
  return to_upper(given) == given && to_lower(given) != given;
}

bool Call::is_lower() const {
  const std::string given = text();
  heap().work(2 * given.size());
  return to_lower(given) == given && to_upper(given) != given;
}

Heap& Call::heap() const { return interpreter.heap(); }

namespace {

constexpr int64_t kRangeMax = 100'000;  // as Jinja2's sandbox

Value make_range(Call& call) {
  call.at_most(3);
  const bool one = call.positional.size() == 1;
  const int64_t begin = one ? 0 : call.integer(0, "start", 0);
  const int64_t end = call.integer(one ? 0 : 1, "stop", 0);
  const int64_t step = call.integer(2, "step", 1);
  if (step == 0) fail_at(call.line, "range: the step cannot be zero");
  std::vector<Value> items;
  const auto span = static_cast<uint64_t>(step > 0 ? end : begin) - static_cast<uint64_t>(step > 0 ? begin : end);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  if ((step > 0 ? begin < end : begin > end) && (span - 1) / stride >= static_cast<uint64_t>(kRangeMax)) {
    fail_at(call.line, "range: more than {} numbers", kRangeMax);
  }
  for (int64_t i = begin; step > 0 ? i < end : i > end;) {
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  const Value range = call.heap().iterator(List::Source::Range, std::move(items));
  range.list().range = {begin, end, step};
  return range;
}

Value make_mapping(Call& call, bool is_namespace) {
  call.at_most(1);
  const Value value = call.heap().dict(is_namespace);
  for (const Value& given : call.positional) {
    if (given.is_dict()) {
      for (const auto& [key, item] : given.dict().items) value.dict().set(call.heap(), key, item);
      continue;
    }
    require_defined(given, call.line);
    for (const Value& pair : call.interpreter.iterate(given, call.line)) {
      const std::vector<Value> parts = call.interpreter.iterate(pair, call.line);
      if (parts.size() != 2)
        fail_at(call.line, "{} needs a mapping or pairs, found {} values", call.name, parts.size());
      value.dict().set(call.heap(), parts[0], parts[1]);
    }
  }
  for (const auto& [key, item] : call.named) value.dict().set(call.heap(), call.heap().string(key), item);
  return value;
}

Value raise_exception(Call& call) {
  std::string message = call.positional.empty() ? "" : to_string(call.heap(), call.positional[0]);
  std::ranges::replace(message, '\n', ' ');
  fail_at(call.line, "{}", message);
}

Value strftime_now(Call& call) {
  const std::string given = call.string(0, "format", "");
  std::string format;
  for (size_t at = 0; at < given.size();) {
    const std::string_view part = std::string_view(given).substr(at, given[at] == '%' ? 2 : 1);
    format += part == "%f" ? "000000" : part;  // microseconds: the time is in seconds
    at += part.size();
  }
  const std::time_t now = call.interpreter.unix_time_seconds();
  std::tm local{};
  std::array<char, 1024> buffer{};
  if (localtime_r(&now, &local) == nullptr) fail_at(call.line, "strftime_now: the time is out of range");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"  // the template's to say
  // A format beyond the buffer and an empty result look alike to strftime; neither is useful.
  const size_t length = std::strftime(buffer.data(), buffer.size(), format.c_str(), &local);
#pragma GCC diagnostic pop
  return call.heap().string({buffer.data(), length});
}

}  // namespace

void add_globals(Interpreter& interpreter) {
  Heap& heap = interpreter.heap();
  interpreter.set_global("range", heap.function("range", make_range));
  interpreter.set_global("dict", heap.function("dict", [](Call& call) { return make_mapping(call, false); }));
  interpreter.set_global("namespace", heap.function("namespace", [](Call& call) { return make_mapping(call, true); }));
  interpreter.set_global("raise_exception", heap.function("raise_exception", raise_exception));
  interpreter.set_global("strftime_now", heap.function("strftime_now", strftime_now));
}

}  // namespace inflight::jinja
