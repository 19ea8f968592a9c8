// SPDX-License-Identifier: Apache-2.0
// Goal: who loses its blocks by the shipped policies that say so, and in which order `priority` tells levels apart.
// Method: SchedulerWorld with the policies by name.
#include <gtest/gtest.h>

#include "support/loaded_policies.h"

namespace inflight::test {
namespace {

// The oldest running request is never taken. So where it is the one that a policy would give up first, the next in its
// order goes: not the last admitted, which is here the one to keep.
TEST(Victims, AreTheWorstBesideTheOldest) {
  constexpr TimeNs kFar = 1'000'000'000'000;
  const auto request = [](int32_t badness) {
    return RequestOptions{.prompt = std::vector<TokenId>(8, badness),
                          .max_tokens = 30,
                          .priority = badness,
                          .e2e_deadline = kFar * (badness + 1),
                          .predicted_output_tokens = 3 * badness + 1};
  };
  for (const char* policy : {"priority", "edf", "srtf"}) {
    WorldOptions options;
    options.config = {.max_num_seqs = 3, .max_num_batched_tokens = 256, .max_model_len = 56, .max_requests = 100};
    options.config.schedule_conservativeness = 0;
    options.blocks = {.block_count = 14, .block_token_count = 4};
    LoadedWorld world(options, policy);
    const uint64_t worst = world->add(request(9));
    world->step();
    const uint64_t second = world->add(request(5));
    world->step();
    const uint64_t best = world->add(request(0));
    while (world->scheduler().stats().preemptions == 0) world->step();
    EXPECT_EQ(world->record(worst).preemptions, 0) << policy;
    EXPECT_EQ(world->record(second).preemptions, 1) << policy;
    EXPECT_EQ(world->record(best).preemptions, 0) << policy;
    world->run();
    EXPECT_EQ(world.strikes(), 0);
  }
}

// Levels a million apart and more are told apart, too.
TEST(Priority, TellsAllLevelsApart) {
  WorldOptions options;
  options.config = {.max_num_seqs = 1, .max_num_batched_tokens = 256, .max_model_len = 56, .max_requests = 100};
  options.blocks = {.block_count = 14, .block_token_count = 4};
  LoadedWorld world(options, "priority");
  world->add({.prompt = {1}, .max_tokens = 3});
  world->step();
  std::vector<uint64_t> ids;
  for (const int32_t level : {3'000'000, 2'000'000, -3'000'000}) {
    ids.push_back(world->add({.prompt = {2}, .max_tokens = 1, .priority = level}));
  }
  world->run();
  EXPECT_LT(world->record(ids[2]).first_token_step, world->record(ids[1]).first_token_step);
  EXPECT_LT(world->record(ids[1]).first_token_step, world->record(ids[0]).first_token_step);
}

}  // namespace
}  // namespace inflight::test
