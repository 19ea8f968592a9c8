// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/demo_model.h"
#include "model/model_loader.h"
#include "text/tokenizer.h"

namespace inflight::cli {
namespace {

std::string read_stdin() {
  std::string text;
  std::array<char, 65536> buffer{};
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), stdin)) {
    text.append(buffer.data(), count);
    if (text.size() > limits::kPromptBytesMax) break;  // encode() says that it is too long
  }
  if (std::ferror(stdin) != 0) fail(ErrorCode::Io, "cannot read standard input: {}", std::strerror(errno));
  return text;
}

struct Settings {
  std::string model_path;
  std::string text;
  EncodeOptions encode;
  bool as_json = false;
};

void run_tokenize(const Settings& settings) {
  const auto tokenizer = Tokenizer::create(load_vocabulary(settings.model_path));
  const std::vector<TokenId> ids = tokenizer->encode(settings.text, settings.encode);
  std::vector<std::string> pieces;  // an incomplete character's bytes show as U+FFFD
  for (const TokenId id : ids) pieces.push_back(to_valid_utf8(tokenizer->vocabulary().bytes(id)));
  if (settings.as_json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"ids", ids}, {"pieces", pieces}}.dump());
    return;
  }
  for (size_t i = 0; i < ids.size(); ++i) fmt::print("{:>7}  {}\n", ids[i], nlohmann::json(pieces[i]).dump());
}

}  // namespace

void add_tokenize_command(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("tokenize", "Show the tokens of a text, one a line: id, what it stands for");
  command->add_option("TEXT", "Text to cut (default: standard input, byte for byte; behind -- when it begins with -)");
  command
      ->add_option("-m,--model",
                   "GGUF file, whose vocabulary is enough, or a folder of safetensors (default: the demo model)")
      ->type_name("FILE");
  command->add_flag("--no-special")->description("Add no begin or end token");
  command->add_flag("--no-parse-special")->description("Take text like <|im_end|> as text, not as that token");
  command->add_flag("--json")->description("One JSON object: ids, pieces");
  command->callback([command] {
    const auto given = [command](const char* name) { return command->count(name) > 0; };
    run_tokenize({.model_path = given("--model") ? (*command)["--model"]->as<std::string>() : demo_model_path(),
                  .text = given("TEXT") ? (*command)["TEXT"]->as<std::string>() : read_stdin(),
                  .encode = {.add_special = !given("--no-special"), .parse_special = !given("--no-parse-special")},
                  .as_json = given("--json")});
  });
}

}  // namespace inflight::cli
