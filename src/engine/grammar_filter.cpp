// SPDX-License-Identifier: Apache-2.0
#include "engine/grammar_filter.h"

#include <string>
#include <string_view>

namespace inflight {

std::vector<TokenId> GrammarFilter::take_forced() {
  const std::string text = matcher_->forced_text();
  if (text.size() < 2) return {};
  std::vector<TokenId> tokens = tokenizer_.encode(text, {.add_special = false, .parse_special = false});
  if (tokens.size() < 2) return {};
  tokens.pop_back();
  // SentencePiece vocabularies put a space before a text: what does not spell the forced text is drawn as usual.
  std::string_view rest = text;
  for (const TokenId token : tokens) {
    const std::string_view bytes = tokenizer_.vocabulary().bytes(token);
    if (bytes.empty() || tokenizer_.vocabulary().is_control(token) || !rest.starts_with(bytes)) return {};
    rest.remove_prefix(bytes.size());
  }
  for (const TokenId token : tokens) matcher_->accept(token);
  return tokens;
}

}  // namespace inflight
