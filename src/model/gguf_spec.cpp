// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/limits.h"
#include "base/quote.h"
#include "model/architecture.h"
#include "model/gguf_spec_layers.h"
#include "model/spec_keys.h"

namespace inflight {
namespace {

int32_t vocabulary_size_of(const GgufFile& file, const SpecKeys& keys) {
  if (const GgufTensor* const embedding = file.find_tensor("token_embd.weight")) {
    return static_cast<int32_t>(std::min<int64_t>(embedding->rows(), std::numeric_limits<int32_t>::max()));
  }
  if (const auto count = keys.find_count("vocab_size")) return *count;
  const GgufValue* const tokens = file.find_value("tokenizer.ggml.tokens");
  if (tokens == nullptr) {
    fail(ErrorCode::CorruptFile, "{}: has neither tensor 'token_embd.weight' nor metadata key {} nor a vocabulary",
         file.path(), quote(keys.key("vocab_size")));
  }
  return static_cast<int32_t>(tokens->count);  // at most limits::kGgufArrayCountMax
}

// Layers of the model itself: those behind predict further tokens (MTP), which is not computed.
int32_t layer_count_of(const GgufFile& file, const SpecKeys& keys) {
  constexpr std::string_view kPredicting = "nextn_predict_layers";
  const int32_t blocks = keys.count("block_count"), predicting = keys.find_count(kPredicting, 0).value_or(0);
  if (predicting >= blocks) {
    fail(ErrorCode::CorruptFile, "{}: metadata key {} is {}, allowed: 0 to {}", file.path(),
         quote(keys.key(kPredicting)), predicting, blocks - 1);
  }
  return blocks - predicting;
}

// Variants of the family that would load but compute something else.
void refuse_variants(const GgufFile& file, const SpecKeys& keys, const Architecture& architecture) {
  const auto experts = file.find_integer(keys.key("expert_count"));
  if (experts && *experts != 0 && !architecture.experts) {
    fail(ErrorCode::Unsupported, "{}: is a mixture of {} experts; supported of architecture {}: dense models",
         file.path(), *experts, architecture.name);
  }
  if (const auto causal = file.find_bool(keys.key("attention.causal")); causal && !*causal) {
    fail(ErrorCode::Unsupported, "{}: its attention is not causal (an embedding model?); supported: causal",
         file.path());
  }
}

void refuse_numbers(const GgufFile& file, const SpecKeys& keys) {
  for (const std::string_view name : {"attention.clamp_kqv", "rope.scaling.alpha", "moe_latent_size"}) {
    const float number = keys.find_float(name).value_or(0.0F);
    if (number == 0.0F) continue;
    fail(ErrorCode::Unsupported, "{}: metadata key {} is {}, supported: 0", file.path(), quote(keys.key(name)), number);
  }
}

// What files call shared experts is one feed-forward: its size is that of the tensor, as families state it differently.
int32_t shared_expert_size_of(const GgufFile& file, const SpecKeys& keys) {
  for (const GgufTensor& tensor : file.tensors()) {
    if (!tensor.name.ends_with(".ffn_up_shexp.weight")) continue;
    return static_cast<int32_t>(std::min<int64_t>(tensor.rows(), std::numeric_limits<int32_t>::max()));
  }
  return keys.find_count("expert_shared_feed_forward_length", 0).value_or(0);
}

void read_experts(const GgufFile& file, const SpecKeys& keys, const Architecture& architecture, ModelSpec& spec) {
  spec.expert_count = keys.find_count("expert_count", 0).value_or(0);
  if (spec.expert_count == 0) return;
  spec.experts_used = keys.count("expert_used_count");
  spec.expert_size = keys.find_count("expert_feed_forward_length").value_or(spec.feed_forward_size);
  spec.shared_expert_size =
      architecture.dense_beside_experts ? spec.feed_forward_size : shared_expert_size_of(file, keys);
  spec.expert_weights_normed =
      file.find_bool(keys.key("expert_weights_norm")).value_or(architecture.expert_weights_normed);
  const float scale = keys.find_float("expert_weights_scale").value_or(0.0F);  // 0: not set
  if (scale != 0.0F) spec.expert_weight_scale = scale;
  const int32_t gating = keys.find_count("expert_gating_func", 0).value_or(0);
  constexpr int32_t kSoftmaxOfChosen = 3;
  if (gating > kSoftmaxOfChosen) {
    fail(ErrorCode::Unsupported,
         "{}: metadata key {} is {}, supported: 1 (softmax), 2 (sigmoid) and 3 (softmax of those chosen)", file.path(),
         quote(keys.key("expert_gating_func")), gating);
  }
  spec.expert_gating = architecture.expert_gating;
  if (gating == kSoftmaxOfChosen) {  // is softmax of all, divided by the sum of those chosen
    spec.expert_weights_normed = true;
  } else if (gating > 0) {
    spec.expert_gating = static_cast<Gating>(gating);
  } else if (architecture.latent && (spec.layer_count == 47 || spec.layer_count == 48) &&
             vocabulary_size_of(file, keys) == 154880) {
    spec.expert_gating = Gating::Sigmoid;  // GLM 4.7 Flash, whose files do not tell
  }
  spec.expert_groups = std::max(keys.find_count("expert_group_count", 0).value_or(1), 1);
  spec.expert_groups_used = spec.expert_groups > 1 ? keys.count("expert_group_used_count") : 1;
}

// Nemotron-H's files may state the one of norms with a mean alone.
float read_epsilon(const SpecKeys& keys, const Architecture& architecture) {
  constexpr std::string_view kWithMean = "attention.layer_norm_epsilon";
  const auto other = architecture.lone_parts ? keys.find_float(kWithMean) : std::nullopt;
  constexpr std::string_view kWithout = "attention.layer_norm_rms_epsilon";
  if (other && !keys.find_float(kWithout)) return *other;
  return keys.number(architecture.mean_norms ? kWithMean : kWithout);
}

// 0 means "not set", as in llama.cpp. Granite's logits are divided by their scale, Cohere's multiplied.
void read_scales(const SpecKeys& keys, const Architecture& architecture, ModelSpec& spec) {
  for (const std::string_view name : architecture.needed_keys) (void)keys.number(name);
  const auto read = [&](const char* name, float& number) {
    if (const float found = keys.find_float(name).value_or(0.0F); found != 0.0F) number = found;
  };
  read("embedding_scale", spec.embedding_scale);
  read("residual_scale", spec.residual_scale);
  read("attention.scale", spec.attention_scale);
  read("logit_scale", spec.logit_scale);
  if (!architecture.logits_multiplied) spec.logit_scale = 1.0F / spec.logit_scale;
  read("attn_logit_softcapping", spec.attention_softcap);
  read("final_logit_softcapping", spec.logit_softcap);
  if (architecture.embeddings_by_width) spec.embedding_scale *= std::sqrt(static_cast<float>(spec.hidden_size));
  // Gemma's files do not tell that the largest models scale by the width of E / H.
  const bool largest = (architecture.name == "gemma2" && spec.layer_count == 46) ||
                       (architecture.name == "gemma3" && spec.layer_count == 62);
  if (largest) {
    spec.attention_scale = 1.0F / std::sqrt(static_cast<float>(spec.hidden_size / spec.head_count));
  }
}

// The words of llama.cpp's pooling types.
std::string read_pooling(const GgufFile& file, const SpecKeys& keys) {
  const int64_t type = file.find_integer(keys.key("pooling_type")).value_or(0);
  switch (type) {
    case 2:
      return "cls";
    case 3:
      return "last";
    case 4:
      return "rank";
    case -1:  // unspecified
    case 0:   // none: a vector a token
    case 1:
      return "mean";
    default:
      return std::to_string(type);
  }
}

// What the rows of the classifier stand for, in files that have one; as llama.cpp, one where they name none.
std::vector<std::string> read_labels(const GgufFile& file, const SpecKeys& keys) {
  if (file.find_tensor("cls.output.weight") == nullptr) return {};
  const auto named = file.find_strings(keys.key("classifier.output_labels"));
  if (!named || named->empty()) return {"LABEL_0"};
  return {named->begin(), named->end()};
}

// YaRN's own default is 0.1 ln(factor) + 1, which the model's file may replace (transformers' attention_factor) or
// divide (mscale_all_dim); attn_factor is llama.cpp's, on top of it.
float yarn_magnitude(const SpecKeys& keys, float factor) {
  const auto magnitude = [&](float share) { return factor > 1.0F ? 0.1F * share * std::log(factor) + 1.0F : 1.0F; };
  if (const auto stated = keys.find_float("rope.scaling.yarn_attn_factor")) return *stated;
  return magnitude(1.0F) / magnitude(keys.find_float("rope.scaling.yarn_log_multiplier").value_or(0.0F));
}

void read_yarn(const GgufFile& file, const SpecKeys& keys, RopeScaling& scaling) {
  scaling.kind = RopeScaling::Kind::Yarn;
  scaling.original_context_length =
      keys.find_count("rope.scaling.original_context_length").value_or(keys.count("context_length"));
  scaling.beta_fast = keys.find_float("rope.scaling.yarn_beta_fast").value_or(scaling.beta_fast);
  scaling.beta_slow = keys.find_float("rope.scaling.yarn_beta_slow").value_or(scaling.beta_slow);
  scaling.magnitude *= yarn_magnitude(keys, scaling.factor);
  if (const auto share = keys.find_float("rope.scaling.yarn_ext_factor"); share && *share != 1.0F) {
    fail(ErrorCode::Unsupported, "{}: metadata key {} is {}, supported: 1", file.path(),
         quote(keys.key("rope.scaling.yarn_ext_factor")), *share);
  }
}

// Here files state a tenth of mscale_all_dim. Cosines and sines are not multiplied (mscale is equal to it); the scale
// of products of queries and keys is, by the square of what they would be.
void read_latent_yarn(const SpecKeys& keys, ModelSpec& spec) {
  RopeScaling& scaling = spec.rope_scaling;
  if (scaling.kind != RopeScaling::Kind::Yarn) return;
  const float share = keys.number("rope.scaling.yarn_log_multiplier");
  scaling.magnitude = keys.find_float("rope.scaling.attn_factor").value_or(1.0F);
  const float magnitude = scaling.magnitude * (1.0F + share * std::log(scaling.factor));
  spec.attention_scale *= magnitude * magnitude;
}

// GGUF states llama3's scaling as the tensor rope_freqs.weight, which then replaces these keys.
RopeScaling read_rope_scaling(const GgufFile& file, const SpecKeys& keys) {
  RopeScaling scaling;
  const std::string type_key = keys.key("rope.scaling.type");
  const auto type = file.find_string(type_key).value_or("linear");
  scaling.factor = keys.find_float("rope.scaling.factor").value_or(0.0F);
  if (scaling.factor == 0.0F) {
    scaling.factor = keys.find_float("rope.scale_linear").value_or(1.0F);  // its older name
  }
  scaling.magnitude = keys.find_float("rope.scaling.attn_factor").value_or(1.0F);
  const bool factors =
      file.find_tensor(type == "longrope" ? "rope_factors_long.weight" : "rope_freqs.weight") != nullptr;
  if (type == "none" || (type == "linear" && scaling.factor == 1.0F) ||
      ((type == "llama3" || type == "longrope") && factors)) {
    return {.original_context_length = keys.find_count("rope.scaling.original_context_length").value_or(0),
            .magnitude = scaling.magnitude};
  }
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::Linear;
  } else if (type == "llama3") {
    scaling.kind = RopeScaling::Kind::Llama3;
    scaling.low_frequency_factor = keys.number("rope.scaling.low_freq_factor");
    scaling.high_frequency_factor = keys.number("rope.scaling.high_freq_factor");
    scaling.original_context_length = keys.count("rope.scaling.original_context_length");
  } else if (type == "yarn") {
    read_yarn(file, keys, scaling);
  } else {
    fail(ErrorCode::Unsupported,
         "{}: metadata key {} is {}, supported: none, linear, llama3, yarn, longrope with its factors", file.path(),
         quote(type_key), quote(type));
  }
  return scaling;
}

// M-RoPE, of text the same as RoPE: sections of a head's pairs turn with an image's time, height and width, which are a
// text's position. Files of families with and without images have the pairs as the former have them then.
bool has_sections(const GgufFile& file, const SpecKeys& keys) {
  const auto sections = file.find_integers(keys.key("rope.dimension_sections"));
  return sections && sections->size() > 1 && sections->at(0) > 0 && sections->at(1) > 0;
}

// REQUIRES: context length is set.
void read_temperature(const SpecKeys& keys, ModelSpec& spec) {
  spec.temperature_scale = keys.find_float("attention.temperature_scale").value_or(0.0F);
  if (spec.temperature_scale == 0.0F) return;  // there is none
  spec.temperature_length = keys.find_count("rope.scaling.original_context_length").value_or(spec.context_length);
}

// D: stated, or E / H.
int32_t read_head_size(const GgufFile& file, const SpecKeys& keys, const ModelSpec& spec) {
  const auto key_length = keys.find_count("attention.key_length");
  const auto value_length = keys.find_count("attention.value_length");
  if (!key_length && spec.hidden_size % spec.head_count != 0) {
    fail(ErrorCode::CorruptFile,
         "{}: its hidden size {} is no multiple of its {} heads, and metadata key {} is missing", file.path(),
         spec.hidden_size, spec.head_count, quote(keys.key("attention.key_length")));
  }
  const int32_t head_size = key_length.value_or(spec.hidden_size / spec.head_count);
  if (value_length.value_or(head_size) != head_size) {
    fail(ErrorCode::Unsupported, "{}: its heads have {} numbers for K and {} for V; supported: equal", file.path(),
         head_size, *value_length);
  }
  return head_size;
}

// D of latent attention, and what its heads are made of. Files of before April 2025 state the heads multiplied out.
// REQUIRES: RoPE's dimension count is set.
void read_latent(const GgufFile& file, const SpecKeys& keys, ModelSpec& spec) {
  const bool absorbed = keys.find_count("attention.key_length_mla").has_value();
  const int32_t query = keys.count(absorbed ? "attention.key_length_mla" : "attention.key_length");
  const int32_t rotated = spec.rope_dimension_count;
  spec.latent = {.rank = keys.count("attention.kv_lora_rank"),
                 .query_rank = keys.find_count("attention.q_lora_rank", 0).value_or(0),
                 .unrotated_size = query - rotated,
                 .value_size = keys.count(absorbed ? "attention.value_length_mla" : "attention.value_length")};
  if (!absorbed) spec.kv_head_count = 1;
  spec.head_size =
      static_cast<int32_t>(std::min<int64_t>(int64_t{rotated} + spec.latent.rank, limits::kHeadSizeMax + 1));
  for (const auto& [name, expected] :
       {std::pair("attention.key_length", spec.head_size), std::pair("attention.value_length", spec.latent.rank)}) {
    if (const int32_t found = keys.count(name); absorbed && found != expected) {
      fail(ErrorCode::CorruptFile,
           "{}: metadata key {} is {}, allowed with a latent rank of {} and {} rotated numbers: {}", file.path(),
           quote(keys.key(name)), found, spec.latent.rank, rotated, expected);
    }
  }
  if (const float scale = keys.find_float("attention.temperature_scale").value_or(0.0F); scale != 0.0F) {
    fail(ErrorCode::Unsupported, "{}: metadata key {} is {}, supported: 0", file.path(),
         quote(keys.key("attention.temperature_scale")), scale);
  }
  if (spec.attention_scale == 0.0F) spec.attention_scale = 1.0F / std::sqrt(static_cast<float>(query));
  read_latent_yarn(keys, spec);
}

const Architecture& architecture_of(const GgufFile& file, std::string_view name) {
  try {
    return find_architecture(name);
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", file.path(), error.what());
  }
}

}  // namespace

ModelSpec read_spec(const GgufFile& file) {
  const auto name = file.find_string("general.architecture");
  if (!name) {
    fail(ErrorCode::CorruptFile, "{}: metadata key 'general.architecture' is missing", file.path());
  }
  ModelSpec spec;
  const Architecture& architecture = architecture_of(file, *name);
  spec.architecture = architecture.name;
  spec.rope_style = architecture.rope_style;
  spec.unrotated_every = architecture.unrotated_every;
  spec.activation = architecture.activation;
  spec.mean_norms = architecture.mean_norms;
  spec.gated_feed_forward = architecture.gated_feed_forward;
  spec.norms_heads_together = architecture.norms_heads_together;
  spec.norms_rotated = architecture.norms_rotated;
  spec.norms_values = architecture.norms_values;
  spec.attention_scale = architecture.attention_scale;
  spec.gated_attention = architecture.gated_attention;
  const SpecKeys keys(file, spec.architecture);
  spec.parallel_residual = architecture.residual == Residual::Parallel;
  if (architecture.residual == Residual::Stated) {
    spec.parallel_residual = file.find_bool(keys.key("use_parallel_residual")).value_or(true);
  }
  // Granite's files say by this key whether there is RoPE at all.
  const bool rotates = file.find_bool(keys.key("rope.scaling.finetuned")).value_or(true);
  if (architecture.name.starts_with("granite") && !rotates) spec.unrotated_every = 1;
  refuse_variants(file, keys, architecture);
  spec.name = file.find_string("general.name").value_or("");
  spec.layer_count = layer_count_of(file, keys);
  spec.hidden_size = keys.count("embedding_length");
  read_feed_forward(file, keys, spec);
  read_experts(file, keys, architecture, spec);
  spec.head_count = keys.count("attention.head_count");
  if (!architecture.latent) spec.head_size = read_head_size(file, keys, spec);
  refuse_numbers(file, keys);
  spec.vocabulary_size = vocabulary_size_of(file, keys);
  spec.context_length = keys.count("context_length");
  spec.norm_epsilon = read_epsilon(keys, architecture);
  read_scales(keys, architecture, spec);
  spec.rope_dimension_count = architecture.latent ? keys.count("rope.dimension_count")
                                                  : keys.find_count("rope.dimension_count").value_or(spec.head_size);
  spec.rope_base = keys.find_float("rope.freq_base").value_or(10000.0F);
  spec.rope_scaling = read_rope_scaling(file, keys);
  spec.checkpoint_rows = file.find_bool(keys.key(kHalfSplitKey)).value_or(false);
  if (spec.checkpoint_rows || has_sections(file, keys)) spec.rope_style = RopeStyle::HalfSplit;
  if (!architecture.latent) read_temperature(keys, spec);
  read_windows(file, keys, architecture, spec);
  read_kv_heads(file, keys, architecture, spec);
  if (architecture.latent) read_latent(file, keys, spec);
  read_sharing(file, keys, spec);
  read_states(file, keys, architecture, spec);
  spec.pooling = read_pooling(file, keys);
  spec.labels = read_labels(file, keys);
  try {
    spec.validate();
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", file.path(), error.what());
  }
  return spec;
}

}  // namespace inflight
