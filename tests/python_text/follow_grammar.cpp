// SPDX-License-Identifier: Apache-2.0
// The grammars' side of schema_test.py: reads one JSON object a line {"kind", "text", "accept": [texts], "walks",
// "seed"} and answers each with {"accepted": [whether each text is given by the grammar], "walks": [random texts under
// the mask]} or
// {"error"}. Kind "tool_calls": "text" is what structured_tools of inflight.h is, "template" a chat template.
//     follow_grammar MODEL
#include <fmt/format.h>

#include <bit>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/model_loader.h"
#include "text/chat_template.h"
#include "text/grammar.h"
#include "text/grammar_tools.h"
#include "text/tool_call_format.h"

namespace {

using inflight::GrammarKind;
using inflight::GrammarMatcher;
using inflight::TokenId;

GrammarKind kind_named(const std::string& name) {
  if (name == "json_object") return GrammarKind::JsonObject;
  if (name == "json_schema") return GrammarKind::JsonSchema;
  if (name == "lenient_json_schema") return GrammarKind::LenientJsonSchema;
  if (name == "tool_calls") return GrammarKind::ToolCalls;
  return name == "regex" ? GrammarKind::Regex : GrammarKind::Gbnf;
}

// A random text of the grammar; after `patience` tokens those that end things are preferred.
std::string walk(GrammarMatcher& matcher, const inflight::Vocabulary& vocabulary, TokenId end, std::mt19937& random,
                 int patience) {
  std::string text;
  std::vector<uint32_t> mask(static_cast<size_t>(vocabulary.size() + 31) / 32);
  for (int count = 0; count < 1500; ++count) {
    matcher.allow(mask);
    std::vector<TokenId> allowed;
    std::vector<TokenId> closing;
    for (TokenId id = 0; id < vocabulary.size(); ++id) {
      if ((mask[static_cast<size_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32U) & 1U) == 0) continue;
      allowed.push_back(id);
      const std::string_view bytes = vocabulary.bytes(id);
      if (id == end || bytes == "\"" || bytes == "}" || bytes == "]") closing.push_back(id);
    }
    if (allowed.empty()) return text + "<nothing is allowed>";
    const auto& from = count > patience && !closing.empty() ? closing : allowed;
    TokenId chosen = from[random() % from.size()];
    if (chosen != end && count > patience && matcher.is_complete()) chosen = end;
    matcher.accept(chosen);
    if (chosen == end) return text;
    text += vocabulary.bytes(chosen);
  }
  return text + "<no end>";
}

}  // namespace

int main(int argc, char** argv) {
  const inflight::Vocabulary vocabulary(inflight::load_vocabulary(argc > 1 ? argv[1] : ""));
  const TokenId end = *vocabulary.eos();
  inflight::GrammarStore store(vocabulary, {end});
  std::string line;
  while (std::getline(std::cin, line)) {
    const auto task = nlohmann::json::parse(line);
    nlohmann::json answer;
    try {
      const GrammarKind kind = kind_named(task["kind"]);
      std::string text = task["text"];
      if (kind == GrammarKind::ToolCalls) {
        const inflight::ChatTemplate chat_template(task["template"].get<std::string>());
        const auto format = find_tool_call_format(chat_template, {"<s>", "</s>", 0});
        const inflight::ToolRequest request = inflight::read_tool_request(text);
        text = tool_grammar_text(request, format, vocabulary, request.calls_begin());
        answer["from_template"] = format.from_template;
      }
      (void)store.matcher(kind, text);
      answer["accepted"] = nlohmann::json::array();
      for (const std::string document : task["accept"]) {
        const auto matcher = store.matcher(kind, text);
        answer["accepted"].push_back(matcher->try_accept_text(document) && matcher->is_complete());
      }
      std::mt19937 random(task["seed"].get<uint32_t>());
      answer["walks"] = nlohmann::json::array();
      for (int count = 0; count < task["walks"]; ++count) {
        const auto matcher = store.matcher(kind, text);
        answer["walks"].push_back(walk(*matcher, vocabulary, end, random, static_cast<int>(random() % 40)));
      }
    } catch (const inflight::Error& error) {
      answer["error"] = error.what();
    }
    std::cout << answer.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) << "\n";
  }
  return 0;
}
