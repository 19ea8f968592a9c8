// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/policies.h"

#include "base/log.h"
#include "plugin_host/plugin_registry.h"

namespace inflight {
namespace {

PolicyOptions with_source(PolicyOptions options, const std::string& spec, const PluginRegistry::Found& found) {
  options.spec = spec;
  options.module = found.module;
  return options;
}

}  // namespace

std::unique_ptr<SchedAdapter> make_schedule_policy(const std::string& text, const SchedulerSetup& setup,
                                                   const PolicyOptions& options) {
  const PolicySpec spec = parse_policy_spec(text);
  const PluginRegistry::Found found = plugin_registry().find(spec, INFLIGHT_KIND_SCHED);
  const inflight_policy_t& policy = *found.policy;
  const SchedEnvironment environment{.max_requests = setup.config.max_requests,
                                     .block_token_count = setup.blocks.block_token_count,
                                     .block_count = setup.blocks.block_count,
                                     .max_num_batched_tokens = setup.config.max_num_batched_tokens,
                                     .max_num_seqs = setup.config.max_num_seqs};
  auto adapter = std::make_unique<SchedAdapter>(policy, PluginConfig(policy, spec.parameters), environment,
                                                with_source(options, text, found));
  if (setup.config.preempt_victim != VictimRule::LastAdmitted && adapter->names_victims()) {
    log(LogLevel::Warning, "preempt_victim {} has no effect: policy {} names whom to preempt",
        to_string(setup.config.preempt_victim), policy.id);
  }
  return adapter;
}

std::unique_ptr<EvictAdapter> make_eviction_policy(const std::string& text, const SchedulerSetup& setup,
                                                   const PolicyOptions& options) {
  const PolicySpec spec = parse_policy_spec(text);
  const PluginRegistry::Found found = plugin_registry().find(spec, INFLIGHT_KIND_EVICT);
  const inflight_policy_t& policy = *found.policy;
  const EvictAdapter::Environment environment{.block_count = setup.blocks.block_count,
                                              .block_token_count = setup.blocks.block_token_count,
                                              .block_bytes = setup.block_bytes,
                                              .windows = setup.config.windows(setup.blocks.local_window)};
  return std::make_unique<EvictAdapter>(policy, PluginConfig(policy, spec.parameters), environment,
                                        with_source(options, text, found));
}

}  // namespace inflight
