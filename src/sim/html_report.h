// SPDX-License-Identifier: Apache-2.0
// Simulated runs as one HTML file that needs nothing else: a table, plots, batch timelines, all inline SVG.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/sim_result.h"
#include "sim/timeline.h"

namespace inflight {

struct ReportRun {
  std::string name;  // what sets it apart: "lpm, continuous, rate 4"
  const SimResult* result = nullptr;
  const Timeline* timeline = nullptr;  // of its first replica; may be null
};

// One picture: points of several series joined by lines.
struct PlotSeries {
  std::string name;
  std::vector<double> x, y;
};
struct Plot {
  std::string title, x_label, y_label;
  std::vector<PlotSeries> series;
  bool log_y = false;
};
[[nodiscard]] std::string svg_of(const Plot& plot);
// Text as it stands in HTML and SVG, also within double quotes.
[[nodiscard]] std::string html_escaped(std::string_view text);
// Rows of the batch over time: prefill light, decode dark, preempted red; white is a slot that did nothing.
[[nodiscard]] std::string svg_of(const Timeline& timeline, int32_t rows);

// plots: of all runs together, for what was swept.
[[nodiscard]] std::string html_report(std::string_view title, std::span<const ReportRun> runs,
                                      std::span<const Plot> plots = {});

}  // namespace inflight
