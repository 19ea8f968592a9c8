// SPDX-License-Identifier: Apache-2.0
// LoRA adapters over HTTP, as vLLM has them: requests name one as their model, and it comes and goes at run time.
// THREAD: any.   ERRORS: ApiError naming the field; Failure of the engine.
#pragma once

#include <string>
#include <vector>

#include "inflight/inflight.hpp"
#include "server/json_body.h"

namespace inflight::server {

// Those that can be named now: [{"name", "path", ...}], as in inflight_engine_info_json().
[[nodiscard]] Json loaded_loras(Engine& engine);

// served: the names of the model itself. An adapter of such a name could never be asked for.   ERRORS: ApiError 400.
void check_lora_name(const std::string& name, const std::vector<std::string>& served);

// {"lora_name", "lora_path"}: returns when requests may name it. 400: what is wrong with file or name, 404: no such
// file.
[[nodiscard]] std::string load_lora_answer(Engine& engine, const std::string& body,
                                           const std::vector<std::string>& served);
// {"lora_name"}: requests that use it go on. 404: there is none of the name.
[[nodiscard]] std::string unload_lora_answer(Engine& engine, const std::string& body);

}  // namespace inflight::server
