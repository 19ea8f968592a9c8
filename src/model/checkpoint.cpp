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
constexpr std::array kLayerNames{
    Names{"input_layernorm", "attn_norm"},    Names{"self_attn.q_proj", "attn_q"},
    Names{"self_attn.k_proj", "attn_k"},      Names{"self_attn.v_proj", "attn_v"},
    Names{"self_attn.o_proj", "attn_output"}, Names{"self_attn.q_norm", "attn_q_norm"},
    Names{"self_attn.k_norm", "attn_k_norm"}, Names{"post_attention_layernorm", "ffn_norm"},
    Names{"mlp.gate_proj", "ffn_gate"},       Names{"mlp.up_proj", "ffn_up"},
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
std::optional<std::string> gguf_name(std::string_view name) {
  constexpr std::string_view kModel = "model.", kLayers = "layers.";
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  if (!name.starts_with(kLayers)) return renamed(kModelNames, name);
  name.remove_prefix(kLayers.size());
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos || dot == 0) return {};
  const std::string_view number = name.substr(0, dot);
  if (!std::ranges::all_of(number, [](char digit) { return digit >= '0' && digit <= '9'; })) return {};
  const auto rest = renamed(kLayerNames, name.substr(dot + 1));
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
        tied_(config.find_flag("tie_word_embeddings").value_or(false)),
        classifies_(is_classifier(config)) {}

  void read(const std::string& path) {
    const MappedFile& file = checkpoint_.files.emplace_back(path);
    for (const SafeTensor& tensor : parse_safetensors(path, file.bytes())) {
      const auto name = gguf_name(tensor.name);
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
    GgufTensor added{.name = checkpoint_.names.emplace_back(name), .type = find_stored_type(stored_id(type->second))};
    added.dimension_count = static_cast<int32_t>(dimensions);
    std::copy(tensor.shape.rbegin(), tensor.shape.rend(), added.dimensions.begin());
    added.bytes = tensor.bytes;
    if (dimensions == 1) {
      std::vector<float>& numbers = checkpoint_.vectors.emplace_back(static_cast<size_t>(tensor.shape[0]));
      dequantize_row(type->second, tensor.bytes, numbers);
      added.type = find_stored_type(stored_id(TensorType::F32));
      added.bytes = std::as_bytes(std::span<const float>(numbers));
    } else if (reinterpret_cast<uintptr_t>(tensor.bytes.data()) % sizeof(float) != 0) {
      fail(ErrorCode::Unsupported, "{}: tensor {} begins at a place that is no multiple of 4 bytes", path,
           quote(tensor.name));
    }
    checkpoint_.tensors.push_back(added);
  }

  static uint32_t stored_id(TensorType type) { return static_cast<uint32_t>(type); }

  Checkpoint& checkpoint_;
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
  write_pooling(folder, architecture_of(config), header);
  write_tokenizer(folder, config, header);
  header.pad_to(32);
  checkpoint.header = header.bytes();
  const std::vector<std::string> files = weight_files(folder);
  checkpoint.files.reserve(files.size());
  TensorReader reader(config, checkpoint);
  for (const std::string& file : files) reader.read(file);
  return checkpoint;
}

}  // namespace inflight
