// SPDX-License-Identifier: Apache-2.0
// Goal: with populate_kv the memory of the KV blocks is there once the engine is; without it none is taken.
// Method: what Linux counts as resident before and after creation.
// Covers: engine/runtime.cpp, exec/kv_storage.cpp
#include <gtest/gtest.h>

#if defined(__linux__)
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "inflight/inflight.h"
#include "support/abi_engine.h"

namespace {

using inflight::test::kDemoModel;

class PopulateKv : public inflight::test::AbiEngine {};

// Of this process, by the kernel's own word.
int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST_F(PopulateKv, FindsTheMemoryOfKvAtCreation) {
  nlohmann::json info;
  const auto grown = [&](uint8_t populate) {
    inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
    params.model = kDemoModel;
    params.kv_blocks = 8192;
    params.populate_kv = populate;
    const int64_t before = resident_bytes();
    EXPECT_EQ(inflight_engine_create(&params, &engine_), INFLIGHT_OK) << inflight_last_error();
    const int64_t after = resident_bytes();
    std::vector<char> text(1 << 16);
    size_t length = 0;
    EXPECT_EQ(inflight_engine_info_json(engine_, text.data(), text.size(), &length), INFLIGHT_OK);
    info = nlohmann::json::parse(text.data());
    inflight_engine_destroy(engine_);
    engine_ = nullptr;
    return after - before;
  };
  (void)grown(0);  // the driver's own memory comes with the first
  const int64_t lazy = grown(0), populated = grown(1);
  if (info.at("device").at("platform") != "Portable Computing Language") {
    GTEST_SKIP() << info.at("device").at("platform") << ": KV is not this process's memory";
  }
  const auto kv = std::min(info.at("memory").at("kv_bytes").get<int64_t>(), int64_t{512} << 20);
  ASSERT_GT(kv, int64_t{64} << 20);
  EXPECT_LT(lazy, kv / 2);
  EXPECT_GT(populated, kv / 10 * 9);
  EXPECT_LT(populated, kv + kv / 2);
}

}  // namespace
#endif
