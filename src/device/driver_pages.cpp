// SPDX-License-Identifier: Apache-2.0
#include "device/driver_pages.h"

#if defined(__linux__)
#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "base/file.h"
#endif

namespace inflight {

#if defined(__linux__)
namespace {

struct Mapping {
  uintptr_t begin = 0, end = 0;
  bool unwritable_file = false;
};

// A mapping's first line in smaps: "begin-end rwxp offset device inode path". False: the line is another one.
bool read_mapping(const char* line, Mapping& mapping) {
  unsigned long begin = 0, end = 0, inode = 0;
  char rights[5] = {};
  int path = 0;
  if (std::sscanf(line, "%lx-%lx %4s %*s %*s %lu %n", &begin, &end, rights, &inode, &path) < 4) return false;  // NOLINT
  const bool library =
      std::strstr(line + path, "libLLVM") != nullptr || std::strstr(line + path, "libclang") != nullptr;
  mapping = {begin, end, inode != 0 && rights[1] == '-' && rights[3] == 'p' && library};
  return true;
}

}  // namespace

void give_back_driver_pages() {
  malloc_trim(0);
  const File file(std::fopen("/proc/self/smaps", "re"));
  if (file == nullptr) return;
  char line[4352];
  Mapping mapping;
  while (std::fgets(line, sizeof(line), file.get()) != nullptr) {
    unsigned long anonymous = 0;
    if (read_mapping(line, mapping)) continue;
    if (!mapping.unwritable_file || std::sscanf(line, "Anonymous: %lu", &anonymous) != 1) continue;  // NOLINT
    // Relocated pages are anonymous copies: only what equals the file may be dropped.
    if (anonymous == 0) madvise(reinterpret_cast<void*>(mapping.begin), mapping.end - mapping.begin, MADV_DONTNEED);
  }
}
#else
void give_back_driver_pages() {}
#endif

}  // namespace inflight
