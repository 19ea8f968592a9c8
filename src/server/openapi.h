// SPDX-License-Identifier: Apache-2.0
// The OpenAPI 3.1 document of this server, made from the table of request fields.
#pragma once

#include <string>

#include "server/json_body.h"

namespace inflight::server {

// JSON, with the limits of the loaded model.   engine_info: inflight_engine_info_json().
[[nodiscard]] std::string openapi_document(const Json& engine_info);

}  // namespace inflight::server
