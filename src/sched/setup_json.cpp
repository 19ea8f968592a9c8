// SPDX-License-Identifier: Apache-2.0
#include "sched/setup_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/error.h"

namespace inflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr int32_t kNoPreemption = INT32_MAX;  // INFLIGHT_NO_PREEMPTION

// Calls visit(key, member) for every plain field: one list for writing and reading.
template <typename Setup, typename Visit>
void for_each_field(Setup& setup, Visit&& visit) {
  auto& config = setup.config;
  visit("max_num_seqs", config.max_num_seqs);
  visit("max_num_batched_tokens", config.max_num_batched_tokens);
  visit("max_prefill_tokens", config.max_prefill_tokens);
  visit("long_prefill_token_threshold", config.long_prefill_token_threshold);
  visit("max_num_partial_prefills", config.max_num_partial_prefills);
  visit("max_model_len", config.max_model_len);
  visit("max_requests", config.max_requests);
  visit("sliding_window", config.sliding_window);
  visit("local_share", config.local_share);
  visit("has_state", config.has_state);
  visit("kept_states", config.kept_states);
  visit("enable_mixed_chunk", config.enable_mixed_chunk);
  visit("max_batch_delay_ms", config.max_batch_delay_ms);
  visit("schedule_conservativeness", config.schedule_conservativeness);
  visit("kv_headroom", config.kv_headroom);
  visit("host_kv_blocks", config.host_blocks);
  visit("host_cache_blocks", config.host_cache_blocks);
  visit("num_speculative_tokens", config.num_speculative_tokens);
  visit("draft_model", config.draft_model);
  visit("adaptive_drafts", config.adaptive_drafts);
  visit("prompt_lookup_min", config.prompt_lookup_min);
  visit("prompt_lookup_max", config.prompt_lookup_max);
  visit("disable_by_batch_size", config.disable_by_batch_size);
  visit("max_loras", config.max_loras);
  visit("kv_blocks", setup.blocks.block_count);
  visit("block_size", setup.blocks.block_token_count);
  visit("enable_prefix_caching", setup.blocks.prefix_caching);
  visit("local_window", setup.blocks.local_window);
  visit("local_slots", setup.blocks.local_slots);
  visit("block_bytes", setup.block_bytes);
  visit("schedule_policy", setup.schedule_policy);
  visit("radix_eviction_policy", setup.eviction_policy);
  visit("seed", setup.seed);
}

template <typename Enum, typename Parse>
void read_name(const Json& json, const char* key, Enum& value, Parse&& parse) {
  if (!json.contains(key)) return;
  const auto name = json.at(key).get<std::string>();
  const auto parsed = parse(name);
  if (!parsed) fail(ErrorCode::CorruptFile, "the recording's {} is '{}', which is unknown", key, name);
  value = *parsed;
}

}  // namespace

std::string to_json(const SchedulerSetup& setup) {
  Json json;
  for_each_field(setup, [&](const char* key, const auto& value) { json[key] = value; });
  json["batching"] = to_string(setup.config.batching);
  json["preempt"] = to_string(setup.config.preempt);
  json["preempt_victim"] = to_string(setup.config.preempt_victim);
  if (setup.config.priority_preemption_threshold) {
    json["priority_preemption_threshold"] = *setup.config.priority_preemption_threshold;
  }
  if (setup.blocks.shuffle_seed) json["shuffle_seed"] = *setup.blocks.shuffle_seed;
  if (setup.latency) json["latency_ns"] = *setup.latency;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);  // a policy's path may be any bytes
}

SchedulerSetup parse_setup_json(std::string_view text) {
  SchedulerSetup setup;
  try {
    const Json json = Json::parse(text);
    for_each_field(setup, [&](const char* key, auto& value) {
      if (json.contains(key)) json.at(key).get_to(value);
    });
    read_name(json, "batching", setup.config.batching, parse_batching_mode);
    read_name(json, "preempt", setup.config.preempt, parse_preempt_mode);
    read_name(json, "preempt_victim", setup.config.preempt_victim, parse_victim_rule);
    if (json.contains("priority_preemption_threshold")) {
      setup.config.priority_preemption_threshold = json.at("priority_preemption_threshold").get<int32_t>();
    }
    if (json.contains("shuffle_seed")) setup.blocks.shuffle_seed = json.at("shuffle_seed").get<uint64_t>();
    if (json.contains("latency_ns")) setup.latency = json.at("latency_ns").get<LatencyModel::Coefficients>();
  } catch (const nlohmann::json::exception& error) {
    fail(ErrorCode::CorruptFile, "the recording's configuration cannot be read: {}", error.what());
  }
  const KvBlocks::Options& blocks = setup.blocks;
  if (blocks.local_window < 0 || blocks.local_slots < 0 || blocks.local_slots > std::max(blocks.block_count, 0)) {
    fail(ErrorCode::CorruptFile,
         "the recording's local_slots is {}, local_window {}, allowed: 0 to kv_blocks ({}), >= 0", blocks.local_slots,
         blocks.local_window, blocks.block_count);
  }
  return setup;
}

SchedulerConfig with_limits(const SchedulerConfig& config, std::string_view text) {
  constexpr std::string_view kKeys[] = {"max_num_seqs",
                                        "max_num_batched_tokens",
                                        "max_prefill_tokens",
                                        "long_prefill_token_threshold",
                                        "max_num_partial_prefills",
                                        "enable_mixed_chunk",
                                        "max_batch_delay_ms",
                                        "schedule_conservativeness",
                                        "kv_headroom",
                                        "priority_preemption_threshold",
                                        "preempt_victim"};
  const Json given = Json::accept(text) ? parse_json(text, "the limits") : Json();
  if (!given.is_object()) fail(ErrorCode::InvalidArgument, "the limits are '{}', allowed: a JSON object", text);
  SchedulerSetup setup;
  setup.config = config;
  Json all = Json::parse(to_json(setup));
  for (const auto& [key, value] : given.items()) {
    if (std::ranges::find(kKeys, key) == std::end(kKeys)) {
      std::string allowed;
      for (const std::string_view known : kKeys) allowed += (allowed.empty() ? "" : ", ") + std::string(known);
      fail(ErrorCode::InvalidArgument, "'{}' cannot change while the engine runs, allowed: {}", key, allowed);
    }
    if (key == "priority_preemption_threshold" && (value.is_null() || value == kNoPreemption)) {
      all.erase(key);
      continue;
    }
    const auto check = [&](bool fits, std::string_view allowed) {
      if (!fits) fail(ErrorCode::InvalidArgument, "{} is {}, allowed: {}", key, value.dump(), allowed);
    };
    if (key == "preempt_victim") {
      check(value.is_string() && parse_victim_rule(value.get<std::string>()), victim_rule_names());
    } else if (key == "enable_mixed_chunk") {
      check(value.is_boolean(), "true, false");
    } else if (all.contains(key) && all.at(key).is_number_float()) {
      check(value.is_number(), "a number");
    } else {
      check(value.is_number_integer() && value >= INT32_MIN && value <= INT32_MAX, "a whole number of 32 bits");
    }
    all[key] = value;
  }
  return parse_setup_json(all.dump()).config;
}

void check_limits_json(std::string_view json) { static_cast<void>(with_limits({}, json)); }

}  // namespace inflight
