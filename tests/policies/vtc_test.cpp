// SPDX-License-Identifier: Apache-2.0
// Goal and method: the order that vtc gives for what it was told, asked directly; bounds and traces are in
// schedule_policies_test.cpp.
#include <gtest/gtest.h>

#include <vector>

#include "plugin_host/plugin_registry.h"

namespace inflight::test {
namespace {

// One that was preempted has paid for its prompt: nobody of its tenant has to wait for it again.
TEST(Vtc, APreemptedRequestIsNotChargedAgain) {
  const inflight_policy_t& policy = *plugin_registry().find(parse_policy_spec("vtc"), INFLIGHT_KIND_SCHED).policy;
  const inflight_sched_ops_t& ops = *policy.sched;
  const PluginConfig config(policy, {});
  const inflight_host_t host{};
  const inflight_sched_environment_t environment{
      .struct_size = sizeof(inflight_sched_environment_t), .max_requests = 8, .max_tenants = 2};
  void* self = nullptr;
  ASSERT_EQ(ops.create(&host, &environment, &config.config(), &self), INFLIGHT_PLUGIN_OK);
  const std::vector<inflight_event_t> happened = {
      {.type = INFLIGHT_EVENT_ARRIVE, .slot = 0, .request = 1, .a = 0, .b = 1000},
      {.type = INFLIGHT_EVENT_ARRIVE, .slot = 1, .request = 2, .a = 1, .b = 1200},
      {.type = INFLIGHT_EVENT_ARRIVE, .slot = 2, .request = 3, .a = 0, .b = 10},
      {.type = INFLIGHT_EVENT_ARRIVE, .slot = 3, .request = 4, .a = 1, .b = 10},
      {.type = INFLIGHT_EVENT_ADMIT, .slot = 0, .request = 1, .a = 1000},
      {.type = INFLIGHT_EVENT_ADMIT, .slot = 1, .request = 2, .a = 1200}};
  const inflight_events_t events{.struct_size = sizeof(inflight_events_t),
                                 .count = static_cast<uint32_t>(happened.size()),
                                 .stride = sizeof(inflight_event_t),
                                 .events = happened.data()};
  ASSERT_EQ(ops.on_events(self, &events), INFLIGHT_PLUGIN_OK);
  const uint64_t id[] = {1, 3, 4};  // 1 waits to go on
  const uint32_t slot[] = {0, 2, 3}, tenant[] = {0, 0, 1}, prompt_tokens[] = {1000, 10, 10};
  inflight_requests_t waiting{.struct_size = sizeof(inflight_requests_t), .count = 3};
  waiting.id = id;
  waiting.slot = slot;
  waiting.tenant = tenant;
  waiting.prompt_tokens = prompt_tokens;
  inflight_step_t step{.struct_size = sizeof(inflight_step_t)};
  step.sequences_left = 1;
  step.waiting = &waiting;
  uint32_t index[3] = {}, count = 3;
  ASSERT_EQ(ops.order(self, &step, index, &count), INFLIGHT_PLUGIN_OK);
  ops.destroy(self);
  EXPECT_EQ(std::vector<uint32_t>(index, index + count), (std::vector<uint32_t>{0, 1, 2}));
}

}  // namespace
}  // namespace inflight::test
