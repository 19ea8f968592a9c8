// SPDX-License-Identifier: Apache-2.0
// A made-up engine that calls a policy's ops directly, as plugin.h allows and no kinder: random histories of requests
// and of stored blocks with boundary values, snapshots that cannot be written and are gone after the call, memory with
// garbage in it. Every answer is checked and goes into a hash, so that two runs can be compared.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rng.h"
#include "inflight/plugin.h"
#include "plugin_host/check_tests.h"
#include "plugin_host/plugin_config.h"
#include "plugin_host/policy_instance.h"

namespace inflight {

// How the surroundings differ between two runs that must give the same answers.
struct CheckVariation {
  unsigned char garbage = 0xa5;  // in scratch and in new memory
  size_t misalign = 0;           // bytes before the first column, a multiple of 8
};

// The host table of a check.
class CheckHost {
 public:
  CheckHost(uint64_t seed, const CheckVariation& variation);
  CheckHost(const CheckHost&) = delete;
  CheckHost& operator=(const CheckHost&) = delete;

  [[nodiscard]] const inflight_host_t& table() const { return table_; }
  int64_t now = 0;
  int64_t live_allocations = 0;
  int64_t allocations = 0;
  int64_t fail_allocation = -1;  // this one (counted by `allocations`) gets no memory
  bool exit_requested = false;
  std::string error;
  std::string metric_problem;  // of the first metric with a wrong name
  uint32_t slot_limit = 0;     // match_prefix knows slots below
  uint32_t unit_limit = 0;

 private:
  static CheckHost& of(void* context) { return *static_cast<CheckHost*>(context); }
  CheckVariation variation_;
  Rng rng_;
  inflight_host_t table_;
};

// Read-only while a policy is called, inaccessible afterwards.
class CheckArena {
 public:
  CheckArena(size_t bytes, size_t misalign);
  ~CheckArena();
  CheckArena(const CheckArena&) = delete;
  CheckArena& operator=(const CheckArena&) = delete;

  void reset();    // writable and empty
  void protect();  // readable
  void close();    // neither
  template <typename T>
  T* take(size_t count) {
    return static_cast<T*>(take_bytes(count * sizeof(T)));
  }
  template <typename T>
  const T* copy(const std::vector<T>& values) {
    T* const place = take<T>(values.size());
    for (size_t i = 0; i < values.size(); ++i) place[i] = values[i];
    return place;
  }

 private:
  void* take_bytes(size_t bytes);
  std::byte* halves_;
  std::byte* base_;  // the half in use
  size_t bytes_, misalign_, used_ = 0;
};

// Drives one instance of a policy. `context` names the call in progress.
class CheckDriver {
 public:
  CheckDriver(CheckContext& context, const inflight_policy_t& policy, uint64_t seed, const CheckVariation& variation);
  virtual ~CheckDriver();
  CheckDriver(const CheckDriver&) = delete;
  CheckDriver& operator=(const CheckDriver&) = delete;

  // Time passes; all ops that the moment asks for are called.  ERRORS: Plugin when an answer is not allowed.
  virtual void step() = 0;
  // exit() and destroy().
  void leave();

  [[nodiscard]] void* self() const { return self_; }
  [[nodiscard]] CheckHost& host() { return host_; }
  [[nodiscard]] uint64_t answers_hash() const { return hash_; }
  // Of the calls since the last time that this was asked.
  TimeNs take_longest_call() { return std::exchange(longest_call_, 0); }
  // set_param(), which the policy has; it may refuse the value.
  void set_param(const inflight_key_value_t& pair);
  inflight_plugin_status_t save(const inflight_writer_t& writer);
  inflight_plugin_status_t load(const inflight_reader_t& reader, uint32_t version);

 protected:
  // Calls an op with the arena closed to writing; a negative or unknown status fails the check.
  template <typename Op>
  inflight_plugin_status_t call(const char* name, Op&& op) {
    note_progress(context_, policy_, name, ++calls_);
    host_.error.clear();
    arena_.protect();
    const TimeNs begin = clock_.now();
    inflight_plugin_status_t status = INFLIGHT_PLUGIN_OK;
    const GuardResult result = run_catching([&] { status = op(); });
    if (result.outcome != GuardOutcome::Returned) refuse(name, "let " + result.what + " out");
    longest_call_ = std::max(longest_call_, clock_.now() - begin);
    require_status(name, status);
    mix(static_cast<uint64_t>(status));
    return status;
  }
  [[noreturn]] void refuse(const char* op, const std::string& what) const;
  void require_status(const char* op, inflight_plugin_status_t status) const;
  void require_metric_names(const char* op) const;
  void mix(uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001b3ULL; }
  void created(inflight_plugin_status_t status);
  // A table of `count` answers, unwritten, with a margin behind it that must stay as it is.
  template <typename T>
  std::vector<T>& answers(std::vector<T>& storage, size_t count, T unwritten) {
    storage.assign(count + kMargin, unwritten);
    return storage;
  }
  template <typename T>
  void require_margin(const char* op, const std::vector<T>& storage, T unwritten) const {
    for (size_t i = storage.size() - kMargin; i < storage.size(); ++i) {
      if (storage[i] != unwritten) refuse(op, "wrote behind the end of its table of answers");
    }
  }
  static constexpr size_t kMargin = 16;

  CheckContext& context_;
  const inflight_policy_t& policy_;
  PluginConfig config_;
  CheckVariation variation_;
  CheckHost host_;
  CheckArena arena_;
  Rng rng_;
  void* self_ = nullptr;
  SteadyClock clock_;
  TimeNs longest_call_ = 0;
  int64_t calls_ = 0;
  uint64_t hash_ = 0xcbf29ce484222325ULL;
};

// `waiting_target`: about how many requests wait.
[[nodiscard]] std::unique_ptr<CheckDriver> make_sched_driver(CheckContext& context, const inflight_policy_t& policy,
                                                             uint64_t seed, const CheckVariation& variation,
                                                             int32_t waiting_target, int32_t running_target);
[[nodiscard]] std::unique_ptr<CheckDriver> make_evict_driver(CheckContext& context, const inflight_policy_t& policy,
                                                             uint64_t seed, const CheckVariation& variation);
// Of the policy's kind.
[[nodiscard]] std::unique_ptr<CheckDriver> make_driver(CheckContext& context, const inflight_policy_t& policy,
                                                       uint64_t seed, const CheckVariation& variation);

}  // namespace inflight
