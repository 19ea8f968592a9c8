// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_interpreter.h"

#include <algorithm>

#include "base/limits.h"
#include "text/jinja_lexer.h"
#include "text/jinja_strings.h"
#include "text/unicode.h"

namespace inflight::jinja {

void require_defined(const Value& value, int line) {
  if (value.is_undefined()) fail_at(line, "'{}' is undefined", value.undefined_name());
}

Interpreter::Step::Step(Interpreter& owner, int line) : owner_(owner) {
  if (++owner_.steps_ > limits::kTemplateStepsMax) fail_at(line, "more than {} steps", limits::kTemplateStepsMax);
  if (++owner_.depth_ > limits::kTemplateRecursionMax) {
    fail_at(line, "more than {} evaluations within one another", limits::kTemplateRecursionMax);
  }
}

std::string Interpreter::render(const Block& block) {
  std::string out;
  (void)execute(block, out);
  return out;
}

namespace {

constexpr size_t kScopeBytes = 200, kVariableBytes = 100;  // with their places in memory and in tables

}  // namespace

Interpreter::Scope* Interpreter::new_scope(Scope* parent) {
  heap_.charge(kScopeBytes);
  return &scopes_.emplace_back(Scope{.variables = {}, .parent = parent, .bytes = kScopeBytes});
}

void Interpreter::define(const std::string& name, const Value& value) {
  const size_t bytes = kVariableBytes + name.size();
  heap_.work(bytes);
  if (!scope_->variables.insert_or_assign(name, value).second) return;
  heap_.charge(bytes);
  scope_->bytes += bytes;
}

void Interpreter::drop_scope(const Scope* scope, int64_t macro_count) {
  if (macro_count != macro_count_ || scope != &scopes_.back()) return;
  heap_.refund(scope->bytes);
  scopes_.pop_back();
}

void Interpreter::append(std::string& out, std::string_view text) {
  heap_.charge(text.size());
  out += text;
}

Value Interpreter::look_up(const Expression& name) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    heap_.work(sizeof(Value) + name.text.size());
    const auto found = scope->variables.find(name.text);
    if (found != scope->variables.end()) return found->second;
  }
  return Value::undefined(&name.text);
}

Value Interpreter::evaluate(const Expression& expression) {
  const Step step(*this, expression.line);
  const Value value = evaluate_known(expression);
  if (value.is_string()) heap_.work(value.text().size());  // whoever asked for it reads it
  return value;
}

Value Interpreter::evaluate_known(const Expression& expression) {
  const auto operand = [&](size_t index) { return evaluate(*expression.operands[index]); };
  switch (expression.kind) {
    case ExpressionKind::None:
      return Value::none();
    case ExpressionKind::Boolean:
      return Value(expression.integer != 0);
    case ExpressionKind::Integer:
      return Value(expression.integer);
    case ExpressionKind::Float:
      return Value(expression.number);
    case ExpressionKind::String:
      return Value(&expression.text);
    case ExpressionKind::Name:
      return look_up(expression);
    case ExpressionKind::List:
    case ExpressionKind::Tuple:
      return heap_.list(evaluate_all(expression.operands), expression.kind == ExpressionKind::Tuple);
    case ExpressionKind::Dict:
      return evaluate_dict(expression);
    case ExpressionKind::Attribute:
      return attribute(operand(0), expression.text, expression.line);
    case ExpressionKind::Item: {
      const Value value = operand(0);
      return item(value, operand(1), expression.line);
    }
    case ExpressionKind::Slice:
      return evaluate_slice(expression);
    case ExpressionKind::Call:
      return evaluate_call(expression);
    case ExpressionKind::Filter:
      return evaluate_filter(expression);
    case ExpressionKind::Test:
      return Value(evaluate_test(expression));
    case ExpressionKind::Not:
      return Value(!truth(operand(0)));
    case ExpressionKind::Negative: {
      const Value value = operand(0);
      if (value.kind() == Kind::Float) return Value(-value.number());  // of 0.0, too
      return binary_operation(heap_, "-", Value(int64_t{0}), value, expression.line);
    }
    case ExpressionKind::Positive:
      return binary_operation(heap_, "+", Value(int64_t{0}), operand(0), expression.line);
    case ExpressionKind::And: {
      const Value left = operand(0);
      return truth(left) ? operand(1) : left;
    }
    case ExpressionKind::Or: {
      const Value left = operand(0);
      return truth(left) ? left : operand(1);
    }
    case ExpressionKind::Binary: {
      const Value left = operand(0);
      return binary_operation(heap_, expression.text, left, operand(1), expression.line);
    }
    case ExpressionKind::Concat: {
      std::string text;
      for (const Value& value : evaluate_all(expression.operands)) add_text(text, to_string(heap_, value));
      return heap_.string(std::move(text));
    }
    case ExpressionKind::Compare:
      return evaluate_compare(expression);
    case ExpressionKind::Conditional:
      if (truth(operand(0))) return operand(1);
      return expression.operands[2] != nullptr ? operand(2) : Value();
  }
  return {};
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<ExpressionPtr>& expressions) {
  std::vector<Value> values;
  for (const ExpressionPtr& expression : expressions) values.push_back(evaluate(*expression));
  return values;
}

Value Interpreter::evaluate_dict(const Expression& expression) {
  const Value value = heap_.dict();
  for (size_t i = 0; i < expression.operands.size(); i += 2) {
    const Value key = evaluate(*expression.operands[i]);
    value.dict().set(heap_, key, evaluate(*expression.operands[i + 1]));
  }
  return value;
}

Value Interpreter::evaluate_compare(const Expression& expression) {
  Value left = evaluate(*expression.operands[0]);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    const std::string& operation = expression.operators[i];
    const Value right = evaluate(*expression.operands[i + 1]);
    bool holds = false;
    if (operation == "==" || operation == "!=") {
      holds = equal(heap_, left, right) == (operation == "==");
    } else if (operation == "in" || operation == "not in") {
      holds = contains(right, left, expression.line) == (operation == "in");
    } else {
      require_defined(left, expression.line);
      require_defined(right, expression.line);
      const bool swap = operation == ">" || operation == "<=";
      const bool is_less = swap ? less(heap_, right, left) : less(heap_, left, right);
      holds = is_less == (operation == "<" || operation == ">");
    }
    if (!holds) return Value(false);
    left = right;
  }
  return Value(true);
}

Value Interpreter::evaluate_slice(const Expression& expression) {
  const Value value = evaluate(*expression.operands[0]);
  require_defined(value, expression.line);
  std::optional<int64_t> parts[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expression.operands[i + 1] == nullptr) continue;
    const Value part = evaluate(*expression.operands[i + 1]);
    if (part.is_none()) continue;
    if (!part.is_integer()) fail_at(expression.line, "slice bounds must be integers, not {}", type_name(part));
    parts[i] = part.integer();
  }
  const int64_t step = parts[2].value_or(1);
  if (step == 0) fail_at(expression.line, "slice step cannot be zero");
  if (!value.is_string() && !is_sequence(value))
    fail_at(expression.line, "a value of type {} has no slices", type_name(value));
  const Characters characters(value.is_string() ? std::string_view(value.text()) : "");
  const auto size = static_cast<int64_t>(value.is_string() ? characters.size() : value.list().items.size());
  const auto bound = [&](std::optional<int64_t> part, int64_t fallback) {
    if (!part) return fallback;
    const int64_t index = *part < 0 ? *part + size : *part;
    return std::clamp<int64_t>(index, step < 0 ? -1 : 0, step < 0 ? size - 1 : size);
  };
  const int64_t begin = bound(parts[0], step < 0 ? size - 1 : 0);
  const int64_t end = bound(parts[1], step < 0 ? -1 : size);
  if (value.is_string() && step == 1) {
    return heap_.string(
        std::string(characters.part(static_cast<size_t>(begin), static_cast<size_t>(std::max(begin, end)))),
        value.is_markup());
  }
  const std::vector<Value> letters = value.is_string() ? iterate(value, expression.line) : std::vector<Value>();
  const std::vector<Value>& items = value.is_string() ? letters : value.list().items;
  std::vector<Value> chosen;
  const int64_t stride = std::clamp<int64_t>(step, -size - 1, size + 1);
  for (int64_t i = begin; stride > 0 ? i < end : i > end; i += stride) chosen.push_back(items[static_cast<size_t>(i)]);
  if (value.is_list()) return heap_.list(std::move(chosen), value.kind() == Kind::Tuple);
  if (value.is_iterator()) {
    const auto [first, last, unit] = value.list().range;
    const Value part = heap_.iterator(List::Source::Range, std::move(chosen));
    part.list().range = {first + begin * unit, first + end * unit, unit * stride};
    return part;
  }
  std::string text;
  for (const Value& letter : chosen) text += letter.text();
  return heap_.string(std::move(text), value.is_markup());
}

void Interpreter::evaluate_arguments(const std::vector<Argument>& arguments, Call& call) {
  for (const Argument& argument : arguments) {
    const Value value = evaluate(*argument.value);
    if (argument.kind == Argument::Kind::Positional) {
      call.positional.push_back(value);
    } else if (argument.kind == Argument::Kind::Named) {
      heap_.work(argument.name.size());
      call.named.emplace_back(argument.name, value);
    } else if (argument.kind == Argument::Kind::Spread) {
      const std::vector<Value> items = iterate(value, call.line);
      heap_.charge(items.size() * sizeof(Value));  // calls within calls keep theirs
      call.positional.insert(call.positional.end(), items.begin(), items.end());
    } else {
      if (!value.is_dict()) fail_at(call.line, "** needs a mapping, not {}", type_name(value));
      for (const auto& [key, item] : value.dict().items) {
        call.named.emplace_back(to_string(heap_, key), item);
        heap_.charge(sizeof(call.named.back()) + call.named.back().first.size());
      }
    }
  }
}

Value Interpreter::evaluate_call(const Expression& expression, std::optional<Value> caller) {
  const Value function = evaluate(*expression.operands[0]);
  Call call{.interpreter = *this, .name = "", .line = expression.line};
  evaluate_arguments(expression.arguments, call);
  if (caller) call.named.emplace_back("caller", *caller);
  return call_value(function, call);
}

Value Interpreter::call_value(const Value& function, Call& call) {
  require_defined(function, call.line);
  if (function.kind() != Kind::Function || !function.function().call) {
    fail_at(call.line, "a value of type {} cannot be called", type_name(function));
  }
  call.name = function.function().name;
  return function.function().call(call);
}

Value Interpreter::evaluate_filter(const Expression& expression, std::optional<Value> subject) {
  if (expression.operands[0] != nullptr) {
    const Expression& inner = *expression.operands[0];
    // In {% filter a | b %} the innermost filter has no operand of its own.
    subject = subject && inner.kind == ExpressionKind::Filter ? evaluate_filter(inner, subject) : evaluate(inner);
  }
  Call call{
      .interpreter = *this, .name = expression.text, .line = expression.line, .subject = subject.value_or(Value())};
  evaluate_arguments(expression.arguments, call);
  return apply_filter(call);
}

bool Interpreter::evaluate_test(const Expression& expression) {
  Call call{.interpreter = *this, .name = expression.text, .line = expression.line};
  call.subject = evaluate(*expression.operands[0]);
  evaluate_arguments(expression.arguments, call);
  return apply_test(call);
}

Value Interpreter::attribute(const Value& value, const std::string& name, int line) {
  require_defined(value, line);
  heap_.work(name.size());
  if (value.kind() == Kind::Function && value.function().items != nullptr)
    return loop_attribute(value.function(), name);
  if (const auto method = find_method(*this, value, name)) return *method;
  if (value.is_dict() || value.kind() == Kind::Namespace) {
    return value.dict().find(std::string_view(name)).value_or(Value::undefined(&name));
  }
  return Value::undefined(&name);
}

Value Interpreter::item(const Value& value, const Value& key, int line) {
  require_defined(value, line);
  if (value.is_dict()) {
    if (const auto found = value.dict().find(heap_, key)) return *found;
  }
  if (key.is_integer() && (is_sequence(value) || value.is_string())) {
    const Characters characters(value.is_string() ? std::string_view(value.text()) : "");
    const auto size = static_cast<int64_t>(value.is_string() ? characters.size() : value.list().items.size());
    const int64_t index = key.integer() < 0 ? key.integer() + size : key.integer();
    if (index < 0 || index >= size) return {};
    const auto place = static_cast<size_t>(index);
    return value.is_string() ? heap_.string(std::string(characters.part(place, place + 1)), value.is_markup())
                             : value.list().items[place];
  }
  if (!key.is_string()) return {};
  if (value.is_dict()) return find_method(*this, value, key.text()).value_or(Value::undefined(&key.text()));
  return attribute(value, key.text(), line);
}

std::vector<Value> Interpreter::iterate(const Value& value, int line) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::Undefined:
      break;
    case Kind::List:
    case Kind::Tuple:
    case Kind::Iterator:
      items = take_items(value);
      break;
    case Kind::Dict:
      for (const auto& entry : value.dict().items) items.push_back(entry.first);
      break;
    case Kind::String:
      for (const std::string_view character : Characters(value.text())) {
        items.push_back(heap_.string(std::string(character)));
      }
      break;
    default:
      fail_at(line, "a value of type {} has no items", type_name(value));
  }
  heap_.work(items.size() * sizeof(Value));
  return items;
}

bool Interpreter::contains(const Value& container, const Value& value, int line) {
  if (container.is_undefined()) return false;
  if (container.is_dict()) return container.dict().find(heap_, value).has_value();
  if (container.is_list() || container.is_iterator()) {
    auto& items = container.list().items;
    const auto found = std::ranges::find_if(items, [&](const Value& item) { return equal(heap_, item, value); });
    const bool holds = found != items.end();
    if (is_generator(container)) {  // what was looked at is gone
      heap_.work(items.size() * sizeof(Value));
      items.erase(items.begin(), holds ? found + 1 : found);
    }
    return holds;
  }
  if (!container.is_string()) fail_at(line, "a value of type {} has no items", type_name(container));
  if (!value.is_string()) fail_at(line, "'in' needs a string on the left of a string, not {}", type_name(value));
  return find_first(container.text(), value.text()) != std::string::npos;
}

}  // namespace inflight::jinja
