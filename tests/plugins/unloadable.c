/* SPDX-License-Identifier: Apache-2.0
 * Modules that must not load; compiled once for each -DFAULT_*. */
#include "inflight/plugin.h"

#if defined(FAULT_NO_SYMBOL)
INFLIGHT_PLUGIN_EXPORT int some_other_symbol(void);
int some_other_symbol(void) { return 1; }
#else

static const inflight_sched_ops_t no_create = {.struct_size = sizeof(inflight_sched_ops_t)};
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
#if defined(FAULT_ID)
    .id = "Not An Id!",
#else
    .id = "test.unloadable",
#endif
#if !defined(FAULT_NO_OPS)
    .sched = &no_create,
#endif
};

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
#if !defined(FAULT_EMPTY)
      .count = 1,
      .policies = policies,
#endif
  };
  (void)query;
  (void)policies;
#if defined(FAULT_NULL)
  return NULL;
#else
  return &module;
#endif
}
#endif
