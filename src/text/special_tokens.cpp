// SPDX-License-Identifier: Apache-2.0
#include "text/special_tokens.h"

namespace inflight {

SpecialTokens::SpecialTokens(const Vocabulary& vocabulary) : nodes_(1) {
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary.text(id);
    const bool user_defined = vocabulary.type(id) == TokenType::UserDefined;
    if (text.empty() || (!user_defined && !vocabulary.is_control(id))) continue;
    uint64_t node = 0;
    for (const char character : text) {
      const auto next = static_cast<uint32_t>(nodes_.size());
      const auto [child, inserted] = children_.try_emplace(node * 256 + static_cast<uint8_t>(character), next);
      if (inserted) nodes_.emplace_back();
      node = child->second;
    }
    TokenId& place = user_defined ? nodes_[node].user_defined : nodes_[node].control;
    if (place < 0) place = id;
    begins_[static_cast<uint8_t>(text[0])] = true;
  }
}

std::optional<SpecialTokens::Match> SpecialTokens::match_at(std::string_view text, size_t offset,
                                                            bool with_control) const {
  std::optional<Match> longest;
  uint64_t node = 0;
  for (size_t end = offset; end < text.size(); ++end) {
    const auto child = children_.find(node * 256 + static_cast<uint8_t>(text[end]));
    if (child == children_.end()) break;
    node = child->second;
    const TokenId control = with_control ? nodes_[node].control : -1;
    const TokenId id = nodes_[node].user_defined >= 0 ? nodes_[node].user_defined : control;
    if (id >= 0) longest = Match{offset, end + 1 - offset, id};
  }
  return longest;
}

std::optional<SpecialTokens::Match> SpecialTokens::find(std::string_view text, size_t offset, bool with_control) const {
  for (; offset < text.size(); ++offset) {
    if (!begins_[static_cast<uint8_t>(text[offset])]) continue;
    if (const auto match = match_at(text, offset, with_control)) return match;
  }
  return {};
}

std::vector<TokenId> control_tokens_in(std::span<const std::string> texts, const Vocabulary& vocabulary) {
  const SpecialTokens special(vocabulary);
  std::vector<TokenId> tokens;
  for (const std::string& text : texts) {
    for (auto match = special.find(text, 0, true); match;
         match = special.find(text, match->offset + match->length, true)) {
      if (vocabulary.is_control(match->id)) tokens.push_back(match->id);
    }
  }
  return tokens;
}

}  // namespace inflight
