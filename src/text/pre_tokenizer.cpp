// SPDX-License-Identifier: Apache-2.0
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pre_tokenizer.h"

#include <pcre2.h>

#include <array>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "core/pre_tokenizer_patterns.h"

namespace inflight {
namespace {

using patterns::kGpt2;
constexpr std::string_view kThreeDigits = "[0-9][0-9][0-9]";

constexpr std::array kDefaultPatterns{std::string_view(R"([\p{P}\$\+<=>\^~\|]+)"), kGpt2, std::string_view(R"(\p{N}+)"),
                                      kThreeDigits};
constexpr std::array kGpt2Patterns{kGpt2};
constexpr std::array kFalconPatterns{std::string_view(R"([\p{P}\$\+<=>\^~\|`]+)"), kGpt2, kThreeDigits};
constexpr std::array kSmolLmPatterns{patterns::kDigits, kGpt2};
constexpr std::array kLlama3Patterns{patterns::kLlama3};
constexpr std::array kQwen2Patterns{patterns::kQwen2};
constexpr std::array kQwen35Patterns{std::string_view(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kMiniCpm5Patterns{
    std::string_view(R"(\p{N}{1,3})"),
    std::string_view(
        R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
        R"(|\s+(?!\S)|\s+)")};
constexpr std::array kSeedCoderPatterns{std::string_view(
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)")};
constexpr std::array kGpt4oPatterns{patterns::kGpt4o};
constexpr std::array kTekkenPatterns{patterns::kTekken};
// Letters with two cases, as the model's tokenizer.json lists them.
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[)"
    R"(A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1})"
    R"(\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5})"
    R"(\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77})"
    R"(\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d})"
    R"(\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe})"
    R"(\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec})"
    R"(\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124})"
    R"(\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e})"
    R"(\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d})"
    R"(\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf})"
    R"(\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f})"
    R"(\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df})"
    R"(\x{1e900}-\x{1e943})"
    R"(]+)";
constexpr std::array kDeepSeekLlmPatterns{
    std::string_view(R"([\r\n])"),
    kDeepSeekLetters,
    std::string_view(R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)"),
    std::string_view(R"(\s+$)"),
    std::string_view(R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)"),
    std::string_view(R"(\p{N})")};
constexpr std::array kDeepSeekCoderPatterns{
    std::string_view(R"([\r\n])"), std::string_view(R"(\s?\p{L}+)"), std::string_view(R"(\s?\p{P}+)"),
    std::string_view(R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)"), std::string_view(R"(\p{N})")};
constexpr std::array kDeepSeekV3Patterns{
    std::string_view(R"(\p{N}{1,3})"), std::string_view(R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)"),
    std::string_view(R"([!-\/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
                     R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)")};

// Gemma 4 merges within whole texts; none of its tokens holds a line's end and something else.
constexpr std::array kLinePatterns{std::string_view(R"(\n+)")};

constexpr std::array kTypes{
    PreTokenizerType{"default", kDefaultPatterns},
    PreTokenizerType{"gpt-2", kGpt2Patterns},
    PreTokenizerType{"phi-2", kGpt2Patterns},
    PreTokenizerType{"olmo", kGpt2Patterns},
    PreTokenizerType{"mpt", kGpt2Patterns},
    PreTokenizerType{"exaone4", kGpt2Patterns},
    PreTokenizerType{"jais", kGpt2Patterns},
    PreTokenizerType{"trillion", kGpt2Patterns},
    PreTokenizerType{"mellum", kGpt2Patterns},
    PreTokenizerType{"gigachat", kGpt2Patterns},
    PreTokenizerType{"a.x-4.0", kGpt2Patterns},
    PreTokenizerType{"granite-docling", kGpt2Patterns},
    PreTokenizerType{"falcon", kFalconPatterns},
    PreTokenizerType{"smollm", kSmolLmPatterns},
    PreTokenizerType{"starcoder", kSmolLmPatterns},
    PreTokenizerType{"refact", kSmolLmPatterns},
    PreTokenizerType{"command-r", kSmolLmPatterns},
    PreTokenizerType{"codeshell", kSmolLmPatterns},
    PreTokenizerType{"exaone", kSmolLmPatterns},
    PreTokenizerType{"minerva-7b", kSmolLmPatterns},
    PreTokenizerType{"mellum2", kSmolLmPatterns},
    PreTokenizerType{"llama-bpe", kLlama3Patterns, true, true},
    PreTokenizerType{"llama3", kLlama3Patterns, true, true},
    PreTokenizerType{"llama-v3", kLlama3Patterns, true, true},
    PreTokenizerType{"falcon3", kLlama3Patterns, true, true},
    PreTokenizerType{"pixtral", kLlama3Patterns, true, true},
    PreTokenizerType{"lfm2", kLlama3Patterns, true, true},
    PreTokenizerType{"falcon-h1", kLlama3Patterns, true, true},
    PreTokenizerType{"midm-2.0", kLlama3Patterns, true, true},
    PreTokenizerType{"dbrx", kLlama3Patterns},
    PreTokenizerType{"smaug-bpe", kLlama3Patterns},
    PreTokenizerType{"chatglm-bpe", kLlama3Patterns},
    PreTokenizerType{"glm4", kLlama3Patterns, true},
    PreTokenizerType{"glm5", kLlama3Patterns, true},
    PreTokenizerType{"minicpm5", kMiniCpm5Patterns, true},
    PreTokenizerType{.name = "qwen2", .patterns = kQwen2Patterns, .nfc = true},
    PreTokenizerType{.name = "deepseek-r1-qwen", .patterns = kQwen2Patterns, .nfc = true},
    PreTokenizerType{.name = "f2llmv2", .patterns = kQwen2Patterns, .nfc = true},
    PreTokenizerType{"megrez", kQwen2Patterns},
    PreTokenizerType{"stablelm2", kQwen2Patterns},
    PreTokenizerType{"hunyuan", kQwen2Patterns},
    PreTokenizerType{"kormo", kQwen2Patterns},
    PreTokenizerType{"solar-open", kQwen2Patterns},
    PreTokenizerType{"grok-2", kQwen2Patterns},
    PreTokenizerType{.name = "qwen35", .patterns = kQwen35Patterns, .nfc = true},
    PreTokenizerType{"bailingmoe", kQwen2Patterns},
    PreTokenizerType{"bailingmoe2", kQwen2Patterns},
    PreTokenizerType{"llada-moe", kQwen2Patterns},
    PreTokenizerType{"seed-coder", kSeedCoderPatterns},
    PreTokenizerType{"gpt-4o", kGpt4oPatterns},
    PreTokenizerType{"llama4", kGpt4oPatterns},
    PreTokenizerType{"kanana2", kGpt4oPatterns},
    PreTokenizerType{"minimax-m2", kGpt4oPatterns},
    PreTokenizerType{"talkie", kGpt4oPatterns},
    PreTokenizerType{"tekken", kTekkenPatterns, true, true},
    PreTokenizerType{"deepseek-coder", kDeepSeekCoderPatterns},
    PreTokenizerType{"deepseek-llm", kDeepSeekLlmPatterns},
    PreTokenizerType{"deepseek-v3", kDeepSeekV3Patterns},
    PreTokenizerType{"hunyuan-dense", kDeepSeekV3Patterns},
    PreTokenizerType{"gemma4", kLinePatterns},
    PreTokenizerType{"hy_v4", kDeepSeekV3Patterns},
    PreTokenizerType{"joyai-llm", kDeepSeekV3Patterns},
};

// PCRE2 takes U+180E for white space, as Unicode did before 6.3; the tokenizers' own engines do not.
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// \s and \S spelled out.
std::string with_white_space(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const std::string_view pair = pattern.substr(i, 2);
    if (pair == R"(\s)" || pair == R"(\S)") {
      const std::string_view open = pair[1] == 's' ? "[" : "[^";
      out += in_class ? std::string(kWhiteSpace) : std::string(open) + std::string(kWhiteSpace) + "]";
      ++i;
    } else if (pair[0] == '\\') {
      out += pair;
      ++i;
    } else {
      if (pair[0] == '[') in_class = true;
      if (pair[0] == ']') in_class = false;
      out += pair[0];
    }
  }
  return out;
}

PCRE2_SPTR units(std::string_view text) {
  return reinterpret_cast<PCRE2_SPTR>(text.data());  // NOLINT: the same bytes
}

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  const int length = pcre2_get_error_message(code, buffer.data(), buffer.size());
  return {buffer.begin(), buffer.begin() + (length < 0 ? 0 : length)};
}

}  // namespace

const PreTokenizerType& find_pre_tokenizer_type(std::string_view name) {
  if (name.empty()) name = "default";
  std::string known;
  for (const PreTokenizerType& type : kTypes) {
    if (type.name == name) return type;
    known += (known.empty() ? "" : ", ") + std::string(type.name);
  }
  fail(ErrorCode::Unsupported, "metadata key 'tokenizer.ggml.pre' is '{}', supported: {}", name, known);
}

struct PreTokenizer::Pattern {
  template <auto Free>
  struct Freer {
    template <typename T>
    void operator()(T* pointer) const {
      Free(pointer);
    }
  };
  using MatchData = std::unique_ptr<pcre2_match_data, Freer<pcre2_match_data_free_8>>;

  explicit Pattern(std::string_view expression) {
    const std::string source = with_white_space(expression);
    int error = 0;
    PCRE2_SIZE offset = 0;
    code.reset(pcre2_compile(units(source), source.size(), PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &offset,
                             nullptr));
    if (code == nullptr) throw InternalError(fmt::format("pattern {}: {} at {}", source, message_of(error), offset));
    (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without JIT it is only slower
    context.reset(pcre2_match_context_create(nullptr));
    pcre2_set_match_limit(context.get(), limits::kRegexMatchLimit);
  }

  // Calls word(piece) for every match in `text` and every gap between matches, in order.
  template <typename Word>
  void cut(std::string_view text, pcre2_match_data* match, Word&& word) const {
    size_t done = 0;
    while (done < text.size()) {
      const int count =
          pcre2_match(code.get(), units(text), text.size(), done, PCRE2_NO_UTF_CHECK, match, context.get());
      if (count == PCRE2_ERROR_NOMATCH) break;
      if (count < 0) {
        fail(ErrorCode::InvalidArgument, "text of {} bytes cannot be tokenized: {}", text.size(), message_of(count));
      }
      const PCRE2_SIZE* const range = pcre2_get_ovector_pointer(match);
      if (range[1] == range[0]) throw InternalError("a pre-tokenizer pattern matched nothing");
      if (range[0] > done) word(text.substr(done, range[0] - done));
      word(text.substr(range[0], range[1] - range[0]));
      done = range[1];
    }
    if (done < text.size()) word(text.substr(done));
  }

  std::unique_ptr<pcre2_code, Freer<pcre2_code_free_8>> code;
  std::unique_ptr<pcre2_match_context, Freer<pcre2_match_context_free_8>> context;
};

PreTokenizer::PreTokenizer(const PreTokenizerType& type) {
  for (const std::string_view pattern : type.patterns) patterns_.push_back(std::make_unique<Pattern>(pattern));
}

PreTokenizer::~PreTokenizer() = default;

void PreTokenizer::split(std::string_view text, std::vector<std::string_view>& words) const {
  const Pattern::MatchData match(pcre2_match_data_create(1, nullptr));
  std::vector<std::string_view> pieces;
  std::vector<std::string_view> cut;
  while (!text.empty()) {
    const size_t length = valid_utf8_length(text);
    pieces.assign(1, text.substr(0, length));
    for (const auto& pattern : patterns_) {
      cut.clear();
      for (const std::string_view piece : pieces) {
        pattern->cut(piece, match.get(), [&](std::string_view word) { cut.push_back(word); });
      }
      pieces.swap(cut);
    }
    words.insert(words.end(), pieces.begin(), pieces.end());
    text.remove_prefix(length);
    size_t invalid = 0;
    while (invalid < text.size()) {
      const Utf8Character character = first_utf8_character(text.substr(invalid));
      if (character.status == Utf8Status::Valid) break;
      invalid += character.length;
    }
    if (invalid > 0) words.push_back(text.substr(0, invalid));
    text.remove_prefix(invalid);
  }
}

}  // namespace inflight
