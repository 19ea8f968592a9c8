// SPDX-License-Identifier: Apache-2.0
#include "server/sim_route.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "inflight/inflight.h"
#include "server/api_error.h"
#include "server/json_body.h"

namespace inflight::server {
namespace {

constexpr int kRequestsMax = 1000;
constexpr int kNumberMax = 16384;  // in a workload; also tokens of a sequence
constexpr int kBlockTokens = 16;
constexpr size_t kResultBytesMax = size_t{4} << 20;

// Kind: what the value may be.
enum class Kind { Name, Workload, Number };
struct Key {
  std::string_view name;
  Kind kind;
};
constexpr Key kKeys[] = {{"workload", Kind::Workload},
                         {"device", Kind::Name},
                         {"policy", Kind::Name},
                         {"evict", Kind::Name},
                         {"batching", Kind::Name},
                         {"preempt_victim", Kind::Name},
                         {"prefix_caching", Kind::Name},
                         {"overlap", Kind::Name},
                         {"timeline", Kind::Name},
                         {"max_num_seqs", Kind::Number},
                         {"max_num_batched_tokens", Kind::Number},
                         {"kv_blocks", Kind::Number},
                         {"max_batch_delay_ms", Kind::Number}};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// Names that ship, no files.
void check_name(std::string_view key, const Json& value) {
  const bool fits = value.is_string() && std::ranges::all_of(value.get_ref<const std::string&>(), [](char letter) {
                      return (letter >= 'a' && letter <= 'z') || is_digit(letter) || letter == '-' || letter == '_';
                    });
  if (!fits) throw ApiError(400, fmt::format("'{}' is {}, a name is expected", key, describe(value)), std::string(key));
}

void check_workload(const Json& value) {
  if (!value.is_string() || value.get_ref<const std::string&>().size() > 500) {
    throw ApiError(400, fmt::format("'workload' is {}, a text of at most 500 bytes is expected", describe(value)),
                   "workload");
  }
  const std::string_view text = value.get_ref<const std::string&>();
  if (text.find("file") != std::string_view::npos) {
    throw ApiError(400, "'workload' names a file, allowed here: none", "workload");
  }
  constexpr std::string_view kRequests = "requests=";
  for (size_t at = 0; at < text.size(); ++at) {
    if (!is_digit(text[at])) continue;
    const size_t end = std::min(text.find_first_not_of("0123456789", at), text.size());
    const bool decimals = at > 0 && text[at - 1] == '.';
    const int most = text.substr(0, at).ends_with(kRequests) ? kRequestsMax : kNumberMax;
    int number = 0;
    const auto parsed = std::from_chars(text.data() + at, text.data() + end, number);
    if (!decimals && (parsed.ec != std::errc() || number > most)) {
      throw ApiError(400, fmt::format("'workload' holds {}, allowed here: up to {}", text.substr(at, end - at), most),
                     "workload");
    }
    at = end;
  }
}

}  // namespace

std::string simulate_answer(const std::string& body) {
  Json spec = parse_json_object(body);
  for (const auto& [name, value] : spec.items()) {
    const auto* const key = std::ranges::find(kKeys, std::string_view(name), &Key::name);
    if (key == std::end(kKeys)) {
      std::string allowed;
      for (const Key& known : kKeys) allowed += (allowed.empty() ? "" : ", ") + std::string(known.name);
      throw ApiError(400, fmt::format("unknown field '{}', allowed: {}", name, allowed), name);
    }
    if (key->kind == Kind::Name) check_name(name, value);
    if (key->kind == Kind::Workload) check_workload(value);
    if (key->kind == Kind::Number && !value.is_number()) {
      throw ApiError(400, fmt::format("'{}' is {}, a number is expected", name, describe(value)), name);
    }
  }
  // No sequence is longer than that, nor than what the blocks hold.
  const double blocks = spec.value("kv_blocks", 0.0);
  spec["max_model_len"] =
      blocks > 0 ? std::min<int>(kNumberMax, kBlockTokens * static_cast<int>(std::min(blocks, 1e6))) : kNumberMax;
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
