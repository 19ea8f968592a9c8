// SPDX-License-Identifier: Apache-2.0
// The flags that every command with an engine has, and the engine made from them.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/format.h"
#include "inflight/inflight.hpp"

namespace inflight::cli {

// Names as in inflight_engine_params_t, with dashes.  LIFETIME: as long as the command that it was added to.
struct EngineFlags {
  EngineOptions options;
  std::string kv_cache_dtype = "auto";
  std::string overlap = "on", prefix_caching = "on", deterministic = "on", clip_max_tokens = "on";
  std::string preempt_victim;  // empty: the default
  std::string chat_template;   // a file; empty: the model's
  std::string profile_path;    // where the Chrome trace goes; empty: none
};

[[nodiscard]] std::shared_ptr<EngineFlags> add_engine_flags(CLI::App& command);

// The file that --speculative-config names; "": none.
[[nodiscard]] std::string draft_model_of(const EngineFlags& flags);

// check_outputs() of --record, --profile and the command's own outputs, which the engine's files (models, adapters,
// template, plugins) and the command's own inputs must not be.
void check_engine_files(const EngineFlags& flags, std::vector<OutputFile> outputs = {},
                        std::vector<std::string> inputs = {});

// Loads with a progress bar; no model given: the demo model.
[[nodiscard]] Engine open_engine(EngineFlags& flags);

// The names given with --lora.
[[nodiscard]] std::vector<std::string> lora_names(const EngineFlags& flags);

// Writes the Chrome trace where --profile asks for one.
void write_profile(Engine& engine, const EngineFlags& flags);

}  // namespace inflight::cli
