/* SPDX-License-Identifier: Apache-2.0
 * A scheduling policy that makes the mistake that its parameter `fault` names, from the step `from` on. */
#include <string.h>
#include <unistd.h>

#include "inflight/plugin.h"

typedef struct faulty {
  const inflight_host_t* host;
  char fault[32];
  int64_t from;
} faulty_t;

static int faults(const faulty_t* self, const inflight_step_t* step, const char* name) {
  return (int64_t)step->step >= self->from && strcmp(self->fault, name) == 0;
}

static inflight_plugin_status_t faulty_create(const inflight_host_t* host,
                                              const inflight_sched_environment_t* environment,
                                              const inflight_config_t* config, void** self) {
  (void)environment;
  faulty_t* const policy = host->alloc(host->context, sizeof *policy, sizeof(void*));
  memset(policy, 0, sizeof *policy);
  policy->host = host;
  for (uint32_t i = 0; i < config->count; ++i) {
    const inflight_key_value_t* pair =
        (const inflight_key_value_t*)(const void*)((const char*)config->pairs + (size_t)i * config->stride);
    if (strcmp(pair->key, "fault") == 0) strncpy(policy->fault, pair->value.string, sizeof policy->fault - 1);
    if (strcmp(pair->key, "from") == 0) policy->from = pair->value.int64;
  }
  if (strcmp(policy->fault, "create") == 0) {
    static const char text[] = "will not be created";
    host->set_error(host->context, text, sizeof text - 1);
    host->free(host->context, policy);
    return INFLIGHT_PLUGIN_E_ARGUMENT;
  }
  *self = policy;
  return INFLIGHT_PLUGIN_OK;
}

static void faulty_destroy(void* self) {
  const inflight_host_t* const host = ((faulty_t*)self)->host;
  if (strcmp(((faulty_t*)self)->fault, "leak") != 0) host->free(host->context, self);
}

static void faulty_exit(void* self, const inflight_exit_t* info) {
  const inflight_host_t* const host = ((faulty_t*)self)->host;
  host->metric(host->context, "exit_reason", (double)info->reason);
}

static inflight_plugin_status_t faulty_plan(void* self, const inflight_step_t* step, inflight_plan_t* plan) {
  const faulty_t* const policy = self;
  if (faults(policy, step, "huge_plan")) {
    plan->step_tokens = plan->prefill_tokens = plan->max_chunk = plan->max_admit = UINT32_MAX;
  }
  if (faults(policy, step, "zero_plan")) plan->step_tokens = plan->prefill_tokens = plan->max_chunk = 0;
  if (faults(policy, step, "hang") && (int64_t)step->step == policy->from) sleep(4);
  if (faults(policy, step, "quit")) policy->host->request_exit(policy->host->context, 7, "had enough");
  return INFLIGHT_PLUGIN_OK;
}

static inflight_plugin_status_t faulty_order(void* self, const inflight_step_t* step, uint32_t* index,
                                             uint32_t* count) {
  const faulty_t* const policy = self;
  const uint32_t waiting = step->waiting->count;
  for (uint32_t i = 0; i < *count; ++i) index[i] = waiting - 1 - i; /* any order will do */
  if (faults(policy, step, "index_out_of_range")) index[0] = waiting;
  if (faults(policy, step, "duplicate") && *count > 1) index[1] = index[0];
  if (faults(policy, step, "too_many")) ++*count;
  if (faults(policy, step, "error")) {
    static const char text[] = "no idea";
    policy->host->set_error(policy->host->context, text, sizeof text - 1);
    return INFLIGHT_PLUGIN_E_INTERNAL;
  }
  if (faults(policy, step, "unknown_status")) return 12345;
  if (faults(policy, step, "pass")) return INFLIGHT_PASS;
  return INFLIGHT_PLUGIN_OK;
}

static inflight_plugin_status_t faulty_admit(void* self, const inflight_step_t* step,
                                             const inflight_candidate_t* candidate, inflight_admission_t* admission) {
  const faulty_t* const policy = self;
  if (faults(policy, step, "unknown_decision")) admission->decision = 99;
  if (faults(policy, step, "huge_share")) admission->max_tokens = UINT32_MAX;
  if (faults(policy, step, "zero_share")) admission->max_tokens = 0;
  if (faults(policy, step, "bad_slot")) {
    const uint32_t slots[] = {UINT32_MAX};
    uint32_t tokens[1];
    const inflight_host_t* const host = policy->host;
    if (host->match_prefix(host->context, slots, 1, tokens) == INFLIGHT_PLUGIN_OK) return INFLIGHT_PLUGIN_E_INTERNAL;
    if (host->match_prefix(host->context, step->waiting->slot + candidate->index, 1, tokens) != INFLIGHT_PLUGIN_OK ||
        tokens[0] < candidate->cached_tokens) {
      return INFLIGHT_PLUGIN_E_INTERNAL;
    }
  }
  return INFLIGHT_PLUGIN_OK;
}

static inflight_plugin_status_t faulty_pick_victims(void* self, const inflight_step_t* step,
                                                    const inflight_need_t* need, uint32_t* index, uint32_t* count) {
  (void)need;
  const faulty_t* const policy = self;
  *count = 1;
  index[0] = 0;
  if (faults(policy, step, "bad_victim")) index[0] = step->running->count + 5;
  return INFLIGHT_PLUGIN_OK;
}

static const inflight_param_t params[] = {
    {.key = "fault", .type = INFLIGHT_TYPE_STRING, .default_value = "none", .help = "which mistake to make"},
    {.key = "from",
     .type = INFLIGHT_TYPE_INT64,
     .default_value = "0",
     .minimum = "0",
     .maximum = "1000000",
     .help = "first step with the mistake"},
};

static const inflight_sched_ops_t ops = {
    .struct_size = sizeof(inflight_sched_ops_t),
    .create = faulty_create,
    .destroy = faulty_destroy,
    .exit = faulty_exit,
    .plan = faulty_plan,
    .order = faulty_order,
    .admit = faulty_admit,
    .pick_victims = faulty_pick_victims,
};

static const inflight_policy_t policy = {
    .struct_size = sizeof(inflight_policy_t),
    .kind = INFLIGHT_KIND_SCHED,
    .id = "test.faulty",
    .name = "Faulty",
    .version = "1.0",
    .summary = "makes mistakes",
    .request_columns = UINT32_MAX,
    .param_count = 2,
    .params = params,
    .sched = &ops,
};

INFLIGHT_PLUGIN_NOTE(faulty, "sched test.faulty");

const inflight_module_t* inflight_plugin_query_v1(const inflight_query_t* query) {
  static const inflight_policy_t* const policies[] = {&policy};
  static const inflight_module_t module = {.struct_size = sizeof(inflight_module_t), .count = 1, .policies = policies};
  (void)query;
  return &module;
}
