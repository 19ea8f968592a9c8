// SPDX-License-Identifier: Apache-2.0
#include "sched/profiles.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace inflight {
namespace {

// Long prompts that share documents: what is stored furthest goes first, what is dear to compute again stays; a prompt
// takes at most half a step, so that answers keep flowing while documents are read.
constexpr ProfileSetting kRag[] = {{"schedule_policy", "\"lpm\""},           {"radix_eviction_policy", "\"gdsf\""},
                                   {"batching", "\"continuous\""},           {"max_num_batched_tokens", "2048"},
                                   {"long_prefill_token_threshold", "1024"}, {"preempt", "\"auto\""},
                                   {"preempt_victim", "\"cheapest\""}};

// Everything is there at once and only the end counts: prompts in the order of their prefix tree, so that each shared
// part is computed once; large steps; nothing is held back for outputs that may yet come.
constexpr ProfileSetting kBatch[] = {{"schedule_policy", "\"dfs-weight\""}, {"radix_eviction_policy", "\"lru\""},
                                     {"batching", "\"prefill_first\""},     {"enable_mixed_chunk", "true"},
                                     {"max_num_batched_tokens", "4096"},    {"long_prefill_token_threshold", "0"},
                                     {"schedule_conservativeness", "0.3"},  {"preempt_victim", "\"fewest_output\""}};

// Tenants that do not trust each other: equal service whatever they submit, and one that scans new prompts cannot push
// out what others share.
constexpr ProfileSetting kTenant[] = {{"schedule_policy", "\"vtc\""},          {"radix_eviction_policy", "\"slru\""},
                                      {"batching", "\"continuous\""},          {"max_num_batched_tokens", "1024"},
                                      {"long_prefill_token_threshold", "512"}, {"schedule_conservativeness", "1.0"}};

// Deadlines: least slack first, small chunks for short gaps between tokens, room kept so that nobody is preempted,
// caching that looks at the slowest turn.
constexpr ProfileSetting kSla[] = {{"schedule_policy", "\"slack\""},
                                   {"radix_eviction_policy", "\"tlru\""},
                                   {"batching", "\"continuous\""},
                                   {"max_num_batched_tokens", "512"},
                                   {"long_prefill_token_threshold", "256"},
                                   {"schedule_conservativeness", "1.3"},
                                   {"kv_headroom", "0.05"},
                                   {"priority_preemption_threshold", "0"},
                                   {"preempt", "\"auto\""},
                                   {"preempt_victim", "\"lowest_priority\""}};

constexpr Profile kProfiles[] = {
    {"rag", "long prompts that share documents", kRag},
    {"batch", "all requests at once, only the end counts", kBatch},
    {"tenant", "equal service to tenants that do not trust each other", kTenant},
    {"sla", "deadlines for the first and for every next token", kSla},
};

}  // namespace

std::span<const Profile> profiles() { return kProfiles; }

const Profile& find_profile(std::string_view name) {
  const auto* const found = std::ranges::find(kProfiles, name, &Profile::name);
  if (found != std::end(kProfiles)) return *found;
  std::string known;
  for (const Profile& profile : kProfiles) known += (known.empty() ? "" : ", ") + std::string(profile.name);
  fail(ErrorCode::NotFound, "there is no profile '{}', allowed: {}", name, known);
}

std::span<const ProfileSetting> profile_settings(std::string_view name) { return find_profile(name).settings; }

SchedulerSetup with_profile(const SchedulerSetup& setup, std::string_view name) {
  auto json = nlohmann::ordered_json::parse(to_json(setup));
  for (const ProfileSetting& setting : profile_settings(name)) {
    json[setting.knob] = nlohmann::ordered_json::parse(setting.value);
  }
  SchedulerSetup result = parse_setup_json(json.dump());
  result.config.max_num_batched_tokens = std::max(result.config.max_num_batched_tokens, result.config.max_num_seqs);
  return result;
}

}  // namespace inflight
