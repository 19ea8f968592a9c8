// SPDX-License-Identifier: Apache-2.0
#include "server/sim_route.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "inflight/inflight.h"
#include "server/api_error.h"
#include "server/json_body.h"

namespace inflight::server {
namespace {

// What one request may make a worker do: a few seconds of work, some megabytes.
constexpr int kRequestsMax = 1000;
constexpr int kModelLenMax = 16384;       // tokens of a sequence
constexpr int kAllTokensMax = 2'000'000;  // of all prompts and outputs
constexpr int kWallLimit_s = 5;
constexpr int kBlockTokens = 16;
constexpr size_t kResultBytesMax = size_t{1} << 20;

enum class KeyKind { Name, Workload, Number };
struct Key {
  std::string_view name;
  KeyKind kind;
  double least = 0, most = 0;  // of a number
  bool whole = true;
};
constexpr Key kKeys[] = {{"workload", KeyKind::Workload},
                         {"device", KeyKind::Name},
                         {"policy", KeyKind::Name},
                         {"evict", KeyKind::Name},
                         {"batching", KeyKind::Name},
                         {"preempt_victim", KeyKind::Name},
                         {"prefix_caching", KeyKind::Name},
                         {"overlap", KeyKind::Name},
                         {"timeline", KeyKind::Name},
                         {"max_num_seqs", KeyKind::Number, 1, 1024},
                         {"max_num_batched_tokens", KeyKind::Number, 1, 65536},
                         {"kv_blocks", KeyKind::Number, 0, 65536},  // 0: what the device has room for
                         {"max_batch_delay_ms", KeyKind::Number, 0, 3'600'000, false},
                         {"schedule_conservativeness", KeyKind::Number, 0, 10, false}};

// Names that ship, no files.
void check_name(std::string_view key, const Json& value) {
  const bool fits =
      value.is_string() && std::ranges::all_of(value.get_ref<const std::string&>(), [](char letter) {
        return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '-' || letter == '_';
      });
  if (!fits) refuse(key, value, "a name");
}

// The simulator itself keeps what it holds within bounds.
void check_workload(const Json& value) {
  if (!value.is_string() || value.get_ref<const std::string&>().size() > 500) {
    refuse("workload", value, "a text of at most 500 bytes");
  }
  if (value.get_ref<const std::string&>().find("file") != std::string::npos) {
    throw ApiError(400, "'workload' names a file, allowed here: none", "workload");
  }
}

void check_number(const Key& key, const Json& value) {
  const bool fits = key.whole ? is_whole(value) : value.is_number();
  if (fits && value.get<double>() >= key.least && value.get<double>() <= key.most) return;
  const char* const kind = key.whole ? "an integer" : "a number";
  refuse(key.name, value, fmt::format("{} between {} and {}", kind, key.least, key.most));
}

}  // namespace

std::string simulate_answer(const std::string& body) {
  Json spec = parse_json_object(body);
  for (auto& [name, value] : spec.items()) {
    const auto* const key = std::ranges::find(kKeys, std::string_view(name), &Key::name);
    if (key == std::end(kKeys)) {
      std::string allowed;
      for (const Key& known : kKeys) allowed += (allowed.empty() ? "" : ", ") + std::string(known.name);
      throw ApiError(400, fmt::format("unknown field '{}', allowed: {}", name, allowed), name);
    }
    if (key->kind == KeyKind::Name) check_name(name, value);
    if (key->kind == KeyKind::Workload) check_workload(value);
    if (key->kind == KeyKind::Number) check_number(*key, value);
    if (key->kind == KeyKind::Number && key->whole) value = value.get<int>();  // 8.0 as well
  }
  // No sequence is longer than that, nor than what the blocks hold.
  const int blocks = spec.value("kv_blocks", 0);
  spec["max_model_len"] = blocks > 0 ? std::min(kModelLenMax, kBlockTokens * blocks) : kModelLenMax;
  spec["workload_requests_max"] = kRequestsMax;
  spec["workload_tokens_max"] = kAllTokensMax;
  spec["wall_limit_s"] = kWallLimit_s;
  const std::string text = to_text(spec);
  std::string result(kResultBytesMax, '\0');
  size_t length = 0;
  const inflight_status_t status = inflight_sim_run(text.data(), text.size(), result.data(), result.size(), &length);
  if (status != INFLIGHT_OK) {
    if (status == INFLIGHT_ERROR_NOT_FOUND) throw ApiError(404, inflight_last_error());  // a policy
    throw ApiError(status == INFLIGHT_ERROR_INVALID_ARGUMENT ? 400 : 500, inflight_last_error());
  }
  result.resize(length);
  return result;
}

}  // namespace inflight::server
