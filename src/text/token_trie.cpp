// SPDX-License-Identifier: Apache-2.0
#include "text/token_trie.h"

#include <algorithm>
#include <array>

namespace inflight {
namespace {

constexpr size_t kTokenBytesMax = 1000;

constexpr std::array<uint8_t, 128> kKinds = [] {
  std::array<uint8_t, 128> kinds{};  // 0: control characters
  for (size_t byte = 0x20; byte < 0x7F; ++byte) kinds[byte] = 1;
  for (size_t digit = '0'; digit <= '9'; ++digit) kinds[digit] = 2;
  for (size_t letter = 'a'; letter <= 'z'; ++letter) {
    kinds[letter] = letter <= 'f' ? 3 : 4;
    kinds[letter - 'a' + 'A'] = letter <= 'f' ? 5 : 6;
  }
  uint8_t kind = 7;
  for (const char own : {'\n', '\t', ' ', '"', '\\', '/', '{', '}', '[', ']', ',', ':', '-', '+', '.', '_'})
    kinds[static_cast<size_t>(own)] = kind++;
  return kinds;
}();

// Reads UTF-8 byte by byte.
class Utf8Follower {
 public:
  // Whether `byte` may come here; never again after one that may not.
  bool read(uint8_t byte) {
    if (broken_) return false;
    if (missing_ > 0) {
      broken_ = byte < least_ || byte > most_;
      --missing_;
    } else if (byte >= 0x80) {
      broken_ = byte < 0xC2 || byte > 0xF4;
      missing_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    }
    const bool leads = byte >= 0xC2;
    least_ = leads && byte == 0xE0 ? 0xA0 : leads && byte == 0xF0 ? 0x90 : 0x80;
    most_ = leads && byte == 0xED ? 0x9F : leads && byte == 0xF4 ? 0x8F : 0xBF;
    return !broken_;
  }
  [[nodiscard]] bool between_characters() const { return missing_ == 0 && !broken_; }

 private:
  int missing_ = 0;
  uint8_t least_ = 0x80, most_ = 0xBF;
  bool broken_ = false;
};

}  // namespace

uint8_t TokenTrie::kind_of(uint8_t ascii) { return kKinds[ascii]; }

std::string grammar_bytes(const Vocabulary& vocabulary, TokenId token) {
  const std::string_view bytes = vocabulary.bytes(token);
  if (vocabulary.type(token) == TokenType::Control) return kControlBegin + std::string(bytes) + kControlEnd;
  const bool is_text = !vocabulary.is_control(token) && bytes.find_first_of("\xFE\xFF") == bytes.npos;
  return is_text ? std::string(bytes) : "";
}

TokenTrie::TokenTrie(const Vocabulary& vocabulary, std::span<const TokenId> end_tokens) : nodes_(1) {
  std::vector<std::pair<std::string, TokenId>> sorted;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    std::string bytes = grammar_bytes(vocabulary, id);
    const bool ends = std::ranges::find(end_tokens, id) != end_tokens.end();
    if (!ends && !bytes.empty() && bytes.size() <= kTokenBytesMax) sorted.emplace_back(std::move(bytes), id);
  }
  std::ranges::sort(sorted);
  std::vector<size_t> path{0};  // nodes from the root to the last token's
  std::string_view before;
  for (size_t index = 0; index < sorted.size(); ++index) {
    const std::string_view bytes = sorted[index].first;
    tokens_.push_back(sorted[index].second);
    const auto shared = static_cast<size_t>(std::ranges::mismatch(before, bytes).in1 - before.begin());
    for (; path.size() > shared + 1; path.pop_back()) nodes_[path.back()].end = static_cast<int32_t>(nodes_.size());
    for (size_t depth = shared; depth < bytes.size(); ++depth) {
      path.push_back(nodes_.size());
      nodes_.push_back({.tokens_begin = static_cast<int32_t>(index),
                        .tokens_end = static_cast<int32_t>(index),
                        .depth = static_cast<uint16_t>(depth + 1),
                        .byte = static_cast<uint8_t>(bytes[depth])});
    }
    nodes_[path.back()].tokens_end = static_cast<int32_t>(index + 1);
    lengths_.push_back(static_cast<uint16_t>(bytes.size()));
    note_kinds(bytes, path);
    depth_max_ = std::max(depth_max_, static_cast<int32_t>(bytes.size()));
    before = bytes;
  }
  for (const size_t node : path) nodes_[node].end = static_cast<int32_t>(nodes_.size());
}

// path: the nodes of the token `bytes`, the root first.
void TokenTrie::note_kinds(std::string_view bytes, const std::vector<size_t>& path) {
  std::array<uint32_t, kTokenBytesMax + 1> behind{};  // kinds of the bytes from here on
  std::array<bool, kTokenBytesMax + 1> within{};      // within a character
  Utf8Follower follower;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    within[i] = !follower.between_characters();
    behind[i] = !follower.read(byte) ? kNoText : byte < 0x80 ? 1U << kind_of(byte) : kBeyondAscii;
  }
  within[bytes.size()] = !follower.between_characters();
  for (size_t i = bytes.size(); i-- > 0;) behind[i] |= behind[i + 1];
  for (size_t depth = 0; depth < path.size(); ++depth) {
    Node& node = nodes_[path[depth]];
    node.below |= behind[depth] | (within[depth] ? kNoText : 0);
    node.height = std::max(node.height, static_cast<uint16_t>(bytes.size() - depth));
  }
}

}  // namespace inflight
