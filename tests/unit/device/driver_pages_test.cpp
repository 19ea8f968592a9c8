// SPDX-License-Identifier: Apache-2.0
// The pages of the driver's compiler leave this process's memory, and the compiler works afterwards.
#include "device/driver_pages.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "device/bandwidth.h"
#include "device/device.h"

namespace inflight {
namespace {

// KiB of LLVM's and Clang's files that are in this process's memory; -1 where the system does not say.
long compiler_kib() {
  std::ifstream file("/proc/self/smaps");
  if (!file) return -1;
  long total = 0;
  bool compiler = false;
  for (std::string line; std::getline(file, line);) {
    long kib = 0;
    if (std::sscanf(line.c_str(), "Rss: %ld", &kib) == 1) {
      total += compiler ? kib : 0;
    } else if (line.find(" r") != std::string::npos && line.find('-') < line.find(' ')) {
      compiler = line.find("libLLVM") != std::string::npos || line.find("libclang") != std::string::npos;
    }
  }
  return total;
}

TEST(DriverPages, AreGivenBackAndComeAgain) {
  Device device = Device::open({});
  const long before = compiler_kib();
  if (before < 10'000) GTEST_SKIP() << "the driver brought no compiler into this process";
  give_back_driver_pages();
  EXPECT_LT(compiler_kib(), before / 2);
  EXPECT_GT(measure_read_bandwidth(device), 0.0) << "builds and runs a program";
}

}  // namespace
}  // namespace inflight
