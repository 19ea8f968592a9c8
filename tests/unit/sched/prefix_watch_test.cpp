// SPDX-License-Identifier: Apache-2.0
// Goal: what a policy reads as a waiting sequence's stored prefix is what admission would find at that moment.
// Method: scripted changes of the tree; the random simulation compares every watched match with a fresh one.
#include "sched/prefix_watch.h"

#include <gtest/gtest.h>

#include "support/scheduler_world.h"

namespace inflight::test {
namespace {

// First come, first served, but notes what it could see of the request that waits.
class Watcher final : public SchedulePolicy {
 public:
  bool looks_at_prefixes() const override { return true; }
  void limit_step(const StepView& view, StepLimits&) override {
    seen = view.waiting.empty() ? -1 : view.waiting.front()->stored_prefix_block_count;
  }
  int32_t seen = -1;
};

WorldOptions one_at_a_time() {
  WorldOptions options;
  options.config = {.max_num_seqs = 1, .max_num_batched_tokens = 8, .max_model_len = 48, .max_requests = 16};
  options.blocks = {.block_count = 12, .block_token_count = 4};
  return options;
}

std::vector<TokenId> count_to(int32_t count, TokenId last) {
  std::vector<TokenId> tokens;
  for (TokenId i = 0; i < count; ++i) tokens.push_back(i);
  tokens.back() = last;
  return tokens;
}

TEST(PrefixWatch, FollowsWhatIsPublishedAndEvicted) {
  Watcher policy;
  SchedulerWorld world(one_at_a_time(), &policy);
  world.add({.prompt = count_to(20, 40), .max_tokens = 3});
  world.step();
  world.add({.prompt = count_to(17, 41), .max_tokens = 2});
  std::vector<int32_t> seen;
  for (int i = 0; i < 4; ++i) {
    world.step();
    seen.push_back(policy.seen);
  }
  // The watcher looks at the beginning of a step; the first request computes 8 of its 20 tokens in each. Of the second
  // one's four whole blocks all are the first one's, since they differ from token 16 on.
  EXPECT_EQ(seen, (std::vector<int32_t>{2, 4, 4, 4}));
  world.run();

  world.add({.prompt = std::vector<TokenId>(44, 7), .max_tokens = 2});  // takes 11 of 12 blocks
  world.step();
  world.add({.prompt = count_to(17, 42), .max_tokens = 2});
  world.step();
  world.step();
  EXPECT_LE(policy.seen, 1);  // all but at most one of the stored blocks had to go
  world.run();
  EXPECT_EQ(world.record(4).finish, FinishReason::Length);
}

TEST(PrefixWatch, NamespacesAreApart) {
  Watcher policy;
  SchedulerWorld world(one_at_a_time(), &policy);
  world.add({.prompt = count_to(8, 40), .max_tokens = 20});
  world.step();
  world.add({.prompt = count_to(8, 40), .max_tokens = 2, .salt = 5});
  world.step();
  world.step();
  EXPECT_EQ(policy.seen, 0);
  world.run();
}

}  // namespace
}  // namespace inflight::test
