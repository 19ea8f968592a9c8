// SPDX-License-Identifier: Apache-2.0
// A scheduling policy whose answers look right but which does, as its parameter `fault` says, what only a conformance
// check sees: it writes its input, keeps pointers, frees through the host what it took elsewhere, answers by addresses
// or garbage, shares state, leaks, saves badly, names a metric with what is no text, fails at a parameter's bound.
#include <cstdlib>
#include <string>

#include "inflight/plugin.hpp"

namespace {

int64_t shared_count = 0;
void* volatile forgotten = nullptr;

constexpr inflight_param_t kParams[] = {
    {"fault", INFLIGHT_TYPE_STRING, 0, "none", nullptr, nullptr, "what it does"},
    {"level", INFLIGHT_TYPE_INT64, INFLIGHT_PARAM_RUNTIME, "1", "0", "9", "one at which it makes its mistake"}};

struct Sneaky {
  static constexpr inflight::Policy kPolicy = inflight::sched_policy("test.sneaky", "what only a check sees")
                                                  .reads(INFLIGHT_COLUMN_LENGTHS)
                                                  .takes(kParams)
                                                  .can(INFLIGHT_CAP_DETERMINISTIC | INFLIGHT_CAP_NO_ALLOC)
                                                  .stores_state(3, 3);

  explicit Sneaky(const inflight::SchedSetup& setup) : host(setup.host), fault(setup.config.string("fault")) {
    if (fault == "metric") host.metric("caf\xe9", 1.0);
    if (fault == "leak") forgotten = std::malloc(10'000);
    if (fault == "free_own") {
      for (int i = 0; i < 3; ++i) host.free(std::malloc(16));
    }
  }

  inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t*) {
    const inflight_requests_t& waiting = *step.waiting;
    ++calls;
    for (uint32_t i = 0; i < waiting.count; ++i) key0[i] = waiting.prompt_tokens[i];
    if (waiting.count == 0) return INFLIGHT_PLUGIN_OK;
    if (fault == "late_metric") host.metric("", 1.0);
    if (fault == "write") const_cast<uint32_t*>(waiting.prompt_tokens)[0] = 1;
    if (fault == "keep" && kept != nullptr) key0[0] += *kept;
    kept = waiting.prompt_tokens + waiting.count - 1;
    if (fault == "address") key0[0] = static_cast<int64_t>(reinterpret_cast<uintptr_t>(waiting.prompt_tokens) / 8 % 8);
    if (fault == "garbage") key0[0] = *static_cast<const unsigned char*>(step.scratch);
    if (fault == "shared") key0[0] = ++shared_count % 5;
    if (fault == "behind") key0[waiting.count] = 0;
    return INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t set_param(const inflight_key_value_t& pair) {
    if (fault == "set_param" && pair.value.int64 == 9) return INFLIGHT_PLUGIN_E_INTERNAL;
    return pair.value.int64 == 0 ? INFLIGHT_PLUGIN_E_ARGUMENT : INFLIGHT_PLUGIN_OK;
  }

  inflight_plugin_status_t save(const inflight_writer_t& writer) {
    const auto* at = reinterpret_cast<const char*>(&calls);
    const int64_t changed = calls + (fault == "save_drifts" ? ++saves : 0);
    if (fault == "save_drifts") at = reinterpret_cast<const char*>(&changed);
    for (uint64_t done = 0; done < sizeof calls;) {
      const int64_t moved = writer.write(writer.context, at + done, sizeof calls - done);
      if (moved <= 0) return INFLIGHT_PLUGIN_E_INTERNAL;
      done += fault == "save_hasty" ? sizeof calls : static_cast<uint64_t>(moved);
    }
    return INFLIGHT_PLUGIN_OK;
  }
  inflight_plugin_status_t load(const inflight_reader_t& reader, uint32_t version) {
    if (version != 3 && fault != "load_any_version") return INFLIGHT_PLUGIN_E_STATE;
    int64_t value = 0;
    for (uint64_t done = 0; done < sizeof value;) {
      const int64_t moved = reader.read(reader.context, reinterpret_cast<char*>(&value) + done, sizeof value - done);
      if (moved <= 0 && fault == "load_anything") break;
      if (moved <= 0) return INFLIGHT_PLUGIN_E_STATE;
      done += static_cast<uint64_t>(moved);
    }
    calls = value;
    return INFLIGHT_PLUGIN_OK;
  }

  inflight::PluginHost host;
  std::string fault;
  const uint32_t* kept = nullptr;
  int64_t calls = 0, saves = 0;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(Sneaky)
