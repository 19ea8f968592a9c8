// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/plugin_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "base/error.h"

namespace inflight {
namespace {

std::span<const inflight_param_t> params_of(const inflight_policy_t& policy) {
  return {policy.params, policy.param_count};
}

std::string allowed_text(const inflight_param_t& param) {
  constexpr const char* kTypes[] = {"text", "a whole number", "a number", "true or false"};
  std::string text = param.type < 4 ? kTypes[param.type] : "?";
  if (param.minimum != nullptr) text += fmt::format(", at least {}", param.minimum);
  if (param.maximum != nullptr) text += fmt::format(", at most {}", param.maximum);
  return text;
}

[[noreturn]] void refuse(const inflight_policy_t& policy, const inflight_param_t& param, const std::string& text) {
  fail(ErrorCode::InvalidArgument, "policy {}: {} is '{}', allowed: {}", policy.id, param.key, text,
       allowed_text(param));
}

template <typename Number>
bool parse_number(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Within the declared range; a bound that is no number itself is not checked.
template <typename Number>
bool in_range(Number value, const inflight_param_t& param) {
  Number bound{};
  if (param.minimum != nullptr && parse_number(param.minimum, bound) && value < bound) return false;
  return param.maximum == nullptr || !parse_number(param.maximum, bound) || !(value > bound);
}

}  // namespace

PolicySpec parse_policy_spec(std::string_view text) {
  PolicySpec spec;
  const size_t slash = text.rfind('/');
  const size_t after_path = slash == std::string_view::npos ? 0 : slash;
  const size_t colon = text.find(':', after_path);
  std::string_view name = text.substr(0, colon);
  if (const size_t hash = name.find('#', after_path); hash != std::string_view::npos) {
    spec.member = name.substr(hash + 1);
    name = name.substr(0, hash);
    if (spec.member.empty()) fail(ErrorCode::InvalidArgument, "the policy '{}' has nothing after its '#'", text);
  }
  if (name.empty()) fail(ErrorCode::InvalidArgument, "the policy '{}' has no name", text);
  spec.name = name;
  std::string_view rest = colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);
  for (bool more = !rest.empty(); more;) {
    const size_t comma = rest.find(',');
    const std::string_view pair = rest.substr(0, comma);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      fail(ErrorCode::InvalidArgument, "the policy '{}' has the parameter '{}', allowed: key=value,...", text, pair);
    }
    const std::string_view key = pair.substr(0, equals);
    if (std::ranges::find(spec.parameters, key, [](const auto& parameter) {
          return std::string_view(parameter.first);
        }) != spec.parameters.end()) {
      fail(ErrorCode::InvalidArgument, "the policy '{}' has the parameter '{}' twice", text, key);
    }
    spec.parameters.emplace_back(key, pair.substr(equals + 1));
    more = comma != std::string_view::npos;
    if (more) rest = rest.substr(comma + 1);
  }
  return spec;
}

inflight_key_value_t parse_parameter(const inflight_policy_t& policy, const inflight_param_t& param,
                                     const std::string& text) {
  inflight_key_value_t pair{.key = param.key, .type = param.type, .reserved = 0, .value = {}};
  switch (param.type) {
    case INFLIGHT_TYPE_STRING:
      pair.value.string = text.c_str();
      return pair;
    case INFLIGHT_TYPE_INT64:
      if (!parse_number(text, pair.value.int64) || !in_range(pair.value.int64, param)) refuse(policy, param, text);
      return pair;
    case INFLIGHT_TYPE_FLOAT64:
      if (!parse_number(text, pair.value.float64) || !std::isfinite(pair.value.float64) ||
          !in_range(pair.value.float64, param)) {
        refuse(policy, param, text);
      }
      return pair;
    case INFLIGHT_TYPE_BOOL:
      if (text != "true" && text != "false" && text != "1" && text != "0") refuse(policy, param, text);
      pair.value.int64 = text == "true" || text == "1";
      return pair;
    default:
      fail(ErrorCode::Plugin, "policy {}: parameter {} has the unknown type {}", policy.id, param.key, param.type);
  }
}

namespace {

const inflight_param_t& declared_parameter(const inflight_policy_t& policy, const std::string& key) {
  const auto params = params_of(policy);
  const auto found = std::ranges::find_if(params, [&](const inflight_param_t& param) { return key == param.key; });
  if (found != params.end()) return *found;
  std::string known;
  for (const inflight_param_t& param : params) known += (known.empty() ? "" : ", ") + std::string(param.key);
  fail(ErrorCode::InvalidArgument, "policy {} has no parameter '{}', allowed: {}", policy.id, key,
       known.empty() ? "none" : known);
}

}  // namespace

const inflight_param_t& changeable_parameter(const inflight_policy_t& policy, const std::string& key) {
  const inflight_param_t& param = declared_parameter(policy, key);
  if ((param.flags & INFLIGHT_PARAM_RUNTIME) == 0) {
    fail(ErrorCode::InvalidArgument, "policy {}: {} cannot change while it runs: load the policy anew with it",
         policy.id, key);
  }
  return param;
}

PluginConfig::PluginConfig(const inflight_policy_t& policy,
                           const std::vector<std::pair<std::string, std::string>>& given) {
  const auto params = params_of(policy);
  for (const auto& [key, value] : given) static_cast<void>(declared_parameter(policy, key));
  for (const inflight_param_t& param : params) {
    const auto found = std::ranges::find(given, param.key, [](const auto& pair) { return pair.first; });
    if (found == given.end() && param.default_value == nullptr) continue;
    strings_.push_back(std::make_unique<std::string>(found != given.end() ? found->second : param.default_value));
    pairs_.push_back(parse_parameter(policy, param, *strings_.back()));
  }
  config_ = {.struct_size = sizeof(inflight_config_t),
             .count = static_cast<uint32_t>(pairs_.size()),
             .stride = sizeof(inflight_key_value_t),
             .reserved = 0,
             .pairs = pairs_.data()};
}

}  // namespace inflight
