// SPDX-License-Identifier: Apache-2.0
// A conversation at the terminal.
#pragma once

#include <string>

#include "inflight/inflight.hpp"

namespace inflight::cli {

// Reads a line at a time from standard input until its end, "/exit", or an answer that failed; "/clear" forgets.
// Each turn's prompt is the whole conversation, whose beginning is found in the prefix cache.
// What the model thinks goes to standard error, the answer to standard output.
// common: how answers are drawn; its prompt is not used.
//
// ERRORS: of the C interface, e.g. a model without a chat template. At a terminal a message that is refused, such as
// one that is too long, is told and forgotten.
void run_chat(Engine& engine, const RequestOptions& common, const std::string& system);

}  // namespace inflight::cli
