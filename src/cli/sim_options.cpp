// SPDX-License-Identifier: Apache-2.0
#include "cli/sim_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/sim_spec.h"

namespace inflight::cli {
namespace {

std::string short_flags(std::string_view name) {
  if (name == "schedule_policy") return ",--policy";
  if (name == "radix_eviction_policy") return ",--evict";
  if (name == "max_prefill_tokens") return ",--chunked-prefill-size,--chunk";
  return "";
}

const char* value_name(SimKey::Type type) {
  switch (type) {
    case SimKey::Type::Text:
      return "TEXT";
    case SimKey::Type::Integer:
      return "N";
    case SimKey::Type::Number:
      return "X";
    case SimKey::Type::OnOff:
      return "on|off";
  }
  return "";
}

}  // namespace

std::string sim_flag(std::string_view key) {
  std::string flag = fmt::format("--{}", key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

void add_sim_options(CLI::App& command, std::string_view without) {
  for (const SimKey& key : sim_keys()) {
    if (key.name == without) continue;
    const bool has_default = *key.default_value != '\0';
    command.add_option(sim_flag(key.name) + short_flags(key.name))
        ->description(has_default ? fmt::format("{} [{}]", key.help, key.default_value) : key.help)
        ->type_name(value_name(key.type));
  }
}

nlohmann::ordered_json sim_options_json(const CLI::App& command) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const SimKey& key : sim_keys()) {
    const CLI::Option* const option = command.get_option_no_throw(sim_flag(key.name));
    if (option != nullptr && option->count() > 0) json[key.name] = option->as<std::string>();
  }
  return json;
}

}  // namespace inflight::cli
