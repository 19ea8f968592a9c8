// SPDX-License-Identifier: Apache-2.0
// A driver that hangs, for LD_PRELOAD: the first clWaitForEvents() that finds the file $HANG takes it away and never
// comes back.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) int clWaitForEvents(unsigned count, void* const* events) {
  const char* const file = getenv("HANG");
  if (file != NULL && unlink(file) == 0) {
    for (;;) pause();
  }
  int (*const driver)(unsigned, void* const*) = (int (*)(unsigned, void* const*))dlsym(RTLD_NEXT, "clWaitForEvents");
  return driver(count, events);
}
