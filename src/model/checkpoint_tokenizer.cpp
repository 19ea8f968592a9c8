// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/quote.h"
#include "core/pre_tokenizer_patterns.h"
#include "core/vocabulary_data.h"
#include "model/checkpoint_parts.h"
#include "model/mapped_file.h"

namespace inflight {
namespace {

using Json = nlohmann::json;

// What tokenizer.ggml.pre calls a way to cut words, by its patterns in order.
struct WordCutter {
  std::array<std::string_view, 2> patterns;  // "" behind the last one
  bool ignore_merges, nfc;
  std::string_view name;
};
constexpr std::array kWordCutters{
    WordCutter{{patterns::kGpt2, ""}, false, false, "gpt-2"},
    WordCutter{{patterns::kDigits, patterns::kGpt2}, false, false, "smollm"},
    WordCutter{{patterns::kLlama3, ""}, true, false, "llama-bpe"},
    WordCutter{{patterns::kLlama3, ""}, false, false, "dbrx"},
    WordCutter{{patterns::kQwen2, ""}, false, true, "qwen2"},
    WordCutter{{patterns::kQwen2, ""}, false, false, "stablelm2"},
    WordCutter{{patterns::kGpt4o, ""}, false, false, "gpt-4o"},
    WordCutter{{patterns::kTekken, ""}, true, false, "tekken"},
};

bool is_kind(const Json* object, std::string_view type) {
  const Json* const kind = object != nullptr ? CheckpointJson::member(*object, "type") : nullptr;
  return kind != nullptr && *kind == type;
}

// A step of tokenizer.json, or the steps of a sequence of them.
std::vector<const Json*> steps_of(const Json* object, const char* list) {
  if (object == nullptr) return {};
  const Json* const steps = is_kind(object, "Sequence") ? CheckpointJson::member(*object, list) : nullptr;
  if (steps == nullptr || !steps->is_array()) return {object};
  std::vector<const Json*> all;
  for (const Json& step : *steps) all.push_back(&step);
  return all;
}

class TokenizerReader {
 public:
  TokenizerReader(const std::string& folder, const CheckpointJson& config, const CheckpointJson& tokenizer,
                  GgufHeader& header)
      : config_(config),
        tokenizer_(tokenizer),
        settings_(CheckpointJson::find(folder + "/tokenizer_config.json")),
        generation_(CheckpointJson::find(folder + "/generation_config.json")),
        folder_(folder),
        header_(header) {}

  void read() {
    const Json* const model = CheckpointJson::member(tokenizer_.root(), "model");
    if (!is_kind(model, "BPE")) refuse("model", "BPE");
    const auto steps = steps_of(CheckpointJson::member(tokenizer_.root(), "pre_tokenizer"), "pretokenizers");
    const bool of_bytes = std::ranges::any_of(steps, [](const Json* step) { return is_kind(step, "ByteLevel"); });
    if (!of_bytes && !tokenizer_.find_flag("byte_fallback", model).value_or(false)) {
      refuse("pre_tokenizer", "ByteLevel, or a model with byte_fallback (SentencePiece)");
    }
    read_tokens(*model, of_bytes);
    const std::vector<std::string> merges = read_merges(*model, of_bytes ? " " : "");
    header_.entry("tokenizer.ggml.model", std::string_view(of_bytes ? "gpt2" : "llama"));
    header_.entry("tokenizer.ggml.tokens", std::span<const std::string>(tokens_));
    header_.entry("tokenizer.ggml.token_type", std::span<const int32_t>(types_));
    if (of_bytes) {
      header_.entry("tokenizer.ggml.merges", std::span<const std::string>(merges));
      header_.entry("tokenizer.ggml.pre", word_cutter(*model, steps));
    } else {
      header_.entry("tokenizer.ggml.scores", std::span<const float>(scores(merges)));
      header_.entry("tokenizer.ggml.add_space_prefix", puts_space_before(steps));
    }
    write_special(*model);
    write_templates();
  }

 private:
  [[noreturn]] void refuse(const char* key, std::string_view supported) const {
    fail(ErrorCode::Unsupported, "{}: {} is of a kind that is not known here, supported: {}", tokenizer_.path(),
         quote(key), supported);
  }

  void put(const std::string& text, const Json& id, TokenType type) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= tokens_.size()) {
      fail(ErrorCode::CorruptFile, "{}: token {} has id {}, allowed: 0 to {} (vocab_size)", tokenizer_.path(),
           quote(text), id.dump(), tokens_.size() - 1);
    }
    const auto place = id.get<size_t>();
    tokens_[place] = text;
    types_[place] = static_cast<int32_t>(type);
    ids_[text] = static_cast<uint32_t>(place);
  }

  void read_tokens(const Json& model, bool of_bytes) {
    const uint32_t size = config_.count("vocab_size");
    if (size > static_cast<uint32_t>(limits::kVocabularyMax)) {
      fail(ErrorCode::CorruptFile, "{}: 'vocab_size' is {}, allowed: up to {}", config_.path(), size,
           limits::kVocabularyMax);
    }
    for (uint32_t id = 0; id < size; ++id) tokens_.push_back(fmt::format("[PAD{}]", id));
    types_.assign(size, static_cast<int32_t>(TokenType::Unused));
    const Json* const vocabulary = CheckpointJson::member(model, "vocab");
    if (vocabulary == nullptr || !vocabulary->is_object()) refuse("vocab", "an object of texts and ids");
    for (const auto& [text, id] : vocabulary->items()) {
      const bool byte = !of_bytes && text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
      put(text, id, byte ? TokenType::Byte : TokenType::Normal);
    }
    const Json* const added = CheckpointJson::member(tokenizer_.root(), "added_tokens");
    if (added == nullptr) return;
    for (const Json& token : *added) {
      const auto text = tokenizer_.find_text("content", &token);
      const Json* const id = CheckpointJson::member(token, "id");
      if (!text || id == nullptr) refuse("added_tokens", "objects with content and id");
      const bool special = tokenizer_.find_flag("special", &token).value_or(false);
      put(*text, *id, special ? TokenType::Control : TokenType::UserDefined);
    }
  }

  // Each as two texts with `between` between them.
  [[nodiscard]] std::vector<std::string> read_merges(const Json& model, std::string_view between) const {
    std::vector<std::string> merges;
    const Json* const listed = CheckpointJson::member(model, "merges");
    if (listed == nullptr || !listed->is_array()) refuse("merges", "a list");
    for (const Json& merge : *listed) {
      std::string text;
      if (merge.is_string()) {
        text = merge.get<std::string>();
        const size_t space = text.find(' ', 1);
        if (space == std::string::npos) refuse("merges", "two texts each");
        text.replace(space, 1, between);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        text = merge[0].get<std::string>() + std::string(between) + merge[1].get<std::string>();
      } else {
        refuse("merges", "two texts each");
      }
      merges.push_back(std::move(text));
    }
    return merges;
  }

  // SentencePiece joins what has the highest score first: here what is the first merge's. Others are never joined.
  [[nodiscard]] std::vector<float> scores(const std::vector<std::string>& merged) const {
    std::vector<float> scores(tokens_.size(), 0.0F);
    for (size_t rank = merged.size(); rank > 0; --rank) {
      const auto token = ids_.find(merged[rank - 1]);
      if (token != ids_.end()) scores[token->second] = -static_cast<float>(rank);
    }
    return scores;
  }

  [[nodiscard]] bool composes() const {
    const auto steps = steps_of(CheckpointJson::member(tokenizer_.root(), "normalizer"), "normalizers");
    for (const Json* const step : steps) {
      if (!is_kind(step, "NFC")) refuse("normalizer", "none, NFC");
    }
    return !steps.empty();
  }

  [[nodiscard]] std::string_view word_cutter(const Json& model, const std::vector<const Json*>& steps) const {
    constexpr const char* kSupported = "those of GPT-2, SmolLM, Llama 3, Qwen 2 and 3, GPT-4o, Mistral's Tekken";
    std::vector<std::string> patterns;
    for (const Json* const step : steps) {
      if (is_kind(step, "Split")) {
        const Json* const pattern = CheckpointJson::member(*step, "pattern");
        const auto text = pattern != nullptr ? tokenizer_.find_text("Regex", pattern) : std::nullopt;
        const bool isolates = tokenizer_.find_text("behavior", step) == "Isolated";
        if (!text || !isolates || tokenizer_.find_flag("invert", step).value_or(false))
          refuse("pre_tokenizer", kSupported);
        patterns.push_back(*text);
      } else if (is_kind(step, "Digits") && tokenizer_.find_flag("individual_digits", step).value_or(false)) {
        patterns.emplace_back(patterns::kDigits);
      } else if (is_kind(step, "ByteLevel")) {
        if (tokenizer_.find_flag("add_prefix_space", step).value_or(true))
          refuse("pre_tokenizer", "no add_prefix_space");
        if (tokenizer_.find_flag("use_regex", step).value_or(true)) patterns.emplace_back(patterns::kGpt2);
      } else {
        refuse("pre_tokenizer", kSupported);
      }
    }
    patterns.resize(2);
    const bool nfc = composes(), ignores = tokenizer_.find_flag("ignore_merges", &model).value_or(false);
    for (const WordCutter& cutter : kWordCutters) {
      if (std::ranges::equal(cutter.patterns, patterns) && cutter.nfc == nfc && cutter.ignore_merges == ignores) {
        return cutter.name;
      }
    }
    refuse("pre_tokenizer", kSupported);
  }

  [[nodiscard]] bool puts_space_before(const std::vector<const Json*>& steps) const {
    bool before = false;
    for (const Json* const step : steps_of(CheckpointJson::member(tokenizer_.root(), "normalizer"), "normalizers")) {
      if (is_kind(step, "Prepend")) {
        before = true;
      } else if (!is_kind(step, "Replace")) {
        refuse("normalizer", "Prepend and Replace");
      }
    }
    for (const Json* const step : steps) {
      if (is_kind(step, "Split")) continue;  // at spaces, which are no spaces any more (Gemma)
      if (!is_kind(step, "Metaspace")) refuse("pre_tokenizer", "none, Metaspace, ByteLevel");
      before = tokenizer_.find_text("prepend_scheme", step).value_or("always") != "never";
    }
    return before;
  }

  [[nodiscard]] std::optional<uint32_t> id_of(const std::string& text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }

  // By tokenizer_config.json, whose tokens are texts or objects with one; else by number.
  [[nodiscard]] std::optional<uint32_t> special_token(const char* key, const char* id_key) const {
    const Json* const given = settings_ ? CheckpointJson::member(settings_->root(), key) : nullptr;
    if (given != nullptr && given->is_string()) return id_of(given->get<std::string>());
    if (given != nullptr && given->is_object()) return id_of(settings_->find_text("content", given).value_or(""));
    const std::vector<uint32_t> ids = listed_ids(config_, id_key);
    return ids.empty() ? std::nullopt : std::optional(ids.front());
  }

  // One number, or a list.
  [[nodiscard]] static std::vector<uint32_t> listed_ids(const CheckpointJson& file, const char* key) {
    const Json* const given = CheckpointJson::member(file.root(), key);
    if (given == nullptr) return {};
    std::vector<uint32_t> ids;
    for (const Json& id : given->is_array() ? *given : Json::array({*given})) {
      if (id.is_number_unsigned()) ids.push_back(id.get<uint32_t>());
    }
    return ids;
  }

  void write_special(const Json& model) {
    const auto write = [&](const char* name, std::optional<uint32_t> id) {
      if (id && *id < tokens_.size()) header_.entry(fmt::format("tokenizer.ggml.{}_token_id", name), *id);
    };
    const auto unknown = tokenizer_.find_text("unk_token", &model);
    if (unknown) write("unknown", id_of(*unknown));
    write("bos", special_token("bos_token", "bos_token_id"));
    const auto appended = processed_special(false);
    std::vector<uint32_t> ends;
    for (const auto end : {appended, special_token("eos_token", "eos_token_id")}) {
      if (end && std::ranges::find(ends, *end) == ends.end()) ends.push_back(*end);
    }
    for (const CheckpointJson* const file : {generation_ ? &*generation_ : nullptr, &config_}) {
      if (file == nullptr) continue;
      for (const uint32_t id : listed_ids(*file, "eos_token_id")) {
        if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
      }
    }
    constexpr std::array kEnds{"eos", "eot", "eom"};
    for (size_t i = 0; i < std::min(ends.size(), kEnds.size()); ++i) write(kEnds[i], ends[i]);
    const auto adds = [&](const char* key, bool otherwise) {
      return (settings_ ? settings_->find_flag(key) : std::nullopt).value_or(otherwise);
    };
    header_.entry("tokenizer.ggml.add_bos_token", adds("add_bos_token", processed_special(true).has_value()));
    header_.entry("tokenizer.ggml.add_eos_token", adds("add_eos_token", appended.has_value()));
  }

  // The token that the post-processor puts before each text, or behind it.
  [[nodiscard]] std::optional<uint32_t> processed_special(bool before) const {
    for (const Json* const step : steps_of(CheckpointJson::member(tokenizer_.root(), "post_processor"), "processors")) {
      const Json* const single =
          is_kind(step, "TemplateProcessing") ? CheckpointJson::member(*step, "single") : nullptr;
      if (single == nullptr || !single->is_array() || single->empty()) continue;
      const Json* const special = CheckpointJson::member(before ? single->front() : single->back(), "SpecialToken");
      if (special != nullptr) return id_of(tokenizer_.find_text("id", special).value_or(""));
    }
    return {};
  }

  void write_template(std::string_view name, std::string_view text) {
    if (name == "default") header_.entry("tokenizer.chat_template", text);
    if (name == "rerank") header_.entry("tokenizer.chat_template.rerank", text);
  }

  void write_templates() {
    try {
      const MappedFile file(folder_ + "/chat_template.jinja");
      return write_template("default", {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
    } catch (const Error& error) {
      if (error.code() != ErrorCode::NotFound) throw;
    }
    const Json* const given = settings_ ? CheckpointJson::member(settings_->root(), "chat_template") : nullptr;
    if (given == nullptr) return;
    if (!given->is_array()) return write_template("default", settings_->find_text("chat_template").value_or(""));
    for (const Json& named : *given) {
      write_template(settings_->find_text("name", &named).value_or(""),
                     settings_->find_text("template", &named).value_or(""));
    }
  }

  const CheckpointJson& config_;
  const CheckpointJson& tokenizer_;
  const std::optional<CheckpointJson> settings_, generation_;
  const std::string& folder_;
  GgufHeader& header_;
  std::vector<std::string> tokens_;
  std::vector<int32_t> types_;
  std::unordered_map<std::string, uint32_t> ids_;
};

}  // namespace

void write_tokenizer(const std::string& folder, const CheckpointJson& config, GgufHeader& header) {
  const auto tokenizer = CheckpointJson::find(folder + "/tokenizer.json");
  if (!tokenizer) {
    log(LogLevel::Warning, "{}: has no tokenizer.json: the model knows token ids only", folder);
    return;
  }
  TokenizerReader(folder, config, *tokenizer, header).read();
}

}  // namespace inflight
