// SPDX-License-Identifier: Apache-2.0
// One line on stderr that shows how far long work has come. Draws nothing where stderr is no
// terminal.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"

namespace inflight::cli {

class ProgressBar {
 public:
  // label: what is being done, "loading tinyworld.gguf".  LIFETIME: the clock outlives this object.
  ProgressBar(std::string label, const Clock& clock);
  // Erases the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Draws at most ten times a second; call it as often as you like.
  // detail: what is being worked on, shown where there is room.
  void update(size_t done_bytes, size_t total_bytes, std::string_view detail);
  // For work that cannot tell how far it has come, and lasts: draws at once.
  void announce(std::string_view detail);
  // share: in [0, 1].
  void update_share(double share, std::string_view detail);

 private:
  [[nodiscard]] bool is_due(TimeNs now) const;
  void draw(double share, std::string_view rest, TimeNs now);

  std::string label_;
  const Clock& clock_;
  bool visible_;
  TimeNs begin_;
  struct Point {
    size_t bytes;
    TimeNs time;
  };
  std::optional<Point> first_;  // of update(): from there on the rate is measured
  TimeNs drawn_ = 0;
  bool anything_drawn_ = false;
};

}  // namespace inflight::cli
