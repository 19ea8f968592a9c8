// SPDX-License-Identifier: Apache-2.0
// A scheduling policy that does not come back from an op: it crashes, throws, loops, sleeps or ends the process, as its
// parameter `fault` says, from the step `from` on. Written against the C header, so that nothing catches for it. With
// $INFLIGHT_TEST_CONSTRUCTOR (segv, loop) it does so while it is loaded.
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include "inflight/plugin.h"

namespace {

struct Hostile {
  const inflight_host_t* host = nullptr;
  std::string fault;
  uint64_t from = 0;
};

volatile int sink = 0;
int* volatile nowhere = nullptr;

int descend(int depth) {  // until the stack ends
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return descend(depth + 1) + frame[0];
}

void do_crash(const std::string& fault) {
  if (fault == "segv") *nowhere = 1;
  if (fault == "abort") std::abort();
  if (fault == "divide") sink = 1000 / sink;
  if (fault == "illegal") __builtin_trap();
  if (fault == "overflow") sink = descend(0);
}

void never_return(const Hostile& self) {
  if (self.fault == "loop") {
    for (;;) sink = sink + 1;
  }
  if (self.fault == "loop_malloc") {
    for (;;) {
      sink = sink + 1;
      std::free(std::malloc(64 + static_cast<size_t>(sink % 4096)));
    }
  }
  if (self.fault == "loop_log") {
    for (;;) self.host->log(self.host->context, INFLIGHT_PLUGIN_LOG_DEBUG, "again", 5);
  }
  if (self.fault == "sleep") {
    for (;;) ::pause();
  }
  if (self.fault == "nap") ::sleep(30);  // any signal ends it
  if (self.fault == "pipe") {
    int ends[2];
    char byte = 0;
    if (::pipe(ends) != 0) std::abort();
    sink = static_cast<int>(::read(ends[0], &byte, 1));
  }
  if (self.fault == "lock") {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    ::pthread_mutex_lock(&mutex);
    ::pthread_mutex_lock(&mutex);
  }
}

[[gnu::constructor]] void while_loaded() {
  const char* const fault = std::getenv("INFLIGHT_TEST_CONSTRUCTOR");
  if (fault != nullptr && std::strcmp(fault, "segv") == 0) *nowhere = 1;
  if (fault != nullptr && std::strcmp(fault, "loop") == 0) {
    for (;;) sink = sink + 1;
  }
}

void act(const Hostile& self) {
  do_crash(self.fault);
  never_return(self);
  if (self.fault == "exit_process") std::exit(0);
  if (self.fault == "quick_exit") std::quick_exit(0);
  if (self.fault == "_exit") ::_exit(0);
  if (self.fault == "throw") throw std::runtime_error("not my day");
  if (self.fault == "throw_int") throw 7;
  if (self.fault == "bad_text") self.host->set_error(self.host->context, reinterpret_cast<const char*>(8), 100);
}

inflight_plugin_status_t create(const inflight_host_t* host, const inflight_sched_environment_t*,
                                const inflight_config_t* config, void** self) {
  auto* const policy = new Hostile{host, {}, 0};
  for (uint32_t i = 0; i < config->count; ++i) {
    if (std::strcmp(config->pairs[i].key, "fault") == 0) policy->fault = config->pairs[i].value.string;
    if (std::strcmp(config->pairs[i].key, "from") == 0)
      policy->from = static_cast<uint64_t>(config->pairs[i].value.int64);
  }
  if (policy->fault == "create") do_crash("segv");
  *self = policy;
  return INFLIGHT_PLUGIN_OK;
}
void destroy(void* self) {
  if (static_cast<Hostile*>(self)->fault == "destroy") do_crash("segv");
  delete static_cast<Hostile*>(self);
}
void leave(void* self, const inflight_exit_t*) {
  if (static_cast<Hostile*>(self)->fault == "exit") do_crash("abort");
}

inflight_plugin_status_t score(void* self, const inflight_step_t* step, int64_t* key0, int64_t*) {
  const auto& policy = *static_cast<const Hostile*>(self);
  for (uint32_t i = 0; i < step->waiting->count; ++i) key0[i] = static_cast<int64_t>(step->waiting->id[i]);
  if (step->step >= policy.from) act(policy);
  return INFLIGHT_PLUGIN_OK;
}

const inflight_param_t params[] = {
    {"fault", INFLIGHT_TYPE_STRING, 0, "none", nullptr, nullptr, "what it does instead of returning"},
    {"from", INFLIGHT_TYPE_INT64, 0, "20", "0", nullptr, "the first step in which it does"}};

inflight_sched_ops_t make_ops() {
  inflight_sched_ops_t ops{};
  ops.struct_size = sizeof ops;
  ops.create = create;
  ops.destroy = destroy;
  ops.exit = leave;
  ops.score = score;
  return ops;
}
const inflight_sched_ops_t ops = make_ops();

inflight_policy_t make_policy() {
  inflight_policy_t policy{};
  policy.struct_size = sizeof policy;
  policy.kind = INFLIGHT_KIND_SCHED;
  policy.id = "test.hostile";
  policy.version = "6.6";
  policy.params = params;
  policy.param_count = 2;
  policy.sched = &ops;
  return policy;
}
const inflight_policy_t policy = make_policy();

INFLIGHT_PLUGIN_NOTE(hostile, "sched test.hostile");

}  // namespace

const inflight_module_t* inflight_plugin_query_v1(const inflight_query_t*) {
  static const inflight_policy_t* const policies[] = {&policy};
  static const inflight_module_t module = {sizeof(inflight_module_t), 0, 0, 1, policies};
  return &module;
}
