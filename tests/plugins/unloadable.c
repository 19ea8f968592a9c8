/* SPDX-License-Identifier: Apache-2.0
 * Modules that must not load, or (no_set_param) not pass the check; compiled once for each -DFAULT_*. */
#include "inflight/plugin.h"

#if defined(FAULT_NO_SYMBOL)
INFLIGHT_PLUGIN_EXPORT int some_other_symbol(void);
int some_other_symbol(void) { return 1; }
#else

#if defined(FAULT_NO_CREATE)
static const inflight_sched_ops_t ops = {.struct_size = sizeof(inflight_sched_ops_t)};
#else
static inflight_plugin_status_t create(const inflight_host_t* host, const inflight_sched_environment_t* environment,
                                       const inflight_config_t* config, void** self) {
  (void)host;
  (void)environment;
  (void)config;
  (void)self;
  return INFLIGHT_PLUGIN_E_UNSUPPORTED;
}
static void destroy(void* self) { (void)self; }
static const inflight_sched_ops_t ops = {
    .struct_size = sizeof(inflight_sched_ops_t), .create = create, .destroy = destroy};
#endif
#if defined(FAULT_PARAM_COUNT) || defined(FAULT_PARAM_KEY)
static const inflight_param_t params[] = {{.key = "Bad Key", .type = 9}};
#endif
#if defined(FAULT_NO_SET_PARAM)
static const inflight_param_t params[] = {{.key = "level",
                                           .type = INFLIGHT_TYPE_INT64,
                                           .flags = INFLIGHT_PARAM_RUNTIME,
                                           .default_value = "1",
                                           .help = "says nothing"}};
#endif
static const inflight_policy_t policy = {
#if defined(FAULT_SHORT_POLICY)
    .struct_size = 16,
#else
    .struct_size = sizeof(inflight_policy_t),
#endif
#if defined(FAULT_KIND)
    .kind = 77,
#else
    .kind = INFLIGHT_KIND_SCHED,
#endif
#if defined(FAULT_ID) || defined(FAULT_RESIDENT)
    .id = "Not An Id!",
#else
    .id = "test.unloadable",
#endif
#if !defined(FAULT_NO_OPS)
    .sched = &ops,
#endif
#if defined(FAULT_PARAM_COUNT)
    .param_count = 1000000,
    .params = params,
#elif defined(FAULT_PARAM_KEY) || defined(FAULT_NO_SET_PARAM)
    .param_count = 1,
    .params = params,
#elif defined(FAULT_STATE)
    .capabilities = INFLIGHT_CAP_STATE,
#elif defined(FAULT_TEXT)
    .summary = (const char*)8,
#endif
};

#if defined(FAULT_NOTE)
INFLIGHT_PLUGIN_NOTE(other, "sched test.something-else");
#else
INFLIGHT_PLUGIN_NOTE(unloadable, "sched test.unloadable");
#endif

const inflight_module_t* inflight_plugin_query_v1(const inflight_query_t* query) {
  static const inflight_policy_t* const policies[] = {&policy};
  static const inflight_module_t module = {
#if defined(FAULT_SHORT_MODULE)
      .struct_size = 4,
#else
      .struct_size = sizeof(inflight_module_t),
#endif
#if defined(FAULT_MINOR)
      .min_host_minor = 99,
#endif
#if defined(FAULT_COUNT)
      .count = 1u << 30,
      .policies = policies,
#elif defined(FAULT_POINTER)
      .count = 1,
      .policies = (const inflight_policy_t* const*)8,
#elif !defined(FAULT_EMPTY)
      .count = 1,
      .policies = policies,
#endif
  };
#if defined(FAULT_QUERY)
  *(volatile int*)8 = 1;
#endif
  (void)query;
  (void)policies;
#if defined(FAULT_NULL)
  return NULL;
#else
  return &module;
#endif
}
#endif
