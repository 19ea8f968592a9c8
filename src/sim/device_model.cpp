// SPDX-License-Identifier: Apache-2.0
#include "sim/device_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/limits.h"
#include "sim/parse_number.h"
#include "sim/text_file.h"
#include "sim/workload.h"

namespace inflight {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kTimeMax = 1e9;
constexpr double kJitterMax = 1e3;

// Each way between two GPUs of one machine: NVLink 4 of an H100 has 900 GB/s, NVLink 3 of an A100 600 GB/s, both ways
// together.   Source: NVIDIA's data sheets of the H100 SXM and the A100 80GB SXM.
constexpr double kNvlink4GbPerSecond = 450.0, kNvlink3GbPerSecond = 300.0;

// One list of the numbers for reading, writing and checking: visit(key, member, low, high).
template <typename Profile, typename Visit>
void for_each_number(Profile& p, Visit&& visit) {
  visit("overhead_us", p.overhead_us, 0.0, kTimeMax);
  visit("weights_us", p.weights_us, 0.0, kTimeMax);
  visit("token_us", p.token_us, 0.0, kTimeMax);
  visit("kv_read_ns", p.kv_read_ns, 0.0, kTimeMax);
  visit("pair_ns", p.pair_ns, 0.0, kTimeMax);
  visit("prompt_us", p.prompt_us, 0.0, kTimeMax);
  visit("mixed_us", p.mixed_us, 0.0, kTimeMax);
  visit("sequence_us", p.sequence_us, 0.0, kTimeMax);
  visit("host_us", p.host_us, 0.0, kTimeMax);
  visit("host_sequence_us", p.host_sequence_us, 0.0, kTimeMax);
  visit("pickup_us", p.pickup_us, 0.0, kTimeMax);
  visit("wake_us", p.wake_us, 0.0, kTimeMax);
  visit("warm_us", p.warm_us, 0.0, kTimeMax);
  visit("idle_us", p.idle_us, 0.0, kTimeMax);
  visit("swap_block_us", p.swap_block_us, 0.0, kTimeMax);
  visit("kv_bytes_per_token", p.kv_bytes_per_token, 0.0, 1e9);
  visit("kv_tokens", p.kv_tokens, 16.0, 4e9);
  visit("sliding_window", p.sliding_window, 0.0, limits::kContextTokensMax);
  visit("local_window", p.local_window, 0.0, limits::kContextTokensMax);
  visit("local_share", p.local_share, 0.0, 1.0);
  visit("layers", p.layers, 1.0, 1024.0);
  visit("tensor_parallel", p.tensor_parallel, 1.0, 64.0);
  visit("pipeline_parallel", p.pipeline_parallel, 1.0, 64.0);
  visit("hidden_bytes", p.hidden_bytes, 0.0, 1e6);
  visit("tensor_link_gb_per_second", p.tensor_link_gb_per_second, 1e-3, 1e5);
  visit("tensor_link_latency_us", p.tensor_link_latency_us, 0.0, 1e6);
  visit("link_gb_per_second", p.link_gb_per_second, 1e-3, 1e5);
  visit("link_latency_us", p.link_latency_us, 0.0, 1e6);
}

DeviceProfile unit_profile() {
  return {.name = "unit", .description = "every step takes 1 ms", .overhead_us = 1000.0, .kv_tokens = 1 << 20};
}

// SmolLM-135M, Q8_0, on two CPU cores through PoCL: 143 MB of weights at 46 GB/s, 0.27 GFLOP a token at 600 GFLOP/s,
// 23 kB of K and V a token; docs/SIMULATOR.md says how the figures follow.
DeviceProfile pocl_135m_profile() {
  return {.name = "pocl-135m",
          .description = "SmolLM-135M Q8_0 on two CPU cores through PoCL",
          .overhead_us = 700.0,
          .weights_us = 3100.0,
          .token_us = 450.0,
          .kv_read_ns = 500.0,
          .pair_ns = 60.0,
          .sequence_us = 40.0,
          .host_us = 20.0,
          .host_sequence_us = 0.5,
          .swap_block_us = 30.0,
          .kv_bytes_per_token = 23040.0,
          .kv_tokens = 131072,
          .layers = 30,
          .hidden_bytes = 2304.0,
          .tensor_link_gb_per_second = 10.0,
          .link_gb_per_second = 10.0};
}

// The demo model (2.5 M parameters), as `inflight calibrate` fitted it on two Zen 4 cores, its curve as a line.
DeviceProfile pocl_tinyworld_profile() {
  return {.name = "pocl-tinyworld",
          .description = "the demo model on two CPU cores through PoCL",
          .overhead_us = 98.0,
          .weights_us = 28.0,
          .token_us = 28.3,
          .kv_read_ns = 33.0,
          .pair_ns = 32.0,
          .sequence_us = 0.6,
          .host_us = 15.0,
          .host_sequence_us = 0.5,
          .pickup_us = 26.0,
          .wake_us = 50.0,
          .warm_us = 42.0,
          .swap_block_us = 4.0,
          .kv_bytes_per_token = 1024.0,
          .kv_tokens = 65536,
          .layers = 4,
          .hidden_bytes = 1024.0,
          .tensor_link_gb_per_second = 10.0,
          .link_gb_per_second = 10.0};
}

// A GPU described by its data sheet: 3.35 TB/s and half of 990 TFLOP/s, a model of 8 billion bf16 parameters with
// 128 KiB of K and V a token, 60 GB left for them.
DeviceProfile gpu_8b_profile() {
  return {.name = "gpu-8b",
          .description = "8 B bf16 parameters on a GPU of 3.35 TB/s and 495 TFLOP/s",
          .overhead_us = 300.0,
          .weights_us = 4780.0,
          .token_us = 32.3,
          .kv_read_ns = 39.0,
          .pair_ns = 1.06,
          .sequence_us = 1.0,
          .host_us = 20.0,
          .host_sequence_us = 0.5,
          .swap_block_us = 40.0,
          .kv_bytes_per_token = 131072.0,
          .kv_tokens = 457000,
          .layers = 32,
          .hidden_bytes = 8192.0,
          .tensor_link_gb_per_second = kNvlink4GbPerSecond,
          .link_gb_per_second = 50.0};
}

// 2.04 TB/s and half of 312 TFLOP/s, 7.2 billion bf16 parameters with grouped queries: the machine of Sarathi-Serve.
DeviceProfile gpu_7b_profile() {
  return {.name = "gpu-7b",
          .description = "7.2 B bf16 parameters on a GPU of 2.04 TB/s and 156 TFLOP/s",
          .overhead_us = 400.0,
          .weights_us = 7060.0,
          .token_us = 92.3,
          .kv_read_ns = 64.0,
          .pair_ns = 3.4,
          .sequence_us = 1.0,
          .host_us = 20.0,
          .host_sequence_us = 0.5,
          .swap_block_us = 80.0,
          .kv_bytes_per_token = 131072.0,
          .kv_tokens = 400000,
          .layers = 32,
          .hidden_bytes = 8192.0,
          .tensor_link_gb_per_second = kNvlink3GbPerSecond,
          .link_gb_per_second = 50.0};
}

// What may stand in a profile beside the numbers.
constexpr std::array kOtherFields = {"name", "description", "linear_us", "decode_jitter", "prompt_jitter"};

void check_number(const char* key, double value, double low, double high) {
  if (value >= low && value <= high) return;
  fail(ErrorCode::InvalidArgument, "device field {} is {}, allowed: {} to {}", key, value, low, high);
}

template <typename Number>
void set_number(const char* key, Number& member, double value, double low, double high) {
  check_number(key, value, low, high);
  member = static_cast<Number>(value);
  if (static_cast<double>(member) != value) {
    fail(ErrorCode::InvalidArgument, "device field {} is {}, allowed: a whole number", key, value);
  }
}

// False: no number of a profile has this name.
bool set_field(DeviceProfile& profile, std::string_view key, double value) {
  bool known = false;
  for_each_number(profile, [&](const char* name, auto& member, double low, double high) {
    if (key != name) return;
    known = true;
    set_number(name, member, value, low, high);
  });
  return known;
}

[[noreturn]] void unknown_field(std::string_view key, std::span<const char* const> others) {
  std::string names;
  for (const char* name : others) names += std::string(" ") + name;
  DeviceProfile profile;
  for_each_number(profile, [&](const char* name, auto&, double, double) { names += std::string(" ") + name; });
  fail(ErrorCode::InvalidArgument, "device field '{}' is unknown, allowed:{}", key, names);
}

void check_jitter(const char* key, const std::vector<Jitter>& jitter) {
  double before = -1.0;
  for (const auto& [from_us, values] : jitter) {
    if (!(from_us > before && from_us <= kTimeMax) || values.empty()) {
      fail(ErrorCode::InvalidArgument, "device field {} has {} values from {} us on, allowed: some, from rising times",
           key, values.size(), from_us);
    }
    before = from_us;
    for (const double value : values) {
      if (value > 0.0 && value <= kJitterMax) continue;
      fail(ErrorCode::InvalidArgument, "device field {} holds {}, allowed: above 0, to {}", key, value, kJitterMax);
    }
  }
}

Json jitter_json(const std::vector<Jitter>& jitter) {
  Json json = Json::array();
  for (const auto& [from_us, values] : jitter) json.push_back({from_us, values});
  return json;
}

[[noreturn]] void bad_field(std::string_view key, const Json& found, std::string_view allowed) {
  fail(ErrorCode::InvalidArgument, "device field {} is {}, allowed: {}", key, found.dump().substr(0, 80), allowed);
}

std::string parse_text(const Json& json, const char* key) {
  if (!json.is_string()) bad_field(key, json, "a text");
  return json.get<std::string>();
}

// The pairs of a list, whose second parts are as `is_second` says.
template <typename IsSecond>
const Json& pairs_of(const Json& json, const char* key, const char* allowed, IsSecond&& is_second) {
  const auto is_pair = [&](const Json& one) {
    return one.is_array() && one.size() == 2 && one[0].is_number() && is_second(one[1]);
  };
  if (!json.is_array() || !std::ranges::all_of(json, is_pair)) bad_field(key, json, allowed);
  return json;
}

bool is_number(const Json& json) { return json.is_number(); }

std::vector<Jitter> parse_jitter(const Json& json, const char* key) {
  const auto are_numbers = [](const Json& list) { return list.is_array() && std::ranges::all_of(list, is_number); };
  std::vector<Jitter> jitter;
  for (const Json& one : pairs_of(json, key, "a list of [us, [factor, ...]]", are_numbers)) {
    jitter.push_back({one[0].get<double>(), one[1].get<std::vector<double>>()});
  }
  return jitter;
}

std::vector<LinearCost> parse_linear_curve(const Json& json, const char* key) {
  std::vector<LinearCost> points;
  for (const Json& point : pairs_of(json, key, "a list of [tokens, us]", is_number)) {
    LinearCost& cost = points.emplace_back();
    set_number(key, cost.tokens, point[0].get<double>(), 1.0, limits::kBatchedTokensMax);
    cost.us = point[1].get<double>();
  }
  return points;
}

void check_linear_curve(const std::vector<LinearCost>& points) {
  int64_t before = 0;
  for (const LinearCost& point : points) {
    if (point.tokens <= before || !(point.us >= 0.0 && point.us <= kTimeMax)) {
      fail(ErrorCode::InvalidArgument,
           "device field linear_us has the point [{}, {}] after {} tokens, allowed: rising tokens, 0 to {} us",
           point.tokens, point.us, before, kTimeMax);
    }
    before = point.tokens;
  }
}

void check_takes_time(const DeviceProfile& profile) {
  if (profile.overhead_us + profile.linear_time_us(1.0) + profile.sequence_us > 0.0) return;
  fail(ErrorCode::InvalidArgument,
       "a step takes no time, allowed: overhead_us, weights_us, token_us, linear_us or sequence_us above 0");
}

}  // namespace

// Beyond the last point the last line goes on; before the first one the first point holds.
double DeviceProfile::linear_time_us(double tokens) const {
  if (linear_us.empty()) return std::max(weights_us, token_us * tokens);
  auto right = std::ranges::lower_bound(linear_us, tokens, {},
                                        [](const LinearCost& point) { return static_cast<double>(point.tokens); });
  if (right == linear_us.begin()) return right->us;
  if (right == linear_us.end()) {
    if (linear_us.size() == 1) return linear_us.front().us * tokens / static_cast<double>(linear_us.front().tokens);
    --right;
  }
  const LinearCost& left = *(right - 1);
  const double share = (tokens - static_cast<double>(left.tokens)) / static_cast<double>(right->tokens - left.tokens);
  return std::max(0.0, left.us + share * (right->us - left.us));
}

void DeviceProfile::validate() const {
  check_linear_curve(linear_us);
  check_jitter("decode_jitter", decode_jitter);
  check_jitter("prompt_jitter", prompt_jitter);
  for_each_number(*this, [](const char* key, const auto& value, double low, double high) {
    check_number(key, static_cast<double>(value), low, high);
  });
}

DeviceWork DeviceWork::of(const BatchPlan& plan, const AttentionWindows& windows) {
  DeviceWork work;
  work.tokens = plan.scheduled_token_count;
  work.sequences = static_cast<int64_t>(plan.entries.size());
  work.swapped_blocks = static_cast<int64_t>(plan.swap_in.size() + plan.swap_out.size());
  for (const BatchEntry& entry : plan.entries) {
    const int32_t computed = entry.computed_token_count;
    if (entry.phase == Phase::Decode) {
      work.decode_context += attended_tokens(computed, 1, windows);
      if (entry.draft_token_count == 0) continue;
      work.draft_tokens += entry.draft_token_count;
      work.draft_pairs += attended_tokens(computed + 1, entry.draft_token_count, windows);
    } else {
      work.prefill_pairs += attended_tokens(computed, entry.scheduled_token_count, windows);
      ++work.prompts;
    }
  }
  return work;
}

namespace {
// What is left of the share after so long.
double faded(TimeNs duration) {
  constexpr double kWindow = 1e8;
  return std::exp(-static_cast<double>(duration) / kWindow);
}
}  // namespace

TimeNs whole_ns(double ns) {
  constexpr double kSecondsMax = kSimSecondsMax / 4;  // so that the steps in flight can be added to a time
  INFLIGHT_CHECK(ns >= 0.0);                          // no NaN either
  if (ns > kSecondsMax * 1e9) {
    fail(ErrorCode::InvalidArgument,
         "the simulated device takes {:.3g} s for one step or transfer, allowed: up to {:.0f} s", ns * 1e-9,
         kSecondsMax);
  }
  return static_cast<TimeNs>(ns);
}

void AfterRest::rested(TimeNs from, TimeNs until) {
  constexpr double kUnit = 1e5;
  INFLIGHT_CHECK(since_ <= from && from <= until);
  wake_ = std::log2(1.0 + static_cast<double>(until - from) / kUnit);
  idle_ = 1.0 - (1.0 - idle_ * faded(from - since_)) * faded(until - from);
  since_ = until;
  steps_ = 0;
}

void AfterRest::count(DeviceWork& work, TimeNs now) {
  constexpr double kKept = 0.7;
  constexpr TimeNs kForgotten = 1'000'000'000;
  work.wake = steps_ == 0 ? wake_ : 0.0;
  work.warm = steps_ >= 2 && steps_ < kWarmSteps ? std::pow(kKept, steps_ - 2) : 0.0;
  work.idle = now - since_ < kForgotten ? idle_ * faded(now - since_) : 0.0;
  ++steps_;
}

DeviceModel::DeviceModel(const DeviceProfile& profile) : profile_(profile) {
  profile_.validate();
  if (profile_.tensor_parallel > 1) {
    // A ring all-reduce sends 2 (n - 1) / n of the data; two a layer (Shoeybi et al. 2019).
    const double n = profile_.tensor_parallel;
    exchange_ns_per_token_ =
        2.0 * profile_.layers * 2.0 * (n - 1.0) / n * profile_.hidden_bytes / profile_.tensor_link_gb_per_second;
    exchange_ns_ = 2.0 * profile_.layers * profile_.tensor_link_latency_us * 1e3;
  }
}

TimeNs DeviceModel::device_time(const DeviceWork& work) const {
  const DeviceProfile& p = profile_;
  const auto tokens = static_cast<double>(work.tokens);
  const double devices = p.tensor_parallel;
  double linear = p.linear_time_us(tokens) * 1e3;
  const double attention = p.kv_read_ns * static_cast<double>(work.decode_context) +
                           p.pair_ns * static_cast<double>(work.prefill_pairs + work.draft_pairs);
  const bool mixed = work.prompts > 0 && work.sequences > work.prompts;
  const double each = 1e3 * (p.sequence_us * static_cast<double>(work.sequences + work.draft_tokens) +
                             p.prompt_us * static_cast<double>(work.prompts) + (mixed ? p.mixed_us : 0.0) +
                             p.swap_block_us * static_cast<double>(work.swapped_blocks) + p.wake_us * work.wake +
                             p.warm_us * work.warm + p.idle_us * work.idle);
  double stages = 1.0;
  if (p.pipeline_parallel > 1) {
    // The step is cut into up to as many parts as there are stages; each part reads the weights again, and the pipe
    // fills and drains: (parts + stages - 1) / (parts * stages) of the whole time. Source: Huang et al. 2019 (GPipe).
    stages = p.pipeline_parallel;
    const double parts = std::min<double>(stages, static_cast<double>(std::max<int64_t>(work.sequences, 1)));
    linear = p.linear_time_us(tokens / parts) * parts * 1e3;
    const double share = (parts + stages - 1.0) / (parts * stages);
    const double hop = p.link_latency_us * 1e3 + p.hidden_bytes * tokens / parts / p.link_gb_per_second;
    return whole_ns(p.overhead_us * 1e3 +
                    ((linear + attention) / devices + exchange_ns_ * parts + exchange_ns_per_token_ * tokens) * share +
                    hop * (parts + stages - 2.0) + each);
  }
  return whole_ns(p.overhead_us * 1e3 + (linear + attention) / devices + exchange_ns_ +
                  exchange_ns_per_token_ * tokens + each);
}

TimeNs DeviceModel::host_time(const DeviceWork& work) const {
  return whole_ns((profile_.host_us + profile_.host_sequence_us * static_cast<double>(work.sequences)) * 1e3);
}

TimeNs DeviceModel::transfer_time(int32_t tokens) const {
  const int64_t seen = attended_tokens(tokens - 1, 1, profile_.windows());  // by the last one
  return whole_ns(profile_.link_latency_us * 1e3 +
                  profile_.kv_bytes_per_token * static_cast<double>(seen) / profile_.link_gb_per_second);
}

// Pipelines are taken to be full: as many parts as stages.
LatencyModel DeviceModel::latency_model() const {
  constexpr double kManyTokens = 512.0;
  const DeviceProfile& p = profile_;
  const double stages = p.pipeline_parallel;
  const double share = (2.0 * stages - 1.0) / (stages * stages);
  const double each = share / p.tensor_parallel;
  const double hops = 2.0 * (stages - 1.0), hop_ns_per_token = p.hidden_bytes / stages / p.link_gb_per_second;
  const double one = p.linear_time_us(1.0) * 1e3, many = p.linear_time_us(kManyTokens) * 1e3 / kManyTokens;
  const double exchange = exchange_ns_per_token_ * share + hop_ns_per_token * hops;
  return LatencyModel(
      {p.overhead_us * 1e3 + one * stages * each + exchange_ns_ * stages * share + p.link_latency_us * 1e3 * hops,
       many * each + exchange, (p.sequence_us + p.host_sequence_us) * 1e3 + exchange, p.pair_ns * each,
       p.kv_read_ns * each, p.swap_block_us * 1e3});
}

const std::vector<DeviceProfile>& shipped_device_profiles() {
  static const std::vector<DeviceProfile> kProfiles = {unit_profile(), pocl_135m_profile(), pocl_tinyworld_profile(),
                                                       gpu_7b_profile(), gpu_8b_profile()};
  return kProfiles;
}

std::string device_file(std::string_view spec) {
  const std::string_view name = spec.substr(0, spec.find(','));
  const bool is_file = name.find('/') != std::string_view::npos || name.ends_with(".json");
  return std::string(is_file ? name : "");
}

DeviceProfile find_device_profile(std::string_view spec) {
  const std::string_view name = spec.substr(0, spec.find(','));
  DeviceProfile profile;
  if (const std::string file = device_file(spec); !file.empty()) {
    profile = parse_device_profile(read_text_file(file), file);
  } else {
    const auto& shipped = shipped_device_profiles();
    const auto found = std::ranges::find(shipped, name, &DeviceProfile::name);
    if (found == shipped.end()) {
      std::string names;
      for (const DeviceProfile& known : shipped) names += known.name + ", ";
      fail(ErrorCode::InvalidArgument, "device '{}' is unknown, allowed: {}or a JSON file", name, names);
    }
    profile = *found;
  }
  std::set<std::string_view> given;
  for (std::string_view rest = spec.substr(name.size()); !rest.empty();) {
    rest.remove_prefix(1);
    const std::string_view pair = rest.substr(0, rest.find(','));
    rest.remove_prefix(pair.size());
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      fail(ErrorCode::InvalidArgument, "device field '{}' has no value, allowed: key=value", pair);
    }
    const std::string_view key = pair.substr(0, equals), text = pair.substr(equals + 1);
    if (!given.insert(key).second) fail(ErrorCode::InvalidArgument, "device field '{}' is given twice", key);
    const auto value = parse_number(text);
    if (!value) fail(ErrorCode::InvalidArgument, "device field {} is '{}', allowed: a number", key, text);
    if (!set_field(profile, key, *value)) unknown_field(key, {});
  }
  profile.validate();
  check_takes_time(profile);
  return profile;
}

std::string to_json(const DeviceProfile& profile) {
  Json json = {{"name", profile.name}, {"description", profile.description}};
  for_each_number(profile, [&](const char* key, const auto& value, double, double) { json[key] = value; });
  for (const LinearCost& point : profile.linear_us) json["linear_us"].push_back({point.tokens, point.us});
  if (!profile.decode_jitter.empty()) json["decode_jitter"] = jitter_json(profile.decode_jitter);
  if (!profile.prompt_jitter.empty()) json["prompt_jitter"] = jitter_json(profile.prompt_jitter);
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

namespace {

DeviceProfile profile_from(const Json& json) {
  if (!json.is_object() || json.empty()) {
    fail(ErrorCode::InvalidArgument, "is {}, allowed: a JSON object with fields of a device",
         json.is_object() ? "an empty object" : json.type_name());
  }
  DeviceProfile profile;
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(kOtherFields, key) != kOtherFields.end()) continue;
    if (!value.is_number()) bad_field(key, value, "a number");
    if (!set_field(profile, key, value.get<double>())) unknown_field(key, kOtherFields);
  }
  const auto read = [&json](const char* key, auto& member, auto&& parse) {
    if (json.contains(key)) member = parse(json.at(key), key);
  };
  read("name", profile.name, parse_text);
  read("description", profile.description, parse_text);
  read("decode_jitter", profile.decode_jitter, parse_jitter);
  read("prompt_jitter", profile.prompt_jitter, parse_jitter);
  read("linear_us", profile.linear_us, parse_linear_curve);
  profile.validate();
  check_takes_time(profile);
  return profile;
}

}  // namespace

DeviceProfile parse_device_profile(std::string_view json_text, std::string_view name) {
  try {
    return profile_from(parse_json(json_text, "the device profile"));
  } catch (const Error& error) {
    fail(ErrorCode::CorruptFile, "{}: {}", name, error.what());
  }
}

}  // namespace inflight
