// SPDX-License-Identifier: Apache-2.0
// Checks that call a policy's ops directly (check_drivers.h).
#include <malloc.h>

#include <algorithm>

#include "base/error.h"
#include "base/limits.h"
#include "plugin_host/check_drivers.h"
#include "plugin_host/policy_instance.h"

namespace inflight {
namespace {

template <typename Visit>
void for_each_policy(CheckContext& context, Visit&& visit) {
  for (const inflight_policy_t* policy : context.policies) visit(*policy);
}

// create() with these parameters; nothing may be left when it ends or refuses.
inflight_plugin_status_t try_create(CheckContext& context, const inflight_policy_t& policy, CheckHost& host,
                                    const std::vector<std::pair<std::string, std::string>>& parameters) {
  const PluginConfig config(policy, parameters);
  void* self = nullptr;
  inflight_plugin_status_t status = INFLIGHT_PLUGIN_OK;
  note_progress(context, policy, "create", 0);
  const auto create_and_destroy = [&](const auto& ops, const auto& environment) {
    status = ops.create(&host.table(), &environment, &config.config(), &self);
    if (status == INFLIGHT_PLUGIN_OK && self != nullptr) ops.destroy(self);
  };
  if (policy.kind == INFLIGHT_KIND_SCHED) {
    create_and_destroy(*policy.sched, inflight_sched_environment_t{.struct_size = sizeof(inflight_sched_environment_t),
                                                                   .max_requests = 100,
                                                                   .max_tenants = limits::kTenantsMax,
                                                                   .block_tokens = 16,
                                                                   .total_blocks = 100,
                                                                   .max_step_tokens = 512,
                                                                   .max_running = 8,
                                                                   .reserved = 0,
                                                                   .seed = 1});
  } else {
    create_and_destroy(*policy.evict, inflight_evict_environment_t{.struct_size = sizeof(inflight_evict_environment_t),
                                                                   .units = 100,
                                                                   .unit_tokens = 16,
                                                                   .tiers = 1,
                                                                   .seed = 1});
  }
  if (status == INFLIGHT_PLUGIN_OK && self == nullptr) {
    fail(ErrorCode::Plugin, "{}: create() gave status OK but no instance", policy.id);
  }
  if (host.live_allocations != 0) {
    fail(ErrorCode::Plugin, "{}: create() and destroy() {}", policy.id,
         describe_live_allocations(host.live_allocations));
  }
  return status;
}

std::vector<std::string> bounds_of(const inflight_param_t& param) {
  if (param.type == INFLIGHT_TYPE_BOOL) return {"0", "1"};
  std::vector<std::string> bounds;
  for (const char* value : {param.minimum, param.maximum}) {
    if (value != nullptr) bounds.emplace_back(value);
  }
  return bounds;
}

std::string check_create(CheckContext& context) {
  int created = 0;
  for_each_policy(context, [&](const inflight_policy_t& policy) {
    std::vector<std::vector<std::pair<std::string, std::string>>> settings = {context.options.parameters};
    for (const inflight_param_t& param : std::span(policy.params, policy.param_count)) {
      for (const std::string& value : bounds_of(param)) settings.push_back({{param.key, value}});
    }
    for (const auto& setting : settings) {
      CheckHost host(1, {});
      const auto status = try_create(context, policy, host, setting);
      ++created;
      if (status != INFLIGHT_PLUGIN_OK) {
        fail(ErrorCode::Plugin, "{}: create() with {} gave status {}: {}", policy.id,
             setting.empty() ? std::string("defaults") : setting[0].first + "=" + setting[0].second, status,
             host.error);
      }
    }
  });
  return fmt::format("{} settings", created);
}

std::string check_no_memory(CheckContext& context) {
  int64_t failures = 0;
  for_each_policy(context, [&](const inflight_policy_t& policy) {
    for (int64_t n = 0;; ++n) {
      CheckHost host(1, {});
      host.fail_allocation = n;
      const auto status = try_create(context, policy, host, {});
      if (host.allocations <= n) return;  // it needs no more than n
      ++failures;
      if (status > INFLIGHT_PLUGIN_OK) {
        fail(ErrorCode::Plugin, "{}: create() without memory for allocation {} gave status {}", policy.id, n, status);
      }
    }
  });
  return fmt::format("{} refused allocations", failures);
}

std::string check_leaks(CheckContext& context) {
  constexpr int kRounds = 300;
  constexpr size_t kBytesMax = 64 * 1024;  // what the allocator itself may keep
  for_each_policy(context, [&](const inflight_policy_t& policy) {
    size_t before = 0;
    for (int i = 0; i < kRounds; ++i) {
      CheckHost host(1, {});
      static_cast<void>(try_create(context, policy, host, context.options.parameters));
      if (i == kRounds / 3) before = ::mallinfo2().uordblks;
    }
    const size_t after = ::mallinfo2().uordblks;
    if (after > before + kBytesMax) {
      fail(ErrorCode::Plugin, "{}: {} instances made and destroyed left {} bytes behind", policy.id,
           kRounds - kRounds / 3, after - before);
    }
  });
  return "";
}

std::string check_ops(CheckContext& context) {
  int64_t steps = 0;
  for_each_policy(context, [&](const inflight_policy_t& policy) {
    const auto driver = make_driver(context, policy, context.options.seed, {});
    for (int32_t i = 0; i < context.options.calls; ++i, ++steps) driver->step();
    driver->leave();
    if (driver->host().live_allocations != 0) {
      fail(ErrorCode::Plugin, "{}: {}", policy.id, describe_live_allocations(driver->host().live_allocations));
    }
  });
  return fmt::format("{} steps, seed {}", steps, context.options.seed);
}

std::string check_set_param(CheckContext& context) {
  int set = 0;
  for_each_policy(context, [&](const inflight_policy_t& policy) {
    if (set_param_of(policy) == nullptr) return;
    const auto driver = make_driver(context, policy, context.options.seed, {});
    for (const inflight_param_t& param : std::span(policy.params, policy.param_count)) {
      if ((param.flags & INFLIGHT_PARAM_RUNTIME) == 0) continue;
      std::vector<std::string> values = bounds_of(param);
      if (param.default_value != nullptr) values.emplace_back(param.default_value);
      for (const std::string& value : values) {
        for (int i = 0; i < 20; ++i) driver->step();
        driver->set_param(parse_parameter(policy, param, value));
        ++set;
      }
    }
    for (int i = 0; i < 20; ++i) driver->step();
    driver->leave();
  });
  if (set == 0) throw CheckSkipped{"no parameter changes at run time"};
  return fmt::format("{} values", set);
}

std::string check_no_alloc(CheckContext& context) {
  bool claimed = false;
  for_each_policy(context, [&](const inflight_policy_t& policy) {
    if ((policy.capabilities & INFLIGHT_CAP_NO_ALLOC) == 0) return;
    claimed = true;
    const auto driver = make_driver(context, policy, context.options.seed, {});
    const int64_t before = driver->host().allocations;
    for (int i = 0; i < 500; ++i) driver->step();
    if (driver->host().allocations != before) {
      fail(ErrorCode::Plugin, "{}: claims INFLIGHT_CAP_NO_ALLOC but made {} allocations in 500 steps", policy.id,
           driver->host().allocations - before);
    }
    driver->leave();
  });
  if (!claimed) throw CheckSkipped{"no policy claims INFLIGHT_CAP_NO_ALLOC"};
  return "";
}

uint64_t hash_of_run(CheckContext& context, const inflight_policy_t& policy, int32_t steps,
                     const CheckVariation& variation) {
  const auto driver = make_driver(context, policy, context.options.seed + 1, variation);
  for (int32_t i = 0; i < steps; ++i) driver->step();
  driver->leave();
  return driver->answers_hash();
}

std::string check_determinism(CheckContext& context) {
  const int32_t steps = std::min(context.options.calls, 1000);
  bool claimed = false;
  for_each_policy(context, [&](const inflight_policy_t& policy) {
    if ((policy.capabilities & INFLIGHT_CAP_DETERMINISTIC) == 0) return;
    claimed = true;
    const uint64_t first = hash_of_run(context, policy, steps, {.garbage = 0x00, .misalign = 0});
    for (const CheckVariation& variation : {CheckVariation{0x00, 0}, {0xff, 0}, {0x5a, 8}, {0x01, 24}}) {
      if (hash_of_run(context, policy, steps, variation) != first) {
        fail(ErrorCode::Plugin, "{}: the same {} steps gave other answers (memory filled with {:#04x}, moved by {})",
             policy.id, steps, variation.garbage, variation.misalign);
      }
    }
  });
  if (!claimed) throw CheckSkipped{"no policy claims INFLIGHT_CAP_DETERMINISTIC"};
  return fmt::format("{} steps, five times", steps);
}

// Two instances in turns must answer as two alone: an instance's state is its own.
std::string check_instances(CheckContext& context) {
  const int32_t steps = std::min(context.options.calls, 500);
  bool claimed = false;
  for_each_policy(context, [&](const inflight_policy_t& policy) {
    if ((policy.capabilities & INFLIGHT_CAP_DETERMINISTIC) == 0) return;
    claimed = true;
    const uint64_t alone = hash_of_run(context, policy, steps, {});
    const auto one = make_driver(context, policy, context.options.seed + 1, {});
    const auto other = make_driver(context, policy, context.options.seed + 2, {});
    for (int32_t i = 0; i < steps; ++i) {
      one->step();
      other->step();
    }
    one->leave();
    other->leave();
    if (one->answers_hash() != alone) {
      fail(ErrorCode::Plugin, "{}: two instances in turns answer otherwise than one alone: they share state",
           policy.id);
    }
  });
  if (!claimed) throw CheckSkipped{"no policy claims INFLIGHT_CAP_DETERMINISTIC"};
  return "";
}

std::string check_time(CheckContext& context) {
  std::string text;
  for_each_policy(context, [&](const inflight_policy_t& policy) {
    if (policy.kind != INFLIGHT_KIND_SCHED) return;
    const auto driver = make_sched_driver(context, policy, context.options.seed, {}, 10'000, 256);
    for (int i = 0; i < 3; ++i) driver->step();
    driver->take_longest_call();
    for (int i = 0; i < 30; ++i) driver->step();
    const TimeNs longest = driver->take_longest_call();
    driver->leave();
    // Three times: a check may share its processor.
    if (longest > 3 * limits::kPluginOpNs) {
      fail(ErrorCode::Plugin, "{}: an op took {} ms with 256 running and 10,000 waiting, allowed: {} ms", policy.id,
           longest / 1'000'000, limits::kPluginOpNs / 1'000'000);
    }
    text +=
        fmt::format("{}{} us", text.empty() ? "longest op, 256 running and 10,000 waiting: " : ", ", longest / 1000);
  });
  if (text.empty()) throw CheckSkipped{"no scheduling policy"};
  return text;
}

}  // namespace

std::span<const CheckTest> policy_checks() {
  static constexpr CheckTest kTests[] = {
      {"create", "defaults and every parameter at its bounds", check_create},
      {"create", "no memory at any allocation", check_no_memory},
      {"create", "nothing is left behind", check_leaks},
      {"ops", "answers to random histories are in range", check_ops},
      {"ops", "changed parameters at their bounds", check_set_param},
      {"ops", "no allocation where none is claimed", check_no_alloc},
      {"determinism", "the same calls give the same answers", check_determinism},
      {"determinism", "instances are independent", check_instances},
      {"time", "no op takes longer than the host allows", check_time},
  };
  return kTests;
}

}  // namespace inflight
