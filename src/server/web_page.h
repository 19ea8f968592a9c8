// SPDX-License-Identifier: Apache-2.0
// The web pages at "/" and "/widget": an HTML text each, made of src/server/page by cmake/embed_page.cmake.
#pragma once

#include <string_view>

namespace inflight::server {

// LIFETIME: static.
[[nodiscard]] std::string_view web_page();
[[nodiscard]] std::string_view widget_page();

}  // namespace inflight::server
