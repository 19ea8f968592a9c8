// SPDX-License-Identifier: Apache-2.0
// Goal: every profile names knobs and policies that exist, changes what it says, and runs a workload to its end.
#include "sched/profiles.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "support/loaded_policies.h"

namespace inflight::test {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Profile& profile : profiles()) all.emplace_back(profile.name);
  return all;
}

TEST(Profiles, AreTheFourOfTheChecklist) {
  EXPECT_EQ(names(), (std::vector<std::string>{"rag", "batch", "tenant", "sla"}));
  try {
    static_cast<void>(profile_settings("fast"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::NotFound);
    EXPECT_STREQ(error.what(), "there is no profile 'fast', allowed: rag, batch, tenant, sla");
  }
}

class EachProfile : public testing::TestWithParam<std::string> {};

// Whatever knob a profile names is read back from the setup with the profile's value: a misspelt one would be dropped.
TEST_P(EachProfile, SetsJustItsKnobs) {
  SchedulerSetup before{.config = {.max_num_seqs = 8, .max_model_len = 777}, .blocks = {.block_count = 100}, .seed = 5};
  const auto was = nlohmann::json::parse(to_json(before));
  const auto is = nlohmann::json::parse(to_json(with_profile(before, GetParam())));
  std::set<std::string> set;
  for (const ProfileSetting& setting : profile_settings(GetParam())) {
    EXPECT_EQ(is.at(setting.knob), nlohmann::json::parse(setting.value)) << setting.knob;
    set.insert(setting.knob);
  }
  for (const auto& [knob, value] : was.items()) {
    if (set.contains(knob)) continue;
    EXPECT_EQ(is.at(knob), value) << knob;
  }
  with_profile(before, GetParam()).config.validate(1000);
}

TEST_P(EachProfile, RunsItsPoliciesWithoutStrikes) {
  WorldOptions options;
  options.blocks.block_count = 96;
  const SchedulerSetup setup = with_profile(setup_of(options), GetParam());
  options.config = setup.config;
  LoadedWorld world(options, setup.schedule_policy, setup.eviction_policy);
  Rng rng(3);
  for (int i = 0; i < 60; ++i) {
    RequestOptions request{.prompt = std::vector<TokenId>(static_cast<size_t>(rng.between(1, 90)), 7),
                           .max_tokens = rng.between(1, 20)};
    for (size_t k = request.prompt.size() / 2; k < request.prompt.size(); ++k) request.prompt[k] = rng.between(0, 63);
    request.tenant = static_cast<uint32_t>(i % 3);
    request.priority = i % 2;
    world->add(request);
    world->step();
  }
  world->run();
  EXPECT_EQ(world.strikes(), 0);
  for (const auto& [id, record] : world->records()) EXPECT_EQ(record.finish, FinishReason::Length) << id;
}

INSTANTIATE_TEST_SUITE_P(All, EachProfile, testing::ValuesIn(names()), [](const auto& test) { return test.param; });

TEST(Profiles, KeepTheBudgetAboveTheSequences) {
  const SchedulerSetup many{.config = {.max_num_seqs = 3000, .max_num_batched_tokens = 4000, .max_model_len = 100}};
  EXPECT_EQ(with_profile(many, "sla").config.max_num_batched_tokens, 3000);
}

}  // namespace
}  // namespace inflight::test
