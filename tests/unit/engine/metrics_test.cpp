// SPDX-License-Identifier: Apache-2.0
// Goal: the metrics say what the clients have seen, exactly, in a form that Prometheus reads (checklist 65, 104-110,
// 114-116). Method: an engine in virtual time, where every latency is known beforehand; the text is read by Prometheus'
// own Python client.
// Covers: engine/metrics.cpp, engine/prometheus_text.cpp
#include "engine/metrics.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/log.h"
#include "base/rng.h"
#include "engine/prometheus_text.h"
#include "support/engine_world.h"
#include "support/temp_folder.h"

namespace inflight::test {
namespace {

// nullopt: Prometheus' client is not installed here.
std::optional<nlohmann::json> parse(const std::string& text) {
  const TempFolder folder;
  const std::string path = folder.write("metrics.txt", text);
  const std::string command =
      "/usr/bin/env -i /usr/bin/python3 " INFLIGHT_SOURCE_DIR "/tests/support/parse_metrics.py < " + path;
  std::FILE* const pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  const int status = WEXITSTATUS(pclose(pipe));
  if (status == 3) return std::nullopt;
  EXPECT_EQ(status, 0) << text;
  return status == 0 ? nlohmann::json::parse(out) : nlohmann::json::object();
}

#define PARSE_OR_SKIP(name, text)                                                   \
  const auto name##_parsed = parse(text);                                           \
  if (!name##_parsed) GTEST_SKIP() << "python3-prometheus-client is not installed"; \
  const auto name = [&](const std::string& key) { return name##_parsed->at(key).get<double>(); }

TEST(PrometheusText, EscapesAndSpellsNumbers) {
  const MetricLabel common[] = {{"model_name", "a \"quoted\" \\ name\nof two lines"}};
  PrometheusText out("x_", common);
  out.gauge("odd", "A \\ and a\nline end.");
  out.sample(0.25);
  out.sample(INFINITY, {{"which", "large"}});
  out.sample(1e15, {{"which", "whole"}});
  const double bounds[] = {0.5, 2};
  const int64_t counts[] = {1, 0, 3};
  out.histogram("sizes", "Sizes.", bounds, counts, 12.5);
  const std::string text = out.take();
  EXPECT_NE(text.find("# HELP x_odd A \\\\ and a\\nline end.\n# TYPE x_odd gauge\n"), std::string::npos) << text;
  PARSE_OR_SKIP(value, text);
  const std::string model = "model_name=a \"quoted\" \\ name\nof two lines";
  EXPECT_EQ(value("x_odd{" + model + "}"), 0.25);
  EXPECT_EQ(value_parsed->at("x_odd{" + model + ",which=large}"), "inf");
  EXPECT_EQ(value("x_odd{" + model + ",which=whole}"), 1e15);
  EXPECT_EQ(value("x_sizes_bucket{le=0.5," + model + "}"), 1);
  EXPECT_EQ(value("x_sizes_bucket{le=2," + model + "}"), 1);
  EXPECT_EQ(value("x_sizes_bucket{le=+Inf," + model + "}"), 4);
  EXPECT_EQ(value("x_sizes_sum{" + model + "}"), 12.5);
}

TEST(Metrics, HistogramBoundsAreInclusive) {
  static constexpr double kBounds[] = {1.0, 2.0};
  Histogram histogram(kBounds);
  for (const double value : {0.5, 1.0, 1.5, 2.0, 3.0}) histogram.observe(value);
  EXPECT_EQ(histogram.counts(), (std::vector<int64_t>{2, 2, 1}));
  EXPECT_EQ(histogram.sum(), 8.0);
}

// One request in virtual time: a step is a millisecond, so every latency is known (checklist 105, 106, 107).
TEST(Metrics, LatenciesAreThoseOfTheSteps) {
  EngineOptions options = EngineWorld::host_driven();
  options.overlap = false;
  EngineWorld world(options);
  world.clock.advance(7'000'000'000);
  SubmitOptions request{.prompt = std::vector<TokenId>(100, 3)};  // 48 + 48 + 4 tokens: three steps
  request.sampling.max_tokens = 5;
  OutputStream* const stream = world.engine->submit(request);
  world.clock.advance(2 * EngineWorld::kStep);  // waits for two
  world.run();
  read_answer(stream);
  PARSE_OR_SKIP(value, world.engine->metrics_text("vllm:"));
  EXPECT_NEAR(value("vllm:request_queue_time_seconds_sum"), 0.002, 1e-9);
  EXPECT_NEAR(value("vllm:request_prefill_time_seconds_sum"), 0.003, 1e-9);
  EXPECT_NEAR(value("vllm:request_decode_time_seconds_sum"), 0.004, 1e-9);
  EXPECT_NEAR(value("vllm:time_to_first_token_seconds_sum"), 0.005, 1e-9);
  EXPECT_NEAR(value("vllm:inter_token_latency_seconds_sum"), 0.004, 1e-9);
  EXPECT_EQ(value("vllm:inter_token_latency_seconds_count"), 4);
  EXPECT_NEAR(value("vllm:request_time_per_output_token_seconds_sum"), 0.001, 1e-9);
  EXPECT_NEAR(value("vllm:e2e_request_latency_seconds_sum"), 0.009, 1e-9);
  EXPECT_EQ(value("vllm:iteration_tokens_total_count"), 7);
  EXPECT_EQ(value("vllm:iteration_tokens_total_sum"), 104);
  EXPECT_EQ(value("vllm:request_success_total{finished_reason=length}"), 1);
  EXPECT_EQ(value("vllm:policy_active{kind=schedule}"), 1);
  EXPECT_EQ(value("vllm:policy_active{kind=eviction}"), 1);
  // checklist 115: the stages are the engine's whole life.
  double stages = 0;
  for (const char* stage : {"commands", "plan", "submit", "wait", "commit", "deliver", "idle"}) {
    stages += value("vllm:engine_seconds_total{stage=" + std::string(stage) + "}");
  }
  EXPECT_NEAR(stages, 0.007, 1e-9);
}

// checklist 65, 95, 104, 108, 109: counters equal what the clients have counted themselves.
TEST(Metrics, CountersEqualTheClientsOwn) {
  EngineOptions options = EngineWorld::host_driven(engine_options(40));
  options.model_name = "tiny \"one\"";
  options.setup.block_bytes = 1000;
  EngineWorld world(options);
  Rng rng(5);
  int64_t prompt = 0, output = 0, cached = 0, preempted = 0;
  std::vector<OutputStream*> streams;
  for (int i = 0; i < 60; ++i) {
    SubmitOptions request;
    const int32_t length = rng.between(1, 80), shared = rng.between(0, length);
    for (int32_t k = 0; k < length; ++k) request.prompt.push_back(k < shared ? k % 60 : rng.between(0, 63));
    request.sampling.max_tokens = rng.between(1, 40);
    prompt += length;
    streams.push_back(world.engine->submit(request));
    for (int k = rng.between(0, 2); k > 0; --k) world.engine->step();
  }
  const EngineStats middle = world.engine->stats();
  PARSE_OR_SKIP(during, world.engine->metrics_text());
  const std::string model = "model_name=tiny \"one\"";
  EXPECT_EQ(during("inflight_num_requests_running{" + model + "}"), middle.running);
  EXPECT_EQ(during("inflight_batch_occupancy_perc{" + model + "}"), middle.running / 8.0);
  EXPECT_EQ(during("inflight_kv_blocks{" + model + ",state=referenced}"), middle.blocks_referenced);
  EXPECT_EQ(during("inflight_kv_blocks{" + model + ",state=free}") +
                during("inflight_kv_blocks{" + model + ",state=stored}") +
                during("inflight_kv_blocks{" + model + ",state=referenced}"),
            40);
  EXPECT_GT(during("inflight_kv_cache_usage_perc{" + model + "}"), 0.5);
  EXPECT_EQ(during("inflight_saturated{" + model + "}"), middle.waiting > 0 ? 1 : 0);
  world.run();
  for (OutputStream* stream : streams) {
    const Answer answer = read_answer(stream);
    output += static_cast<int64_t>(answer.tokens.size());
    cached += answer.last.cached_token_count;
    preempted += answer.last.progress.preemption_count;
  }
  const auto after_parsed = parse(world.engine->metrics_text());
  const auto value = [&](const std::string& name) { return after_parsed->at(name + "{" + model + "}").get<double>(); };
  EXPECT_EQ(value("inflight_prompt_tokens_total"), prompt);
  EXPECT_EQ(value("inflight_request_prompt_tokens_sum"), prompt);
  EXPECT_EQ(value("inflight_prefix_cache_queries_total"), prompt);
  EXPECT_EQ(value("inflight_prefix_cache_hits_total"), cached);
  EXPECT_EQ(value("inflight_generation_tokens_total"), output);
  EXPECT_EQ(value("inflight_request_generation_tokens_sum"), output);
  EXPECT_GT(preempted, 0);
  EXPECT_EQ(value("inflight_num_preemptions_total"), preempted);
  EXPECT_EQ(value("inflight_request_num_preemptions_sum"), preempted);
  EXPECT_EQ(value("inflight_num_requests_total"), 60);
  EXPECT_EQ(value("inflight_e2e_request_latency_seconds_count"), 60);
  EXPECT_EQ(value("inflight_num_requests_running"), 0);
}

// checklist 66: one line a preemption storm, with what was lost and what to turn. checklist 114: figures every N steps.
TEST(Metrics, LogsPreemptionsSparinglyAndFiguresRegularly) {
  std::vector<std::string> warnings, figures;
  set_log_sink([&](LogLevel level,
                   std::string_view line) { (level == LogLevel::Warning ? warnings : figures).emplace_back(line); },
               LogLevel::Info);
  EngineOptions options = EngineWorld::host_driven(engine_options(33));
  options.service.log_interval_steps = 10;
  EngineWorld world(options);
  std::vector<OutputStream*> streams;
  for (TokenId i = 0; i < 8; ++i) {
    SubmitOptions request{.prompt = {i, 2, 3}};
    request.sampling.max_tokens = 60;
    streams.push_back(world.engine->submit(request));
  }
  world.run();
  set_log_sink({}, LogLevel::Error);
  for (OutputStream* stream : streams) read_answer(stream);
  EXPECT_GT(world.engine->stats().scheduler.preemptions, 1);
  ASSERT_EQ(warnings.size(), 1U);  // the whole run is shorter than ten seconds
  EXPECT_NE(warnings[0].find("was preempted and loses"), std::string::npos);
  EXPECT_NE(warnings[0].find("of 33 blocks were in use"), std::string::npos);
  EXPECT_NE(warnings[0].find("Raise kv_blocks"), std::string::npos);
  EXPECT_EQ(static_cast<int64_t>(figures.size()), world.engine->stats().scheduler.steps / 10);
  EXPECT_EQ(figures[0].find("step=10 running=8 waiting=0 kv_used_blocks="), 0U) << figures[0];
}

// Who makes room for a better priority does not do so for want of KV blocks.
TEST(EngineLog, NoWarningOfPreemptionsByPriority) {
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel, std::string_view line) { warnings.emplace_back(line); }, LogLevel::Warning);
  EngineOptions options = EngineWorld::host_driven(engine_options(33));
  options.setup.config.max_num_seqs = 2;
  options.setup.config.priority_preemption_threshold = 0;
  EngineWorld world(options);
  std::vector<OutputStream*> streams;
  for (const int32_t priority : {5, 5, 0}) {
    SubmitOptions request{.prompt = {1, 2, 3}};
    request.sampling.max_tokens = 20;
    request.priority = priority;
    streams.push_back(world.engine->submit(request));
    world.engine->step();
    world.engine->step();
  }
  world.run();
  set_log_sink({}, LogLevel::Error);
  for (OutputStream* stream : streams) read_answer(stream);
  EXPECT_EQ(world.engine->stats().scheduler.preemptions, 1);
  EXPECT_TRUE(warnings.empty()) << warnings.front();
}

// Truth: the limits that reconfigure() sets are in force.
TEST(EngineMetrics, OccupancyIsOfTheLimitInForce) {
  EngineWorld world(EngineWorld::host_driven());
  world.engine->reconfigure(R"({"max_num_seqs": 2, "max_num_batched_tokens": 24})");
  SubmitOptions request{.prompt = {1, 2, 3}};
  request.sampling.max_tokens = 9;
  OutputStream* const stream = world.engine->submit(request);
  world.engine->step();
  EXPECT_NE(world.engine->metrics_text().find("batch_occupancy_perc 0.5\n"), std::string::npos);
  EXPECT_NE(world.engine->steps_json(0).find(R"("max_num_seqs":2,"max_num_batched_tokens":24)"), std::string::npos);
  world.run();
  read_answer(stream);
}

TEST(EngineStats, RatesCoverTheLastThirtySeconds) {
  constexpr TimeNs kSecond = 1'000'000'000;
  RateWindow young;
  for (int i = 0; i < 5; ++i) young.add((100 + i) * kSecond, 2);
  EXPECT_EQ(young.per_second(105 * kSecond), 2.0);
  RateWindow window;
  for (int i = 0; i < 60; ++i) window.add(i * kSecond, 3);
  EXPECT_EQ(window.per_second(59 * kSecond), 3.0);
  EXPECT_EQ(window.per_second(74 * kSecond), 1.5);
  EXPECT_EQ(window.per_second(200 * kSecond), 0.0);
}

}  // namespace
}  // namespace inflight::test
