// SPDX-License-Identifier: Apache-2.0
// Goal: no more memory is planned than the process may use.
// Method: files as Linux writes them, of both versions of control groups; the process's own limit of address space.
#include "base/memory_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "support/temp_folder.h"

namespace inflight {
namespace {

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

TEST(MemoryLimit, OfVersion2IsTheLeastOfTheGroupsAbove) {
  const test::TempFolder folder;
  const std::string groups = folder.file("cgroup"), root = folder.file("fs");
  write(groups, "0::/system.slice/engine.service\n");
  EXPECT_EQ(control_group_limit(groups, root), std::numeric_limits<int64_t>::max());
  write(root + "/system.slice/engine.service/memory.max", "max\n");
  EXPECT_EQ(control_group_limit(groups, root), std::numeric_limits<int64_t>::max());
  write(root + "/system.slice/memory.max", "734003200\n");
  EXPECT_EQ(control_group_limit(groups, root), 734003200);
  write(root + "/system.slice/engine.service/memory.max", "500000\n");
  EXPECT_EQ(control_group_limit(groups, root), 500000);
}

TEST(MemoryLimit, OfVersion1IsTheMemoryControllers) {
  const test::TempFolder folder;
  const std::string groups = folder.file("cgroup"), root = folder.file("fs");
  write(groups, "9:name=systemd:/\n4:memory:/docker/1f\n1:cpu:/docker/1f\n0::/\n");
  write(root + "/memory/docker/1f/memory.limit_in_bytes", "4096000\n");
  EXPECT_EQ(control_group_limit(groups, root), 4096000);
  // Within a container the path is not there, the mounted folder is the container's.
  std::filesystem::remove_all(root + "/memory/docker");
  write(root + "/memory/memory.limit_in_bytes", "8192000\n");
  EXPECT_EQ(control_group_limit(groups, root), 8192000);
}

TEST(MemoryLimit, OfTheAddressSpaceCounts) {
#ifdef INFLIGHT_SANITIZED
  GTEST_SKIP() << "sanitizers take more of the address space than this leaves";
#endif
  const int64_t before = host_memory_limit();
  EXPECT_GT(before, 0);
  constexpr rlim_t kLess = rlim_t{1} << 30;
  ASSERT_GT(before, int64_t{kLess});
  rlimit old{};
  getrlimit(RLIMIT_AS, &old);
  const rlimit less{kLess, old.rlim_max};
  setrlimit(RLIMIT_AS, &less);
  const int64_t limited = host_memory_limit();
  setrlimit(RLIMIT_AS, &old);
  EXPECT_GT(limited, 0);
  EXPECT_LT(limited, int64_t{kLess} - (int64_t{1} << 20)) << "what the process has mapped is taken";
}

}  // namespace
}  // namespace inflight
