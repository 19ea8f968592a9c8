// SPDX-License-Identifier: Apache-2.0
// Goal: pictures hold what happened: every sequence on its row, every step with its tokens; files are well formed.
// Covers: sim/timeline.cpp, sim/html_report.cpp
#include "sim/html_report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/sim_spec.h"

namespace inflight {
namespace {

struct Simulated {
  Timeline timeline;
  SimResult result;
};

void simulate_into(const char* spec_json, Simulated& run) {
  const SimSpec spec = parse_sim_spec(spec_json);
  run.result =
      run_simulation(spec.options, load_workload(spec), SteadyClock(), {.trace = &run.timeline, .progress = {}});
}

int64_t count_of(std::string_view html, std::string_view text) {
  int64_t found = 0;
  for (size_t at = html.find(text); at != std::string::npos; at = html.find(text, at + 1)) ++found;
  return found;
}

TEST(Timeline, RowsAndStepsOfFourRequests) {
  Simulated run;
  simulate_into(R"({"workload": "lengths=50,60,400,80", "max_num_seqs": 4, "device": "unit", "overlap": "off"})", run);
  const auto& intervals = run.timeline.intervals();
  ASSERT_EQ(intervals.size(), 4U);
  EXPECT_EQ(intervals[2].end, 400'000'000);
  EXPECT_EQ(intervals[2].prefilled, 1'000'000);
  ASSERT_EQ(run.timeline.steps().size(), 400U);
  EXPECT_EQ(run.timeline.steps()[0].prefill_tokens, 64);
  EXPECT_EQ(run.timeline.steps()[399].decodes, 1);
  EXPECT_EQ(run.timeline.steps()[10].duration, 1'000'000);
  EXPECT_EQ(run.timeline.steps()[10].waiting, 0);
}

TEST(Timeline, LongRunsAreThinned) {
  Simulated run;
  simulate_into(R"({"workload": "lengths=30000,5", "max_num_seqs": 1, "device": "unit", "overlap": "off"})", run);
  EXPECT_LT(run.timeline.steps().size(), Timeline::kStepsMax);
  EXPECT_GE(run.timeline.steps().size(), Timeline::kStepsMax / 2);
  EXPECT_EQ(run.timeline.steps()[1].number - run.timeline.steps()[0].number,
            static_cast<uint64_t>(run.timeline.stride()));
}

TEST(Timeline, TheEndOfTheRunEndsWhatStillRuns) {
  Simulated run;
  simulate_into(R"({"workload": "closed,requests=20,output=2000,prompt=16", "device": "unit", "max_num_seqs": 4,
                    "time_limit_s": 1})",
                run);
  run.timeline.end(run.result.makespan);
  ASSERT_EQ(run.timeline.intervals().size(), 4U);
  for (const Timeline::Interval& interval : run.timeline.intervals()) EXPECT_EQ(interval.end, run.result.makespan);
}

TEST(Timeline, PreemptionsEndIntervals) {
  Simulated run;
  simulate_into(R"({"workload": "closed,requests=10,prompt=32,output=300", "device": "unit", "kv_blocks": 64})", run);
  const auto preempted = std::ranges::count_if(run.timeline.intervals(), [](const auto& i) { return i.preempted; });
  EXPECT_EQ(preempted, run.result.scheduler.preemptions);
  EXPECT_GT(preempted, 0);
}

// On a device of 1 ms a step the steps follow each other without a gap, those that ran for nobody after a stop too; the
// last of these is not read any more.
TEST(Timeline, StepsBeginWhereTheDeviceBegins) {
  for (const char* const overlap : {"on", "off"}) {
    Simulated run;
    simulate_into(
        (R"({"workload": "closed,requests=6,concurrency=2,output=20,max_tokens=60", "device": "unit", "overlap": ")" +
         std::string(overlap) + "\"}")
            .c_str(),
        run);
    TimeNs end = 0;
    for (const Timeline::Step& step : run.timeline.steps()) {
      EXPECT_EQ(step.begin, end) << step.number;
      EXPECT_EQ(step.duration, 1'000'000);
      end = step.begin + step.duration;
    }
    EXPECT_EQ(end, run.result.makespan);
  }
  // A second after each stop somebody comes: nothing ran in between but the step for nobody.
  Simulated run;
  simulate_into(
      R"({"workload": "poisson,rate=0.5,requests=9,output=2,max_tokens=9,prompt=4,seed=3", "device": "unit"})", run);
  ASSERT_EQ(run.timeline.steps().size(), 9U * 3 - 1);
  for (size_t i = 0; i < run.timeline.steps().size(); ++i) {
    const RequestRecord& record = run.result.requests[i / 3];
    EXPECT_EQ(run.timeline.steps()[i].begin, record.arrival + static_cast<TimeNs>(i % 3) * 1'000'000) << i;
  }
}

TEST(HtmlReport, TellsWhoWasTurnedAway) {
  Simulated run;
  simulate_into(R"({"workload": "closed,requests=20,output=200,prompt=16", "device": "unit", "max_num_seqs": 4,
                    "max_num_queued_reqs": 3, "time_limit_s": 0.1})",
                run);
  run.timeline.end(run.result.makespan);
  const ReportRun of{"mine", &run.result, &run.timeline};
  const std::string html = html_report("x", std::span(&of, 1));
  EXPECT_NE(html.find("<th>rejected<th>unfinished<th>"), std::string::npos);
  EXPECT_NE(html.find(fmt::format("<td>mine<td>{}<td>13<td>7<td>", run.result.scheduler.steps)), std::string::npos);
}

TEST(HtmlReport, ChromeTraceIsJson) {
  Simulated run;
  simulate_into(R"({"workload": "closed,requests=10,output=30", "device": "unit"})", run);
  const auto json = nlohmann::json::parse(to_chrome_trace(run.timeline, " of replica 0"));
  EXPECT_GE(json["traceEvents"].size(), 10U + 2 * run.timeline.steps().size());
  EXPECT_EQ(json["traceEvents"][0]["args"]["name"], "steps of replica 0");
  EXPECT_EQ(json["traceEvents"][1]["args"]["name"], "rows of the batch of replica 0");
}

TEST(HtmlReport, SaysWhoseTimelineItIs) {
  Simulated run;
  simulate_into(R"({"workload": "bimodal,requests=30", "device": "unit", "replicas": 2})", run);
  const ReportRun runs[] = {{"two", &run.result, &run.timeline}};
  EXPECT_NE(html_report("title", runs).find("Batch timeline: two, replica 0<"), std::string::npos);
}

TEST(HtmlReport, IsOneFileWithNothingFromOutside) {
  Simulated run;
  simulate_into(R"({"workload": "bimodal,requests=30", "device": "unit", "max_num_seqs": 4})", run);
  const ReportRun runs[] = {{"a <b> & c", &run.result, &run.timeline}, {"again", &run.result, nullptr}};
  const std::string html = html_report("title", runs);
  EXPECT_NE(html.find("a &lt;b> &amp; c"), std::string::npos);
  EXPECT_EQ(html.find("src="), std::string::npos);
  EXPECT_EQ(html.find("href="), std::string::npos);
  const auto count = [&](std::string_view text) { return count_of(html, text); };
  EXPECT_EQ(count("<svg"), count("</svg>"));
  EXPECT_EQ(count("<svg"), 6);  // two latency plots, KV use of both, a timeline and its load
  EXPECT_EQ(count("KV grew from"), 2);
  EXPECT_GE(count("<title>sequence"), 30);
  EXPECT_EQ(html.find("nan"), std::string::npos);
}

TEST(HtmlReport, RedAloneMeansPreempted) {
  Simulated run;
  simulate_into(R"({"workload": "closed,requests=10,prompt=32,output=300", "device": "unit", "kv_blocks": 64})", run);
  const ReportRun runs[] = {{"one", &run.result, &run.timeline}};
  const std::string html = html_report("title", runs);
  EXPECT_EQ(count_of(html, "fill='#d62728'><title>sequence"), run.result.scheduler.preemptions);
  EXPECT_EQ(count_of(html, "fill='#d55e00'><title>sequence"), 0);  // vermillion
}

TEST(HtmlReport, EmptyPlotsAreDrawn) {
  const std::string svg =
      svg_of(Plot{.title = "nothing", .x_label = "x", .y_label = "y", .series = {{"none", {}, {}}}});
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

// Numbers stand beside a logarithmic axis however short the range: powers of ten, else 1, 2 and 5 times these, else
// equal steps.
TEST(Report, LogarithmicAxesHaveNumbers) {
  const auto numbers_of = [](double low, double high) {
    const std::string svg =
        svg_of({.title = "", .x_label = "", .y_label = "", .series = {{"", {0, 1}, {low, high}}}, .log_y = true});
    std::string numbers;
    constexpr std::string_view kMark = "text-anchor='end'>";
    for (size_t at = svg.find(kMark); at != std::string::npos; at = svg.find(kMark, at + 1)) {
      const size_t begin = at + kMark.size();
      numbers += svg.substr(begin, svg.find('<', begin) - begin) + " ";
    }
    return numbers;
  };
  EXPECT_EQ(numbers_of(3, 300), "10 100 ");
  EXPECT_EQ(numbers_of(12, 80), "20 50 ");
  EXPECT_EQ(numbers_of(12, 15), "12 14 16 18 ");
}

TEST(Report, ASeriesWithoutANameHasNoLegend) {
  const auto swatches = [](const char* name) {
    return count_of(svg_of({.title = "", .x_label = "", .y_label = "", .series = {{name, {0, 1}, {1, 2}}}}),
                    "stroke-width='4'");
  };
  EXPECT_EQ(swatches("one"), 1);
  EXPECT_EQ(swatches(""), 0);
}

}  // namespace
}  // namespace inflight
