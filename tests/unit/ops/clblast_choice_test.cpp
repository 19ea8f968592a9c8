// SPDX-License-Identifier: Apache-2.0
// CLBlast is used only after a trial that gave the right bits; trials are kept.
#include "ops/clblast_choice.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <span>
#include <sstream>

#include "device/binary_cache.h"
#include "support/cache_folder.h"
#include "support/expect_error.h"

namespace inflight {
namespace {

class ClblastChoice : public testing::Test {
 protected:
  void SetUp() override {
    if (!Clblast::available()) GTEST_SKIP() << "libclblast.so.1 is not installed";
  }

  test::CacheFolder cache_;
  Device device_ = Device::open({});
};

TEST(LinearBackend, NamesAreParsed) {
  EXPECT_EQ(parse_linear_backend("auto"), LinearBackend::Auto);
  EXPECT_EQ(parse_linear_backend("panel"), LinearBackend::Panel);
  EXPECT_EQ(parse_linear_backend("clblast"), LinearBackend::Clblast);
  EXPECT_EQ(parse_linear_backend("Clblast"), std::nullopt);
}

TEST(ClblastRecord, TextComesBack) {
  const ClblastTrialResult written{.state = TrialState::Good,
                                   .reason = {},
                                   .use = {.from_rows = 64, .parameters = {{"MWG", 32}, {"NWG", 16}}},
                                   .gflops = 12.5,
                                   .panel_gflops = 11.25};
  const ClblastTrialResult read = parse_clblast_trial(to_text(written));
  EXPECT_EQ(read.state, TrialState::Good);
  EXPECT_EQ(read.use.from_rows, 64);
  EXPECT_EQ(read.use.parameters, written.use.parameters);
  EXPECT_EQ(read.gflops, 12.5);
  EXPECT_EQ(read.panel_gflops, 11.25);
  EXPECT_EQ(parse_clblast_trial(to_text({.state = TrialState::Bad, .reason = "two\nlines"})).reason, "two lines");
}

TEST(ClblastRecord, DamagedTextIsUntried) {
  const std::string good = to_text({.state = TrialState::Good, .use = {.from_rows = 1, .parameters = {{"MWG", 32}}}});
  ASSERT_EQ(parse_clblast_trial(good).state, TrialState::Good);
  for (const std::string& text :
       {std::string(), std::string("9 0 here 1 1 1 1 1 1 0"), std::string("2 0 here 1 1 1 -4 1 1 0"),
        std::string("2 0 here 1 1 1 1 1 1 9999999"), good.substr(0, good.size() - 5)}) {
    EXPECT_EQ(parse_clblast_trial(text).state, TrialState::Untried) << text;
  }
}

TEST(ClblastRecord, ATrialThatEndedTwoProcessesIsBad) {
  EXPECT_EQ(parse_clblast_trial(to_text({.state = TrialState::Running})).state, TrialState::Running);
  EXPECT_EQ(parse_clblast_trial("1 0 elsewhere 0 0 0 0 0 0 0 ").state, TrialState::Untried);
  const ClblastTrialResult twice = parse_clblast_trial("1 1 elsewhere 0 0 0 0 0 0 0 ");
  EXPECT_EQ(twice.state, TrialState::Bad);
  EXPECT_EQ(twice.reason, kTrialNeverEnded);
}

// Path, size, time.
TEST_F(ClblastChoice, TheLibraryIsKnownByItsFile) {
  std::istringstream identity(Clblast::identity());
  std::string path, bytes, changed;
  identity >> path >> bytes >> changed;
  ASSERT_TRUE(std::filesystem::exists(path)) << path;
  EXPECT_NE(path.find("libclblast"), std::string::npos);
  EXPECT_EQ(bytes, std::to_string(std::filesystem::file_size(path)));
  EXPECT_NE(changed, "");
}

TEST_F(ClblastChoice, ARecordIsOfOneLibrary) {
  const ClblastTrialResult good{.state = TrialState::Good, .use = {.from_rows = 64, .parameters = {}}};
  store_clblast_trial(device_.info(), good);
  EXPECT_EQ(stored_clblast_trial(device_.info()).state, TrialState::Good);
  const std::string key = std::filesystem::directory_iterator(cache_folder())->path().filename();
  const BinaryCache cache(cache_folder());
  for (const std::string& text :
       {"/another/libclblast.so.1 4711 1\n" + to_text(good), to_text(good), std::string("\n")}) {
    cache.store(key, std::as_bytes(std::span(text)));
    EXPECT_EQ(stored_clblast_trial(device_.info()).state, TrialState::Untried) << text;
  }
}

TEST_F(ClblastChoice, WhatIsStoredDecides) {
  EXPECT_EQ(choose_clblast(device_, LinearBackend::Panel).from_rows, 0);
  if (device_.info().host_code) {
    EXPECT_EQ(choose_clblast(device_, LinearBackend::Auto).from_rows, 0);
  }
  store_clblast_trial(device_.info(),
                      {.state = TrialState::Good, .use = {.from_rows = 64, .parameters = {{"MWG", 8}}}});
  EXPECT_EQ(choose_clblast(device_, LinearBackend::Auto).from_rows, 64);
  const ClblastUse forced = choose_clblast(device_, LinearBackend::Clblast);
  EXPECT_EQ(forced.from_rows, 1);
  EXPECT_EQ(forced.parameters.size(), 1U);
  store_clblast_trial(device_.info(), {.state = TrialState::Bad, .reason = "wrong bits"});
  EXPECT_EQ(choose_clblast(device_, LinearBackend::Auto).from_rows, 0);
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "wrong bits",
                        [&] { (void)choose_clblast(device_, LinearBackend::Clblast); });
}

// The device's compiler refuses a work-group that is larger than it has.
TEST_F(ClblastChoice, ParametersThatDoNotWorkAreBad) {
  const ClblastTrialResult result = try_clblast(device_, {{"MWG", 64}});
  EXPECT_EQ(result.state, TrialState::Bad);
  EXPECT_NE(result.reason, "");
}

TEST_F(ClblastChoice, CandidatesFitTheDevice) {
  DeviceInfo small = device_.info();
  const size_t all = clblast_candidates(small).size();
  small.work_group_size_max = 64;
  const size_t fewer = clblast_candidates(small).size();
  EXPECT_GT(all, fewer);
  EXPECT_GT(fewer, 0U);
  small.local_memory_bytes = 1024;
  EXPECT_LT(clblast_candidates(small).size(), fewer);
}

}  // namespace
}  // namespace inflight
