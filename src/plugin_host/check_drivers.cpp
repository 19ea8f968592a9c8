// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/check_drivers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/math.h"
#include "inflight/version.h"
#include "plugin_host/policy_instance.h"

namespace inflight {
namespace {

constexpr size_t kArenaBytes = size_t{8} << 20;

}  // namespace

CheckHost::CheckHost(uint64_t seed, const CheckVariation& variation)
    : variation_(variation),
      rng_(seed),
      table_{
          .struct_size = sizeof(inflight_host_t),
          .abi_minor = INFLIGHT_PLUGIN_ABI_MINOR,
          .name = "inflight",
          .version = INFLIGHT_VERSION_STRING,
          .flags = INFLIGHT_HOST_SIMULATED,
          .reserved = 0,
          .context = this,
          .now_ns = [](void* context) -> int64_t { return of(context).now; },
          .rand_u64 = [](void* context) -> uint64_t { return of(context).rng_.next(); },
          .log = [](void*, uint32_t, const char*, uint64_t) {},
          .set_error = [](void* context, const char* text, uint64_t length) { of(context).error.assign(text, length); },
          .metric =
              [](void* context, const char* name, double) {
                std::string& problem = of(context).metric_problem;
                if (problem.empty()) problem = metric_name_problem(name);
              },
          .alloc = [](void* context, uint64_t bytes, uint64_t alignment) -> void* {
            CheckHost& self = of(context);
            if (self.allocations++ == self.fail_allocation) return nullptr;
            void* memory = nullptr;
            if (::posix_memalign(&memory, std::max<uint64_t>(alignment, sizeof(void*)), bytes) != 0) return nullptr;
            std::memset(memory, self.variation_.garbage, bytes);
            ++self.live_allocations;
            return memory;
          },
          .free =
              [](void* context, void* memory) {
                if (memory != nullptr) --of(context).live_allocations;
                ::free(memory);
              },
          .match_prefix = [](void* context, const uint32_t* slots, uint32_t count,
                             uint32_t* tokens) -> inflight_plugin_status_t {
            for (uint32_t i = 0; i < count; ++i) {
              if (slots[i] >= of(context).slot_limit) return INFLIGHT_PLUGIN_E_ARGUMENT;
              tokens[i] = slots[i] % 7 * 16;
            }
            return INFLIGHT_PLUGIN_OK;
          },
          .estimate_step_ns = [](void*, const inflight_step_work_t* work) -> int64_t {
            const auto bounded = [](uint64_t count) {
              return static_cast<int64_t>(std::min<uint64_t>(count, 1ULL << 40));
            };
            return 100'000 + int64_t{work->prefill_tokens} * 1000 + int64_t{work->decode_sequences} * 2000 +
                   bounded(work->prefill_pairs) + 2 * bounded(work->decode_context);
          },
          .unit_parents = [](void* context, const uint32_t* units, uint32_t count,
                             uint32_t* parents) -> inflight_plugin_status_t {
            for (uint32_t i = 0; i < count; ++i) {
              if (units[i] >= of(context).unit_limit) return INFLIGHT_PLUGIN_E_ARGUMENT;
              parents[i] = units[i] == 0 ? INFLIGHT_UNIT_ROOT : (units[i] - 1) / 2;
            }
            return INFLIGHT_PLUGIN_OK;
          },
          .request_exit = [](void* context, int32_t, const char*) { of(context).exit_requested = true; }} {}

CheckArena::CheckArena(size_t bytes, size_t misalign) : bytes_(bytes), misalign_(misalign) {
  void* const memory = ::mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail(ErrorCode::OutOfMemory, "no memory for snapshots");
  halves_ = static_cast<std::byte*>(memory);
  base_ = halves_;
}
CheckArena::~CheckArena() { ::munmap(halves_, 2 * bytes_); }

// In the other half: pointers that were kept from the call before lead nowhere.
void CheckArena::reset() {
  close();
  base_ = base_ == halves_ ? halves_ + bytes_ : halves_;
  ::mprotect(base_, bytes_, PROT_READ | PROT_WRITE);
  used_ = misalign_;
}
void CheckArena::protect() { ::mprotect(base_, bytes_, PROT_READ); }
void CheckArena::close() { ::mprotect(base_, bytes_, PROT_NONE); }

void* CheckArena::take_bytes(size_t bytes) {
  INFLIGHT_CHECK(bytes <= bytes_ - used_);
  std::byte* const place = base_ + used_;
  used_ += align_up<size_t>(bytes, 8);
  return place;
}

CheckDriver::CheckDriver(CheckContext& context, const inflight_policy_t& policy, uint64_t seed,
                         const CheckVariation& variation)
    : context_(context),
      policy_(policy),
      config_(policy, context.options.parameters),
      variation_(variation),
      host_(seed, variation),
      arena_(kArenaBytes, variation.misalign),
      rng_(seed) {}

CheckDriver::~CheckDriver() = default;

void CheckDriver::created(inflight_plugin_status_t status) {
  if (status != INFLIGHT_PLUGIN_OK || self_ == nullptr) {
    refuse("create", fmt::format("gave status {}{}{}", status, host_.error.empty() ? "" : ": ", host_.error));
  }
  require_metric_names("create");
}

void CheckDriver::leave() {
  const inflight_exit_t info{.struct_size = sizeof(inflight_exit_t),
                             .reason = INFLIGHT_EXIT_UNLOAD,
                             .code = 0,
                             .strikes = 0,
                             .step = 0,
                             .now_ns = host_.now,
                             .op = "",
                             .message = ""};
  const auto end = [&](const auto& ops) {
    note_progress(context_, policy_, "exit", ++calls_);
    if (ops.exit != nullptr) ops.exit(self_, &info);
    note_progress(context_, policy_, "destroy", ++calls_);
    ops.destroy(self_);
  };
  if (policy_.kind == INFLIGHT_KIND_SCHED) {
    end(*policy_.sched);
  } else {
    end(*policy_.evict);
  }
  self_ = nullptr;
  require_metric_names("exit");
}

void CheckDriver::set_param(const inflight_key_value_t& pair) {
  call("set_param", [&] {
    const inflight_plugin_status_t status = set_param_of(policy_)(self_, &pair);
    return status == INFLIGHT_PLUGIN_E_ARGUMENT ? INFLIGHT_PLUGIN_OK : status;
  });
}

inflight_plugin_status_t CheckDriver::save(const inflight_writer_t& writer) {
  note_progress(context_, policy_, "save", ++calls_);
  return policy_.kind == INFLIGHT_KIND_SCHED ? policy_.sched->save(self_, &writer)
                                             : policy_.evict->save(self_, &writer);
}

inflight_plugin_status_t CheckDriver::load(const inflight_reader_t& reader, uint32_t version) {
  note_progress(context_, policy_, "load", ++calls_);
  return policy_.kind == INFLIGHT_KIND_SCHED ? policy_.sched->load(self_, &reader, version)
                                             : policy_.evict->load(self_, &reader, version);
}

void CheckDriver::refuse(const char* op, const std::string& what) const {
  fail(ErrorCode::Plugin, "{}: {}(), call {} with seed {}: {}", policy_.id, op, calls_, context_.options.seed, what);
}

void CheckDriver::require_status(const char* op, inflight_plugin_status_t status) const {
  if (status < 0) refuse(op, fmt::format("returned {} {}, nothing was wrong", status, host_.error));
  if (status > INFLIGHT_PASS) refuse(op, fmt::format("returned the unknown status {}", status));
  if (host_.exit_requested) refuse(op, "asked to be taken out");
  require_metric_names(op);
}

void CheckDriver::require_metric_names(const char* op) const {
  if (!host_.metric_problem.empty()) refuse(op, host_.metric_problem);
}

std::unique_ptr<CheckDriver> make_driver(CheckContext& context, const inflight_policy_t& policy, uint64_t seed,
                                         const CheckVariation& variation) {
  return policy.kind == INFLIGHT_KIND_SCHED ? make_sched_driver(context, policy, seed, variation, 20, 8)
                                            : make_evict_driver(context, policy, seed, variation);
}

}  // namespace inflight
