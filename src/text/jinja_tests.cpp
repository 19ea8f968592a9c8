// SPDX-License-Identifier: Apache-2.0
// What stands behind "is".
#include <algorithm>

#include "text/jinja_interpreter.h"
#include "text/jinja_lexer.h"

namespace inflight::jinja {
namespace {

using Test = bool (*)(Call&);

// left < right, of the subject and the argument.
bool is_less(Call& call, bool swap) {
  const Value other = call.require(0, "other");
  require_defined(call.subject, call.line);
  require_defined(other, call.line);
  return swap ? less(call.heap(), other, call.subject) : less(call.heap(), call.subject, other);
}

bool is_equal(Call& call) { return equal(call.heap(), call.subject, call.require(0, "other")); }
bool is_not_equal(Call& call) { return !is_equal(call); }
bool is_greater(Call& call) { return is_less(call, true); }
bool is_lesser(Call& call) { return is_less(call, false); }
bool is_greater_or_equal(Call& call) { return !is_less(call, false); }
bool is_lesser_or_equal(Call& call) { return !is_less(call, true); }

// The subject % divisor == wanted.
bool has_rest(Call& call, const Value& divisor, int64_t wanted) {
  if (!call.subject.is_number() || !divisor.is_number()) {
    const Value& other = call.subject.is_number() ? divisor : call.subject;
    fail_at(call.line, "test '{}' needs a number, not {}", call.name, type_name(other));
  }
  return equal(call.heap(), binary_operation(call.heap(), "%", call.subject, divisor, call.line), Value(wanted));
}

bool is_same(Call& call) {
  const Value other = call.require(0, "other");
  const Value& value = call.subject;
  if (value.kind() != other.kind()) return false;
  if (value.is_list() || value.is_iterator()) return &value.list() == &other.list();
  if (value.is_dict()) return &value.dict() == &other.dict();
  return equal(call.heap(), value, other);
}

bool has_places(Call& call) {
  const Value& value = call.subject;
  return value.is_undefined() || value.is_string() || value.is_dict() || is_sequence(value);
}

bool is_iterable(Call& call) { return has_places(call) || call.subject.is_iterator(); }

using Tests = std::unordered_map<std::string_view, Test>;

// Of the value alone.
const Tests& plain_tests() {
  static const Tests all{
      {"defined", [](Call& call) { return !call.subject.is_undefined(); }},
      {"undefined", [](Call& call) { return call.subject.is_undefined(); }},
      {"none", [](Call& call) { return call.subject.is_none(); }},
      {"boolean", [](Call& call) { return call.subject.kind() == Kind::Boolean; }},
      {"true", [](Call& call) { return call.subject.kind() == Kind::Boolean && truth(call.subject); }},
      {"false", [](Call& call) { return call.subject.kind() == Kind::Boolean && !truth(call.subject); }},
      {"integer", [](Call& call) { return call.subject.kind() == Kind::Integer || call.subject.is_large(); }},
      {"float", [](Call& call) { return call.subject.kind() == Kind::Float; }},
      {"number", [](Call& call) { return call.subject.is_number(); }},
      {"string", [](Call& call) { return call.subject.is_string(); }},
      {"escaped", [](Call& call) { return call.subject.is_markup(); }},
      {"mapping", [](Call& call) { return call.subject.is_dict(); }},
      {"sequence", has_places},
      {"iterable", is_iterable},
      {"callable", [](Call& call) { return call.subject.kind() == Kind::Function || call.subject.is_undefined(); }},
      {"odd", [](Call& call) { return has_rest(call, Value(int64_t{2}), 1); }},
      {"even", [](Call& call) { return has_rest(call, Value(int64_t{2}), 0); }},
      {"upper", [](Call& call) { return call.is_upper(); }},
      {"lower", [](Call& call) { return call.is_lower(); }},
  };
  return all;
}

// With something else.
const Tests& comparing_tests() {
  static const Tests all{
      {"divisibleby", [](Call& call) { return has_rest(call, call.require(0, "num"), 0); }},
      {"in", [](Call& call) { return call.interpreter.contains(call.require(0, "seq"), call.subject, call.line); }},
      {"sameas", is_same},
      {"eq", is_equal},
      {"equalto", is_equal},
      {"==", is_equal},
      {"ne", is_not_equal},
      {"!=", is_not_equal},
      {"gt", is_greater},
      {"greaterthan", is_greater},
      {">", is_greater},
      {"ge", is_greater_or_equal},
      {">=", is_greater_or_equal},
      {"lt", is_lesser},
      {"lessthan", is_lesser},
      {"<", is_lesser},
      {"le", is_lesser_or_equal},
      {"<=", is_lesser_or_equal},
  };
  return all;
}

}  // namespace

bool Interpreter::apply_test(Call& call) {
  const Step step(*this, call.line);  // select's are not evaluated one by one
  for (const size_t arguments : {0, 1}) {
    const Tests& tests = arguments == 0 ? plain_tests() : comparing_tests();
    const auto found = tests.find(call.name);
    if (found == tests.end()) continue;
    call.at_most(arguments);
    return found->second(call);
  }
  fail_at(call.line, "test '{}' is not supported", call.name);
}

}  // namespace inflight::jinja
