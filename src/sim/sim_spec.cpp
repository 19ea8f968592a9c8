// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_spec.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/bounded_json.h"
#include "base/error.h"
#include "plugin_host/plugin_config.h"
#include "sched/speculative_config.h"
#include "sim/parse_number.h"
#include "sim/timeline.h"

namespace inflight {
namespace {

using Json = nlohmann::ordered_json;
using Type = SimKey::Type;

constexpr std::array kSpecKeys = {
    SimKey{"workload", Type::Text, "", "synthetic requests, KIND,key=value,..."},
    SimKey{"workload_requests_max", Type::Integer, "0", "a workload of more requests is refused; 0 = no limit"},
    SimKey{"workload_tokens_max", Type::Integer, "0",
           "a workload with more tokens in prompts and outputs is refused; 0 = no limit"},
    SimKey{"trace", Type::Text, "", "requests from a file instead"},
    SimKey{"trace_speed", Type::Number, "1", "trace: arrivals come so many times as fast; 0 = all at the begin"},
    SimKey{"trace_requests", Type::Integer, "0", "trace: the first so many; 0 = all"},
    SimKey{"trace_acceptance", Type::Number, "none", "trace: what workloads have as `acceptance`"},
    SimKey{"device", Type::Text, "pocl-135m", "device profile: a name, a JSON file; then ,field=value"},
    SimKey{"schedule_policy", Type::Text, "fcfs", "scheduling policy: name, id or file, :key=value,..."},
    SimKey{"radix_eviction_policy", Type::Text, "lru", "eviction strategy, likewise"},
    SimKey{"batching", Type::Text, "continuous", "continuous, prefill_first, dynamic or static"},
    SimKey{"max_num_seqs", Type::Integer, "64", "sequences running at once"},
    SimKey{"max_num_batched_tokens", Type::Integer, "512", "tokens of a step"},
    SimKey{"max_prefill_tokens", Type::Integer, "0", "of these, prompt tokens; 0 = no limit of their own"},
    SimKey{"long_prefill_token_threshold", Type::Integer, "0", "of these, of one prompt; 0 = no limit of its own"},
    SimKey{"max_model_len", Type::Integer, "0", "tokens of a sequence; 0 = the workload's longest"},
    SimKey{"max_requests", Type::Integer, "65536", "requests in an engine at once; others wait at the client"},
    SimKey{"enable_mixed_chunk", Type::OnOff, "off", "prefill_first: decodes ride along with prompts"},
    SimKey{"max_batch_delay_ms", Type::Number, "5", "dynamic: most that the oldest is made to wait"},
    SimKey{"schedule_conservativeness", Type::Number, "1", "room kept for running requests' output; 0 = none"},
    SimKey{"kv_headroom", Type::Number, "0", "share of the blocks that admission leaves free"},
    SimKey{"kv_blocks", Type::Integer, "0", "KV blocks; 0 = what the device holds"},
    SimKey{"block_size", Type::Integer, "16", "tokens of a KV block"},
    SimKey{"prefix_caching", Type::OnOff, "on", "reuse stored prefixes"},
    SimKey{"preempt", Type::Text, "recompute", "recompute, swap or auto"},
    SimKey{"preempt_victim", Type::Text, "last_admitted",
           "last_admitted, lowest_priority, fewest_output, most_freeable or cheapest"},
    SimKey{"host_kv_blocks", Type::Integer, "0", "KV blocks in host memory for swapping"},
    SimKey{"host_cache_blocks", Type::Integer, "0", "KV blocks in host memory for prefixes evicted from the device"},
    SimKey{"speculative_config", Type::Text, "",
           "speculative decoding, as the engine's: {\"num_speculative_tokens\": 4}; the workload says `acceptance`"},
    SimKey{"max_loras", Type::Integer, "0", "distinct adapters running at once; 0 = no limit"},
    SimKey{"priority_preemption_threshold", Type::Integer, "none",
           "a waiting request replaces running ones whose priority is worse by more"},
    SimKey{"overlap", Type::OnOff, "on", "plan a step while the one before runs"},
    SimKey{"skip_decodes", Type::OnOff, "on", "walk over decode steps in which nothing is decided"},
    SimKey{"max_num_queued_reqs", Type::Integer, "0",
           "arrivals are rejected while so many wait beyond the free rows; 0 = never"},
    SimKey{"replicas", Type::Integer, "1", "engines side by side"},
    SimKey{"prefill_replicas", Type::Integer, "0", "of these, those that only prefill; the others then only decode"},
    SimKey{"routing", Type::Text, "least_loaded", "round_robin, least_loaded or prefix"},
    SimKey{"time_limit_s", Type::Number, "0", "end of the run in virtual seconds; 0 = when all is done"},
    SimKey{"wall_limit_s", Type::Number, "0",
           "a run that takes longer than so many real seconds is given up; 0 = none is"},
    SimKey{"seed", Type::Integer, "0", "of the random numbers of policies and of the device's jitter"},
    SimKey{"timeline", Type::OnOff, "off", "in the JSON too: who held which row when, and each step (of replica 0)"},
};

// The given values as text, over the defaults.
class Values {
 public:
  explicit Values(const Json& json) {
    if (!json.is_object())
      fail(ErrorCode::InvalidArgument, "the simulation is described by a JSON object, found: {}", json.type_name());
    for (const SimKey& key : kSpecKeys) values_[key.name] = key.default_value;
    for (const auto& [name, value] : json.items()) {
      const auto key = values_.find(long_sim_key(name));
      if (key == values_.end()) unknown(name);
      if (!given_.insert(key->first).second) {
        fail(ErrorCode::InvalidArgument, "simulation key '{}' is given under two names, allowed: one", key->first);
      }
      if (value.is_boolean()) {
        key->second = value.get<bool>() ? "on" : "off";
      } else {
        key->second = value.is_string() ? value.get<std::string>() : value.dump();
      }
    }
  }

  [[nodiscard]] const std::string& text(const char* key) const { return values_.at(key); }
  [[nodiscard]] bool given(const char* key) const { return given_.contains(key); }
  [[nodiscard]] double number(const char* key) const {
    const auto value = parse_number(text(key));
    if (!value) bad(key, "a number");
    return *value;
  }
  template <typename Integer = int32_t>
  [[nodiscard]] Integer integer(const char* key) const {
    const auto value = parse_number<Integer>(text(key));
    if (!value) bad(key, fmt::format("a whole number up to {}", std::numeric_limits<Integer>::max()));
    return *value;
  }
  // 0 and more.
  template <typename Integer = int32_t>
  [[nodiscard]] Integer count(const char* key) const {
    const auto value = integer<Integer>(key);
    if (value < 0) bad(key, "0 or more");
    return value;
  }
  // Seconds; 0: never.
  [[nodiscard]] TimeNs limit(const char* key) const {
    const double seconds = number(key);
    if (!(seconds >= 0.0 && seconds <= kSimSecondsMax)) {
      fail(ErrorCode::InvalidArgument, "{} is {}, allowed: 0 (none) to {:.0f}", key, seconds, kSimSecondsMax);
    }
    return seconds > 0.0 ? static_cast<TimeNs>(seconds * 1e9) : kNoDeadline;
  }
  [[nodiscard]] bool on(const char* key) const {
    const std::string& value = text(key);
    if (value != "on" && value != "off") bad(key, "on, off");
    return value == "on";
  }
  template <typename Parse>
  [[nodiscard]] auto name(const char* key, Parse&& parse) const {
    const auto value = parse(text(key));
    if (!value) {
      const auto known = std::ranges::find(kSpecKeys, std::string_view(key), &SimKey::name);
      bad(key, known->help);
    }
    return *value;
  }

 private:
  [[noreturn]] void bad(const char* key, std::string_view allowed) const {
    fail(ErrorCode::InvalidArgument, "{} is '{}', allowed: {}", key, text(key), allowed);
  }
  [[noreturn]] static void unknown(const std::string& name) {
    std::string names;
    for (const SimKey& key : kSpecKeys) names += std::string(names.empty() ? "" : ", ") + key.name;
    fail(ErrorCode::InvalidArgument, "simulation key '{}' is unknown, allowed: {}", name, names);
  }
  std::map<std::string, std::string> values_;
  std::set<std::string, std::less<>> given_;
};

}  // namespace

std::span<const SimKey> sim_keys() { return kSpecKeys; }

std::string long_sim_key(std::string_view name) {
  if (name == "policy") return "schedule_policy";
  if (name == "evict") return "radix_eviction_policy";
  std::string key(name);
  std::ranges::replace(key, '-', '_');
  return key == "chunk" || key == "chunked_prefill_size" ? "max_prefill_tokens" : key;
}

std::vector<std::string> files_named(std::string_view key, const std::string& value) {
  if (value.empty()) return {};
  if (key == "trace") return {value};
  if (key == "device") return {device_file(value)};
  if (key == "schedule_policy" || key == "radix_eviction_policy") {
    const PolicySpec policy = parse_policy_spec(value);
    return {policy.name.find('/') == std::string::npos ? std::string() : policy.name};
  }
  return length_files(value);
}

SimSpec parse_sim_spec(std::string_view json_text) {
  return read_sim_spec(parse_json(json_text, "the simulation's JSON"));
}

SimSpec read_sim_spec(const Json& object) {
  const Values values(object);
  SimSpec spec;
  spec.workload = values.text("workload");
  spec.trace = values.text("trace");
  if (spec.workload.empty() == spec.trace.empty()) {
    fail(ErrorCode::InvalidArgument, "{}: give a workload or a trace",
         spec.workload.empty() ? "nothing to simulate" : "two things to simulate");
  }
  for (const char* const key : {"trace_speed", "trace_requests", "trace_acceptance"}) {
    if (spec.trace.empty() && values.given(key)) {
      fail(ErrorCode::InvalidArgument, "{} is of traces, found the workload '{}'", key, spec.workload);
    }
  }
  if (const auto most = values.count<int64_t>("workload_requests_max"); most > 0) {
    spec.workload_limits.requests = std::min(most, spec.workload_limits.requests);
  }
  if (const auto most = values.count<int64_t>("workload_tokens_max"); most > 0) spec.workload_limits.tokens = most;
  spec.trace_options.speed = values.number("trace_speed");
  spec.trace_options.requests_max = values.count<int64_t>("trace_requests");
  if (values.text("trace_acceptance") != "none") spec.trace_acceptance = values.number("trace_acceptance");
  if (const double share = spec.trace_acceptance.value_or(0.0); !(share >= 0.0 && share <= 1.0)) {
    fail(ErrorCode::InvalidArgument, "trace_acceptance is {}, allowed: 0 to 1", share);
  }
  if (const double speed = spec.trace_options.speed; !(speed >= 0.0 && speed <= kTraceSpeedMax)) {
    fail(ErrorCode::InvalidArgument, "trace_speed is {}, allowed: 0 to {}", speed, kTraceSpeedMax);
  }
  SimOptions& options = spec.options;
  SchedulerConfig& config = options.setup.config;
  KvBlocks::Options& blocks = options.setup.blocks;
  options.device = find_device_profile(values.text("device"));
  options.setup.schedule_policy = values.text("schedule_policy");
  options.setup.eviction_policy = values.text("radix_eviction_policy");
  options.setup.seed = values.integer<uint64_t>("seed");
  config.batching = values.name("batching", parse_batching_mode);
  config.max_num_seqs = values.integer("max_num_seqs");
  config.max_num_batched_tokens = values.integer("max_num_batched_tokens");
  config.max_prefill_tokens = values.integer("max_prefill_tokens");
  config.long_prefill_token_threshold = values.integer("long_prefill_token_threshold");
  config.max_model_len = values.integer("max_model_len");
  config.max_requests = values.integer("max_requests");
  config.enable_mixed_chunk = values.on("enable_mixed_chunk");
  config.max_batch_delay_ms = values.number("max_batch_delay_ms");
  config.schedule_conservativeness = values.number("schedule_conservativeness");
  config.kv_headroom = values.number("kv_headroom");
  config.preempt = values.name("preempt", parse_preempt_mode);
  config.preempt_victim = values.name("preempt_victim", parse_victim_rule);
  config.host_blocks = values.integer("host_kv_blocks");
  config.host_cache_blocks = values.integer("host_cache_blocks");
  config.warn_of_no_effect();
  config.max_loras = values.integer("max_loras");
  if (const std::string& json = values.text("speculative_config"); !json.empty()) {
    if (!read_speculative_config(json, config).empty()) {
      fail(ErrorCode::InvalidArgument, "speculative_config: method is \"draft_model\", simulated is \"ngram\" only");
    }
  }
  if (values.text("priority_preemption_threshold") != "none") {
    config.priority_preemption_threshold = values.integer("priority_preemption_threshold");
  }
  blocks.block_count = values.integer("kv_blocks");
  blocks.block_token_count = values.integer("block_size");
  blocks.prefix_caching = values.on("prefix_caching");
  options.overlap = values.on("overlap");
  options.skip_decodes = values.on("skip_decodes");
  options.max_queued = values.count("max_num_queued_reqs");
  options.replicas = values.integer("replicas");
  options.prefill_replicas = values.integer("prefill_replicas");
  options.routing = values.name("routing", parse_routing);
  spec.timeline = values.on("timeline");
  options.time_limit = values.limit("time_limit_s");
  options.wall_limit = values.limit("wall_limit_s");
  return spec;
}

Workload load_workload(const SimSpec& spec) {
  if (spec.trace.empty()) return make_workload(spec.workload, spec.workload_limits);
  Workload workload = read_trace_workload(spec.trace, spec.trace_options);
  workload.acceptance = spec.trace_acceptance;
  workload.seed = spec.options.setup.seed;
  return workload;
}

std::string to_json(const SimResult& result, const Timeline* timeline) {
  std::string json = to_json(result);
  if (timeline == nullptr) return json;
  json.erase(json.find_last_of('}'));  // one field more
  return json + ",\n  \"timeline\": " + to_json(*timeline) + "\n}";
}

std::string run_simulation_json(std::string_view spec_json) {
  const SimSpec spec = parse_sim_spec(spec_json);
  Timeline timeline;
  const SimResult result = run_simulation(spec.options, load_workload(spec), SteadyClock(),
                                          {.trace = spec.timeline ? &timeline : nullptr, .progress = {}});
  timeline.end(result.makespan);
  return to_json(result, spec.timeline ? &timeline : nullptr);
}

}  // namespace inflight
