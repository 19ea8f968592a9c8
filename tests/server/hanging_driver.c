// SPDX-License-Identifier: Apache-2.0
// A driver that hangs or breaks, for LD_PRELOAD: the first clWaitForEvents() that finds the file $HANG takes it away
// and never comes back; one that finds $BREAK fails.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) int clWaitForEvents(unsigned count, void* const* events) {
  const char* const file = getenv("HANG");
  if (file != NULL && unlink(file) == 0) {
    for (;;) pause();
  }
  const char* const broken = getenv("BREAK");
  if (broken != NULL && unlink(broken) == 0) return -5;  // CL_OUT_OF_RESOURCES
  int (*const driver)(unsigned, void* const*) = (int (*)(unsigned, void* const*))dlsym(RTLD_NEXT, "clWaitForEvents");
  return driver(count, events);
}
