// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/policy_instance.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/fnv1a.h"
#include "base/log.h"
#include "base/quote.h"
#include "inflight/version.h"
#include "plugin_host/plugin_config.h"
#include "plugin_host/plugin_module.h"
#include "plugin_host/policy_report.h"

namespace inflight {
namespace {

constexpr uint64_t kTextMax = 4096;  // bytes of a log line or an error that a policy gives

// Writes get(questions[i]) to answers[i]; a question without an answer is the policy's mistake.
template <typename Get>
inflight_plugin_status_t answer_each(const void* services, const uint32_t* questions, uint32_t count, uint32_t* answers,
                                     Get&& get) {
  if (services == nullptr) return INFLIGHT_PLUGIN_E_UNSUPPORTED;
  for (uint32_t i = 0; i < count; ++i) {
    const std::optional<uint32_t> answer = get(questions[i]);
    if (!answer) return INFLIGHT_PLUGIN_E_ARGUMENT;
    answers[i] = *answer;
  }
  return INFLIGHT_PLUGIN_OK;
}

constexpr const char* kBuiltinDecided = "the built-in decided instead";

bool is_guarded(const PolicyOptions& options) {
  if (options.mode != PluginMode::Auto) return options.mode == PluginMode::Guarded;
  const char* const wish = ::secure_getenv("INFLIGHT_PLUGIN_MODE");
  const bool forced = wish != nullptr && std::string_view(wish) == "guarded";
  const bool plain = wish != nullptr && std::string_view(wish) == "inline";
  return forced || (options.module != nullptr && options.module->is_file() && !plain);
}

}  // namespace

std::string describe_live_allocations(int64_t count) {
  if (count < 0) return fmt::format("freed {} allocations that it had not made", -count);
  return fmt::format("left {} allocations behind", count);
}

std::string metric_name_problem(const char* name) {
  constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:0123456789";
  const std::string_view text = name == nullptr ? "" : name;
  const bool begins_well = !text.empty() && (text[0] < '0' || text[0] > '9');
  if (begins_well && text.find_first_not_of(kAllowed) == std::string_view::npos) return "";
  return fmt::format("gave a metric the name {}, allowed: [a-zA-Z_:][a-zA-Z0-9_:]*", quote(text));
}

inflight_host_t PolicyInstance::make_host(PolicyInstance* instance, bool simulated) {
  return {
      .struct_size = sizeof(inflight_host_t),
      .abi_minor = INFLIGHT_PLUGIN_ABI_MINOR,
      .name = "inflight",
      .version = INFLIGHT_VERSION_STRING,
      .flags = simulated ? INFLIGHT_HOST_SIMULATED : 0,
      .reserved = 0,
      .context = instance,
      .now_ns = [](void* context) -> int64_t { return of(context).now_; },
      .rand_u64 = [](void* context) -> uint64_t { return of(context).rng_.next(); },
      .log =
          [](void* context, uint32_t level, const char* text, uint64_t length) {
            HostFunction host;
            PolicyInstance& self = of(context);
            if (++self.log_lines_in_window_ <= kLogLinesMax) {
              inflight::log(static_cast<LogLevel>(std::min(level, INFLIGHT_PLUGIN_LOG_ERROR)), "policy {}: {}",
                            self.policy_.id, std::string_view(text, std::min(length, kTextMax)));
            }
            host.end();
          },
      .set_error =
          [](void* context, const char* text, uint64_t length) {
            HostFunction host;
            of(context).error_.assign(text, std::min(length, kTextMax));
            host.end();
          },
      .metric =
          [](void* context, const char* name, double value) {
            HostFunction host;
            of(context).set_metric(name, value);
            host.end();
          },
      .alloc = [](void* context, uint64_t bytes, uint64_t alignment) -> void* {
        HostFunction host;
        void* memory = nullptr;
        const uint64_t at_least = alignment < sizeof(void*) ? sizeof(void*) : alignment;
        if (::posix_memalign(&memory, at_least, bytes) != 0) memory = nullptr;
        if (memory != nullptr) ++of(context).allocation_count_;
        host.end();
        return memory;
      },
      .free =
          [](void* context, void* memory) {
            if (memory == nullptr) return;
            HostFunction host;
            --of(context).allocation_count_;
            ::free(memory);
            host.end();
          },
      .match_prefix = [](void* context, const uint32_t* slots, uint32_t count,
                         uint32_t* tokens) -> inflight_plugin_status_t {
        HostFunction host;
        const Services* const services = of(context).services_;
        const auto status = answer_each(services, slots, count, tokens,
                                        [services](uint32_t slot) { return services->stored_tokens(slot); });
        host.end();
        return status;
      },
      .estimate_step_ns = [](void* context, const inflight_step_work_t* work) -> int64_t {
        const Services* const services = of(context).services_;
        if (services == nullptr) return 0;
        return services->estimate({.prefill_tokens = static_cast<int32_t>(work->prefill_tokens),
                                   .decode_sequences = static_cast<int32_t>(work->decode_sequences),
                                   .prefill_pairs = static_cast<int64_t>(work->prefill_pairs),
                                   .decode_context = static_cast<int64_t>(work->decode_context)});
      },
      .unit_parents = [](void* context, const uint32_t* units, uint32_t count,
                         uint32_t* parents) -> inflight_plugin_status_t {
        const Services* const services = of(context).services_;
        return answer_each(services, units, count, parents,
                           [services](uint32_t unit) { return services->parent_of(unit); });
      },
      .request_exit =
          [](void* context, int32_t code, const char* why) {
            HostFunction host;
            of(context).exit_requested_ = true;
            of(context).exit_code_ = code;
            of(context).exit_why_ = why == nullptr ? "" : why;
            host.end();
          },
  };
}

PolicyInstance::PolicyInstance(const inflight_policy_t& policy, const PolicyOptions& options)
    : policy_(policy),
      options_(options),
      guarded_(is_guarded(options)),
      guard_limits_{.code = options.module == nullptr ? CodeRange{} : options.module->code(),
                    .stuck_after_ms = options.stuck_after_ms,
                    .policy = policy.id},
      host_(make_host(this, options.simulated)),
      rng_(options.seed ^ fnv1a(policy.id)) {
  if (guarded_) call_watch_.emplace();
}

PolicyInstance::~PolicyInstance() {
  services_ = nullptr;  // may be gone already
  if (active()) end(leave_reason_, 0, "", "");
}

void PolicyInstance::set_metric(const char* name, double value) {
  if (const std::string problem = metric_name_problem(name); !problem.empty()) {
    if (++log_lines_in_window_ <= kLogLinesMax) log(LogLevel::Warning, "policy {}: {}", policy_.id, problem);
  } else if (const auto found = metrics_.find(name); found != metrics_.end()) {
    found->second = value;
  } else if (metrics_.size() < kMetricsMax) {
    metrics_.emplace(name, value);
  }
}

void PolicyInstance::created(const GuardResult& result, inflight_plugin_status_t status, void* self) {
  if (result.outcome != GuardOutcome::Returned) {
    fail(ErrorCode::Plugin, "policy {} could not be created: create() failed: {}", policy_.id, result.what);
  }
  if (status != INFLIGHT_PLUGIN_OK || self == nullptr) {
    fail(ErrorCode::Plugin, "policy {} could not be created: {} (status {})", policy_.id,
         error_.empty() ? "no reason given" : error_, status);
  }
  self_ = self;
}

void PolicyInstance::at_step(uint64_t step) {
  if (step == step_) return;
  step_ = step;
  if (step - window_begin_ > kStrikeWindow) {
    window_begin_ = step;
    log_lines_in_window_ = 0;
  }
  const TimeNs promised = policy_.soft_step_us > 0 ? TimeNs{policy_.soft_step_us} * 1000 : kSoftStepNs;
  if (std::exchange(step_time_, 0) > promised) ++slow_steps_;
}

// It did not come back as a function should: nothing that it answered counts.
bool PolicyInstance::fault(const GuardResult& result, inflight_plugin_status_t status, TimeNs taken) {
  note_call(status, taken);
  switch (result.outcome) {
    case GuardOutcome::Returned:
      break;
    case GuardOutcome::Threw:
      eject(INFLIGHT_EXIT_ABI, guard_limits_.op, "let " + result.what + " out");
      break;
    case GuardOutcome::Crashed:
      eject(INFLIGHT_EXIT_CRASH, guard_limits_.op, "crashed with " + result.what);
      break;
    case GuardOutcome::Stuck:
      eject(INFLIGHT_EXIT_STUCK, guard_limits_.op, fmt::format("did not return within {} ms", options_.stuck_after_ms));
      break;
  }
  return false;
}

// Of a call that returned, but not in good order and time, or that asked to leave.
bool PolicyInstance::judge(inflight_plugin_status_t status, TimeNs taken) {
  const char* const name = guard_limits_.op;
  bool answered = status == INFLIGHT_PLUGIN_OK;
  if (guarded_ && taken >= TimeNs{options_.stuck_after_ms} * 1'000'000) {  // before the watch saw it
    eject(INFLIGHT_EXIT_STUCK, name, fmt::format("did not return within {} ms", options_.stuck_after_ms));
  } else if (status < 0) {
    strike(name, error_.empty() ? fmt::format("returned status {}", status) : error_, INFLIGHT_EXIT_ERROR);
  } else if (status != INFLIGHT_PLUGIN_OK && status != INFLIGHT_PASS) {
    strike(name, fmt::format("returned the unknown status {}", status));
  } else if (taken > options_.op_time_max && !was_preempted()) {
    const auto why = fmt::format("took {} ms, allowed: {} ms", taken / 1'000'000, options_.op_time_max / 1'000'000);
    count_strike(name, why, answered ? "its answer counts" : kBuiltinDecided, INFLIGHT_EXIT_OVERRUN);
  }
  if (exit_requested_ && active()) {
    end(INFLIGHT_EXIT_SELF, exit_code_, name, exit_why_);
    answered = false;
  }
  return answered && active();
}

// Of an op that took too long: the policy has neither computed nor waited so long. The first such op is not known
// about, and spared, too.
bool PolicyInstance::was_preempted() {
  if (!options_.real_time) return false;
  if (!watches_thread_) return watches_thread_ = true;
  const ThreadUse now = thread_use();
  return now.waits == thread_before_.waits && now.computed_ns - thread_before_.computed_ns <= options_.op_time_max;
}

void PolicyInstance::set_parameters(SetParam set_param, const std::vector<std::pair<std::string, std::string>>& given,
                                    TimeNs now) {
  for (const auto& [key, value] : given) {
    const inflight_key_value_t pair = parse_parameter(policy_, changeable_parameter(policy_, key), value);
    if (set_param == nullptr) {
      fail(ErrorCode::InvalidArgument, "policy {} says that {} can change, but has no set_param()", policy_.id, key);
    }
    bool refused = false;
    const auto set = [&] {
      const inflight_plugin_status_t status = set_param(self_, &pair);
      refused = status == INFLIGHT_PLUGIN_E_ARGUMENT;  // its good right: no strike
      return refused ? INFLIGHT_PLUGIN_OK : status;
    };
    if (!call("set_param", now, set) || refused) {
      if (!active()) fail(ErrorCode::InvalidArgument, "{}={} was not set: {}", key, value, exit_message_);
      fail(ErrorCode::InvalidArgument, "policy {} refuses {}={}{}{}", policy_.id, key, value,
           error_.empty() ? "" : ": ", error_);
    }
  }
}

void PolicyInstance::strike(const char* op, std::string_view why, uint32_t reason) {
  count_strike(op, why, kBuiltinDecided, reason);
}

void PolicyInstance::count_strike(const char* op, std::string_view why, const char* consequence, uint32_t reason) {
  if (!active()) return;
  note_strike();
  const int strikes = recent_strikes();
  const bool last = strikes == kStrikesMax;
  log(LogLevel::Warning, "policy {}: {}(): {}; {} (strike {} of {})", policy_.id, op, why,
      last ? kBuiltinDecided : consequence, strikes, kStrikesMax);
  if (last) end(reason, 0, op, why);
}

void PolicyInstance::note_strike() { strike_steps_[static_cast<size_t>(strikes_total_++) % kStrikesMax] = step_; }

// Within the window.
int PolicyInstance::recent_strikes() const {
  const auto kept = static_cast<ptrdiff_t>(std::min<int64_t>(strikes_total_, kStrikesMax));
  return static_cast<int>(std::count_if(strike_steps_.begin(), strike_steps_.begin() + kept,
                                        [this](uint64_t step) { return step_ - step < kStrikeWindow; }));
}

void PolicyInstance::eject(uint32_t reason, const char* op, std::string_view why) {
  if (!active()) return;
  note_strike();
  end(reason, 0, op, why);
}

void PolicyInstance::end(uint32_t reason, int32_t code, const char* op, std::string_view message) {
  const std::string text(message);
  const inflight_exit_t info{.struct_size = sizeof(inflight_exit_t),
                             .reason = reason,
                             .code = code,
                             .strikes = static_cast<uint32_t>(recent_strikes()),
                             .step = step_,
                             .now_ns = now_,
                             .op = op,
                             .message = text.c_str()};
  exit_reason_ = reason;
  exit_step_ = step_;
  if (reason > INFLIGHT_EXIT_SWAP) {
    report_path_ = write_policy_report(*this, info, options_.report_folder.value_or(default_report_folder()));
    exit_message_ = fmt::format("policy {} was taken out in {}(): {}", policy_.id, op, message);
    log(LogLevel::Error, "{}; the built-in policy goes on{}", exit_message_,
        report_path_.empty() ? "" : "; report: " + report_path_);
  }
  const bool abandoned = reason == INFLIGHT_EXIT_CRASH || reason == INFLIGHT_EXIT_STUCK;
  if (abandoned) {
    self_ = nullptr;
  } else {
    leave(info);
  }
}

// exit() and destroy(): what happens in them concerns nobody any more, as long as they return.
void PolicyInstance::leave(const inflight_exit_t& info) {
  void* const self = self_;
  self_ = nullptr;
  const auto exit_and_destroy = [&](const auto& ops) {
    if (ops.exit != nullptr) ops.exit(self, &info);
    ops.destroy(self);
  };
  const GuardResult result = run([&] {
    if (policy_.kind == INFLIGHT_KIND_SCHED) {
      exit_and_destroy(*policy_.sched);
    } else {
      exit_and_destroy(*policy_.evict);
    }
  });
  if (result.outcome != GuardOutcome::Returned) {
    log(LogLevel::Warning, "policy {}: its exit() or destroy() failed: {}", policy_.id, result.what);
  } else if (allocation_count_ != 0) {
    log(LogLevel::Warning, "policy {}: {}", policy_.id, describe_live_allocations(allocation_count_.load()));
  }
}

}  // namespace inflight
