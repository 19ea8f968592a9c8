// SPDX-License-Identifier: Apache-2.0
// Programs from source and from the cache on disk, which may be damaged or read-only without harm.
// Covers: device/program.cpp, device/binary_cache.cpp
#include "device/program.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "device/binary_cache.h"
#include "support/cache_folder.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

class ProgramCache : public testing::Test {
 protected:
  bool builds_from_cache(const std::string& options) {
    const int before = compilations_;
    const Program program(device_, {.files = {"bandwidth.cl"}, .options = options});
    const Kernel kernel(program, "read_bandwidth");
    return compilations_ == before;
  }

  test::CacheFolder cache_;
  int compilations_ = 0;
  Device device_ = Device::open({.spec = "", .profile = false, .on_compile = [this] { ++compilations_; }});
};

TEST_F(ProgramCache, KeepsBinariesByOptionsAndSurvivesDamage) {
  EXPECT_FALSE(builds_from_cache("-D A=1"));
  EXPECT_TRUE(builds_from_cache("-D A=1"));
  EXPECT_FALSE(builds_from_cache("-D A=2"));
  for (const auto& entry : std::filesystem::directory_iterator(cache_folder())) {
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) / 2);
  }
  EXPECT_FALSE(builds_from_cache("-D A=1"));
  EXPECT_TRUE(builds_from_cache("-D A=1"));
}

TEST_F(ProgramCache, WorksWithoutAFolderToWriteTo) {
  const test::TempFolder folder;
  test::CacheFolder::use(folder.write("file", "not a folder"));
  EXPECT_FALSE(builds_from_cache(""));
  EXPECT_FALSE(builds_from_cache(""));
}

TEST_F(ProgramCache, FindsOnlyWhatWasStoredWhole) {
  const BinaryCache cache(cache_folder());
  const std::vector<std::byte> content(100, std::byte{7});
  EXPECT_FALSE(cache.find("key").has_value());
  cache.store("key", content);
  EXPECT_EQ(cache.find("key"), content);
  std::fstream(cache_folder() + "/key", std::ios::in | std::ios::out | std::ios::binary).seekp(50).put('x');
  EXPECT_FALSE(cache.find("key").has_value());
  std::filesystem::resize_file(cache_folder() + "/key", uintmax_t{1} << 40);  // a hole: takes no space
  EXPECT_FALSE(cache.find("key").has_value());
  ASSERT_EQ(::mkfifo((cache_folder() + "/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(cache.find("pipe").has_value()) << "nor does it wait for a writer";
}

TEST_F(ProgramCache, BuildErrorsNameTheFileAndLine) {
  INFLIGHT_EXPECT_ERROR(ErrorCode::Device, "bandwidth.cl",
                        [&] { Program(device_, {.files = {"bandwidth.cl"}, .options = "-D restrict=("}); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "no_such.cl",
                        [&] { Program(device_, {.files = {"no_such.cl"}, .options = ""}); });
  const Program program(device_, {.files = {"bandwidth.cl"}, .options = ""});
  INFLIGHT_EXPECT_ERROR(ErrorCode::Device, "no_such_kernel", [&] { Kernel(program, "no_such_kernel"); });
}

}  // namespace
}  // namespace inflight
