// SPDX-License-Identifier: Apache-2.0
// Goal: every shipped policy serves the published traces without a mistake, nobody is lost, and what is computed adds
// up. Method: the first requests of each trace, fifty times as fast as they came, on a device too slow for them; sums
// against the files read here, line by line. Skipped where the traces are not beside the checkout.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "plugin_host/plugin_registry.h"
#include "sim/sim_spec.h"
#include "support/simulated.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

constexpr int32_t kRequests = 60;

struct Sums {
  int64_t requests = 0, prompt = 0, output = 0;
};

// The trace's own figures: CSV columns 2 and 3, JSON keys input_length and output_length.
Sums sums_of(const std::string& path) {
  Sums sums;
  std::ifstream file(path);
  std::string line;
  const bool csv = path.ends_with(".csv");
  if (csv) std::getline(file, line);
  while (sums.requests < kRequests && std::getline(file, line)) {
    ++sums.requests;
    if (csv) {
      std::istringstream fields(line);
      std::string time, prompt, output;
      std::getline(fields, time, ',');
      std::getline(fields, prompt, ',');
      std::getline(fields, output, ',');
      sums.prompt += std::stoll(prompt);
      sums.output += std::stoll(output);
    } else {
      const auto json = nlohmann::json::parse(line);
      sums.prompt += json.at("input_length").get<int64_t>();
      sums.output += json.at("output_length").get<int64_t>();
    }
  }
  return sums;
}

class PublishedTrace : public testing::TestWithParam<const char*> {};

TEST_P(PublishedTrace, IsServedByEveryPolicy) {
  const std::string path = shared_path("traces/") + GetParam();
  INFLIGHT_REQUIRE_FILE(path);
  const Sums sums = sums_of(path);
  std::vector<std::string> problems;
  int runs = 0;
  for (const PluginRegistry::Listed& policy : plugin_registry().list(problems)) {
    if (policy.origin != "built in") continue;
    nlohmann::json spec = {{"trace", path},         {"trace_requests", kRequests}, {"trace_speed", 50},
                           {"device", "pocl-135m"}, {"max_num_seqs", 16},          {"max_num_batched_tokens", 2048},
                           {"kv_blocks", 16384}};
    spec[policy.kind == INFLIGHT_KIND_SCHED ? "policy" : "evict"] = policy.id;
    const auto result = simulated(spec);
    EXPECT_EQ(result["requests"], sums.requests) << policy.id;
    EXPECT_EQ(result["requests_rejected"], 0) << policy.id;
    EXPECT_EQ(result["prompt_tokens"], sums.prompt) << policy.id;
    EXPECT_EQ(result["output_tokens"], sums.output) << policy.id;
    EXPECT_EQ(result["policy_strikes"], 0) << policy.id;
    // Every prompt token once unless it was stored, every output token but the last.
    EXPECT_EQ(result["scheduled_tokens"].get<int64_t>(), sums.prompt - result["cached_tokens"].get<int64_t>() +
                                                             sums.output - sums.requests +
                                                             result["recomputed_tokens"].get<int64_t>())
        << policy.id;
    ++runs;
  }
  EXPECT_GE(runs, 24);
}
INSTANTIATE_TEST_SUITE_P(All, PublishedTrace,
                         testing::Values("azure_llm_2023_code.csv", "azure_llm_2023_conv.csv",
                                         "mooncake_conversation.jsonl"),
                         [](const auto& test) {
                           return std::string(test.param).substr(0, std::string(test.param).find('.'));
                         });

}  // namespace
}  // namespace inflight::test
