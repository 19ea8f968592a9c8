// SPDX-License-Identifier: Apache-2.0
// Parameters of a policy: text from the user, checked against the schema that the policy declares.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "inflight/plugin.h"

namespace inflight {

// "vtc:weight_input=1,weight_output=2", "org.example.vtc", "/path/file.ifp.so#vtc:...": what a user names.
struct PolicySpec {
  std::string name;    // short name, id, or path (contains '/')
  std::string member;  // after '#': which policy of the file; empty = its only one
  std::vector<std::pair<std::string, std::string>> parameters;
};
// ERRORS: InvalidArgument for an empty name, member, key or parameter, a missing '=', the same key twice.
[[nodiscard]] PolicySpec parse_policy_spec(std::string_view text);

// The values of all declared parameters (the given ones, else the defaults), in the form that create() takes.
// LIFETIME: config() points into the object.
class PluginConfig {
 public:
  // ERRORS: InvalidArgument naming the policy, the key, the value and what is allowed.
  PluginConfig(const inflight_policy_t& policy, const std::vector<std::pair<std::string, std::string>>& given);

  [[nodiscard]] const inflight_config_t& config() const { return config_; }

 private:
  std::vector<inflight_key_value_t> pairs_;
  std::vector<std::unique_ptr<std::string>> strings_;  // stable addresses for the values
  inflight_config_t config_{};
};

// The declared parameter of this name, which must be changeable while the policy runs.
// ERRORS: InvalidArgument naming policy and key.
[[nodiscard]] const inflight_param_t& changeable_parameter(const inflight_policy_t& policy, const std::string& key);

// One value of a declared parameter.  ERRORS: InvalidArgument as above.   LIFETIME: points into `param` and `text`.
[[nodiscard]] inflight_key_value_t parse_parameter(const inflight_policy_t& policy, const inflight_param_t& param,
                                                   const std::string& text);

}  // namespace inflight
