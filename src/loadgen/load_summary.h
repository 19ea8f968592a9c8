// SPDX-License-Identifier: Apache-2.0
// What a run came to, by the names of vLLM's `bench serve`:
//   TTFT  from sending a request to its first token        ITL   every gap between two tokens, of all requests
//   TPOT  (last - first) / (tokens - 1) of a request       E2EL  from sending to the last token
// Latencies are those of complete requests; throughput is over the time from the first request sent to the last token.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "loadgen/load_run.h"
#include "sim/sim_result.h"

namespace inflight {

// Milliseconds that a good request keeps.
struct ServiceLevel {
  double ttft_ms = std::numeric_limits<double>::infinity();
  double tpot_ms = std::numeric_limits<double>::infinity();
  double e2el_ms = std::numeric_limits<double>::infinity();
  [[nodiscard]] bool given() const;
};
// "ttft:200", "tpot:50", "e2el:3000".  ERRORS: InvalidArgument naming what is wrong and what is allowed.
[[nodiscard]] ServiceLevel parse_service_level(std::span<const std::string> goals);

struct LoadSummary {
  double request_rate = std::numeric_limits<double>::infinity();  // as asked for
  std::string arrivals_of;  // whose own they are, where no rate was asked for: "workload", "trace"
  double duration_s = 0.0;
  int64_t completed = 0, failed = 0, good = 0;
  int64_t input_tokens = 0, output_tokens = 0;
  int32_t max_concurrent = 0;
  double client_cpu_share = 0.0;
  double late_max_ms = 0.0;
  bool with_goodput = false;
  LatencySummary ttft, itl, tpot, e2el;
  std::vector<std::string> errors;  // different ones, the first few
};
[[nodiscard]] LoadSummary summarize(const LoadRecords& records, const ServiceLevel& level);

[[nodiscard]] nlohmann::ordered_json to_json(const LoadSummary& summary);
// A block of lines for one run; a line a run for several, and where latency leaves its flat part.
[[nodiscard]] std::string to_text(const LoadSummary& summary);
[[nodiscard]] std::string to_table(std::span<const LoadSummary> runs);
// Latencies and throughput over the request rate, as one HTML page with inline SVG.
[[nodiscard]] std::string sweep_html(std::string_view title, std::span<const LoadSummary> runs);

}  // namespace inflight
