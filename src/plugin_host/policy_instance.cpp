// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/policy_instance.h"

#include <cstdlib>

#include "base/error.h"
#include "base/log.h"
#include "inflight/version.h"

namespace inflight {
namespace {

uint64_t hash_of(const char* text) {
  uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a
  for (; *text != '\0'; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3ULL;
  return hash;
}

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

template <typename Info>
void exit_and_destroy(const inflight_policy_t& policy, void* self, const Info& info) {
  const auto leave = [&](const auto& ops) {
    if (ops.exit != nullptr) ops.exit(self, &info);
    ops.destroy(self);
  };
  if (policy.kind == INFLIGHT_KIND_SCHED) {
    leave(*policy.sched);
  } else {
    leave(*policy.evict);
  }
}

}  // namespace

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
            PolicyInstance& self = of(context);
            if (++self.log_lines_in_window_ > kLogLinesMax) return;
            inflight::log(static_cast<LogLevel>(level <= INFLIGHT_PLUGIN_LOG_ERROR ? level : INFLIGHT_PLUGIN_LOG_ERROR),
                          "policy {}: {}", self.policy_.id, std::string_view(text, length));
          },
      .set_error = [](void* context, const char* text, uint64_t length) { of(context).error_.assign(text, length); },
      .metric =
          [](void* context, const char* name, double value) {
            auto& metrics = of(context).metrics_;
            if (const auto found = metrics.find(name); found != metrics.end()) {
              found->second = value;
            } else if (metrics.size() < kMetricsMax) {
              metrics.emplace(name, value);
            }
          },
      .alloc = [](void* context, uint64_t bytes, uint64_t alignment) -> void* {
        void* memory = nullptr;
        const uint64_t at_least = alignment < sizeof(void*) ? sizeof(void*) : alignment;
        if (::posix_memalign(&memory, at_least, bytes) != 0) return nullptr;
        ++of(context).allocation_count_;
        return memory;
      },
      .free =
          [](void* context, void* memory) {
            if (memory == nullptr) return;
            --of(context).allocation_count_;
            ::free(memory);
          },
      .match_prefix = [](void* context, const uint32_t* slots, uint32_t count,
                         uint32_t* tokens) -> inflight_plugin_status_t {
        const Services* const services = of(context).services_;
        return answer_each(services, slots, count, tokens,
                           [services](uint32_t slot) { return services->stored_tokens(slot); });
      },
      .estimate_step_ns = [](void* context, uint32_t prefill_tokens, uint32_t decode_sequences,
                             uint64_t attended_tokens) -> int64_t {
        const Services* const services = of(context).services_;
        if (services == nullptr) return 0;
        return services->estimate({.prefill_tokens = static_cast<int32_t>(prefill_tokens),
                                   .decode_sequences = static_cast<int32_t>(decode_sequences),
                                   .attended_tokens = static_cast<int64_t>(attended_tokens)});
      },
      .unit_parents = [](void* context, const uint32_t* units, uint32_t count,
                         uint32_t* parents) -> inflight_plugin_status_t {
        const Services* const services = of(context).services_;
        return answer_each(services, units, count, parents,
                           [services](uint32_t unit) { return services->parent_of(unit); });
      },
      .request_exit =
          [](void* context, int32_t code, const char* why) {
            of(context).exit_requested_ = true;
            of(context).exit_code_ = code;
            of(context).exit_why_ = why == nullptr ? "" : why;
          },
  };
}

PolicyInstance::PolicyInstance(const inflight_policy_t& policy, const PolicyOptions& options)
    : policy_(policy),
      options_(options),
      host_(make_host(this, options.simulated)),
      rng_(options.seed ^ hash_of(policy.id)) {}

PolicyInstance::~PolicyInstance() {
  if (active()) end(INFLIGHT_EXIT_UNLOAD, 0, "", "");
}

void PolicyInstance::created(inflight_plugin_status_t status, void* self) {
  if (status != INFLIGHT_PLUGIN_OK || self == nullptr) {
    fail(ErrorCode::Plugin, "policy {} could not be created: {} (status {})", policy_.id,
         error_.empty() ? "no reason given" : error_, status);
  }
  self_ = self;
}

void PolicyInstance::begin(TimeNs now) {
  now_ = now;
  error_.clear();
  if (++calls_ - window_begin_ > kStrikeWindow) {
    window_begin_ = calls_;
    strikes_in_window_ = log_lines_in_window_ = 0;
  }
}

bool PolicyInstance::finish(const char* name, inflight_plugin_status_t status, TimeNs taken) {
  bool answered = status == INFLIGHT_PLUGIN_OK;
  if (status < 0) {
    strike(name, error_.empty() ? fmt::format("returned status {}", status) : error_);
  } else if (status != INFLIGHT_PLUGIN_OK && status != INFLIGHT_PASS) {
    strike(name, fmt::format("returned the unknown status {}", status));
  } else if (taken > options_.op_time_max) {
    strike(name, fmt::format("took {} ms, allowed: {} ms", taken / 1'000'000, options_.op_time_max / 1'000'000));
  }
  if (exit_requested_ && active()) {
    end(INFLIGHT_EXIT_SELF, exit_code_, name, exit_why_);
    answered = false;
  }
  return answered && active();
}

void PolicyInstance::strike(const char* op, std::string_view why) {
  if (!active()) return;
  ++strikes_total_;
  log(LogLevel::Warning, "policy {}: {}(): {}; the built-in decided instead (strike {} of {})", policy_.id, op, why,
      ++strikes_in_window_, kStrikesMax);
  if (strikes_in_window_ >= kStrikesMax) end(INFLIGHT_EXIT_BAD_OUTPUT, 0, op, why);
}

void PolicyInstance::eject(uint32_t reason, const char* op, std::string_view why) {
  if (!active()) return;
  ++strikes_total_;
  end(reason, 0, op, why);
}

void PolicyInstance::end(uint32_t reason, int32_t code, const char* op, std::string_view message) {
  if (reason >= INFLIGHT_EXIT_SELF) {
    exit_message_ = fmt::format("policy {} was taken out in {}(): {}", policy_.id, op, message);
    log(LogLevel::Error, "{}; the built-in policy goes on", exit_message_);
  }
  const std::string text(message);
  const inflight_exit_t info{.struct_size = sizeof(inflight_exit_t),
                             .reason = reason,
                             .code = code,
                             .strikes = static_cast<uint32_t>(strikes_in_window_),
                             .step = 0,
                             .now_ns = now_,
                             .op = op,
                             .message = text.c_str()};
  void* const self = self_;
  self_ = nullptr;
  exit_and_destroy(policy_, self, info);
  if (allocation_count_ != 0) {
    log(LogLevel::Warning, "policy {}: left {} allocations behind", policy_.id, allocation_count_);
  }
}

}  // namespace inflight
