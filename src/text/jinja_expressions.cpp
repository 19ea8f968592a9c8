// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>

#include "base/limits.h"
#include "text/jinja_parser.h"

namespace inflight::jinja {

ExpressionPtr Parser::make(ExpressionKind kind) const {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = now().line;
  return expression;
}

ExpressionPtr Parser::make(ExpressionKind kind, ExpressionPtr first, ExpressionPtr second) {
  if (++operations_ > limits::kTemplateOperationsMax) {
    fail_at(now().line, "more than {} operations in one statement", limits::kTemplateOperationsMax);
  }
  auto expression = make(kind);
  if (first != nullptr) expression->line = first->line;
  expression->operands.push_back(std::move(first));
  if (second != nullptr) expression->operands.push_back(std::move(second));
  return expression;
}

ExpressionPtr Parser::parse_expression(bool with_condition) {
  return with_condition ? parse_conditional() : parse_or();
}

// One or more expressions with commas between: a value, or a tuple.
ExpressionPtr Parser::parse_tuple(bool with_condition) {
  auto first = parse_expression(with_condition);
  if (!now().is_operator(",")) return first;
  auto tuple = make(ExpressionKind::Tuple, std::move(first));
  while (try_operator(",")) {
    const TokenKind kind = now().kind;
    if (kind == TokenKind::BlockEnd || kind == TokenKind::VariableEnd || now().is_operator(")")) break;
    tuple->operands.push_back(parse_expression(with_condition));
  }
  return tuple;
}

ExpressionPtr Parser::parse_conditional() {
  const Nested nested(*this);
  auto value = parse_or();
  while (try_name("if")) {
    auto condition = parse_or();
    auto expression = make(ExpressionKind::Conditional, std::move(condition), std::move(value));
    expression->operands.push_back(try_name("else") ? parse_conditional() : nullptr);
    value = std::move(expression);
  }
  return value;
}

ExpressionPtr Parser::parse_or() {
  auto left = parse_and();
  while (try_name("or")) left = make(ExpressionKind::Or, std::move(left), parse_and());
  return left;
}

ExpressionPtr Parser::parse_and() {
  auto left = parse_not();
  while (try_name("and")) left = make(ExpressionKind::And, std::move(left), parse_not());
  return left;
}

ExpressionPtr Parser::parse_not() {
  if (!try_name("not")) return parse_compare();
  const Nested nested(*this);
  return make(ExpressionKind::Not, parse_not());
}

ExpressionPtr Parser::parse_compare() {
  constexpr std::array<std::string_view, 6> kComparisons{"==", "!=", "<", "<=", ">", ">="};
  auto left = parse_sum();
  ExpressionPtr compare;
  while (true) {
    std::string operation;
    if (now().kind == TokenKind::Operator && std::ranges::find(kComparisons, now().text) != kComparisons.end()) {
      operation = take().text;
    } else if (try_name("in")) {
      operation = "in";
    } else if (now().is_name("not") && next().is_name("in")) {
      position_ += 2;
      operation = "not in";
    } else {
      return compare != nullptr ? std::move(compare) : std::move(left);
    }
    if (compare == nullptr) compare = make(ExpressionKind::Compare, std::move(left));
    compare->operators.push_back(std::move(operation));
    compare->operands.push_back(parse_sum());
  }
}

ExpressionPtr Parser::parse_sum() {
  auto left = parse_concat();
  while (now().is_operator("+") || now().is_operator("-")) {
    const std::string operation = take().text;
    left = make(ExpressionKind::Binary, std::move(left), parse_concat());
    left->text = operation;
  }
  return left;
}

ExpressionPtr Parser::parse_concat() {
  auto first = parse_product();
  if (!now().is_operator("~")) return first;
  auto concat = make(ExpressionKind::Concat, std::move(first));
  while (try_operator("~")) concat->operands.push_back(parse_product());
  return concat;
}

ExpressionPtr Parser::parse_product() {
  auto left = parse_power();
  while (now().is_operator("*") || now().is_operator("/") || now().is_operator("//") || now().is_operator("%")) {
    const std::string operation = take().text;
    left = make(ExpressionKind::Binary, std::move(left), parse_power());
    left->text = operation;
  }
  return left;
}

ExpressionPtr Parser::parse_power() {
  auto left = parse_unary(true);
  while (try_operator("**")) {
    left = make(ExpressionKind::Binary, std::move(left), parse_unary(true));
    left->text = "**";
  }
  return left;
}

ExpressionPtr Parser::parse_unary(bool with_filter) {
  ExpressionPtr value;
  if (now().is_operator("-") || now().is_operator("+")) {
    const Nested nested(*this);
    const bool negative = take().text == "-";
    value = make(negative ? ExpressionKind::Negative : ExpressionKind::Positive, parse_unary(false));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(std::move(value));
  return with_filter ? parse_filters(std::move(value), true) : std::move(value);
}

ExpressionPtr Parser::parse_primary() {
  const Nested nested(*this);
  const Token token = now();
  if (token.kind == TokenKind::Name) {
    auto name = make(ExpressionKind::Name);
    name->text = take().text;
    if (name->text == "true" || name->text == "True" || name->text == "false" || name->text == "False") {
      name->kind = ExpressionKind::Boolean;
      name->integer = name->text == "true" || name->text == "True" ? 1 : 0;
    } else if (name->text == "none" || name->text == "None") {
      name->kind = ExpressionKind::None;
    }
    return name;
  }
  if (token.kind == TokenKind::String) {
    auto text = make(ExpressionKind::String);
    while (now().kind == TokenKind::String) text->text += take().text;  // adjacent strings are one
    return text;
  }
  if (token.kind == TokenKind::Integer || token.kind == TokenKind::Float) {
    auto number = make(token.kind == TokenKind::Integer ? ExpressionKind::Integer : ExpressionKind::Float);
    const char* const end = token.text.data() + token.text.size();
    const auto result = token.kind == TokenKind::Integer ? std::from_chars(token.text.data(), end, number->integer)
                                                         : std::from_chars(token.text.data(), end, number->number);
    if (result.ec != std::errc()) fail_at(token.line, "number {} is too large", token.text);
    (void)take();
    return number;
  }
  if (try_operator("(")) return parse_parenthesized();
  if (try_operator("[")) {
    auto list = make(ExpressionKind::List);
    while (!try_operator("]")) {
      if (!list->operands.empty()) expect_operator(",");
      if (try_operator("]")) break;
      list->operands.push_back(parse_expression());
    }
    return list;
  }
  if (try_operator("{")) return parse_dict();
  fail_unexpected("a value");
}

ExpressionPtr Parser::parse_parenthesized() {
  if (try_operator(")")) return make(ExpressionKind::Tuple);
  auto value = parse_tuple();
  expect_operator(")");
  return value;
}

ExpressionPtr Parser::parse_dict() {
  auto dict = make(ExpressionKind::Dict);
  while (!try_operator("}")) {
    if (!dict->operands.empty()) expect_operator(",");
    if (try_operator("}")) break;
    dict->operands.push_back(parse_expression());
    expect_operator(":");
    dict->operands.push_back(parse_expression());
  }
  return dict;
}

ExpressionPtr Parser::parse_postfix(ExpressionPtr value) {
  for (int count = 0;; ++count) {
    if (count > limits::kTemplateDepthMax)
      fail_at(now().line, "more than {} accesses in a row", limits::kTemplateDepthMax);
    if (try_operator(".")) {
      const bool is_index = now().kind == TokenKind::Integer;
      value = make(is_index ? ExpressionKind::Item : ExpressionKind::Attribute, std::move(value));
      if (is_index) {
        value->operands.push_back(parse_primary());
      } else {
        value->text = expect_name("an attribute's name");
      }
    } else if (try_operator("[")) {
      value = parse_subscript(std::move(value));
    } else if (now().is_operator("(")) {
      value = make(ExpressionKind::Call, std::move(value));
      value->arguments = parse_arguments();
    } else {
      return value;
    }
  }
}

// Behind "[".
ExpressionPtr Parser::parse_subscript(ExpressionPtr value) {
  ExpressionPtr first = now().is_operator(":") ? nullptr : parse_tuple();
  if (try_operator("]")) {
    if (first == nullptr) fail_unexpected("an index");
    return make(ExpressionKind::Item, std::move(value), std::move(first));
  }
  auto slice = make(ExpressionKind::Slice, std::move(value));
  slice->operands.push_back(std::move(first));
  for (int part = 0; part < 2; ++part) {
    const bool given = try_operator(":") && !now().is_operator(":") && !now().is_operator("]");
    slice->operands.push_back(given ? parse_expression() : nullptr);
  }
  expect_operator("]");
  return slice;
}

std::vector<Argument> Parser::parse_arguments() {
  std::vector<Argument> arguments;
  expect_operator("(");
  while (!try_operator(")")) {
    if (!arguments.empty()) expect_operator(",");
    if (try_operator(")")) break;
    Argument argument;
    if (try_operator("**")) {
      argument.kind = Argument::Kind::SpreadNamed;
    } else if (try_operator("*")) {
      argument.kind = Argument::Kind::Spread;
    } else if (now().kind == TokenKind::Name && next().is_operator("=")) {
      argument.kind = Argument::Kind::Named;
      argument.name = take().text;
      expect_operator("=");
    }
    argument.value = parse_expression();
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

ExpressionPtr Parser::parse_filters(ExpressionPtr value, bool with_tests) {
  for (int count = 0;; ++count) {
    if (count > limits::kTemplateDepthMax)
      fail_at(now().line, "more than {} filters in a row", limits::kTemplateDepthMax);
    if (try_operator("|")) {
      value = parse_one_filter(std::move(value));
    } else if (with_tests && try_name("is")) {
      value = parse_test(std::move(value));
    } else if (with_tests && now().is_operator("(")) {
      value = make(ExpressionKind::Call, std::move(value));
      value->arguments = parse_arguments();
    } else {
      return value;
    }
  }
}

// Behind "|"; value may be null.
ExpressionPtr Parser::parse_one_filter(ExpressionPtr value) {
  auto filter = make(ExpressionKind::Filter);
  filter->operands.push_back(std::move(value));
  filter->text = expect_name("a filter's name");
  while (try_operator(".")) filter->text += "." + expect_name("a filter's name");
  if (now().is_operator("(")) filter->arguments = parse_arguments();
  return filter;
}

// Behind "is".
ExpressionPtr Parser::parse_test(ExpressionPtr value) {
  const bool negated = try_name("not");
  auto test = make(ExpressionKind::Test, std::move(value));
  test->text = expect_name("a test's name");
  const Token& token = now();
  const bool is_word = token.kind == TokenKind::Name;
  const bool ends = is_word && (token.text == "else" || token.text == "or" || token.text == "and");
  if (token.is_name("is")) fail_at(token.line, "tests cannot be chained with is");
  if (token.is_operator("(")) {
    test->arguments = parse_arguments();
  } else if ((is_word && !ends) || token.kind == TokenKind::String || token.kind == TokenKind::Integer ||
             token.kind == TokenKind::Float || token.is_operator("[") || token.is_operator("{")) {
    test->arguments.push_back({Argument::Kind::Positional, "", parse_postfix(parse_primary())});
  }
  return negated ? make(ExpressionKind::Not, std::move(test)) : std::move(test);
}

// What is assigned to: a name, names with commas, ns.name where allowed.
ExpressionPtr Parser::parse_target(bool with_namespace) {
  const bool parenthesized = try_operator("(");
  auto first = parse_one_target(with_namespace);
  if (now().is_operator(",")) {
    first = make(ExpressionKind::Tuple, std::move(first));
    while (try_operator(",")) {
      if (now().kind != TokenKind::Name && !now().is_operator("(")) break;
      first->operands.push_back(parse_one_target(with_namespace));
    }
  }
  if (parenthesized) expect_operator(")");
  return first;
}

ExpressionPtr Parser::parse_one_target(bool with_namespace) {
  const Nested nested(*this);
  if (now().is_operator("(")) return parse_target(with_namespace);
  auto target = make(ExpressionKind::Name);
  target->text = expect_name("a variable's name");
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
    if (target->text == constant) fail_at(target->line, "cannot assign to {}", target->text);
  }
  if (!with_namespace || !try_operator(".")) return target;
  target = make(ExpressionKind::Attribute, std::move(target));
  target->text = expect_name("an attribute's name");
  return target;
}

}  // namespace inflight::jinja
