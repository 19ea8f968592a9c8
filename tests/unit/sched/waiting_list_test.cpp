// SPDX-License-Identifier: Apache-2.0
// Goal: the smallest (key0, key1, request id) is first, and any sequence can leave.
// Method: random operations against a sorted std::set (checklist 17: equal keys keep the order of arrival).
#include "sched/waiting_list.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <tuple>

#include "base/rng.h"

namespace inflight {
namespace {

std::tuple<int64_t, int64_t, uint64_t> key_of(const Sequence& sequence) {
  return {sequence.waiting_key.key0, sequence.waiting_key.key1, to_integer(sequence.request.id)};
}

TEST(WaitingList, EqualKeysKeepTheOrderOfArrival) {
  std::deque<Sequence> pool(1000);
  WaitingList list;
  for (size_t i = 0; i < pool.size(); ++i) {
    pool[i].request.id = static_cast<RequestId>(i);
    list.push(&pool[i]);
  }
  for (auto& sequence : pool) EXPECT_EQ(list.pop(), &sequence);
}

TEST(WaitingList, AgreesWithASetOverRandomOperations) {
  std::deque<Sequence> pool(200);
  for (size_t i = 0; i < pool.size(); ++i) pool[i].request.id = static_cast<RequestId>(i);
  WaitingList list;
  std::set<std::tuple<int64_t, int64_t, uint64_t>> model;
  Rng rng(4);
  for (int step = 0; step < 100000; ++step) {
    Sequence& sequence = pool[rng.below(pool.size())];
    if (model.contains(key_of(sequence))) {
      list.remove(&sequence);
      model.erase(key_of(sequence));
    } else {
      sequence.waiting_key = {rng.between(0, 3), rng.between(0, 3)};
      list.push(&sequence);
      model.insert(key_of(sequence));
    }
    if (step % 1000 == 0) {  // a policy ranks everyone anew
      model.clear();
      for (Sequence* waiting : list.sequences()) {
        waiting->waiting_key = {rng.between(0, 3), 0};
        model.insert(key_of(*waiting));
      }
      list.rebuild();
    }
    ASSERT_EQ(list.count(), static_cast<int32_t>(model.size()));
    if (!list.empty()) {
      ASSERT_EQ(key_of(*list.sequences().front()), *model.begin());
    }
  }
}

}  // namespace
}  // namespace inflight
