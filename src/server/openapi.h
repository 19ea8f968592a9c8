// SPDX-License-Identifier: Apache-2.0
// The OpenAPI 3.1 document of this server, made from the table of request fields.
#pragma once

#include <string>

namespace inflight::server {

// JSON.
[[nodiscard]] std::string openapi_document();

}  // namespace inflight::server
