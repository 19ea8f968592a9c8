// SPDX-License-Identifier: Apache-2.0
// Filters by name. Each takes Call::subject and gives a value.
#pragma once

#include <string_view>
#include <unordered_map>

#include "text/jinja_interpreter.h"

namespace inflight::jinja {

using Filter = Value (*)(Call&);
using FilterTable = std::unordered_map<std::string_view, Filter>;

void add_value_filters(FilterTable& table);
void add_list_filters(FilterTable& table);

}  // namespace inflight::jinja
