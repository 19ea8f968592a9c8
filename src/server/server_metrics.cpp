// SPDX-License-Identifier: Apache-2.0
#include "server/server_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace inflight::server {
namespace {

constexpr std::string_view kOwnPrefix = "inflight_";
constexpr std::string_view kAliasPrefix = "vllm:";

std::string label(std::string_view name, std::string_view value) {
  std::string text = fmt::format("{}=\"", name);
  for (const char letter : value) {
    if (letter == '\\' || letter == '"') text += '\\';
    text += letter == '\n' ? std::string("\\n") : std::string(1, letter);
  }
  return text + '"';
}

}  // namespace

std::string vllm_aliases(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    size_t name = 0;  // where the metric's name begins
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) name = 7;
    if (!line.substr(name).starts_with(kOwnPrefix)) continue;
    result += line.substr(0, name);
    result += kAliasPrefix;
    result += line.substr(name + kOwnPrefix.size());
    result += '\n';
  }
  return result;
}

std::string http_metrics(const HttpStats& stats, std::string_view model_name) {
  const std::string model = label("model_name", model_name);
  std::string text;
  auto out = std::back_inserter(text);
  const auto family = [&](const char* name, const char* type, const char* help) {
    fmt::format_to(out, "# HELP inflight_http_{0} {2}\n# TYPE inflight_http_{0} {1}\n", name, type, help);
  };
  const auto single = [&](const char* name, const char* type, const char* help, auto value) {
    family(name, type, help);
    fmt::format_to(out, "inflight_http_{}{{{}}} {}\n", name, model, value);
  };
  single("connections_open", "gauge", "Open connections.", stats.connections_open);
  single("requests_open", "gauge", "Requests whose answer is not complete.", stats.exchanges_open);
  single("connections_total", "counter", "Connections accepted.", stats.connections_accepted);
  single("connections_refused_total", "counter", "Connections answered with 503 because the limit was reached.",
         stats.connections_refused);
  single("clients_gone_total", "counter", "Clients that left before their answer was complete.", stats.clients_gone);
  family("responses_total", "counter", "Answers by HTTP status.");
  for (const auto& [status, count] : stats.answers) {
    fmt::format_to(out, "inflight_http_responses_total{{{},{}}} {}\n", model, label("status", std::to_string(status)),
                   count);
  }
  return text;
}

}  // namespace inflight::server
