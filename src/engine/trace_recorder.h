// SPDX-License-Identifier: Apache-2.0
// What the scheduler decides, kept: the last megabytes always, everything in a file when asked for. The kept part has
// no prompts and tokens in it; the file has, so that it can be replayed. THREAD: recent(): any. All else: the engine
// thread.   Format: sched/trace_format.h.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "sched/trace_format.h"

namespace inflight {

class TraceRecorder final : public SchedulerTrace {
 public:
  // recent_bytes: kept in memory; 0 = nothing.  path: of the file; empty = none.   ERRORS: Io.
  TraceRecorder(std::string configuration_json, size_t recent_bytes, const std::string& path);

  void trial(const std::string& spec, TimeNs now);
  void policy(const std::string& spec, TimeNs now);
  void parameters(const std::string& spec, TimeNs now);
  void limits(const std::string& json, TimeNs now);
  void hold(bool holds, TimeNs now);
  void reset_prefix_cache(TimeNs now);
  void on_add(SequenceId sequence, const Request& request, std::span<const TokenId> prompt, TimeNs now) override;
  void on_cancel(SequenceId sequence, bool whole_request, FinishReason reason, TimeNs now) override;
  void on_plan(const PlanTrace& plan, TimeNs now) override;
  void on_commit(const StepResult& result, TimeNs now) override;
  void on_finish(SequenceId sequence, FinishReason reason, TimeNs now) override;

  // Hands what is still in the file's buffer to the system.
  void flush();

  // A whole trace: the configuration, then the last decisions.
  [[nodiscard]] std::vector<std::byte> recent() const;

 private:
  static constexpr size_t kSegments = 8;  // of the recent part; the oldest goes first
  void keep(std::span<const std::byte> record);
  void begin_segment_if_full();
  void write(std::span<const std::byte> record);
  void end_file();  // it could not be written
  template <typename Function>
  void record(Function&& function);

  std::string configuration_json_;
  size_t segment_bytes_;
  mutable std::mutex mutex_;                     // guards segments_
  std::deque<std::vector<std::byte>> segments_;  // each can be read without those before it
  File file_;
  std::string path_;
  std::optional<TraceEncoder> recent_, whole_;
};

}  // namespace inflight
