// SPDX-License-Identifier: Apache-2.0
// Recordings as files: what a scheduler did, to be replayed step by step (replay.h) or taken as a workload
// (parse_recording()).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "sched/setup_json.h"
#include "sched/trace_format.h"

namespace inflight {

// A file that appears whole or not at all: what had its name stays until close().
class RecordingWriter {
 public:
  // ERRORS: Io.
  RecordingWriter(const std::string& path, const SchedulerSetup& setup);
  // Removes what was written, unless it was closed.
  ~RecordingWriter();
  RecordingWriter(const RecordingWriter&) = delete;
  RecordingWriter& operator=(const RecordingWriter&) = delete;

  [[nodiscard]] SchedulerTrace& trace() { return encoder_; }
  // Everything is in the file.  ERRORS: Io.
  void close();

 private:
  explicit RecordingWriter(const std::string& path);  // apart, so that a failed begin removes the file, too
  void write(std::span<const std::byte> record);

  std::string path_;
  std::string partial_path_;  // beside it, until it is renamed; empty: path_ is written
  File file_;
  TraceEncoder encoder_;
};

// ERRORS: NotFound, Io, CorruptFile.
[[nodiscard]] std::vector<TraceRecord> read_recording(const std::string& path);

}  // namespace inflight
