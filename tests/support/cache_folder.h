// SPDX-License-Identifier: Apache-2.0
// While it lives, programs and results of trials are cached in a folder of its own, which the first of them makes.
#pragma once

#include <cstdlib>
#include <string>

#include "support/temp_folder.h"

namespace inflight::test {

class CacheFolder {
 public:
  CacheFolder() {
    const char* const set = std::getenv("INFLIGHT_CACHE_DIR");
    previous_ = set != nullptr ? set : "";
    use(folder_.path() + "/cache");
  }
  ~CacheFolder() { use(previous_); }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  static void use(const std::string& path) { ::setenv("INFLIGHT_CACHE_DIR", path.c_str(), 1); }

 private:
  TempFolder folder_;
  std::string previous_;
};

}  // namespace inflight::test
