/* SPDX-License-Identifier: Apache-2.0
 * An eviction strategy that makes the mistake that its parameter `fault` names. */
#include <string.h>

#include "inflight/plugin.h"

typedef struct faulty_evict {
  const inflight_host_t* host;
  char fault[32];
} faulty_evict_t;

static inflight_plugin_status_t create(const inflight_host_t* host, const inflight_evict_environment_t* environment,
                                       const inflight_config_t* config, void** self) {
  (void)environment;
  faulty_evict_t* const strategy = host->alloc(host->context, sizeof *strategy, sizeof(void*));
  memset(strategy, 0, sizeof *strategy);
  strategy->host = host;
  if (config->count > 0) strncpy(strategy->fault, config->pairs[0].value.string, sizeof strategy->fault - 1);
  *self = strategy;
  return INFLIGHT_PLUGIN_OK;
}

static void destroy(void* self) {
  const inflight_host_t* const host = ((faulty_evict_t*)self)->host;
  host->free(host->context, self);
}

static inflight_plugin_status_t rank(void* self, const inflight_units_t* units, int64_t* key0, int64_t* key1) {
  (void)key1;
  const faulty_evict_t* const strategy = self;
  if (strcmp(strategy->fault, "unwritten") == 0) return INFLIGHT_PLUGIN_OK;
  if (strcmp(strategy->fault, "error") == 0) return INFLIGHT_PLUGIN_E_INTERNAL;
  for (uint32_t i = 0; i < units->count; ++i) key0[i] = (int64_t)units->hits[i];
  return INFLIGHT_PLUGIN_OK;
}

/* What has gone had no children left. */
static inflight_plugin_status_t on_evict(void* self, const inflight_units_t* units) {
  (void)self;
  for (uint32_t i = 0; i < units->count; ++i) {
    if (units->children[i] != 0) return INFLIGHT_PLUGIN_E_INTERNAL;
  }
  return INFLIGHT_PLUGIN_OK;
}

static inflight_plugin_status_t pick(void* self, uint32_t need, uint32_t* unit, uint32_t* count) {
  const faulty_evict_t* const strategy = self;
  (void)need;
  if (strcmp(strategy->fault, "bad_unit") == 0) {
    *count = 1;
    unit[0] = 1u << 30;
  } else if (strcmp(strategy->fault, "too_many") == 0) {
    *count += 1;
  } else if (strcmp(strategy->fault, "always_zero") == 0) {
    *count = 1;
    unit[0] = 0;
  } else {
    *count = 0;
  }
  return INFLIGHT_PLUGIN_OK;
}

static const inflight_param_t params[] = {
    {.key = "fault", .type = INFLIGHT_TYPE_STRING, .default_value = "none", .help = "which mistake to make"}};

static const inflight_evict_ops_t rank_ops = {.struct_size = sizeof(inflight_evict_ops_t),
                                              .create = create,
                                              .destroy = destroy,
                                              .rank = rank,
                                              .on_evict = on_evict};
static const inflight_evict_ops_t pick_ops = {
    .struct_size = sizeof(inflight_evict_ops_t), .create = create, .destroy = destroy, .pick = pick};

static const inflight_policy_t rank_policy = {.struct_size = sizeof(inflight_policy_t),
                                              .kind = INFLIGHT_KIND_EVICT,
                                              .id = "test.faulty-rank",
                                              .name = "Faulty rank",
                                              .version = "1.0",
                                              .unit_columns = UINT32_MAX,
                                              .param_count = 1,
                                              .params = params,
                                              .evict = &rank_ops};
static const inflight_policy_t pick_policy = {.struct_size = sizeof(inflight_policy_t),
                                              .kind = INFLIGHT_KIND_EVICT,
                                              .id = "test.faulty-pick",
                                              .name = "Faulty pick",
                                              .version = "1.0",
                                              .unit_columns = UINT32_MAX,
                                              .param_count = 1,
                                              .params = params,
                                              .evict = &pick_ops};

INFLIGHT_PLUGIN_NOTE(rank, "evict test.faulty-rank");
INFLIGHT_PLUGIN_NOTE(pick, "evict test.faulty-pick");

const inflight_module_t* inflight_plugin_query_v1(const inflight_query_t* query) {
  static const inflight_policy_t* const policies[] = {&rank_policy, &pick_policy};
  static const inflight_module_t module = {.struct_size = sizeof(inflight_module_t), .count = 2, .policies = policies};
  (void)query;
  return &module;
}
