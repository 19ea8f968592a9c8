// SPDX-License-Identifier: Apache-2.0
// How a server is to be loaded, and with what.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "sim/workload.h"

namespace inflight {

// Where requests go.
struct LoadTarget {
  std::string host;  // an IPv6 address without its brackets
  std::string port;
  std::string authority;  // as the Host field has it
  std::string path;       // of the base URL and the endpoint
  bool chat = false;      // messages instead of a prompt
};
// base_url: http://HOST[:PORT][/PATH].  ERRORS: InvalidArgument naming the part and what is allowed.
[[nodiscard]] LoadTarget parse_load_target(std::string_view base_url, std::string_view endpoint);

struct LoadOptions {
  LoadTarget target;
  std::string model;                                 // empty: left out
  std::string api_key;                               // empty: none
  int32_t first_token_id = 10, end_token_id = 1000;  // prompts are made of ids in [first, end)
  uint64_t seed = 1;  // other prompts, so that a server's stored prefixes of a run before are of no use
  bool ignore_eos = true;
  nlohmann::json extra_body = nlohmann::json::object();  // merged into every request
  int32_t max_concurrency = 0;                           // requests at once; 0 = no limit
  std::chrono::seconds timeout{600};                     // of a request without a byte from the server
};

// Other arrivals than the workload's: gaps of a gamma distribution with mean 1 / rate and shape `burstiness` (1:
// Poisson); an infinite rate: all at the begin. Requests with `after` keep theirs.   REQUIRES: rate > 0, burstiness >
// 0. ERRORS: InvalidArgument when the rate is so low that a request would come after kSimSecondsMax.
void set_arrivals(Workload& workload, double rate, double burstiness, uint64_t seed);

// The body of request `index`: token ids as the workload's content says, or, to a chat, a word for each token.
[[nodiscard]] std::string load_body(const Workload& workload, size_t index, const LoadOptions& options);

}  // namespace inflight
