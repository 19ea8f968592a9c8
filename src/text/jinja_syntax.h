// SPDX-License-Identifier: Apache-2.0
// Chat templates, second step: tokens to a syntax tree. Plain data; the parser makes it, the interpreter walks it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace inflight::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind : uint8_t {
  None,
  Boolean,  // integer != 0
  Integer,
  Float,
  String,     // text
  Name,       // text
  List,       // operands
  Tuple,      // operands; also an assignment target
  Dict,       // operands: key, value, key, value, ...
  Attribute,  // operands[0].text
  Item,       // operands[0][operands[1]]
  Slice,      // operands[0][operands[1]:operands[2]:operands[3]]; absent ones are null
  Call,       // operands[0](arguments)
  Filter,     // operands[0] | text(arguments); operands[0] is null in {% filter %} and {% set %} blocks
  Test,       // operands[0] is text(arguments)
  Not,        // operands[0]
  Negative,   // -operands[0]
  Positive,   // +operands[0]
  And,        // operands[0], operands[1]
  Or,
  Binary,       // operands[0] text operands[1]: + - * / // % **
  Concat,       // operands, by ~
  Compare,      // operands[0] operators[0] operands[1] operators[1] ...
  Conditional,  // operands[1] if operands[0] else operands[2] (null: undefined)
};

struct Argument {
  enum class Kind : uint8_t { Positional, Named, Spread, SpreadNamed };  // x, name=x, *x, **x
  Kind kind = Kind::Positional;
  std::string name;
  ExpressionPtr value;
};

struct Expression {
  ExpressionKind kind = ExpressionKind::None;
  int line = 0;
  std::string text;
  int64_t integer = 0;
  double number = 0;
  std::vector<ExpressionPtr> operands;
  std::vector<Argument> arguments;
  std::vector<std::string> operators;
};

struct Statement;
using Block = std::vector<Statement>;

enum class StatementKind : uint8_t {
  Text,      // text
  Output,    // expression
  If,        // branches
  For,       // target in expression [if condition]; body; otherwise
  Set,       // target = expression
  SetBlock,  // target; body; expression: the filters, or null
  Macro,     // text(parameters); body
  Call,      // (parameters) expression; body
  Filter,    // expression; body
  With,      // assignments; body
  Break,
  Continue,
};

struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // null: undefined when not given
};

struct Branch {
  ExpressionPtr condition;  // null: else
  Block body;
};

struct Statement {
  StatementKind kind = StatementKind::Text;
  int line = 0;
  std::string text;
  ExpressionPtr target;
  ExpressionPtr expression;
  ExpressionPtr condition;
  bool recursive = false;
  Block body;
  Block otherwise;
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> assignments;
};

// ERRORS: InvalidArgument "chat template line N: ..." for what is no Jinja, or Jinja that is not supported; texts of
// more
//         than limits::kTemplateBytesMax bytes; nesting deeper than limits::kTemplateDepthMax.
[[nodiscard]] Block parse(std::string_view source);

}  // namespace inflight::jinja
