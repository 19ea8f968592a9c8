// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/quote.h"
#include "model/checkpoint_parts.h"
#include "model/mapped_file.h"
#include "model/spec_keys.h"

namespace inflight {
namespace {

using Json = nlohmann::json;

constexpr CheckpointFamily kLlama{.model_type = "llama", .architecture = "llama", .interleaved = true};
constexpr CheckpointFamily like_llama(std::string_view model_type, std::string_view architecture,
                                      float rope_base = kLlama.rope_base) {
  CheckpointFamily family = kLlama;
  family.model_type = model_type;
  family.architecture = architecture;
  family.rope_base = rope_base;
  return family;
}

constexpr std::array kFamilies{
    kLlama,
    like_llama("mistral", "llama"),
    CheckpointFamily{.model_type = "qwen2", .architecture = "qwen2"},
    CheckpointFamily{.model_type = "qwen3", .architecture = "qwen3"},
    like_llama("granite", "granite"),
    like_llama("smollm3", "smollm3", 2e6F),
    CheckpointFamily{.model_type = "phi3", .architecture = "phi3", .epsilon = 1e-5F},
    CheckpointFamily{.model_type = "olmo2", .architecture = "olmo2", .norms_behind = true, .epsilon = 1e-5F},
    CheckpointFamily{.model_type = "gemma3_text",
                     .architecture = "gemma3",
                     .norms_behind = true,
                     .norms_from = 1.0F,
                     .activation = "gelu_pytorch_tanh",
                     .rope_base = 1e6F,
                     .global_every = 6},
};

void refuse_value(const CheckpointJson& config, const char* key, const std::string& found, const char* supported) {
  fail(ErrorCode::Unsupported, "{}: {} is {}, supported: {}", config.path(), quote(key), found, supported);
}

// What would load, but compute something else.
void refuse_unread(const CheckpointJson& config, const CheckpointFamily& family) {
  if (const Json* const quantization = CheckpointJson::member(config.root(), "quantization_config")) {
    const std::string method = config.find_text("quant_method", quantization).value_or("unknown");
    refuse_value(config, "quantization_config", quote(method), "none: weights of BF16, F16 or F32");
  }
  auto activation = config.find_text("hidden_activation");
  if (!activation) activation = config.find_text("hidden_act");
  if (activation && *activation != family.activation) {
    refuse_value(config, "hidden_act", quote(*activation), std::string(family.activation).c_str());
  }
  for (const char* const key : {"use_sliding_window", "use_bidirectional_attention"}) {
    if (config.find_flag(key).value_or(false)) refuse_value(config, key, "true", "false");
  }
  auto local_base = config.find_number("rope_local_base_freq");
  const Json* const rope = CheckpointJson::member(config.root(), "rope_parameters");
  const Json* const local = rope != nullptr ? CheckpointJson::member(*rope, "sliding_attention") : nullptr;
  if (local != nullptr) local_base = config.find_number("rope_theta", local);
  if (local_base && *local_base != 10000.0F) {
    refuse_value(config, "rope_local_base_freq", fmt::format("{}", *local_base), "10000");
  }
  if (const auto part = config.find_number("partial_rotary_factor");
      part && *part != 1.0F && family.model_type != "phi3") {
    refuse_value(config, "partial_rotary_factor", fmt::format("{}", *part), "1");
  }
  const Json* const layers = CheckpointJson::member(config.root(), "layer_types");
  if (layers == nullptr || !layers->is_array() || family.model_type == "mistral") return;
  for (size_t i = 0; i < layers->size(); ++i) {
    const bool has_window = family.global_every > 0 && (i + 1) % static_cast<size_t>(family.global_every) != 0;
    if ((*layers)[i] != (has_window ? "sliding_attention" : "full_attention")) {
      refuse_value(config, "layer_types", (*layers)[i].dump(),
                   family.global_every > 0 ? "full_attention in every sixth layer" : "full_attention in all layers");
    }
  }
}

// SmolLM3: the last of every four layers does not rotate heads.
void check_unrotated(const CheckpointJson& config) {
  const Json* const rotated = CheckpointJson::member(config.root(), "no_rope_layers");
  if (rotated == nullptr || !rotated->is_array()) return;
  for (size_t i = 0; i < rotated->size(); ++i) {
    if ((*rotated)[i] != ((i + 1) % 4 == 0 ? 0 : 1)) {
      refuse_value(config, "no_rope_layers", rotated->dump(), "0 for every fourth layer, 1 for others");
    }
  }
}

// What numbers of the forward pass are multiplied by (Granite).
void write_scales(const CheckpointJson& config, const std::string& prefix, GgufHeader& header) {
  constexpr std::array kMultipliers{
      std::pair{"embedding_multiplier", "embedding_scale"}, std::pair{"residual_multiplier", "residual_scale"},
      std::pair{"attention_multiplier", "attention.scale"}, std::pair{"logits_scaling", "logit_scale"}};
  for (const auto& [key, name] : kMultipliers) {
    header.entry(prefix + name, config.find_number(key).value_or(1.0F));
  }
}

// Gemma's, where a configuration has them.
void write_softcaps(const CheckpointJson& config, const std::string& prefix, GgufHeader& header) {
  if (const auto scalar = config.find_number("query_pre_attn_scalar"); scalar && *scalar > 0.0F) {
    header.entry(prefix + "attention.scale", 1.0F / std::sqrt(*scalar));
  }
  for (const char* const key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (const auto cap = config.find_number(key)) header.entry(prefix + key, *cap);
  }
}

// Its factors are tensors. SOURCE: Phi 3's configuration in transformers.
void write_long_rope(const CheckpointJson& config, const std::string& prefix, GgufHeader& header) {
  const Json* const scaling = rope_scaling_of(config);
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const uint32_t original = config.find_count(kOriginal, scaling).value_or(config.find_count(kOriginal).value_or(0));
  if (original < 2) refuse_value(config, "original_max_position_embeddings", std::to_string(original), "2 or more");
  const double share = static_cast<double>(config.count("max_position_embeddings")) / original;
  header.entry(prefix + "rope.scaling.type", std::string_view("longrope"));
  header.entry(prefix + "rope.scaling.original_context_length", original);
  const double magnitude =
      share > 1.0 ? std::sqrt(1.0 + std::log(share) / std::log(static_cast<double>(original))) : 1.0;
  const auto stated = config.find_number("attention_factor", scaling);
  header.entry(prefix + "rope.scaling.attn_factor", stated.value_or(static_cast<float>(magnitude)));
}

void write_rope(const CheckpointJson& config, const CheckpointFamily& family, const std::string& prefix,
                GgufHeader& header) {
  const Json* const scaling = rope_scaling_of(config);
  auto base = config.find_number("rope_theta");
  if (!base && scaling != nullptr) base = config.find_number("rope_theta", scaling);
  header.entry(prefix + "rope.freq_base", base.value_or(family.rope_base));
  if (scaling == nullptr) return;
  auto type = config.find_text("rope_type", scaling);
  if (!type) type = config.find_text("type", scaling);
  if (!type || *type == "default") return;
  if (*type == "longrope" || *type == "su") return write_long_rope(config, prefix, header);
  if (*type != "linear" && *type != "llama3" && *type != "yarn") {
    refuse_value(config, "rope_scaling", quote(*type), "default, linear, llama3, yarn, longrope");
  }
  header.entry(prefix + "rope.scaling.type", std::string_view(*type));
  const auto number = [&](const char* key, const char* name) {
    if (const auto value = config.find_number(key, scaling)) header.entry(prefix + "rope.scaling." + name, *value);
  };
  number("factor", "factor");
  number("low_freq_factor", "low_freq_factor");
  number("high_freq_factor", "high_freq_factor");
  number("attention_factor", "yarn_attn_factor");
  number("beta_fast", "yarn_beta_fast");
  number("beta_slow", "yarn_beta_slow");
  if (const auto length = config.find_count("original_max_position_embeddings", scaling)) {
    header.entry(prefix + "rope.scaling.original_context_length", *length);
  }
  for (const char* const key : {"mscale", "mscale_all_dim"}) {
    if (config.find_number(key, scaling))
      refuse_value(config, "rope_scaling", quote(key), "none of mscale and mscale_all_dim");
  }
}

// Labels by their numbers.
std::vector<std::string> labels_of(const CheckpointJson& config) {
  std::vector<std::string> labels;
  const Json* const named = CheckpointJson::member(config.root(), "id2label");
  const uint32_t count =
      config.find_count("num_labels")
          .value_or(named != nullptr && named->is_object() ? static_cast<uint32_t>(named->size()) : 2);
  if (count > limits::kLabelsMax) refuse_value(config, "num_labels", std::to_string(count), "up to 65536");
  for (uint32_t i = 0; i < count; ++i) {
    const std::string number = std::to_string(i);
    labels.push_back(
        (named != nullptr ? config.find_text(number.c_str(), named) : std::nullopt).value_or("LABEL_" + number));
  }
  return labels;
}

}  // namespace

CheckpointJson::CheckpointJson(std::string path) : path_(std::move(path)) {
  const MappedFile file(path_);
  if (file.bytes().size() > limits::kCheckpointJsonBytesMax) {
    fail(ErrorCode::CorruptFile, "{}: has {} bytes, allowed: up to {}", path_, file.bytes().size(),
         limits::kCheckpointJsonBytesMax);
  }
  root_ = parse_large_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path_);
  if (!root_.is_object()) fail(ErrorCode::CorruptFile, "{}: is no JSON object", path_);
}

std::optional<CheckpointJson> CheckpointJson::find(const std::string& path) {
  try {
    return CheckpointJson(path);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::NotFound) return {};
    throw;
  }
}

const Json* CheckpointJson::member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

void CheckpointJson::wrong(const char* key, const Json& found, const char* expected) const {
  constexpr size_t kShown = 60;
  fail(ErrorCode::CorruptFile, "{}: {} is {}, expected {}", path_, quote(key),
       found.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, kShown), expected);
}

std::optional<uint32_t> CheckpointJson::find_count(const char* key, const Json* within) const {
  const Json* const found = member(within != nullptr ? *within : root_, key);
  if (found == nullptr) return {};
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
  if (!found->is_number_unsigned() || found->get<uint64_t>() > kMost) wrong(key, *found, "a whole number below 2^31");
  return found->get<uint32_t>();
}

std::optional<float> CheckpointJson::find_number(const char* key, const Json* within) const {
  const Json* const found = member(within != nullptr ? *within : root_, key);
  if (found == nullptr) return {};
  if (!found->is_number()) wrong(key, *found, "a number");
  return found->get<float>();
}

std::optional<bool> CheckpointJson::find_flag(const char* key, const Json* within) const {
  const Json* const found = member(within != nullptr ? *within : root_, key);
  if (found == nullptr) return {};
  if (!found->is_boolean()) wrong(key, *found, "true or false");
  return found->get<bool>();
}

std::optional<std::string> CheckpointJson::find_text(const char* key, const Json* within) const {
  const Json* const found = member(within != nullptr ? *within : root_, key);
  if (found == nullptr) return {};
  if (!found->is_string()) wrong(key, *found, "a text");
  return found->get<std::string>();
}

uint32_t CheckpointJson::count(const char* key) const {
  const auto found = find_count(key);
  if (!found) fail(ErrorCode::CorruptFile, "{}: {} is missing", path_, quote(key));
  return *found;
}

void write_config(const CheckpointJson& config, std::string_view name, GgufHeader& header) {
  const CheckpointFamily& family = checkpoint_family(config);
  refuse_unread(config, family);
  const std::string prefix = std::string(family.architecture) + ".";
  header.entry("general.architecture", family.architecture);
  header.entry("general.name", name);
  if (family.interleaved) header.entry(prefix + kHalfSplitKey, true);
  const uint32_t heads = config.count("num_attention_heads"), hidden = config.count("hidden_size");
  header.entry(prefix + "block_count", config.count("num_hidden_layers"));
  header.entry(prefix + "context_length", config.count("max_position_embeddings"));
  header.entry(prefix + "embedding_length", hidden);
  header.entry(prefix + "feed_forward_length", config.count("intermediate_size"));
  header.entry(prefix + "attention.head_count", heads);
  header.entry(prefix + "attention.head_count_kv", config.find_count("num_key_value_heads").value_or(heads));
  if (const auto size = config.find_count("head_dim")) {
    header.entry(prefix + "attention.key_length", *size);
    header.entry(prefix + "attention.value_length", *size);
  }
  header.entry(prefix + "attention.layer_norm_rms_epsilon",
               config.find_number("rms_norm_eps").value_or(family.epsilon));
  header.entry(prefix + "vocab_size", config.count("vocab_size"));
  if (const auto part = config.find_number("partial_rotary_factor")) {
    const uint32_t size = config.find_count("head_dim").value_or(heads > 0 ? hidden / heads : 0);
    header.entry(prefix + "rope.dimension_count", static_cast<uint32_t>(*part * static_cast<float>(size)));
  }
  if (family.model_type == "mistral" || family.model_type == "phi3" || family.global_every > 0) {
    if (const auto window = config.find_count("sliding_window"))
      header.entry(prefix + "attention.sliding_window", *window);
  }
  if (family.model_type == "granite") write_scales(config, prefix, header);
  if (family.model_type == "smollm3") check_unrotated(config);
  if (family.model_type == "gemma3_text") write_softcaps(config, prefix, header);
  write_rope(config, family, prefix, header);
  if (is_classifier(config)) {
    header.entry(prefix + "classifier.output_labels", std::span<const std::string>(labels_of(config)));
  }
}

const Json* rope_scaling_of(const CheckpointJson& config) {
  const Json* scaling = CheckpointJson::member(config.root(), "rope_scaling");
  if (scaling == nullptr) scaling = CheckpointJson::member(config.root(), "rope_parameters");
  if (scaling == nullptr) return nullptr;
  const Json* const of_whole = CheckpointJson::member(*scaling, "full_attention");  // by kinds of layers (Gemma 3)
  return of_whole != nullptr ? of_whole : scaling;
}

const CheckpointFamily& checkpoint_family(const CheckpointJson& config) {
  const std::string type = config.find_text("model_type").value_or("");
  std::string known;
  for (const CheckpointFamily& family : kFamilies) {
    if (family.model_type == type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.model_type);
  }
  fail(ErrorCode::Unsupported,
       "{}: model_type is {}, supported: {}; others as GGUF files, which llama.cpp's convert_hf_to_gguf.py makes",
       config.path(), quote(type), known);
}

bool is_classifier(const CheckpointJson& config) {
  const Json* const classes = CheckpointJson::member(config.root(), "architectures");
  if (classes == nullptr || !classes->is_array() || classes->empty() || !classes->front().is_string()) return false;
  const auto name = classes->front().get<std::string>();
  if (name.ends_with("ForSequenceClassification")) return true;
  if (!name.ends_with("ForCausalLM") && !name.ends_with("Model")) {
    refuse_value(config, "architectures", quote(name), "...ForCausalLM, ...Model, ...ForSequenceClassification");
  }
  return false;
}

}  // namespace inflight
