// SPDX-License-Identifier: Apache-2.0
#include "loadgen/load_options.h"

#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "sim/length_distribution.h"
#include "sim/parse_number.h"

namespace inflight {
namespace {

constexpr int32_t kPortMax = 65535;
constexpr uint64_t kSeedStep = 0x9E3779B97F4A7C15ULL;  // keeps the streams of two seeds apart

}  // namespace

LoadTarget parse_load_target(std::string_view base_url, std::string_view endpoint) {
  constexpr std::string_view kScheme = "http://";
  if (!base_url.starts_with(kScheme)) {
    fail(ErrorCode::InvalidArgument, "--base-url is '{}', allowed: http://HOST[:PORT][/PATH] (no TLS)", base_url);
  }
  if (!endpoint.starts_with('/')) {
    fail(ErrorCode::InvalidArgument, "--endpoint is '{}', allowed: a path that begins with '/'", endpoint);
  }
  std::string_view place = base_url.substr(kScheme.size());
  std::string_view path = place.substr(std::min(place.size(), place.find('/')));
  place = place.substr(0, place.size() - path.size());
  while (path.ends_with('/')) path.remove_suffix(1);
  // An IPv6 address has brackets around its colons.
  const size_t colon = place.find(':', place.starts_with('[') ? std::min(place.size(), place.find(']')) : 0);
  std::string_view host = place.substr(0, colon);
  if (host.starts_with('[')) host = host.ends_with(']') ? host.substr(1, host.size() - 2) : "";
  const std::string_view port = colon == std::string_view::npos ? "80" : place.substr(colon + 1);
  const auto number = parse_number<int32_t>(port);
  if (host.empty() || !number || *number < 1 || *number > kPortMax) {
    fail(ErrorCode::InvalidArgument, "--base-url is '{}', allowed: http://HOST[:PORT][/PATH], a port from 1 to {}",
         base_url, kPortMax);
  }
  return {.host = std::string(host),
          .port = std::string(port),
          .authority = std::string(place),
          .path = std::string(path) + std::string(endpoint),
          .chat = endpoint.ends_with("/chat/completions")};
}

void set_arrivals(Workload& workload, double rate, double burstiness, uint64_t seed) {
  Rng rng(seed);
  double now_s = 0.0;
  for (SimRequest& request : workload.requests) {
    if (request.after != kNoRequest) continue;
    if (now_s > kSimSecondsMax) {
      fail(ErrorCode::InvalidArgument, "at {} requests a second the last one comes after more than {:.0f} s", rate,
           kSimSecondsMax);
    }
    request.arrival = static_cast<TimeNs>(now_s * 1e9);
    if (std::isfinite(rate)) now_s += draw_gamma(rng, burstiness) / rate;
  }
}

std::string load_body(const Workload& workload, size_t index, const LoadOptions& options) {
  const SimRequest& request = workload.requests[index];
  std::vector<TokenId> ids;
  for (const ContentSegment& segment : workload.prompt(request)) {
    append_stream(segment.stream + options.seed * kSeedStep, segment.offset, segment.count, ids);
  }
  const auto span = static_cast<uint32_t>(options.end_token_id - options.first_token_id);
  for (TokenId& id : ids) id = options.first_token_id + static_cast<TokenId>(static_cast<uint32_t>(id) % span);
  nlohmann::json body = {{"max_tokens", request.output_tokens},
                         {"stream", true},
                         {"stream_options", {{"include_usage", true}}},
                         {"temperature", 0}};
  if (options.ignore_eos) body["ignore_eos"] = true;
  if (!options.model.empty()) body["model"] = options.model;
  if (options.target.chat) {
    std::string text;
    for (const TokenId id : ids) text += "w" + std::to_string(id) + " ";
    body["messages"] = {{{"role", "user"}, {"content", text}}};
  } else {
    body["prompt"] = ids;
  }
  body.update(options.extra_body);
  return body.dump();
}

}  // namespace inflight
