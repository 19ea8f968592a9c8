// SPDX-License-Identifier: Apache-2.0
// Goal: errors carry their code and text; checks name the condition; log lines reach the sink from its threshold on.
// Covers: base/error.cpp, base/log.cpp
#include "base/error.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/log.h"
#include "base/math.h"

namespace inflight {
namespace {

TEST(Error, CarriesCodeAndMessage) {
  try {
    fail(ErrorCode::NotFound, "{}: no such {}", "x.gguf", "file");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NotFound);
    EXPECT_STREQ(error.what(), "x.gguf: no such file");
  }
}

TEST(Check, ThrowsWithTheConditionAndPlace) {
  EXPECT_NO_THROW(INFLIGHT_CHECK(1 + 1 == 2));
  try {
    INFLIGHT_CHECK(1 + 1 == 3);
    FAIL();
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("1 + 1 == 3"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("error_test.cpp"), std::string::npos);
  }
}

TEST(Log, GoesToTheSinkFromTheThresholdOn) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); }, LogLevel::Warning);
  log(LogLevel::Info, "dropped {}", 1);
  log(LogLevel::Warning, "kept {}", 2);
  set_log_sink({}, LogLevel::Debug);
  log(LogLevel::Error, "silenced");
  EXPECT_EQ(lines, std::vector<std::string>{"kept 2"});
}

TEST(Math, RoundsUp) {
  EXPECT_EQ(div_ceil(0, 16), 0);
  EXPECT_EQ(div_ceil(1, 16), 1);
  EXPECT_EQ(div_ceil(16, 16), 1);
  EXPECT_EQ(div_ceil(17, 16), 2);
  EXPECT_EQ(align_up(17, 16), 32);
  EXPECT_EQ(align_up<size_t>(64, 64), 64U);
}

}  // namespace
}  // namespace inflight
