// SPDX-License-Identifier: Apache-2.0
// /metrics: the engine's text, once more under vLLM's names, and what only the server knows.
#pragma once

#include <string>
#include <string_view>

#include "server/http_server.h"

namespace inflight::server {

// Every "inflight_NAME" line of `text` as "vllm:NAME": dashboards made for vLLM show data.
[[nodiscard]] std::string vllm_aliases(std::string_view text);

// Connections, and answers by status, with the label model_name.
[[nodiscard]] std::string http_metrics(const HttpStats& stats, std::string_view model_name);

}  // namespace inflight::server
