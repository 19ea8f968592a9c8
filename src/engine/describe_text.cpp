// SPDX-License-Identifier: Apache-2.0
#include "engine/describe_text.h"

#include <string_view>

#include "text/grammar_tools.h"

namespace inflight {
namespace {

using Json = nlohmann::ordered_json;

Json describe_plain_name(const ToolCallFormat& format) {
  if (!format.plain_name) return nullptr;
  const auto texts = [](std::string_view form) {
    Json list = Json::array();
    for (const FormPart& part : parts_of(form)) list.push_back(part.text);
    return list;
  };
  const std::string call_end = format.call_end();
  Json separator = Json::array();
  if (!format.separator.empty()) separator = texts(std::string_view(format.separator).substr(call_end.size()));
  Json elements, members;
  if (const auto& as = format.elements) {
    elements = {{"open", as->open},
                {"string_middle", as->string_middle},
                {"middle", as->middle},
                {"close", as->close},
                {"end", call_end}};
  }
  if (const auto& as = format.members) members = {{"middle", as->middle}, {"quote", as->quote}, {"end", call_end}};
  return {{"open", texts(behind_trigger(format))},
          {"middle", texts(format.middle)},
          {"separator", separator},
          {"elements", elements},
          {"members", members}};
}

}  // namespace

Json describe_tokenizer(const Tokenizer* tokenizer, const std::string& chat_template) {
  if (tokenizer == nullptr) return nullptr;
  const Vocabulary& vocabulary = tokenizer->vocabulary();
  const auto text = [&](std::optional<TokenId> token) { return token ? Json(vocabulary.text(*token)) : Json(nullptr); };
  const bool bytes = vocabulary.kind() == VocabularyKind::ByteLevelBpe;
  return {{"tokenizer_class", bytes ? "GPT2Tokenizer" : "LlamaTokenizer"},
          {"bos_token", text(vocabulary.bos())},
          {"eos_token", text(vocabulary.eos())},
          {"unk_token", text(vocabulary.unknown())},
          {"add_bos_token", vocabulary.add_bos()},
          {"add_eos_token", vocabulary.add_eos()},
          {"chat_template", chat_template.empty() ? Json(nullptr) : Json(chat_template)}};
}

Json describe_reasoning(const ReasoningFormat& format) {
  constexpr const char* kKinds[] = {"none", "marks", "harmony"};
  return {{"kind", kKinds[static_cast<size_t>(format.kind)]}, {"begin", format.begin}, {"end", format.end}};
}

Json describe_tool_calls(const ToolCallFormat& format) {
  return {{"begin", format.begin},
          {"middle", format.middle},
          {"separator", format.separator},
          {"end", format.end},
          {"begin_mark", format.begin_mark()},
          {"end_mark", format.end_mark()},
          {"plain_name", describe_plain_name(format)},
          {"ids", format.has_ids()},
          {"from_template", format.from_template}};
}

}  // namespace inflight
