// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/policy_report.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "inflight/version.h"
#include "plugin_host/plugin_module.h"
#include "plugin_host/policy_instance.h"

namespace inflight {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
void put(Json& json, const char* name, const T* column, uint32_t count) {
  if (column == nullptr) return;
  json[name] = std::vector<T>(column, column + std::min(count, kReportRowsMax));
}

Json text_or_null(const char* text) { return text == nullptr ? Json() : Json(text); }

Json recent_calls(const PolicyInstance& instance) {
  Json calls = Json::array();
  instance.for_each_recent_call([&](const PolicyInstance::Call& call) {
    calls.push_back({{"step", call.step},
                     {"op", call.op},
                     {"now_ns", call.now},
                     {"taken_ns", call.taken},
                     {"status", call.status}});
  });
  return calls;
}

}  // namespace

std::string default_report_folder() {
  if (const char* folder = ::secure_getenv("INFLIGHT_REPORT_DIR"); folder != nullptr) return folder;
  if (const char* state = ::secure_getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0') {
    return std::string(state) + "/inflight/reports";
  }
  const char* home = ::secure_getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.local/state/inflight/reports" : "";
}

const char* exit_reason_name(uint32_t reason) {
  switch (reason) {
    case INFLIGHT_EXIT_UNLOAD:
      return "unload";
    case INFLIGHT_EXIT_SWAP:
      return "swap";
    case INFLIGHT_EXIT_SELF:
      return "self";
    case INFLIGHT_EXIT_BAD_OUTPUT:
      return "bad_output";
    case INFLIGHT_EXIT_ERROR:
      return "error";
    case INFLIGHT_EXIT_OVERRUN:
      return "overrun";
    case INFLIGHT_EXIT_STUCK:
      return "stuck";
    case INFLIGHT_EXIT_STARVATION:
      return "starvation";
    case INFLIGHT_EXIT_NO_PROGRESS:
      return "no_progress";
    case INFLIGHT_EXIT_NONDETERMINISTIC:
      return "nondeterministic";
    case INFLIGHT_EXIT_ABI:
      return "abi";
    case INFLIGHT_EXIT_CRASH:
      return "crash";
    default:
      return "unknown";
  }
}

Json to_json(const inflight_requests_t& requests) {
  const uint32_t count = requests.count;
  Json json{{"count", count}};
  put(json, "id", requests.id, count);
  put(json, "slot", requests.slot, count);
  put(json, "state", requests.state, count);
  put(json, "priority", requests.priority, count);
  put(json, "tenant", requests.tenant, count);
  put(json, "arrival_ns", requests.arrival_ns, count);
  put(json, "queued_ns", requests.queued_ns, count);
  put(json, "first_token_ns", requests.first_token_ns, count);
  put(json, "last_token_ns", requests.last_token_ns, count);
  put(json, "ttft_deadline_ns", requests.ttft_deadline_ns, count);
  put(json, "next_token_deadline_ns", requests.next_token_deadline_ns, count);
  put(json, "e2e_deadline_ns", requests.e2e_deadline_ns, count);
  put(json, "prompt_tokens", requests.prompt_tokens, count);
  put(json, "output_tokens", requests.output_tokens, count);
  put(json, "max_output_tokens", requests.max_output_tokens, count);
  put(json, "computed_tokens", requests.computed_tokens, count);
  put(json, "cached_tokens", requests.cached_tokens, count);
  put(json, "cached_unit", requests.cached_unit, count);
  put(json, "blocks_held", requests.blocks_held, count);
  put(json, "blocks_freeable", requests.blocks_freeable, count);
  put(json, "predicted_output_tokens", requests.predicted_output_tokens, count);
  put(json, "preemptions", requests.preemptions, count);
  put(json, "recomputed_tokens", requests.recomputed_tokens, count);
  put(json, "prefix_group", requests.prefix_group, count);
  put(json, "adapter", requests.adapter, count);
  return json;
}

Json to_json(const inflight_step_t& step) {
  return {{"step", step.step},
          {"now_ns", step.now_ns},
          {"max_step_tokens", step.max_step_tokens},
          {"max_step_sequences", step.max_step_sequences},
          {"max_running", step.max_running},
          {"block_tokens", step.block_tokens},
          {"free_blocks", step.free_blocks},
          {"evictable_blocks", step.evictable_blocks},
          {"total_blocks", step.total_blocks},
          {"tokens_left", step.tokens_left},
          {"sequences_left", step.sequences_left},
          {"prefilling", step.prefilling},
          {"decoding", step.decoding},
          {"last_step_ns", step.last_step_ns},
          {"reserve_ratio", step.reserve_ratio},
          {"waiting", to_json(*step.waiting)},
          {"running", to_json(*step.running)}};
}

Json to_json(const inflight_units_t& units) {
  const uint32_t count = units.count;
  Json json{{"count", count}};
  put(json, "unit", units.unit, count);
  put(json, "key", units.key, count);
  put(json, "parent", units.parent, count);
  put(json, "depth", units.depth, count);
  put(json, "children", units.children, count);
  put(json, "tokens", units.tokens, count);
  put(json, "bytes", units.bytes, count);
  put(json, "created_ns", units.created_ns, count);
  put(json, "last_use_ns", units.last_use_ns, count);
  put(json, "hits", units.hits, count);
  put(json, "references", units.references, count);
  put(json, "recompute_ns", units.recompute_ns, count);
  put(json, "tenant", units.tenant, count);
  put(json, "priority", units.priority, count);
  return json;
}

Json to_json(const inflight_events_t& events) {
  Json json = Json::array();
  for (uint32_t i = 0; i < std::min(events.count, kReportRowsMax); ++i) {
    const inflight_event_t& event = events.events[i];
    json.push_back({{"type", event.type},
                    {"slot", event.slot},
                    {"request", event.request},
                    {"time_ns", event.time_ns},
                    {"a", event.a},
                    {"b", event.b},
                    {"c", event.c}});
  }
  return json;
}

std::string write_policy_report(const PolicyInstance& instance, const inflight_exit_t& info,
                                const std::string& folder) {
  if (folder.empty()) return "";
  const inflight_policy_t& policy = instance.policy();
  const PluginModule* const module = instance.options().module;
  Json inputs = Json::object();
  if (instance.services() != nullptr) instance.services()->describe(info.op, inputs);
  const Json report{{"report", "inflight policy ejection"},
                    {"format", 1},
                    {"host",
                     {{"name", "inflight"},
                      {"version", INFLIGHT_VERSION_STRING},
                      {"plugin_abi", fmt::format("{}.{}", INFLIGHT_PLUGIN_ABI_MAJOR, INFLIGHT_PLUGIN_ABI_MINOR)}}},
                    {"policy",
                     {{"id", policy.id},
                      {"kind", policy.kind == INFLIGHT_KIND_SCHED ? "sched" : "evict"},
                      {"version", text_or_null(policy.version)},
                      {"spec", instance.options().spec},
                      {"path", module == nullptr ? "built in" : module->origin()},
                      {"sha256", module == nullptr ? Json() : Json(module->sha256())},
                      {"guarded", instance.guarded()}}},
                    {"fault",
                     {{"reason", exit_reason_name(info.reason)},
                      {"reason_code", info.reason},
                      {"code", info.code},
                      {"op", info.op},
                      {"message", info.message},
                      {"strikes", info.strikes},
                      {"strikes_total", instance.strike_count()},
                      {"slow_steps", instance.slow_step_count()}}},
                    {"step", info.step},
                    {"now_ns", info.now_ns},
                    {"inputs", std::move(inputs)},
                    {"recent_calls", recent_calls(instance)},
                    {"metrics", instance.metrics()}};
  const std::string path = fmt::format("{}/inflight-eject-{}-{}.json", folder, policy.id, info.step);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  // Texts come from the plugin: bytes that are no UTF-8 are replaced.
  stream << report.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  if (!stream.flush()) {
    log(LogLevel::Warning, "the report on policy {} could not be written to {}", policy.id, path);
    return "";
  }
  return path;
}

}  // namespace inflight
