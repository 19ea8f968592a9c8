/* SPDX-License-Identifier: Apache-2.0
 * fcfs: first come, first served: requests start in order of arrival. The order of Orca and of vLLM's default.
 *
 * It decides just what the host would decide without a policy: the smallest complete example of a scheduling policy.
 * Who is preempted when blocks run out it leaves to the host's preempt_victim. Keys never change while a request waits,
 * so each is asked for once. */
#include "inflight/plugin.h"

/* The policy has no state; instances only need distinct, non-null addresses. */
typedef struct fcfs {
  const inflight_host_t* host;
} fcfs_t;

static inflight_plugin_status_t fcfs_create(const inflight_host_t* host,
                                            const inflight_sched_environment_t* environment,
                                            const inflight_config_t* config, void** self) {
  (void)environment;
  (void)config;
  fcfs_t* const policy = host->alloc(host->context, sizeof *policy, sizeof(void*));
  if (policy == NULL) return INFLIGHT_PLUGIN_E_MEMORY;
  policy->host = host;
  *self = policy;
  return INFLIGHT_PLUGIN_OK;
}

static void fcfs_destroy(void* self) {
  const inflight_host_t* const host = ((fcfs_t*)self)->host;
  host->free(host->context, self);
}

/* Ids increase in order of arrival. A request that was preempted keeps its id, so it goes before all that came later.
 */
static inflight_plugin_status_t fcfs_score(void* self, const inflight_step_t* step, int64_t* key0, int64_t* key1) {
  (void)self;
  (void)key1;
  for (uint32_t i = 0; i < step->waiting->count; ++i) key0[i] = (int64_t)step->waiting->id[i];
  return INFLIGHT_PLUGIN_OK;
}

static const inflight_sched_ops_t fcfs_ops = {
    .struct_size = sizeof(inflight_sched_ops_t),
    .create = fcfs_create,
    .destroy = fcfs_destroy,
    .score = fcfs_score,
};

static const inflight_policy_t fcfs_policy = {
    .struct_size = sizeof(inflight_policy_t),
    .kind = INFLIGHT_KIND_SCHED,
    .id = "org.inflight.fcfs",
    .name = "First come, first served",
    .version = "1.0",
    .vendor = "inflight",
    .license = "Apache-2.0",
    .summary = "requests start in order of arrival",
    .capabilities =
        INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC | INFLIGHT_CAP_UNLOADABLE | INFLIGHT_CAP_STABLE_KEYS,
    .sched = &fcfs_ops,
};

INFLIGHT_PLUGIN_NOTE(fcfs, "sched org.inflight.fcfs");

const inflight_module_t* inflight_plugin_query_v1(const inflight_query_t* query) {
  static const inflight_policy_t* const policies[] = {&fcfs_policy};
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
