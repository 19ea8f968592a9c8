// SPDX-License-Identifier: Apache-2.0
#include "engine/trace_recorder.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace inflight {

TraceRecorder::TraceRecorder(std::string configuration_json, size_t recent_bytes, const std::string& path)
    : configuration_json_(std::move(configuration_json)), segment_bytes_(recent_bytes / kSegments), path_(path) {
  if (recent_bytes > 0) {
    recent_.emplace([this](std::span<const std::byte> record) { keep(record); }, false);
  }
  if (path.empty()) return;
  file_.reset(std::fopen(path.c_str(), "wbe"));
  if (!file_) fail(ErrorCode::Io, "{}: cannot be written: {}", path, std::strerror(errno));
  whole_.emplace([this](std::span<const std::byte> record) { write(record); }, true);
  whole_->begin(configuration_json_);
}

void TraceRecorder::keep(std::span<const std::byte> record) {
  const std::scoped_lock lock(mutex_);
  segments_.back().insert(segments_.back().end(), record.begin(), record.end());
}

void TraceRecorder::begin_segment_if_full() {
  {
    const std::scoped_lock lock(mutex_);
    if (!segments_.empty() && segments_.back().size() < segment_bytes_) return;
    std::vector<std::byte> next;
    if (segments_.size() == kSegments) {  // the oldest one's memory serves again
      next.swap(segments_.front());
      next.clear();
      segments_.pop_front();
    }
    segments_.push_back(std::move(next));
  }
  recent_->reset();
}

void TraceRecorder::write(std::span<const std::byte> record) {
  if (file_ && std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size()) end_file();
}

void TraceRecorder::flush() {
  if (file_ && std::fflush(file_.get()) != 0) end_file();
}

void TraceRecorder::end_file() {
  log(LogLevel::Error, "{}: the recording ends here: {}", path_, std::strerror(errno));
  file_.reset();
}

template <typename Function>
void TraceRecorder::record(Function&& function) {
  if (recent_) {
    begin_segment_if_full();
    function(*recent_);
  }
  if (whole_ && file_) function(*whole_);
}

void TraceRecorder::trial(const std::string& spec, TimeNs now) {
  record([&](TraceEncoder& to) { to.trial(spec, now); });
}

void TraceRecorder::policy(const std::string& spec, TimeNs now) {
  record([&](TraceEncoder& to) { to.policy(spec, now); });
}

void TraceRecorder::parameters(const std::string& spec, TimeNs now) {
  record([&](TraceEncoder& to) { to.parameters(spec, now); });
}

void TraceRecorder::limits(const std::string& json, TimeNs now) {
  record([&](TraceEncoder& to) { to.limits(json, now); });
}
void TraceRecorder::hold(bool holds, TimeNs now) {
  record([&](TraceEncoder& to) { to.hold(holds, now); });
}
void TraceRecorder::reset_prefix_cache(TimeNs now) {
  record([&](TraceEncoder& to) { to.reset_prefix_cache(now); });
}
void TraceRecorder::on_add(SequenceId sequence, const Request& request, std::span<const TokenId> prompt, TimeNs now) {
  record([&](TraceEncoder& to) { to.on_add(sequence, request, prompt, now); });
}
void TraceRecorder::on_cancel(SequenceId sequence, bool whole_request, FinishReason reason, TimeNs now) {
  record([&](TraceEncoder& to) { to.on_cancel(sequence, whole_request, reason, now); });
}
void TraceRecorder::on_plan(const PlanTrace& plan, TimeNs now) {
  record([&](TraceEncoder& to) { to.on_plan(plan, now); });
}
void TraceRecorder::on_commit(const StepResult& result, TimeNs now) {
  record([&](TraceEncoder& to) { to.on_commit(result, now); });
}
void TraceRecorder::on_finish(SequenceId sequence, FinishReason reason, TimeNs now) {
  record([&](TraceEncoder& to) { to.on_finish(sequence, reason, now); });
}

std::vector<std::byte> TraceRecorder::recent() const {
  std::vector<std::byte> bytes;
  TraceEncoder head([&bytes](std::span<const std::byte> record) { bytes.assign(record.begin(), record.end()); }, false);
  head.begin(configuration_json_);
  const std::scoped_lock lock(mutex_);
  for (const auto& segment : segments_) bytes.insert(bytes.end(), segment.begin(), segment.end());
  return bytes;
}

}  // namespace inflight
