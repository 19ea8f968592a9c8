// SPDX-License-Identifier: Apache-2.0
// Goal: in an engine with its own thread and many clients, a policy that misbehaves in any way is taken out; every
// request is answered as if it were alone, and the report names the fault.
// Method: tests/plugins/hostile.cpp and faulty.c, loaded from the begin and put in while requests run.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "support/engine_world.h"
#include "support/temp_folder.h"

namespace inflight::test {
namespace {

std::string plugin(const std::string& spec) { return std::string(TEST_PLUGIN_DIR) + "/" + spec; }

// Reports of taken-out policies go to $INFLIGHT_REPORT_DIR.
class ReportFolder {
 public:
  ReportFolder() {
    if (const char* const old = std::getenv(kName)) old_ = old;
    ::setenv(kName, folder_.path().c_str(), 1);
  }
  ~ReportFolder() { ::setenv(kName, old_.c_str(), 1); }
  [[nodiscard]] std::vector<nlohmann::json> reports() const {
    std::vector<nlohmann::json> result;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      std::ifstream file(entry.path());
      result.push_back(nlohmann::json::parse(file));
    }
    return result;
  }

 private:
  static constexpr const char* kName = "INFLIGHT_REPORT_DIR";
  TempFolder folder_;
  std::string old_;
};

// Eight clients, six requests each, one after the other.
void serve_clients(Engine& engine) {
  std::vector<std::jthread> clients;
  for (TokenId client = 0; client < 8; ++client) {
    clients.emplace_back([&engine, client] {
      for (TokenId i = 0; i < 6; ++i) {
        SubmitOptions request{.prompt = {client, i, 3}};
        request.sampling.max_tokens = 20;
        request.tenant = static_cast<uint32_t>(client);
        EXPECT_EQ(read_answer(engine.submit(request)).tokens, output_alone({client, i, 3}, 20));
      }
    });
  }
}

class HostileEngine : public testing::TestWithParam<const char*> {};

TEST_P(HostileEngine, AnswersEverybodyAndNamesTheFault) {
#if defined(__SANITIZE_THREAD__)
  if (std::string(GetParam()).find("sleep") != std::string::npos) GTEST_SKIP();  // it holds signals back
#endif
  const ReportFolder folder;
  EngineOptions options = engine_options();
  options.setup.schedule_policy = plugin(GetParam());
  int64_t strikes = 0;
  {
    EngineWorld world(options);
    serve_clients(*world.engine);
    EXPECT_TRUE(world.engine->drain());
    strikes = world.engine->stats().policy_strikes;
    const std::string metrics = world.engine->metrics_text();
    EXPECT_NE(metrics.find("inflight_policy_active{kind=\"schedule\"} 0\n"), std::string::npos);
    EXPECT_NE(metrics.find("inflight_policy_active{kind=\"eviction\"} 1\n"), std::string::npos);
    EXPECT_TRUE(world.engine->healthy());
    EXPECT_EQ(world.engine->stats().scheduler.requests_finished, 48);
    EXPECT_EQ(world.engine->stats().blocks_referenced, 0);
  }
  EXPECT_GE(strikes, 1);
  const auto reports = folder.reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_FALSE(reports[0]["fault"]["message"].get<std::string>().empty());
  EXPECT_EQ(reports[0]["policy"]["spec"], plugin(GetParam()));
}
INSTANTIATE_TEST_SUITE_P(All, HostileEngine,
                         testing::Values("hostile.ifp.so:fault=segv", "hostile.ifp.so:fault=throw",
                                         "hostile.ifp.so:fault=loop", "hostile.ifp.so:fault=sleep"));

TEST(HostileSwap, ACandidateThatCrashesOnTrialLeavesTheOldPolicy) {
  const ReportFolder folder;
  EngineWorld world(engine_options());
  std::jthread swapper([&] {
    world.engine->set_policy(plugin("hostile.ifp.so:fault=segv,from=1"));
    EXPECT_THROW(world.engine->set_policy(plugin("minor.ifp.so")), Error);  // lies about its version
    EXPECT_THROW(world.engine->set_policy(plugin("no_symbol.ifp.so")), Error);
  });
  serve_clients(*world.engine);
  swapper.join();
  serve_clients(*world.engine);
  EXPECT_TRUE(world.engine->drain());
  EXPECT_EQ(world.engine->stats().scheduler.requests_finished, 96);
  ASSERT_EQ(folder.reports().size(), 1U);
  EXPECT_EQ(folder.reports()[0]["fault"]["reason"], "crash");
}

}  // namespace
}  // namespace inflight::test
