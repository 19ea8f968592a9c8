// SPDX-License-Identifier: Apache-2.0
// A kernel file is used only after its trial; trials are kept, and what ended its process twice is not tried again.
#include "ops/linear_choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <locale>

#include "base/log.h"
#include "device/binary_cache.h"
#include "device/program.h"
#include "ops/linear_trial.h"
#include "ops/tuned_linear.h"
#include "support/cache_folder.h"
#include "support/pretended_device.h"

namespace inflight {
namespace {

// As in German: 1.234,5.
class GroupsByPoint final : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

class LinearChoice : public testing::Test {
 protected:
  // What a process leaves that ends while it tries `file`, as others did before.
  void leave_trial(const std::string& file, int32_t unfinished, PanelTypes types = kAllPanelTypes) {
    const std::string text = "1 " + std::to_string(unfinished) + " elsewhere 0 0 0 0 0 ";  // very long ago
    for (const PanelType type : kPanelTypes) {
      if ((types & type_bit(type)) == 0) continue;
      const ProgramSource source = linear_trial_source(device_.info(), file, type_bit(type));
      BinaryCache(cache_folder())
          .store("linear-" + program_cache_key(device_.info(), source), std::as_bytes(std::span(text)));
    }
  }

  test::CacheFolder cache_;
  Device device_ = Device::open({});
};

TEST_F(LinearChoice, KeepsWhatItFound) {
  const std::string chosen = choose_linear_file(device_);
  const std::vector<std::string> files = linear_files(device_.info());
  EXPECT_EQ(files.back(), "linear.cl");
  if (files.size() > 1) {
    const LinearTrialResult stored = stored_trial(device_.info(), chosen);
    EXPECT_EQ(stored.state, TrialState::Good);
    EXPECT_GT(stored.batch_gflops, 0);
    const std::locale before = std::locale::global(std::locale(std::locale::classic(), new GroupsByPoint));
    EXPECT_EQ(stored_trial(device_.info(), chosen).state, TrialState::Good);
    std::locale::global(before);
    forget_trial(device_.info(), chosen);
    EXPECT_EQ(stored_trial(device_.info(), chosen).state, TrialState::Untried);
  }
  const LinearTrialResult again = try_linear_file(device_, "linear.cl");
  EXPECT_EQ(again.state, TrialState::Good) << again.reason;
}

TEST_F(LinearChoice, TriesWhatAModelHas) {
  constexpr PanelTypes kBytes = type_bit(PanelType::Q8_0), kNibbles = type_bit(PanelType::Q4_0);
  const std::string chosen = choose_linear_file(device_, kBytes);
  if (chosen == kPortableLinear) GTEST_SKIP() << "the one file of this device";
  const LinearTrialResult of_bytes = stored_trial(device_.info(), chosen, kBytes);
  EXPECT_EQ(of_bytes.state, TrialState::Good);
  for (const PanelTypes others : {kNibbles, type_bit(PanelType::F32), kBytes | kNibbles, kAllPanelTypes}) {
    EXPECT_EQ(stored_trial(device_.info(), chosen, others).state, TrialState::Untried) << others;
  }
  // Another model: what is known stays as it is, to the last digit of its times.
  EXPECT_EQ(choose_linear_file(device_, kBytes | kNibbles), chosen);
  EXPECT_EQ(stored_trial(device_.info(), chosen, kNibbles).state, TrialState::Good);
  const LinearTrialResult of_both = stored_trial(device_.info(), chosen, kBytes | kNibbles);
  EXPECT_EQ(of_both.batch_gflops, of_bytes.batch_gflops);
  EXPECT_NE(stored_trial(device_.info(), chosen, kNibbles).batch_gflops, of_bytes.batch_gflops);
  EXPECT_EQ(choose_linear_file(device_, 0), chosen) << "a model without matrices";
  EXPECT_EQ(stored_trial(device_.info(), chosen).state, TrialState::Untried);
  // Wrong for one type: wrong for the models that have it.
  leave_trial(chosen, 1, kNibbles);
  EXPECT_EQ(choose_linear_file(device_, kBytes), chosen);
  EXPECT_EQ(stored_trial(device_.info(), chosen, kBytes | kNibbles).state, TrialState::Bad);
  EXPECT_NE(choose_linear_file(device_, kBytes | kNibbles), chosen);
}

TEST_F(LinearChoice, KnowsTimesForEveryTypeThatWasTried) {
  ASSERT_EQ(try_linear_file(device_, kPortableLinear, kAllPanelTypes).state, TrialState::Good);
  const double gflops = stored_trial(device_.info(), kPortableLinear).batch_gflops;
  EXPECT_GT(gflops, 0.0);
  for (const PanelType type : kPanelTypes) {
    EXPECT_EQ(stored_trial(device_.info(), kPortableLinear, type_bit(type)).batch_gflops, gflops);
  }
}

TEST(BestLinearFile, IsTheFirstOfThoseAboutAsFast) {
  const auto result = [](const char* file, TrialState state, double gflops) {
    return LinearTrialResult{.file = file, .state = state, .reason = {}, .batch_gflops = gflops};
  };
  using enum TrialState;
  EXPECT_EQ(best_linear_file(std::vector{result("a", Good, 100), result("b", Good, 119), result("c", Good, 50)}), "a");
  EXPECT_EQ(best_linear_file(std::vector{result("a", Good, 100), result("b", Good, 121), result("c", Good, 140)}), "b");
  EXPECT_EQ(best_linear_file(std::vector{result("a", Bad, 900), result("b", Good, 1), result("c", Untried, 9)}), "b");
  EXPECT_EQ(best_linear_file(std::vector{result("a", Bad, 900)}), "linear.cl");
  EXPECT_EQ(best_linear_file(std::vector{result("linear_amx.cl", Good, 100), result("b", Good, 140)}), "linear_amx.cl");
  EXPECT_EQ(best_linear_file(std::vector{result("linear_amx.cl", Bad, 100), result("b", Good, 40)}), "b");
}

// Covers: ops/tuned_linear.cpp
TEST_F(LinearChoice, WhatWasMeasuredBeforeIsTriedAlone) {
  const std::string tuned = tuned_linear_file(device_.info());
  if (tuned.empty()) GTEST_SKIP() << "nothing is known of this device";
  EXPECT_EQ(choose_linear_file(device_), tuned);
  EXPECT_EQ(stored_trial(device_.info(), tuned).state, TrialState::Good) << "it is verified like any other";
  for (const std::string& file : linear_files(device_.info())) {
    if (file == tuned) continue;
    EXPECT_EQ(stored_trial(device_.info(), file).state, TrialState::Untried) << file;
  }
  // Wrong here: the others are tried.
  leave_trial(tuned, 1);
  EXPECT_NE(choose_linear_file(device_), tuned);
}

TEST_F(LinearChoice, TilesAreUsedWhereTheyAreGoodWhateverWasMeasured) {
  if (!device_.info().cpu.amx_int8) GTEST_SKIP() << "this processor has no AMX, or Linux does not let it be used";
  for (const std::string& file : linear_files(device_.info())) try_linear_file(device_, file);
  EXPECT_EQ(choose_linear_file(device_), "linear_amx.cl");
  leave_trial("linear_amx.cl", 1);
  EXPECT_NE(choose_linear_file(device_), "linear_amx.cl");
}

TEST(TunedLinearTable, NamesFilesThatRunThere) {
  for (const TunedLinear& entry : tuned_linear_table()) {
    DeviceInfo info{.name = "one of " + std::string(entry.name) + "'s",
                    .platform = std::string(entry.platform),
                    .driver = std::string(entry.driver) + "+debian"};
    EXPECT_EQ(tuned_linear_file(info), "") << "without these features";
    info.type = DeviceType::Cpu;
    info.cpu.avx2 = info.cpu.fma = info.cpu.f16c = entry.features.find("f16c") != std::string::npos;
    info.cpu.avx512 = entry.features.find("avx512") != std::string::npos;
    info.cpu.avx_vnni = entry.features.find("avx_vnni") != std::string::npos;
    info.cpu.avx512_vnni = entry.features.find("avx512_vnni") != std::string::npos;
    EXPECT_EQ(info.cpu.describe(), entry.features);
    EXPECT_EQ(tuned_linear_file(info), entry.file);
    const std::vector<std::string> files = linear_files(info);
    EXPECT_NE(std::find(files.begin(), files.end(), entry.file), files.end()) << entry.file;
    info.platform = "another";
    EXPECT_EQ(tuned_linear_file(info), "");
  }
}

TEST_F(LinearChoice, AFileThatEndedTwoProcessesIsQuarantinedAndSaysSo) {
  test::info_of(device_).name += ", of which nothing was said before";
  const std::vector<std::string> files = linear_files(device_.info());
  for (const std::string& file : files) leave_trial(file, 1);
  EXPECT_EQ(stored_trial(device_.info(), "linear.cl").state, TrialState::Bad);
  EXPECT_EQ(stored_trial(device_.info(), "linear.cl").reason, kTrialNeverEnded);
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); }, LogLevel::Warning);
  EXPECT_EQ(choose_linear_file(device_), "linear.cl") << "the portable file is the last resort, whatever is stored";
  set_log_sink({}, LogLevel::Error);
  ASSERT_EQ(lines.size(), files.size());
  EXPECT_NE(lines.back().find("linear.cl is used, for want of another, on "), std::string::npos) << lines.back();
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_NE(lines[i].find(files[i]), std::string::npos) << lines[i];
}

TEST_F(LinearChoice, GpusTakeWorkGroups) {
  DeviceInfo& info = test::info_of(device_);
  info.type = DeviceType::Gpu;
  info.cpu = {};
  info.local_memory_bytes = size_t{48} << 10;
  info.work_group_size_max = 1024;
  EXPECT_EQ(linear_files(info), (std::vector<std::string>{kGroupsLinear, "linear.cl"}));
  EXPECT_EQ(choose_linear_file(device_), kGroupsLinear);
  EXPECT_EQ(stored_trial(info, kGroupsLinear).state, TrialState::Good);
  EXPECT_EQ(stored_trial(info, "linear.cl").state, TrialState::Untried);
  info.work_group_size_max = 128;
  EXPECT_EQ(linear_files(info), std::vector<std::string>{"linear.cl"});
}

// As GPUs do that have no room for the work-groups of groups_linear.cl.
TEST_F(LinearChoice, TheOnlyFileIsVerifiedToo) {
  test::info_of(device_).type = DeviceType::Gpu;
  test::info_of(device_).cpu = {};
  test::info_of(device_).local_memory_bytes = size_t{32} << 10;
  EXPECT_EQ(linear_files(device_.info()), std::vector<std::string>{"linear.cl"});
  EXPECT_EQ(choose_linear_file(device_), "linear.cl");
  EXPECT_EQ(stored_trial(device_.info(), "linear.cl").state, TrialState::Good);
}

TEST_F(LinearChoice, OneUnfinishedTrialIsNotHeldAgainstAFile) {
  leave_trial("linear.cl", 0);
  EXPECT_EQ(stored_trial(device_.info(), "linear.cl").state, TrialState::Untried);
  EXPECT_EQ(stored_trial(device_.info(), "linear.cl").unfinished, 1);
  EXPECT_EQ(try_linear_file(device_, "linear.cl").state, TrialState::Good);
  EXPECT_EQ(stored_trial(device_.info(), "linear.cl").unfinished, 0) << "in a row";
}

TEST_F(LinearChoice, AShortageOfMemoryIsNotKept) {
  test::info_of(device_).allocation_bytes_max = 4096;
  const LinearTrialResult result = try_linear_file(device_, "linear.cl");
  EXPECT_NE(result.state, TrialState::Good);
  EXPECT_NE(result.reason, "");
  EXPECT_EQ(stored_trial(device_.info(), "linear.cl").state, TrialState::Untried);
}

TEST_F(LinearChoice, AFileThatDoesNotBuildIsBad) {
  const LinearTrialResult result = try_linear_file(device_, "attention.cl");
  EXPECT_EQ(result.state, TrialState::Bad);
  EXPECT_NE(result.reason, "");
  EXPECT_EQ(stored_trial(device_.info(), "attention.cl").state, TrialState::Bad);
}

TEST_F(LinearChoice, DamagedRecordsAreForgotten) {
  leave_trial("linear.cl", 1);
  for (const auto& entry : std::filesystem::directory_iterator(cache_folder())) {
    std::filesystem::resize_file(entry.path(), 9);
  }
  EXPECT_EQ(stored_trial(device_.info(), "linear.cl").state, TrialState::Untried);
}

}  // namespace
}  // namespace inflight
