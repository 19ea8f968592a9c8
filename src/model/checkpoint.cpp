// SPDX-License-Identifier: Apache-2.0
#include "model/checkpoint.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "model/checkpoint_parts.h"
#include "model/quantize.h"
#include "model/safetensors.h"

namespace inflight {
namespace {

using Names = std::pair<std::string_view, std::string_view>;  // in the checkpoint, in GGUF

constexpr std::array kModelNames{Names{"embed_tokens", "token_embd"}, Names{"norm", "output_norm"},
                                 Names{"lm_head", "output"}, Names{"score", "cls.output"}};
constexpr std::array kLayerNames{Names{"input_layernorm", "attn_norm"},
                                 Names{"self_attn.q_proj", "attn_q"},
                                 Names{"self_attn.k_proj", "attn_k"},
                                 Names{"self_attn.v_proj", "attn_v"},
                                 Names{"self_attn.o_proj", "attn_output"},
                                 Names{"self_attn.q_norm", "attn_q_norm"},
                                 Names{"self_attn.k_norm", "attn_k_norm"},
                                 Names{"self_attn.qkv_proj", "attn_qkv"},
                                 Names{"mlp.gate_up_proj", "ffn_up"},
                                 Names{"pre_feedforward_layernorm", "ffn_norm"},
                                 Names{"post_feedforward_layernorm", "post_ffw_norm"},
                                 Names{"post_attention_layernorm", "ffn_norm"},
                                 Names{"mlp.gate_proj", "ffn_gate"},
                                 Names{"mlp.up_proj", "ffn_up"},
                                 Names{"mlp.down_proj", "ffn_down"}};

template <size_t N>
std::optional<std::string> renamed(const std::array<Names, N>& names, std::string_view name) {
  for (const auto& [here, there] : names) {
    for (const std::string_view end : {".weight", ".bias"}) {
      if (name.starts_with(here) && name.substr(here.size()) == end) return std::string(there) + std::string(end);
    }
  }
  return {};
}

// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight"
std::optional<std::string> gguf_name(std::string_view name, const CheckpointFamily& family) {
  constexpr std::string_view kModel = "model.", kLayers = "layers.";
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  if (!name.starts_with(kLayers)) return renamed(kModelNames, name);
  name.remove_prefix(kLayers.size());
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos || dot == 0) return {};
  const std::string_view number = name.substr(0, dot);
  if (!std::ranges::all_of(number, [](char digit) { return digit >= '0' && digit <= '9'; })) return {};
  constexpr std::string_view kBehindAttention = "post_attention_layernorm.weight";
  const std::string_view part = name.substr(dot + 1);
  const auto rest = family.norms_behind && part == kBehindAttention
                        ? std::optional<std::string>("post_attention_norm.weight")
                        : renamed(kLayerNames, part);
  return rest ? std::optional("blk." + std::string(number) + "." + *rest) : std::nullopt;
}

// The files of weights: those that the index names, or the one there is.
std::vector<std::string> weight_files(const std::string& folder) {
  const auto index = CheckpointJson::find(folder + "/model.safetensors.index.json");
  if (!index) return {folder + "/model.safetensors"};
  const nlohmann::json* const map = CheckpointJson::member(index->root(), "weight_map");
  std::set<std::string> names;
  if (map != nullptr && map->is_object()) {
    for (const auto& [tensor, file] : map->items()) {
      const std::string name = index->find_text(tensor.c_str(), map).value_or("");
      if (name.empty() || name.find('/') != std::string::npos) {
        fail(ErrorCode::CorruptFile, "{}: tensor {} is in file {}, allowed: files of the same folder", index->path(),
             quote(tensor), quote(name));
      }
      names.insert(folder + "/" + name);
    }
  }
  if (names.empty()) fail(ErrorCode::CorruptFile, "{}: has no 'weight_map'", index->path());
  return {names.begin(), names.end()};
}

class TensorReader {
 public:
  TensorReader(const CheckpointJson& config, Checkpoint& checkpoint)
      : checkpoint_(checkpoint),
        family_(checkpoint_family(config)),
        tied_(config.find_flag("tie_word_embeddings").value_or(false)),
        classifies_(is_classifier(config)) {}

  void read(const std::string& path) {
    const MappedFile& file = checkpoint_.files.emplace_back(path);
    for (const SafeTensor& tensor : parse_safetensors(path, file.bytes())) {
      const auto name = gguf_name(tensor.name, family_);
      if (tensor.name.ends_with("rotary_emb.inv_freq") || is_left_out(name)) continue;
      if (!name) {
        fail(ErrorCode::Unsupported, "{}: tensor {} is not part of the models that are read from safetensors here",
             path, quote(tensor.name));
      }
      if (!seen_.insert(*name).second) {
        fail(ErrorCode::CorruptFile, "{}: tensor {} is there twice", path, quote(tensor.name));
      }
      add(path, tensor, *name);
    }
  }

  // LongRoPE's, which the configuration has.
  void read_rope_factors(const CheckpointJson& config) {
    const nlohmann::json* const scaling = rope_scaling_of(config);
    for (const auto& [key, name] : {std::pair{"short_factor", "rope_factors_short.weight"},
                                    std::pair{"long_factor", "rope_factors_long.weight"}}) {
      const nlohmann::json* const factors = scaling != nullptr ? CheckpointJson::member(*scaling, key) : nullptr;
      if (factors == nullptr) continue;
      if (!factors->is_array() || factors->empty() ||
          !std::ranges::all_of(*factors, [](const auto& factor) { return factor.is_number(); })) {
        fail(ErrorCode::CorruptFile, "{}: {} is no list of numbers", config.path(), quote(key));
      }
      add_vector(name, factors->get<std::vector<float>>());
    }
  }

 private:
  // An output layer that is the embedding again, or that a classifier is in the place of.
  [[nodiscard]] bool is_left_out(const std::optional<std::string>& name) const {
    return name == "output.weight" && (tied_ || classifies_);
  }

  void add(const std::string& path, const SafeTensor& tensor, const std::string& name) {
    constexpr std::array kTypes{std::pair{"F32", TensorType::F32}, std::pair{"F16", TensorType::F16},
                                std::pair{"BF16", TensorType::BF16}};
    const auto type = std::ranges::find_if(kTypes, [&](const auto& entry) { return entry.first == tensor.type; });
    if (type == kTypes.end()) {
      fail(ErrorCode::Unsupported, "{}: tensor {} has type {}, supported: F32, F16, BF16", path, quote(tensor.name),
           tensor.type);
    }
    const size_t dimensions = tensor.shape.size();
    const bool empty = std::ranges::find(tensor.shape, 0) != tensor.shape.end();
    if (dimensions < 1 || dimensions > 2 || empty) {
      fail(ErrorCode::CorruptFile, "{}: tensor {} has {} dimensions, expected 1 or 2, each at least 1", path,
           quote(tensor.name), dimensions);
    }
    if (dimensions == 1) {
      std::vector<float> numbers(static_cast<size_t>(tensor.shape[0]));
      dequantize_row(type->second, tensor.bytes, numbers);
      if (name.ends_with("norm.weight")) {
        for (float& number : numbers) number += family_.norms_from;
      }
      return add_vector(name, std::move(numbers));
    }
    GgufTensor added{.name = checkpoint_.names.emplace_back(name), .type = find_stored_type(stored_id(type->second))};
    added.dimension_count = static_cast<int32_t>(dimensions);
    std::copy(tensor.shape.rbegin(), tensor.shape.rend(), added.dimensions.begin());
    added.bytes = tensor.bytes;
    if (reinterpret_cast<uintptr_t>(tensor.bytes.data()) % sizeof(float) != 0) {
      fail(ErrorCode::Unsupported, "{}: tensor {} begins at a place that is no multiple of 4 bytes", path,
           quote(tensor.name));
    }
    checkpoint_.tensors.push_back(added);
  }

  void add_vector(const std::string& name, std::vector<float> numbers) {
    const std::vector<float>& kept = checkpoint_.vectors.emplace_back(std::move(numbers));
    GgufTensor added{.name = checkpoint_.names.emplace_back(name),
                     .type = find_stored_type(stored_id(TensorType::F32))};
    added.dimensions[0] = static_cast<int64_t>(kept.size());
    added.bytes = std::as_bytes(std::span<const float>(kept));
    checkpoint_.tensors.push_back(added);
  }

  static uint32_t stored_id(TensorType type) { return static_cast<uint32_t>(type); }

  Checkpoint& checkpoint_;
  const CheckpointFamily& family_;
  const bool tied_, classifies_;
  std::set<std::string> seen_;
};

// Which hidden states embeddings are made of, where sentence-transformers says it.
void write_pooling(const std::string& folder, std::string_view architecture, GgufHeader& header) {
  const auto pooling = CheckpointJson::find(folder + "/1_Pooling/config.json");
  if (!pooling) return;
  constexpr std::array kModes{std::pair{"pooling_mode_mean_tokens", 1U}, std::pair{"pooling_mode_cls_token", 2U},
                              std::pair{"pooling_mode_lasttoken", 3U}};
  for (const auto& [key, type] : kModes) {
    if (pooling->find_flag(key).value_or(false)) {
      return header.entry(std::string(architecture) + ".pooling_type", type);
    }
  }
}

}  // namespace

Checkpoint read_checkpoint(const std::string& folder) {
  const auto config_file = CheckpointJson::find(folder + "/config.json");
  if (!config_file) {
    fail(ErrorCode::Io, "{}: is a directory without config.json, expected a GGUF file or a model's folder", folder);
  }
  const CheckpointJson& config = *config_file;
  Checkpoint checkpoint;
  GgufHeader header(0);
  const std::string name = std::filesystem::path(folder + "/").lexically_normal().parent_path().filename().string();
  write_config(config, name, header);
  write_pooling(folder, checkpoint_family(config).architecture, header);
  write_tokenizer(folder, config, header);
  header.pad_to(32);
  checkpoint.header = header.bytes();
  const std::vector<std::string> files = weight_files(folder);
  checkpoint.files.reserve(files.size());
  TensorReader reader(config, checkpoint);
  for (const std::string& file : files) reader.read(file);
  reader.read_rope_factors(config);
  return checkpoint;
}

}  // namespace inflight
