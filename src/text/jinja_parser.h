// SPDX-License-Identifier: Apache-2.0
// The parser's state and its two halves: expressions (jinja_expressions.cpp) and statements (jinja_parser.cpp). Grammar
// and precedence are Jinja2's.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja_lexer.h"
#include "text/jinja_syntax.h"

namespace inflight::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  [[nodiscard]] Block parse_template();

 private:
  // Counts nesting, so that hostile templates cannot exhaust the stack.
  class Nested {
   public:
    explicit Nested(Parser& parser);
    ~Nested() { --parser_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    Parser& parser_;
  };

  [[nodiscard]] const Token& now() const { return tokens_[position_]; }
  [[nodiscard]] const Token& next() const { return tokens_[std::min(position_ + 1, tokens_.size() - 1)]; }
  Token take();
  [[nodiscard]] bool try_operator(std::string_view text);
  [[nodiscard]] bool try_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string expect_name(std::string_view what);
  [[noreturn]] void fail_unexpected(std::string_view wanted) const;

  // Statements.
  using Ends = std::vector<std::string_view>;
  Block parse_block(const Ends& ends);
  Statement parse_statement();
  Statement parse_if();
  Statement parse_for();
  Statement parse_set();
  Statement parse_macro();
  Statement parse_call();
  Statement parse_with();
  Statement parse_named_block();
  Block parse_apart(std::string_view end);
  std::vector<Parameter> parse_parameters();
  void expect_block_end();
  void finish_block(std::string_view end);

  // Expressions, loosest first.
  ExpressionPtr parse_expression(bool with_condition = true);
  ExpressionPtr parse_tuple(bool with_condition = true);
  ExpressionPtr parse_conditional();
  ExpressionPtr parse_or();
  ExpressionPtr parse_and();
  ExpressionPtr parse_not();
  ExpressionPtr parse_compare();
  ExpressionPtr parse_sum();
  ExpressionPtr parse_concat();
  ExpressionPtr parse_product();
  ExpressionPtr parse_power();
  ExpressionPtr parse_unary(bool with_filter);
  ExpressionPtr parse_primary();
  ExpressionPtr parse_postfix(ExpressionPtr value);
  ExpressionPtr parse_filters(ExpressionPtr value, bool with_tests);
  ExpressionPtr parse_one_filter(ExpressionPtr value);
  ExpressionPtr parse_test(ExpressionPtr value);
  ExpressionPtr parse_subscript(ExpressionPtr value);
  ExpressionPtr parse_dict();
  ExpressionPtr parse_parenthesized();
  ExpressionPtr parse_target(bool with_namespace);
  ExpressionPtr parse_one_target(bool with_namespace);
  std::vector<Argument> parse_arguments();
  ExpressionPtr make(ExpressionKind kind) const;
  ExpressionPtr make(ExpressionKind kind, ExpressionPtr first, ExpressionPtr second = nullptr);

  std::vector<Token> tokens_;
  size_t position_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // around the present statement
  std::set<std::string> block_names_;
  int operations_ = 0;  // of the present statement's expressions: bounds the tree's depth
};

}  // namespace inflight::jinja
