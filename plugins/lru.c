/* SPDX-License-Identifier: Apache-2.0
 * lru: the stored block that was used longest ago goes first. The eviction of vLLM and SGLang's default.
 *
 * The smallest complete example of an eviction strategy. The host never offers a block with stored children, so a
 * prefix shrinks from its end; among equal times it takes the block released first. */
#include "inflight/plugin.h"

typedef struct lru {
  const inflight_host_t* host;
} lru_t;

static inflight_plugin_status_t lru_create(const inflight_host_t* host, const inflight_evict_environment_t* environment,
                                           const inflight_config_t* config, void** self) {
  (void)environment;
  (void)config;
  lru_t* const strategy = host->alloc(host->context, sizeof *strategy, sizeof(void*));
  if (strategy == NULL) return INFLIGHT_PLUGIN_E_MEMORY;
  strategy->host = host;
  *self = strategy;
  return INFLIGHT_PLUGIN_OK;
}

static void lru_destroy(void* self) {
  const inflight_host_t* const host = ((lru_t*)self)->host;
  host->free(host->context, self);
}

static inflight_plugin_status_t lru_rank(void* self, const inflight_units_t* units, int64_t* key0, int64_t* key1) {
  (void)self;
  (void)key1;
  for (uint32_t i = 0; i < units->count; ++i) key0[i] = units->last_use_ns[i];
  return INFLIGHT_PLUGIN_OK;
}

static const inflight_evict_ops_t lru_ops = {
    .struct_size = sizeof(inflight_evict_ops_t),
    .create = lru_create,
    .destroy = lru_destroy,
    .rank = lru_rank,
};

static const inflight_policy_t lru_policy = {
    .struct_size = sizeof(inflight_policy_t),
    .kind = INFLIGHT_KIND_EVICT,
    .id = "org.inflight.lru",
    .name = "Least recently used",
    .version = "1.0",
    .vendor = "inflight",
    .license = "Apache-2.0",
    .summary = "the stored block that was used longest ago goes first",
    .capabilities = INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC | INFLIGHT_CAP_UNLOADABLE,
    .unit_columns = INFLIGHT_UNIT_TIMES,
    .evict = &lru_ops,
};

INFLIGHT_PLUGIN_NOTE(lru, "evict org.inflight.lru");

const inflight_module_t* inflight_plugin_query_v1(const inflight_query_t* query) {
  static const inflight_policy_t* const policies[] = {&lru_policy};
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
