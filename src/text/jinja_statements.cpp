// SPDX-License-Identifier: Apache-2.0
// The interpreter's statements: what writes output and sets variables.
#include <algorithm>

#include "base/limits.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_lexer.h"

namespace inflight::jinja {

Interpreter::Flow Interpreter::execute(const Block& block, std::string& out) {
  for (const Statement& statement : block) {
    const Flow flow = execute(statement, out);
    if (flow != Flow::Next) return flow;
  }
  return Flow::Next;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, std::string& out) {
  const Step step(*this, statement.line);
  switch (statement.kind) {
    case StatementKind::Text:
      append(out, statement.text);
      break;
    case StatementKind::Output:
      append(out, to_string(heap_, evaluate(*statement.expression)));
      break;
    case StatementKind::If:
      return execute_if(statement, out);
    case StatementKind::For:
      execute_for(statement, out);
      break;
    case StatementKind::Set:
      assign(*statement.target, evaluate(*statement.expression));
      break;
    case StatementKind::SetBlock: {
      Value value = heap_.string(capture(statement.body));
      if (statement.expression != nullptr) value = evaluate_filter(*statement.expression, value);
      assign(*statement.target, value);
      break;
    }
    case StatementKind::Macro:
      define(statement.text, make_macro(statement, scope_));
      break;
    case StatementKind::Call:
      execute_call_block(statement, out);
      break;
    case StatementKind::Filter: {
      const Value value = heap_.string(capture(statement.body));
      const Value text = evaluate_filter(*statement.expression, value);
      if (!text.is_string()) fail_at(statement.line, "filter: the block becomes {}, not a text", type_name(text));
      append(out, text.text());
      break;
    }
    case StatementKind::With:
      execute_with(statement, out);
      break;
    case StatementKind::Break:
      return Flow::Break;
    case StatementKind::Continue:
      return Flow::Continue;
  }
  return Flow::Next;
}

Interpreter::Flow Interpreter::execute_if(const Statement& statement, std::string& out) {
  for (const Branch& branch : statement.branches) {
    if (branch.condition == nullptr || truth(evaluate(*branch.condition))) return execute(branch.body, out);
  }
  return Flow::Next;
}

void Interpreter::execute_for(const Statement& statement, std::string& out) {
  run_loop(statement, iterate(evaluate(*statement.expression), statement.line), 0, out);
}

void Interpreter::run_loop(const Statement& statement, const std::vector<Value>& candidates, int64_t depth,
                           std::string& out) {
  Scope* const outer = scope_;
  std::vector<Value> items = candidates;
  if (statement.condition != nullptr) {
    items.clear();
    for (const Value& item : candidates) {
      scope_ = new_scope(outer);
      assign(*statement.target, item);
      if (truth(evaluate(*statement.condition))) items.push_back(item);
      drop_scope(scope_, macro_count_);  // conditions make no macros
    }
    scope_ = outer;
  }
  Function& loop = new_loop(statement, depth);
  const Value kept = heap_.list(std::move(items));  // a template may keep its loop variable
  loop.items = &kept.list();
  bool ran_to_its_end = false;  // an iteration did
  for (loop.index = 0; loop.index < loop.items->items.size(); ++loop.index) {
    const Step step(*this, statement.line);
    const int64_t macro_count = macro_count_;
    scope_ = new_scope(outer);
    const Scope* const inner = scope_;
    define("loop", Value(&loop));
    assign(*statement.target, loop.items->items[loop.index]);
    const Flow flow = execute(statement.body, out);
    scope_ = outer;
    drop_scope(inner, macro_count);
    ran_to_its_end = ran_to_its_end || flow == Flow::Next;
    if (flow == Flow::Break) break;
  }
  if (!ran_to_its_end) (void)execute(statement.otherwise, out);
}

Function& Interpreter::new_loop(const Statement& statement, int64_t depth) {
  Function& loop = heap_.new_function("loop");
  loop.depth = depth;
  if (!statement.recursive) return loop;
  ++macro_count_;  // like a macro it needs the scope around it whenever it is called
  loop.call = [this, &statement, outer = scope_, depth](Call& call) {
    if (depth >= limits::kTemplateDepthMax)
      fail_at(call.line, "loops nested deeper than {}", limits::kTemplateDepthMax);
    Scope* const before = std::exchange(scope_, outer);
    std::string out;
    run_loop(statement, iterate(call.require(0, "iterable"), call.line), depth + 1, out);
    scope_ = before;
    return heap_.string(std::move(out));
  };
  return loop;
}

Value Interpreter::loop_attribute(const Function& loop, const std::string& name) {
  const auto& items = loop.items->items;
  const auto index = static_cast<int64_t>(loop.index);
  const auto count = static_cast<int64_t>(items.size());
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(count - index);
  if (name == "revindex0") return Value(count - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == count);
  if (name == "length") return Value(count);
  if (name == "depth") return Value(loop.depth + 1);
  if (name == "depth0") return Value(loop.depth);
  if (name == "previtem") return index > 0 ? items[loop.index - 1] : Value::undefined(&name);
  if (name == "nextitem") return index + 1 < count ? items[loop.index + 1] : Value::undefined(&name);
  if (name == "cycle") {
    return heap_.function(name, [&loop](Call& call) {
      if (call.positional.empty()) fail_at(call.line, "cycle() needs values");
      return call.positional[loop.index % call.positional.size()];
    });
  }
  if (name == "changed") {
    return heap_.function(name, [&state = const_cast<Function&>(loop)](Call& call) {  // NOLINT: ours, on our heap
      const Value values = call.heap().list(call.positional, true);
      const bool changed = !state.last_changed || !equal(call.heap(), *state.last_changed, values);
      state.last_changed = values;
      return Value(changed);
    });
  }
  return Value::undefined(&name);
}

void Interpreter::execute_with(const Statement& statement, std::string& out) {
  Scope* const outer = scope_;
  Scope* const inner = new_scope(outer);
  const int64_t macro_count = macro_count_;
  for (const auto& [target, expression] : statement.assignments) {
    const Value value = evaluate(*expression);  // sees the outer variables
    scope_ = inner;
    assign(*target, value);
    scope_ = outer;
  }
  scope_ = inner;
  (void)execute(statement.body, out);
  scope_ = outer;
  drop_scope(inner, macro_count);
}

void Interpreter::execute_call_block(const Statement& statement, std::string& out) {
  append(out, to_string(heap_, evaluate_call(*statement.expression, make_macro(statement, scope_))));
}

std::string Interpreter::capture(const Block& block) {
  Scope* const outer = scope_;
  const int64_t macro_count = macro_count_;
  scope_ = new_scope(outer);
  const Scope* const inner = scope_;
  std::string out;
  (void)execute(block, out);
  scope_ = outer;
  drop_scope(inner, macro_count);
  return out;
}

Value Interpreter::make_macro(const Statement& statement, Scope* scope) {
  ++macro_count_;
  const std::string& name = statement.kind == StatementKind::Macro ? statement.text : "caller";
  const Value macro =
      heap_.function(name, [this, &statement, scope](Call& call) { return run_macro(statement, scope, call); });
  return macro;
}

Value Interpreter::run_macro(const Statement& statement, Scope* scope, Call& call) {
  if (++macro_depth_ > limits::kTemplateDepthMax) {
    fail_at(call.line, "macros call one another deeper than {}", limits::kTemplateDepthMax);
  }
  const int64_t macro_count = macro_count_;
  Scope* const before = std::exchange(scope_, new_scope(scope));
  const auto named = [&](const std::string& name) {
    heap_.work(call.named.size() * sizeof(Value));
    return std::ranges::find_if(call.named, [&](const auto& argument) { return argument.first == name; });
  };
  for (size_t i = 0; i < statement.parameters.size(); ++i) {
    const Parameter& parameter = statement.parameters[i];
    Value value = Value::undefined(&parameter.name);
    if (i < call.positional.size()) {
      value = call.positional[i];
    } else if (const auto argument = named(parameter.name); argument != call.named.end()) {
      value = argument->second;
      call.named.erase(argument);
    } else if (parameter.fallback != nullptr) {
      value = evaluate(*parameter.fallback);
    }
    define(parameter.name, value);
  }
  if (const auto caller = named("caller"); caller != call.named.end()) {
    define("caller", caller->second);
    call.named.erase(caller);
  }
  const size_t used = std::min(statement.parameters.size(), call.positional.size());
  define("varargs",
         heap_.list({call.positional.begin() + static_cast<std::ptrdiff_t>(used), call.positional.end()}, true));
  const Value rest = heap_.dict();
  for (const auto& [name, value] : call.named) rest.dict().set(heap_, heap_.string(name), value);
  define("kwargs", rest);
  std::string out;
  (void)execute(statement.body, out);
  drop_scope(std::exchange(scope_, before), macro_count);
  --macro_depth_;
  return heap_.string(std::move(out));
}

void Interpreter::assign(const Expression& target, const Value& value) {
  if (target.kind == ExpressionKind::Name) {
    define(target.text, value);
  } else if (target.kind == ExpressionKind::Attribute) {
    const Value space = look_up(*target.operands[0]);
    if (space.kind() != Kind::Namespace) {
      fail_at(target.line, "cannot set '{}.{}': not a namespace", target.operands[0]->text, target.text);
    }
    space.dict().set(heap_, Value(&target.text), value);
  } else {
    const std::vector<Value> values = iterate(value, target.line);
    if (values.size() != target.operands.size()) {
      fail_at(target.line, "{} values for {} variables", values.size(), target.operands.size());
    }
    for (size_t i = 0; i < values.size(); ++i) assign(*target.operands[i], values[i]);
  }
}

}  // namespace inflight::jinja
