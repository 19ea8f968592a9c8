// SPDX-License-Identifier: Apache-2.0
// What a GGUF file holds and what it takes to run it, as text and as JSON.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/model_spec.h"
#include "model/gguf_file.h"

namespace inflight::cli {

struct TypeTotal {
  int32_t tensor_count = 0;
  int64_t numbers = 0;
  size_t bytes = 0;
};

// LIFETIME: `file` outlives it.
struct Inspection {
  const GgufFile& file;
  std::optional<ModelSpec> spec;  // nothing: not a model this build knows; `obstacle` says why
  std::string obstacle;           // why it cannot be run; empty: it can
  int64_t parameter_count = 0;
  size_t device_bytes = 0;                       // of the tensors as they are computed with
  std::map<std::string, std::string> loaded_as;  // of each format that is only read: what it becomes when it is loaded
  std::map<std::string, TypeTotal> totals;       // by type
};
// ERRORS: none but running out of memory: what cannot be run is still inspected.
[[nodiscard]] Inspection inspect(const GgufFile& file);

[[nodiscard]] std::string to_text(const Inspection& inspection);
[[nodiscard]] nlohmann::ordered_json to_json(const Inspection& inspection);

}  // namespace inflight::cli
