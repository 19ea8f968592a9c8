// SPDX-License-Identifier: Apache-2.0
// The simulator's device model fitted to the live engine, and checked against runs of it that the fit has not seen.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "cli/engine_flags.h"
#include "cli/live_run.h"
#include "sim/calibration.h"
#include "sim/sim_result.h"
#include "sim/workload.h"

namespace inflight::cli {

// What steps took over what the same steps usually take: few rows wait for memory, many rows and prompts for
// arithmetic, which are not slowed down by the same.
struct Pace {
  std::array<double, 5> decode{1.0, 1.0, 1.0, 1.0, 1.0};  // of 1, 2 to 3, 4 to 7, 8 to 15, 16 and more rows
  double prompt = 1.0;

  [[nodiscard]] static size_t kind_of(int64_t rows);  // the index into `decode`
};

struct LiveRun {
  RecordedRun run;
  size_t probe_before = 0;  // the next one was made right after it
  double others = 1.0;      // share of the processors that others took, beyond what is taken for nothing
};

// One workload that the fit has not seen, as it was served live in each round and as it is predicted.
struct Check {
  std::string name;
  Workload workload;
  std::vector<LiveRun> live;
  // Of these, those that nothing disturbed, and what is predicted for each at its pace, by draws of the jitter.
  std::vector<const LiveRun*> used;
  std::vector<Pace> paces;
  std::vector<std::vector<SimResult>> simulated;
};

class LiveCalibration {
 public:
  struct Options {
    std::string name;
    std::string trace;  // checked too; empty: none
    int rounds = 3;
  };
  // Measures, fits and checks, which takes as long as it takes.   ERRORS: InvalidArgument (a model too short), as
  // LiveEngine and read_trace_workload().
  LiveCalibration(EngineFlags& engine_flags, const Options& options);

  [[nodiscard]] const CalibrationFit& found() const { return fit_; }
  [[nodiscard]] const std::vector<Check>& checks() const { return checks_; }
  [[nodiscard]] size_t step_count() const { return step_count_; }
  [[nodiscard]] size_t run_count() const { return training_.size(); }
  [[nodiscard]] size_t used_run_count() const { return undisturbed(training_).size(); }
  // The share of the processors that others took, on average over all runs.
  [[nodiscard]] double others_share() const;
  // By how much the probe's time varied, half of the way from the tenth to the ninth of ten, over the median.
  [[nodiscard]] double pace_spread() const;
  // Every step of the runs that are used, a line each: those that were fitted ("training") and those of the checks.
  [[nodiscard]] std::string steps_csv() const;

 private:
  void probe();
  [[nodiscard]] LiveRun live_run(const Workload& workload);
  void train();
  void check_round();
  void fit();
  void fit_steps(const std::vector<const LiveRun*>& runs, const std::vector<Pace>& paces);
  [[nodiscard]] double prompt_error(const LiveRun& live, const Pace& pace) const;
  [[nodiscard]] SimResult simulate(const Workload& workload, const Pace& pace, int draw) const;
  [[nodiscard]] double drift(const LiveRun& live) const;
  [[nodiscard]] Pace pace_of(const LiveRun& live) const;
  [[nodiscard]] std::vector<const LiveRun*> undisturbed(const std::vector<LiveRun>& runs) const;
  void append_steps(std::string& csv, const std::string& name, const std::vector<const LiveRun*>& runs) const;

  LiveEngine engine_;
  bool overlap_;
  double most_ = 0.0;  // requests a second that can be served, of kMixed; 0: not known yet
  DeviceProfile base_;
  Workload probe_;
  std::vector<RecordedRun> probes_;  // the same requests again and again: the same steps
  std::vector<double> usual_;        // seconds of each step of a probe
  double others_sum_ = 0.0;
  int attempts_ = 0;
  std::vector<LiveRun> training_;
  size_t step_count_ = 0;
  CalibrationFit fit_;
  std::vector<Check> checks_;
};

}  // namespace inflight::cli
