// SPDX-License-Identifier: Apache-2.0
// Goal: a request for which there is no memory leaves nothing behind.
// Method: submit() with each of its allocations failing in turn; the figures and drain() afterwards.
// Covers: engine/engine.cpp
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "support/engine_world.h"

#ifndef INFLIGHT_SANITIZED  // sanitizers bring their own operator new
namespace {
thread_local int allocations_left = -1;  // the next but so many fails; less than 0: none does
}  // namespace

void* operator new(size_t size) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace inflight::test {
namespace {

TEST(SubmitMemory, WhatCouldNotBeSubmittedIsNotCounted) {
  EngineWorld world(EngineWorld::host_driven());
  OutputStream* stream = nullptr;
  int failures = 0;
  while (stream == nullptr) {
    SubmitOptions request{.prompt = {1, 2, 3}};
    request.sampling.n = 3;
    allocations_left = failures;
    try {
      stream = world.engine->submit(std::move(request));
      allocations_left = -1;
    } catch (const std::bad_alloc&) {
      allocations_left = -1;
      ++failures;
      EXPECT_EQ(world.engine->stats().waiting, 0) << failures;
      EXPECT_EQ(world.engine->stats().queued_tokens, 0) << failures;
      EXPECT_TRUE(world.engine->drain()) << failures;
      world.engine->undrain();
    }
  }
  EXPECT_GE(failures, 2);  // for the stream and for the inbox, at least
  world.run();
  EXPECT_EQ(read_answers(stream, 3)[0].tokens, output_alone({1, 2, 3}, 16));
}

}  // namespace
}  // namespace inflight::test
#endif
