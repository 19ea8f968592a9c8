// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace inflight {
namespace {

bool drops_space(const Vocabulary& vocabulary, const DetokenizeOptions& options) {
  return options.whole_text && vocabulary.add_space_prefix();
}

// The bytes that `id` adds. drop_space: as Detokenizer::drop_space_; set false once something was printed.
std::string_view printed_bytes(const Vocabulary& vocabulary, TokenId id, const DetokenizeOptions& options,
                               bool& drop_space) {
  if (!vocabulary.contains(id)) {
    fail(ErrorCode::InvalidArgument, "token id {} is outside the vocabulary, allowed: 0 to {}", id,
         vocabulary.size() - 1);
  }
  const bool shown = options.show_control || std::ranges::find(options.shown, id) != options.shown.end();
  if (vocabulary.is_control(id) && !shown) return "";
  std::string_view bytes = vocabulary.bytes(id);
  if (bytes.empty()) return bytes;
  if (drop_space && bytes[0] == ' ') bytes.remove_prefix(1);
  drop_space = false;
  return bytes;
}

}  // namespace

Detokenizer::Detokenizer(const Vocabulary& vocabulary, const DetokenizeOptions& options)
    : vocabulary_(vocabulary), options_(options), drop_space_(drops_space(vocabulary, options)) {}

std::string_view Detokenizer::push(TokenId id) {
  text_.clear();
  pending_ += printed_bytes(vocabulary_, id, options_, drop_space_);
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const size_t length = valid_utf8_length(rest);
    text_ += rest.substr(0, length);
    rest.remove_prefix(length);
    if (rest.empty()) break;
    const Utf8Character character = first_utf8_character(rest);
    if (character.status == Utf8Status::Incomplete) break;
    append_utf8(text_, kReplacementCharacter);
    rest.remove_prefix(character.length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return text_;
}

std::string_view Detokenizer::flush() {
  text_ = to_valid_utf8(pending_);
  pending_.clear();
  drop_space_ = drops_space(vocabulary_, options_);
  return text_;
}

std::string detokenize(const Vocabulary& vocabulary, std::span<const TokenId> ids, const DetokenizeOptions& options) {
  return to_valid_utf8(detokenize_bytes(vocabulary, ids, options));
}

std::string detokenize_bytes(const Vocabulary& vocabulary, std::span<const TokenId> ids,
                             const DetokenizeOptions& options) {
  bool drop_space = drops_space(vocabulary, options);
  std::string bytes;
  for (const TokenId id : ids) bytes += printed_bytes(vocabulary, id, options, drop_space);
  return bytes;
}

}  // namespace inflight
