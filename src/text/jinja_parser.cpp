// SPDX-License-Identifier: Apache-2.0
#include "text/jinja_parser.h"

#include <algorithm>

#include "base/limits.h"

namespace inflight::jinja {
namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::BlockEnd:
      return "'%}'";
    case TokenKind::VariableEnd:
      return "'}}'";
    case TokenKind::End:
      return "the end of the template";
    case TokenKind::String:
      return "a string";
    default:
      return "'" + token.text + "'";
  }
}

}  // namespace

Parser::Nested::Nested(Parser& parser) : parser_(parser) {
  if (++parser_.depth_ > limits::kTemplateDepthMax) {
    --parser_.depth_;
    fail_at(parser_.now().line, "nested deeper than {}", limits::kTemplateDepthMax);
  }
}

Token Parser::take() {
  Token token = now();
  if (position_ + 1 < tokens_.size()) ++position_;
  return token;
}

bool Parser::try_operator(std::string_view text) {
  if (!now().is_operator(text)) return false;
  (void)take();
  return true;
}

bool Parser::try_name(std::string_view text) {
  if (!now().is_name(text)) return false;
  (void)take();
  return true;
}

void Parser::expect_operator(std::string_view text) {
  if (!try_operator(text)) fail_unexpected("'" + std::string(text) + "'");
}

std::string Parser::expect_name(std::string_view what) {
  if (now().kind != TokenKind::Name) fail_unexpected(what);
  return take().text;
}

void Parser::fail_unexpected(std::string_view wanted) const {
  fail_at(now().line, "found {}, wanted {}", describe(now()), wanted);
}

void Parser::expect_block_end() {
  if (now().kind != TokenKind::BlockEnd) fail_unexpected("'%}'");
  (void)take();
}

// Behind a block's body: the end tag's name and "%}".
void Parser::finish_block(std::string_view end) {
  if (!try_name(end)) fail_unexpected(end);
  expect_block_end();
}

Block Parser::parse_template() { return parse_block({}); }

// Statements up to a tag whose name is in `ends`, which is left at its name; up to the end of the template where there
// are none.
Block Parser::parse_block(const Ends& ends) {
  const Nested nested(*this);
  Block block;
  const int begin_line = now().line;
  while (true) {
    const Token token = now();
    if (token.kind == TokenKind::End) {
      if (!ends.empty()) fail_at(begin_line, "the block is not closed with {}", ends.back());
      return block;
    }
    (void)take();
    operations_ = 0;
    if (token.kind == TokenKind::Data) {
      block.emplace_back();
      block.back().line = token.line;
      block.back().text = token.text;
    } else if (token.kind == TokenKind::VariableBegin) {
      Statement output;
      output.kind = StatementKind::Output;
      output.line = token.line;
      output.expression = parse_tuple();
      if (now().kind != TokenKind::VariableEnd) fail_unexpected("'}}'");
      (void)take();
      block.push_back(std::move(output));
    } else {
      if (now().kind == TokenKind::Name && std::ranges::find(ends, now().text) != ends.end()) return block;
      block.push_back(parse_statement());
    }
  }
}

Statement Parser::parse_statement() {
  const Token tag = now();
  if (tag.kind != TokenKind::Name) fail_unexpected("a tag's name");
  (void)take();
  Statement statement;
  if (tag.text == "if") {
    statement = parse_if();
  } else if (tag.text == "for") {
    statement = parse_for();
  } else if (tag.text == "set") {
    statement = parse_set();
  } else if (tag.text == "macro") {
    statement = parse_macro();
  } else if (tag.text == "call") {
    statement = parse_call();
  } else if (tag.text == "with") {
    statement = parse_with();
  } else if (tag.text == "block") {
    statement = parse_named_block();
  } else if (tag.text == "generation") {  // transformers marks the assistant's text with it
    statement.kind = StatementKind::With;
    statement.body = parse_apart("endgeneration");
    finish_block("endgeneration");
  } else if (tag.text == "filter") {
    statement.kind = StatementKind::Filter;
    statement.expression = parse_filters(parse_one_filter(nullptr), false);
    expect_block_end();
    statement.body = parse_block({"endfilter"});
    finish_block("endfilter");
  } else if (tag.text == "break" || tag.text == "continue") {
    if (loops_ == 0) fail_at(tag.line, "{} outside a loop", tag.text);
    statement.kind = tag.text == "break" ? StatementKind::Break : StatementKind::Continue;
    expect_block_end();
  } else {
    fail_at(tag.line,
            "tag '{}' is not supported, only: if, for, set, macro, call, with, filter, block, raw, break, continue, "
            "generation",
            tag.text);
  }
  statement.line = tag.line;
  return statement;
}

Statement Parser::parse_if() {
  Statement statement;
  statement.kind = StatementKind::If;
  bool is_last = false;
  while (true) {
    Branch branch;
    if (!is_last) branch.condition = parse_tuple(false);
    expect_block_end();
    branch.body = parse_block(is_last ? Ends{"endif"} : Ends{"elif", "else", "endif"});
    statement.branches.push_back(std::move(branch));
    if (try_name("elif")) continue;
    if (!try_name("else")) break;
    is_last = true;
  }
  finish_block("endif");
  return statement;
}

Statement Parser::parse_for() {
  Statement statement;
  statement.kind = StatementKind::For;
  statement.target = parse_target(false);
  if (!try_name("in")) fail_unexpected("'in'");
  statement.expression = parse_tuple(false);
  if (try_name("if")) statement.condition = parse_expression();
  statement.recursive = try_name("recursive");
  expect_block_end();
  ++loops_;
  statement.body = parse_block({"else", "endfor"});
  --loops_;
  if (try_name("else")) {
    expect_block_end();
    statement.otherwise = parse_block({"endfor"});
  }
  finish_block("endfor");
  return statement;
}

Statement Parser::parse_set() {
  Statement statement;
  statement.kind = StatementKind::Set;
  statement.target = parse_target(true);
  if (try_operator("=")) {
    statement.expression = parse_tuple();
    expect_block_end();
    return statement;
  }
  statement.kind = StatementKind::SetBlock;
  if (try_operator("|")) statement.expression = parse_filters(parse_one_filter(nullptr), false);
  expect_block_end();
  statement.body = parse_block({"endset"});
  finish_block("endset");
  return statement;
}

std::vector<Parameter> Parser::parse_parameters() {
  std::vector<Parameter> parameters;
  expect_operator("(");
  while (!try_operator(")")) {
    if (!parameters.empty()) expect_operator(",");
    if (try_operator(")")) break;
    Parameter parameter;
    parameter.name = expect_name("a parameter's name");
    if (try_operator("=")) {
      parameter.fallback = parse_expression();
    } else if (!parameters.empty() && parameters.back().fallback != nullptr) {
      fail_at(now().line, "parameter '{}' has no default, but one before it has", parameter.name);
    }
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

// A body that no loop around it may end.
Block Parser::parse_apart(std::string_view end) {
  expect_block_end();
  const int loops = std::exchange(loops_, 0);
  Block body = parse_block({end});
  loops_ = loops;
  return body;
}

Statement Parser::parse_macro() {
  Statement statement;
  statement.kind = StatementKind::Macro;
  statement.text = expect_name("a macro's name");
  statement.parameters = parse_parameters();
  statement.body = parse_apart("endmacro");
  finish_block("endmacro");
  return statement;
}

Statement Parser::parse_call() {
  Statement statement;
  statement.kind = StatementKind::Call;
  if (now().is_operator("(")) statement.parameters = parse_parameters();
  const int line = now().line;
  statement.expression = parse_expression();
  if (statement.expression->kind != ExpressionKind::Call) fail_at(line, "call needs a call");
  statement.body = parse_apart("endcall");
  finish_block("endcall");
  return statement;
}

Statement Parser::parse_with() {
  Statement statement;
  statement.kind = StatementKind::With;
  while (now().kind != TokenKind::BlockEnd) {
    if (!statement.assignments.empty()) expect_operator(",");
    auto target = parse_target(false);
    expect_operator("=");
    statement.assignments.emplace_back(std::move(target), parse_expression());
  }
  expect_block_end();
  statement.body = parse_block({"endwith"});
  finish_block("endwith");
  return statement;
}

// Templates that would replace it are not there: its text stands where it is.
Statement Parser::parse_named_block() {
  Statement statement;
  statement.kind = StatementKind::With;
  const int line = now().line;
  const std::string name = expect_name("a block's name");
  if (!block_names_.insert(name).second) fail_at(line, "block '{}' is defined twice", name);
  // It would not see the variables around it.
  if (!try_name("scoped") && depth_ > 1) fail_at(line, "block '{}' within another one's body needs 'scoped'", name);
  statement.body = parse_apart("endblock");
  (void)take();
  (void)try_name(name);
  expect_block_end();
  return statement;
}

Block parse(std::string_view source) {
  if (source.size() > limits::kTemplateBytesMax) {
    fail(ErrorCode::InvalidArgument, "the chat template has {} bytes, allowed: {}", source.size(),
         limits::kTemplateBytesMax);
  }
  return Parser(tokenize(source)).parse_template();
}

}  // namespace inflight::jinja
