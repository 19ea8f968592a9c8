// SPDX-License-Identifier: Apache-2.0
// A checkpoint's JSON files to the metadata that a GGUF file of the model would have (llama.cpp's converter).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "model/gguf_header.h"

namespace inflight {

// One JSON file of a checkpoint, and the lookups that name it in errors.
class CheckpointJson {
 public:
  // ERRORS: Io, CorruptFile: no JSON object, larger than limits::kCheckpointJsonBytesMax. NotFound: no file.
  explicit CheckpointJson(std::string path);
  // None: no file.
  [[nodiscard]] static std::optional<CheckpointJson> find(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const nlohmann::json& root() const { return root_; }

  // A member of `object` that is not null, else null.
  [[nodiscard]] static const nlohmann::json* member(const nlohmann::json& object, const char* key);
  // These are of the root, or of `within`.   ERRORS: CorruptFile for one of another kind.
  [[nodiscard]] std::optional<uint32_t> find_count(const char* key, const nlohmann::json* within = nullptr) const;
  [[nodiscard]] std::optional<float> find_number(const char* key, const nlohmann::json* within = nullptr) const;
  [[nodiscard]] std::optional<bool> find_flag(const char* key, const nlohmann::json* within = nullptr) const;
  [[nodiscard]] std::optional<std::string> find_text(const char* key, const nlohmann::json* within = nullptr) const;
  // ERRORS: CorruptFile where it is missing, too.
  [[nodiscard]] uint32_t count(const char* key) const;

 private:
  CheckpointJson(std::string path, nlohmann::json root) : path_(std::move(path)), root_(std::move(root)) {}
  [[noreturn]] void wrong(const char* key, const nlohmann::json& found, const char* expected) const;

  std::string path_;
  nlohmann::json root_;
};

// general.*, and the sizes and switches of the architecture.   name: of the model.
// ERRORS: CorruptFile, Unsupported; each names file and key.
void write_config(const CheckpointJson& config, std::string_view name, GgufHeader& header);

// How a family's checkpoints differ from its GGUF files.
struct CheckpointFamily {
  std::string_view model_type, architecture;  // the former in config.json, the latter in GGUF
  bool interleaved = false;   // these have rows of queries and keys in another order, so that RoPE turns neighbours
  bool norms_behind = false;  // post_attention_layernorm is behind attention, not before the feed-forward
  float norms_from = 0.0F;    // what is added to weights of norms
  std::string_view activation = "silu";
  float rope_base = 10000.0F, epsilon = 1e-6F;  // of configurations that do not state them
  int32_t global_every = 0;                     // the last of so many layers sees all, others a window; 0: all do
};
// By model_type.   ERRORS: Unsupported for other families.
[[nodiscard]] const CheckpointFamily& checkpoint_family(const CheckpointJson& config);

// How RoPE is scaled, in the configurations of transformers 4 and 5, whose has its base, too; null: not stated.
[[nodiscard]] const nlohmann::json* rope_scaling_of(const CheckpointJson& config);

// By its class in transformers.   ERRORS: Unsupported for classes of other models.
[[nodiscard]] bool is_classifier(const CheckpointJson& config);

// tokenizer.*; nothing where the folder has no tokenizer.json. Tokens are as many as embeddings, `size`.
// ERRORS: CorruptFile, Unsupported.
void write_tokenizer(const std::string& folder, const CheckpointJson& config, GgufHeader& header);

}  // namespace inflight
