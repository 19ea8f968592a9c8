// SPDX-License-Identifier: Apache-2.0
// How answers are drawn: the flags of commands that generate text.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "inflight/inflight.hpp"

namespace inflight::cli {

// Every request of the command is a copy of it, with a prompt.
[[nodiscard]] inline std::shared_ptr<RequestOptions> add_request_flags(CLI::App& command) {
  auto request = std::make_shared<RequestOptions>();
  inflight_request_params_t& params = request->params;
  constexpr const char* kAnswer = "Answer";
  command.add_option("-n,--max-tokens", params.max_tokens, "Output tokens at most")
      ->capture_default_str()
      ->group(kAnswer);
  command.add_option("--temperature", params.temperature, "0: always the most likely token")
      ->capture_default_str()
      ->group(kAnswer);
  command.add_option("--top-k", params.top_k, "Draw from the k most likely tokens; 0: all")
      ->capture_default_str()
      ->group(kAnswer);
  command.add_option("--top-p", params.top_p, "Draw from the smallest set that is this likely")
      ->capture_default_str()
      ->group(kAnswer);
  command.add_option("--min-p", params.min_p, "Drop tokens less likely than this share of the best")
      ->capture_default_str()
      ->group(kAnswer);
  command.add_option("--seed", params.seed, "Equal seeds draw equal answers; 0: one is drawn")
      ->capture_default_str()
      ->group(kAnswer);
  command.add_flag("--ignore-eos", params.ignore_eos, "Go on through the model's end tokens")->group(kAnswer);
  return request;
}

}  // namespace inflight::cli
