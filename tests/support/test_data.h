// SPDX-License-Identifier: Apache-2.0
// Where tests find files, and how they skip when real data is not on this machine.
#pragma once

#include <filesystem>
#include <string>

namespace inflight::test {

inline constexpr const char* kDemoModel = INFLIGHT_SOURCE_DIR "/models/tinyworld/tinyworld-f16.gguf";

// A file of the repository.
inline std::string source_path(const std::string& relative) {
  return std::string(INFLIGHT_SOURCE_DIR) + "/" + relative;
}
// A file of the shared data folder; may be absent.
inline std::string shared_path(const std::string& relative) {
  return std::string(INFLIGHT_SHARED_DATA) + "/" + relative;
}

// The plugin libraries of the build: the shipped ones, and those that misbehave.
inline std::string shipped_plugin(const std::string& name) {
  return std::string(SHIPPED_PLUGIN_DIR) + "/" + name + ".ifp.so";
}
inline std::string test_plugin(const std::string& name) {
  return std::string(TEST_PLUGIN_DIR) + "/" + name + ".ifp.so";
}

}  // namespace inflight::test

// Skips the running test, saying why, when `path` is not there.
#define INFLIGHT_REQUIRE_FILE(path)                                                      \
  if (!std::filesystem::exists(path)) {                                                  \
    GTEST_SKIP() << "needs " << (path) << " (set -DINFLIGHT_SHARED_DATA to its folder)"; \
  }                                                                                      \
  static_assert(true, "")
