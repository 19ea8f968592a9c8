// SPDX-License-Identifier: Apache-2.0
// The simulator's workloads on a live engine, in real time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cli/engine_flags.h"
#include "sim/device_model.h"
#include "sim/recorded_run.h"
#include "sim/workload.h"

namespace inflight::cli {

// A file of this process's own that goes with the object. An empty path is none.
class OwnFile {
 public:
  explicit OwnFile(std::string path) : path_(std::move(path)) {}
  OwnFile(const OwnFile&) = delete;
  OwnFile& operator=(const OwnFile&) = delete;
  ~OwnFile();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// An engine that records what it does: the figures of a run are those of its recording.
class LiveEngine {
 public:
  // Records where --record says, else into a file that goes with this object.   ERRORS: as inflight_engine_create().
  explicit LiveEngine(EngineFlags& flags);
  LiveEngine(const LiveEngine&) = delete;
  LiveEngine& operator=(const LiveEngine&) = delete;

  // Serves the workload. What arrives at 0 is there when it begins; the others come by the clock, one with `after` when
  // that one has ended and its time has passed. Requests that a limit of the queue or a policy rejects count as such.
  // ERRORS: InvalidArgument (a request that the engine refuses), EngineFailed (one that ended by an error, too), Io.
  [[nodiscard]] RecordedRun run(const Workload& workload);

  [[nodiscard]] Engine& engine() { return engine_; }
  [[nodiscard]] int32_t max_model_len() const { return max_model_len_; }
  [[nodiscard]] int32_t max_num_seqs() const { return max_num_seqs_; }
  [[nodiscard]] const std::string& model() const { return model_; }
  [[nodiscard]] const std::string& device() const { return device_; }
  // What is known of a device profile without measuring: the sizes of the model.
  [[nodiscard]] const DeviceProfile& unmeasured_profile() const { return unmeasured_profile_; }

 private:
  [[nodiscard]] RequestOptions options_of(const Workload& workload, const SimRequest& request) const;
  [[nodiscard]] RecordedRun recorded(TimeNs begin, int64_t requests) const;

  OwnFile own_recording_;  // none: --record named one
  std::string recording_;
  Engine engine_;
  std::vector<std::string> adapters_;  // adapter i of a workload is number (i - 1) mod their count
  std::string model_, device_;
  DeviceProfile unmeasured_profile_;
  int32_t vocabulary_size_ = 0;
  int32_t max_model_len_ = 0;
  int32_t max_num_seqs_ = 0;
};

}  // namespace inflight::cli
