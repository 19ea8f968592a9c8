/* SPDX-License-Identifier: Apache-2.0
 * turns: a step of prompt tokens, then a step of decodes, and so on: chunked prefill without hybrid batches, an arm of
 * the ablation in docs/RESULTS.md (row 5). Requests start in order of arrival. It is also the policy from outside of
 * the tree that the experiments run unchanged in the simulator and in the engine (row 17). */
#include "inflight/plugin.h"

typedef struct turns {
  const inflight_host_t* host;
  uint32_t decodes_next;
} turns_t;

static inflight_plugin_status_t turns_create(const inflight_host_t* host,
                                             const inflight_sched_environment_t* environment,
                                             const inflight_config_t* config, void** self) {
  (void)environment;
  (void)config;
  turns_t* const policy = host->alloc(host->context, sizeof *policy, sizeof(void*));
  if (policy == NULL) return INFLIGHT_PLUGIN_E_MEMORY;
  policy->host = host;
  policy->decodes_next = 0;
  *self = policy;
  return INFLIGHT_PLUGIN_OK;
}

static void turns_destroy(void* self) {
  const inflight_host_t* const host = ((turns_t*)self)->host;
  host->free(host->context, self);
}

static inflight_plugin_status_t turns_plan(void* self, const inflight_step_t* step, inflight_plan_t* plan) {
  turns_t* const policy = self;
  const uint32_t decodes = policy->decodes_next && step->running->count > 0;
  policy->decodes_next = !policy->decodes_next;
  if (decodes) {
    plan->prefill_tokens = 0;
    plan->flags |= INFLIGHT_PLAN_NO_ADMIT;
  } else {
    plan->flags |= INFLIGHT_PLAN_PREFILL_ONLY;
  }
  return INFLIGHT_PLUGIN_OK;
}

static inflight_plugin_status_t turns_score(void* self, const inflight_step_t* step, int64_t* key0, int64_t* key1) {
  (void)self;
  (void)key1;
  for (uint32_t i = 0; i < step->waiting->count; ++i) key0[i] = (int64_t)step->waiting->id[i];
  return INFLIGHT_PLUGIN_OK;
}

static const inflight_sched_ops_t turns_ops = {
    .struct_size = sizeof(inflight_sched_ops_t),
    .create = turns_create,
    .destroy = turns_destroy,
    .plan = turns_plan,
    .score = turns_score,
};

static const inflight_policy_t turns_policy = {
    .struct_size = sizeof(inflight_policy_t),
    .kind = INFLIGHT_KIND_SCHED,
    .id = "org.inflight.experiments.turns",
    .name = "Prompts and decodes by turns",
    .version = "1.0",
    .vendor = "inflight",
    .license = "Apache-2.0",
    .summary = "a step of prompt tokens, a step of decodes, and so on",
    .capabilities = INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC | INFLIGHT_CAP_STABLE_KEYS,
    .sched = &turns_ops,
};

INFLIGHT_PLUGIN_NOTE(turns, "sched org.inflight.experiments.turns");

const inflight_module_t* inflight_plugin_query_v1(const inflight_query_t* query) {
  static const inflight_policy_t* const policies[] = {&turns_policy};
  static const inflight_module_t module = {
      .struct_size = sizeof(inflight_module_t),
      .abi_minor = INFLIGHT_PLUGIN_ABI_MINOR,
      .min_host_minor = 0,
      .count = 1,
      .policies = policies,
  };
  (void)query;
  return &module;
}
