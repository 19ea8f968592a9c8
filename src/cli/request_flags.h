// SPDX-License-Identifier: Apache-2.0
// How answers are drawn: the flags of commands that generate text.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>

#include "inflight/inflight.hpp"

namespace inflight::cli {

// Every request of the command is a copy of it, with a prompt. Flags are the fields of inflight_request_params_t.
[[nodiscard]] std::shared_ptr<RequestOptions> add_request_flags(CLI::App& command);

}  // namespace inflight::cli
