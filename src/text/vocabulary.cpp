// SPDX-License-Identifier: Apache-2.0
#include "text/vocabulary.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>

#include "base/error.h"
#include "base/limits.h"
#include "text/byte_alphabet.h"
#include "text/pre_tokenizer.h"
#include "text/sentencepiece_space.h"

namespace inflight {
namespace {

// Files often state only one of the tokens that end an answer, and not always as control tokens; llama.cpp goes by such
// names, too.
constexpr std::array<std::string_view, 28> kEndNames = {"<|im_end|>",
                                                        "<|endoftext|>",
                                                        "<|eot_id|>",
                                                        "<|end|>",
                                                        "<end_of_turn>",
                                                        "<turn|>",
                                                        "<|tool_response>",
                                                        "<eos>",
                                                        "<|end_of_text|>",
                                                        "<|eom_id|>",
                                                        "<|return|>",
                                                        "<|call|>",
                                                        "<EOT>",
                                                        "_<EOT>",
                                                        "[EOT]",
                                                        "<end_of_utterance>",
                                                        "<|calls|>",
                                                        "[e~[",
                                                        "<|fim_pad|>",
                                                        "<fim_pad>",
                                                        "<fim-pad>",
                                                        "<|fim_repo|>",
                                                        "<|repo_name|>",
                                                        "<fim-repo>",
                                                        "<reponame>",
                                                        "<|file_sep|>",
                                                        "<|file_separator|>",
                                                        "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"};

// What insertions are marked with where the file does not say: the names of Qwen, StarCoder and Granite, SantaCoder,
// DeepSeek, CodeLlama, GLM, Falcon. Control tokens like the ends of answers.
struct InfillNames {
  std::string_view prefix, suffix, middle;
};
constexpr std::array<InfillNames, 8> kInfillNames = {{
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"<\uFF5Cfim\u2581begin\uFF5C>", "<\uFF5Cfim\u2581hole\uFF5C>", "<\uFF5Cfim\u2581end\uFF5C>"},
    {"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"},
    {"<PRE>", "<SUF>", "<MID>"},
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},
    {"<|prefix|>", "<|suffix|>", "<|middle|>"},
}};

// Whether it is one of all these names: asked of each token, so by one look-up.
bool is_control_name(std::string_view text) {
  static const auto names = [] {
    std::unordered_set<std::string_view> all(kEndNames.begin(), kEndNames.end());
    for (const InfillNames& marks : kInfillNames) all.insert({marks.prefix, marks.suffix, marks.middle});
    return all;
  }();
  return names.contains(text);
}

VocabularyKind kind_of(const std::string& model) {
  if (model == "llama") return VocabularyKind::SentencePiece;
  if (model == "gpt2") return VocabularyKind::ByteLevelBpe;
  if (model == "gemma4") return VocabularyKind::CharacterBpe;
  if (model.empty()) fail(ErrorCode::Unsupported, "the model file has no vocabulary");
  fail(ErrorCode::Unsupported, "metadata key 'tokenizer.ggml.model' is '{}', supported: llama, gpt2, gemma4", model);
}

void check_sizes(const VocabularyData& data) {
  const size_t count = data.tokens.size();
  if (count == 0 || count > static_cast<size_t>(limits::kVocabularyMax)) {
    fail(ErrorCode::CorruptFile, "the vocabulary has {} tokens, allowed: 1 to {}", count, limits::kVocabularyMax);
  }
  if (!data.types.empty() && data.types.size() != count) {
    fail(ErrorCode::CorruptFile, "the vocabulary has {} token types for {} tokens", data.types.size(), count);
  }
}

// "<0x41>" -> 0x41
std::optional<uint8_t> parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return {};
  uint8_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  if (error != std::errc() || end != text.data() + 5) return {};
  return value;
}

}  // namespace

Vocabulary::Vocabulary(const VocabularyData& data) : kind_(kind_of(data.model)), suppressed_tokens_(data.suppressed) {
  check_sizes(data);
  read_tokens(data);
  read_special_tokens(data);
  find_end_tokens(data);
  find_infill_tokens(data);
}

void Vocabulary::read_tokens(const VocabularyData& data) {
  const ByteAlphabet alphabet;
  types_ = data.types;
  types_.resize(data.tokens.size(), TokenType::Normal);
  byte_ids_.fill(-1);
  for (const std::string& text : data.tokens) texts_.append(text);
  ids_.reserve(data.tokens.size());
  for (TokenId id = 0; id < size(); ++id) {
    ids_.emplace(text(id), id);
    TokenType& type = types_[static_cast<size_t>(id)];
    const bool marks = id == data.infill_prefix || id == data.infill_suffix || id == data.infill_middle;
    if (marks || is_control_name(text(id))) type = TokenType::Control;
    const auto byte = type == TokenType::Byte ? parse_byte_token(text(id)) : std::nullopt;
    if (byte) {
      bytes_.append(std::string(1, static_cast<char>(*byte)));
      byte_ids_[*byte] = id;
    } else if (type == TokenType::Unused) {
      bytes_.append("");
    } else if (is_control(id) || type == TokenType::UserDefined) {
      bytes_.append(text(id));
    } else if (kind_ == VocabularyKind::ByteLevelBpe) {
      bytes_.append(alphabet.unspell(text(id)));
    } else {
      bytes_.append(from_sentencepiece_spaces(text(id)));
    }
  }
  if (kind_ == VocabularyKind::ByteLevelBpe) {
    for (int byte = 0; byte < 256; ++byte) {
      byte_ids_[static_cast<size_t>(byte)] = find(alphabet.letter(static_cast<uint8_t>(byte))).value_or(-1);
    }
  }
}

void Vocabulary::find_end_tokens(const VocabularyData& data) {
  // Where "<|return|>" and "<|call|>" end answers (harmony), "<|end|>" only ends a message.
  const auto end_of_message = find("<|return|>") && find("<|call|>") ? find("<|end|>") : std::nullopt;
  const auto add = [&](std::optional<TokenId> id) {
    if (id && id != end_of_message) end_tokens_.push_back(*id);
  };
  for (const auto& id : {eos_, data.eot, data.eom}) add(id);
  for (const std::string_view name : kEndNames) add(find(name));
  std::ranges::sort(end_tokens_);
  const auto repeated = std::ranges::unique(end_tokens_);
  end_tokens_.erase(repeated.begin(), repeated.end());
}

void Vocabulary::find_infill_tokens(const VocabularyData& data) {
  const auto take = [this](std::optional<TokenId> prefix, std::optional<TokenId> suffix,
                           std::optional<TokenId> middle) {
    if (prefix && suffix && middle && !infill_tokens_) infill_tokens_ = InfillTokens{*prefix, *suffix, *middle};
  };
  take(data.infill_prefix, data.infill_suffix, data.infill_middle);
  for (const InfillNames& names : kInfillNames) take(find(names.prefix), find(names.suffix), find(names.middle));
}

void Vocabulary::read_special_tokens(const VocabularyData& data) {
  const bool is_bpe = kind_ != VocabularyKind::SentencePiece, of_bytes = kind_ == VocabularyKind::ByteLevelBpe;
  const auto known = [this](const char* name, std::optional<TokenId> id, std::optional<TokenId> fallback) {
    if (id && !contains(*id)) {
      fail(ErrorCode::CorruptFile, "the vocabulary's {} token is {}, allowed: 0 to {}", name, *id, size() - 1);
    }
    return id ? id : fallback && contains(*fallback) ? fallback : std::nullopt;
  };
  // SentencePiece's own defaults are 0 <unk>, 1 <s>, 2 </s>.
  const auto default_id = [is_bpe](TokenId id) { return is_bpe ? std::nullopt : std::optional(id); };
  unknown_ = known("unknown", data.unknown, default_id(0));
  // Files in GPT-2's form name their end of text, lest the field be empty: a text that lacks a letter does not end.
  if (of_bytes && unknown_ && type(*unknown_) == TokenType::Control) unknown_.reset();
  bos_ = known("bos", data.bos, default_id(1));
  eos_ = known("eos", data.eos, default_id(2));
  // The first files of Gemma 4 say that there is none.
  const bool always = kind_ == VocabularyKind::CharacterBpe;
  add_bos_ = bos_ && (always || data.add_bos.value_or(!is_bpe || find_pre_tokenizer_type(data.pre).add_bos));
  add_eos_ = eos_ && data.add_eos.value_or(false);
  add_space_prefix_ = !is_bpe && data.add_space_prefix.value_or(true);
  strips_behind_special_ = data.strips_behind_special;
}

std::optional<TokenId> Vocabulary::find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<TokenId> Vocabulary::find_byte(uint8_t byte) const {
  const TokenId id = byte_ids_[byte];
  return id < 0 ? std::nullopt : std::optional(id);
}

}  // namespace inflight
