// SPDX-License-Identifier: Apache-2.0
#include "base/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace inflight {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// A file with one number; "max" (version 2) and a file that is not there are no limit.
int64_t limit_in(const std::string& path) {
  int64_t bytes = 0;
  return std::ifstream(path) >> bytes ? bytes : kNoLimit;
}

// The limits of a group and of all above it. Within a container the path may be the host's: then only the topmost
// folder is there, which is the container's own.
int64_t limit_of_group(const std::string& root, std::string path, const std::string& file) {
  int64_t least = kNoLimit;
  while (true) {
    least = std::min(least, limit_in(root + path + "/" + file));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return least;
    path.resize(slash);
  }
}

// By this process; 0: Linux does not say.
int64_t mapped_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

}  // namespace

// Each line is "number:controllers:/path"; version 2's has no controllers.
int64_t control_group_limit(const std::string& groups, const std::string& root) {
  int64_t least = kNoLimit;
  std::ifstream file(groups);
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string number, controllers, path;
    if (!std::getline(fields, number, ':') || !std::getline(fields, controllers, ':') || !std::getline(fields, path)) {
      continue;
    }
    if (controllers.empty()) {
      least = std::min(least, limit_of_group(root, path, "memory.max"));
    } else if (controllers == "memory") {
      least = std::min(least, limit_of_group(root + "/memory", path, "memory.limit_in_bytes"));
    }
  }
  return least;
}

int64_t host_memory_limit() {
  int64_t least = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY) {
    const auto limit = static_cast<int64_t>(std::min<rlim_t>(address_space.rlim_cur, kNoLimit));
    least = std::min(least, std::max<int64_t>(limit - mapped_bytes(), 0));
  }
  return std::min(least, control_group_limit("/proc/self/cgroup", "/sys/fs/cgroup"));
}

}  // namespace inflight
