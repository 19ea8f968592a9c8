// SPDX-License-Identifier: Apache-2.0
// Chat templates, third step: walks the tree and writes the text. Means what Jinja2's ImmutableSandboxedEnvironment
// means: missing names are undefined, printing them gives nothing, using them is an error; methods that change a value
// are refused.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/jinja_syntax.h"
#include "text/jinja_value.h"

namespace inflight::jinja {

// One call of a filter, test, method, macro or function.
struct Call {
  Interpreter& interpreter;
  std::string_view name;
  int line = 0;
  Value subject;  // what is filtered or tested, or whose method it is
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  // The argument at `index` or called `name`; none when it was not given.
  [[nodiscard]] std::optional<Value> find(size_t index, std::string_view argument) const;
  [[nodiscard]] Value get(size_t index, std::string_view argument, const Value& fallback) const;
  // ERRORS: InvalidArgument when it was not given, or is no integer, no string.
  [[nodiscard]] Value require(size_t index, std::string_view argument) const;
  [[nodiscard]] int64_t integer(size_t index, std::string_view argument, int64_t fallback) const;
  [[nodiscard]] std::string string(size_t index, std::string_view argument, std::string_view fallback) const;
  [[nodiscard]] bool flag(size_t index, std::string_view argument, bool fallback) const;
  // ERRORS: InvalidArgument for more than `count` positional arguments.
  void at_most(size_t count) const;
  [[nodiscard]] std::string text() const;  // str(subject)
  // The text as a value; markup where the subject is.
  [[nodiscard]] Value like_subject(std::string text) const;
  // str(value), escaped where the subject is markup and the value is not.
  [[nodiscard]] std::string joined_text(const Value& value) const;
  // Whether the letters of str(subject) that have a case are all upper (lower) ones, and there are some.
  [[nodiscard]] bool is_upper() const;
  [[nodiscard]] bool is_lower() const;
  [[nodiscard]] Heap& heap() const;
};

class Interpreter {
 public:
  // unix_time_seconds: what strftime_now() prints, in the local time zone.
  explicit Interpreter(int64_t unix_time_seconds) : unix_time_seconds_(unix_time_seconds) {}

  [[nodiscard]] Heap& heap() { return heap_; }
  void set_global(const std::string& name, const Value& value) { root_.variables.insert_or_assign(name, value); }

  // ERRORS: InvalidArgument "chat template line N: ...".
  [[nodiscard]] std::string render(const Block& block);

  // By name.   ERRORS: InvalidArgument for an unknown one.
  [[nodiscard]] Value apply_filter(Call& call);
  [[nodiscard]] bool apply_test(Call& call);
  // What value.name and value[key] give; undefined when there is nothing.   ERRORS: for undefined values.
  [[nodiscard]] Value attribute(const Value& value, const std::string& name, int line);
  [[nodiscard]] Value item(const Value& value, const Value& key, int line);
  [[nodiscard]] Value call_value(const Value& function, Call& call);
  // The items of a list, a mapping's keys, a string's characters; nothing of undefined.  ERRORS: for other kinds.
  [[nodiscard]] std::vector<Value> iterate(const Value& value, int line);
  [[nodiscard]] bool contains(const Value& container, const Value& value, int line);
  [[nodiscard]] int64_t unix_time_seconds() const { return unix_time_seconds_; }

 private:
  struct Scope {
    std::unordered_map<std::string, Value> variables;
    Scope* parent = nullptr;
    size_t bytes = 0;  // that the heap has been charged for it
  };
  enum class Flow : uint8_t { Next, Break, Continue };
  // Counts steps and depth.
  class Step {
   public:
    Step(Interpreter& owner, int line);
    ~Step() { --owner_.depth_; }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    Interpreter& owner_;
  };

  [[nodiscard]] Value evaluate(const Expression& expression);
  [[nodiscard]] Value evaluate_known(const Expression& expression);
  [[nodiscard]] Value look_up(const Expression& name);
  [[nodiscard]] Value evaluate_dict(const Expression& expression);
  [[nodiscard]] Value evaluate_compare(const Expression& expression);
  [[nodiscard]] Value evaluate_slice(const Expression& expression);
  [[nodiscard]] Value evaluate_call(const Expression& expression, std::optional<Value> caller = {});
  [[nodiscard]] Value evaluate_filter(const Expression& expression, std::optional<Value> subject = {});
  [[nodiscard]] bool evaluate_test(const Expression& expression);
  [[nodiscard]] std::vector<Value> evaluate_all(const std::vector<ExpressionPtr>& expressions);
  void evaluate_arguments(const std::vector<Argument>& arguments, Call& call);

  Flow execute(const Block& block, std::string& out);
  Flow execute(const Statement& statement, std::string& out);
  Flow execute_if(const Statement& statement, std::string& out);
  void execute_for(const Statement& statement, std::string& out);
  void run_loop(const Statement& statement, const std::vector<Value>& items, int64_t depth, std::string& out);
  [[nodiscard]] Value loop_attribute(const Function& loop, const std::string& name);
  [[nodiscard]] Function& new_loop(const Statement& statement, int64_t depth);
  void execute_with(const Statement& statement, std::string& out);
  void execute_call_block(const Statement& statement, std::string& out);
  // The text of `block` in a scope of its own.
  [[nodiscard]] std::string capture(const Block& block);
  [[nodiscard]] Value make_macro(const Statement& statement, Scope* scope);
  [[nodiscard]] Value run_macro(const Statement& statement, Scope* scope, Call& call);
  void assign(const Expression& target, const Value& value);
  // A variable of the present scope.
  void define(const std::string& name, const Value& value);
  void append(std::string& out, std::string_view text);
  [[nodiscard]] Scope* new_scope(Scope* parent);
  // Frees `scope`, unless a macro or recursive loop made since `macro_count` may refer to it or another one came after
  // it.
  void drop_scope(const Scope* scope, int64_t macro_count);

  Heap heap_;
  std::deque<Scope> scopes_;  // macros keep the one they were made in
  Scope root_;
  Scope* scope_ = &root_;
  int64_t unix_time_seconds_ = 0;
  int64_t steps_ = 0;
  int depth_ = 0;
  int macro_depth_ = 0;
  int64_t macro_count_ = 0;  // made so far, and recursive loops
};

// left op right for + - * / // % **.   ERRORS: InvalidArgument for kinds that Python does not join, overflow, division
// by 0.
[[nodiscard]] Value binary_operation(Heap& heap, std::string_view operation, const Value& left, const Value& right,
                                     int line);
// format % values, as Python does for %s %d %i %f %g %e %x %r %%.   REQUIRES: a string first.
[[nodiscard]] Value format_percent(Heap& heap, const Value& format, const Value& values, int line);
// format(value, specification), for what is a string or a number and for empty ones.
[[nodiscard]] std::string format_value(Heap& heap, const Value& value, std::string_view specification, int line);
// str(value) as markup has it: escaped, unless it is markup itself.
[[nodiscard]] std::string escaped_text(Heap& heap, const Value& value);
// A method of strings, lists, mappings; none when there is no such.  ERRORS: InvalidArgument for one that changes its
// value.
[[nodiscard]] std::optional<Value> find_method(Interpreter& interpreter, const Value& value, const std::string& name);
// Functions that every template sees: range, dict, namespace, raise_exception, strftime_now.
void add_globals(Interpreter& interpreter);
// ERRORS: InvalidArgument naming what is undefined.
void require_defined(const Value& value, int line);

}  // namespace inflight::jinja
