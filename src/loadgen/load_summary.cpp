// SPDX-License-Identifier: Apache-2.0
#include "loadgen/load_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "sim/comparison.h"
#include "sim/html_report.h"
#include "sim/parse_number.h"

namespace inflight {
namespace {

constexpr size_t kErrorsMax = 5;

double per_second(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0.0; }

struct Named {
  const char* name;
  const char* title;
  const LatencySummary LoadSummary::* latency;
};
constexpr Named kLatencies[] = {{"ttft", "time to first token", &LoadSummary::ttft},
                                {"tpot", "time per output token", &LoadSummary::tpot},
                                {"itl", "inter-token latency", &LoadSummary::itl},
                                {"e2el", "end-to-end latency", &LoadSummary::e2el}};

std::string rate_text(double rate) { return std::isfinite(rate) ? fmt::format("{:g}", rate) : "inf"; }

}  // namespace

bool ServiceLevel::given() const { return std::isfinite(ttft_ms) || std::isfinite(tpot_ms) || std::isfinite(e2el_ms); }

ServiceLevel parse_service_level(std::span<const std::string> goals) {
  ServiceLevel level;
  for (const std::string& goal : goals) {
    const size_t colon = goal.find(':');
    const std::string name = goal.substr(0, colon);
    double* const field = name == "ttft"   ? &level.ttft_ms
                          : name == "tpot" ? &level.tpot_ms
                          : name == "e2el" ? &level.e2el_ms
                                           : nullptr;
    const auto value = parse_number(colon == std::string::npos ? "" : goal.substr(colon + 1));
    if (field == nullptr || !value || !(*value > 0)) {
      fail(ErrorCode::InvalidArgument, "--goodput is '{}', allowed: ttft:MS, tpot:MS, e2el:MS", goal);
    }
    *field = *value;
  }
  return level;
}

LoadSummary summarize(const LoadRecords& records, const ServiceLevel& level) {
  LoadSummary summary;
  summary.max_concurrent = records.max_concurrent;
  summary.client_cpu_share = records.client_cpu_share;
  summary.late_max_ms = static_cast<double>(records.late_max) * 1e-6;
  summary.with_goodput = level.given();
  std::vector<TimeNs> ttft, itl, tpot, e2el;
  TimeNs begin = std::numeric_limits<TimeNs>::max(), end = 0;
  for (const LoadRecord& record : records.requests) {
    begin = std::min(begin, record.begin);
    if (!record.complete) {
      ++summary.failed;
      const bool known = std::ranges::find(summary.errors, record.error) != summary.errors.end();
      if (!known && summary.errors.size() < kErrorsMax) summary.errors.push_back(record.error);
      continue;
    }
    ++summary.completed;
    summary.input_tokens += record.prompt_tokens;
    summary.output_tokens += record.output_tokens;
    const std::vector<TimeNs>& times = record.token_times;
    end = std::max(end, times.back());
    ttft.push_back(times.front() - record.begin);
    e2el.push_back(times.back() - record.begin);
    for (size_t i = 1; i < times.size(); ++i) itl.push_back(times[i] - times[i - 1]);
    TimeNs mean_gap = 0;
    if (record.output_tokens > 1) {
      mean_gap = (times.back() - times.front()) / (record.output_tokens - 1);
      tpot.push_back(mean_gap);
    }
    const auto keeps = [](TimeNs time, double limit_ms) { return static_cast<double>(time) * 1e-6 <= limit_ms; };
    if (keeps(ttft.back(), level.ttft_ms) && keeps(mean_gap, level.tpot_ms) && keeps(e2el.back(), level.e2el_ms)) {
      ++summary.good;
    }
  }
  summary.duration_s = summary.completed == 0 ? 0.0 : static_cast<double>(end - begin) * 1e-9;
  summary.ttft = LatencySummary::of(std::move(ttft));
  summary.itl = LatencySummary::of(std::move(itl));
  summary.tpot = LatencySummary::of(std::move(tpot));
  summary.e2el = LatencySummary::of(std::move(e2el));
  return summary;
}

nlohmann::ordered_json to_json(const LoadSummary& summary) {
  nlohmann::ordered_json json;
  if (!summary.arrivals_of.empty()) {
    json["request_rate"] = summary.arrivals_of;
  } else if (std::isfinite(summary.request_rate)) {
    json["request_rate"] = summary.request_rate;
  } else {
    json["request_rate"] = "inf";
  }
  json["duration"] = summary.duration_s;
  json["completed"] = summary.completed;
  json["failed"] = summary.failed;
  json["total_input_tokens"] = summary.input_tokens;
  json["total_output_tokens"] = summary.output_tokens;
  json["request_throughput"] = per_second(summary.completed, summary.duration_s);
  if (summary.with_goodput) json["request_goodput"] = per_second(summary.good, summary.duration_s);
  json["output_throughput"] = per_second(summary.output_tokens, summary.duration_s);
  json["total_token_throughput"] = per_second(summary.input_tokens + summary.output_tokens, summary.duration_s);
  json["max_concurrent_requests"] = summary.max_concurrent;
  for (const Named& each : kLatencies) {
    const LatencySummary& latency = summary.*each.latency;
    const auto put = [&](const char* statistic, double value) {
      json[fmt::format("{}_{}_ms", statistic, each.name)] = value;
    };
    put("mean", latency.mean);
    put("p50", latency.p50);
    put("p95", latency.p95);
    put("p99", latency.p99);
    put("max", latency.max);
  }
  json["client_cpu_share"] = summary.client_cpu_share;
  json["client_late_max_ms"] = summary.late_max_ms;
  if (!summary.errors.empty()) json["errors"] = summary.errors;
  return json;
}

std::string to_text(const LoadSummary& summary) {
  std::string text = fmt::format(
      "{} requests complete, {} failed, in {:.2f} s; at most {} at once\n"
      "  {:.2f} requests/s, {:.1f} output tokens/s, {:.1f} tokens/s with prompts\n",
      summary.completed, summary.failed, summary.duration_s, summary.max_concurrent,
      per_second(summary.completed, summary.duration_s), per_second(summary.output_tokens, summary.duration_s),
      per_second(summary.input_tokens + summary.output_tokens, summary.duration_s));
  if (summary.with_goodput) {
    text += fmt::format("  goodput {:.2f} requests/s: {} of {} kept the goals\n",
                        per_second(summary.good, summary.duration_s), summary.good, summary.completed + summary.failed);
  }
  text += fmt::format("  {:<10}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "ms", "mean", "p50", "p95", "p99", "max");
  for (const Named& each : kLatencies) {
    const LatencySummary& latency = summary.*each.latency;
    text += fmt::format("  {:<10}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n", each.name, latency.mean, latency.p50,
                        latency.p95, latency.p99, latency.max);
  }
  text += fmt::format("  this client: {:.0f} % of a core, sent at most {:.1f} ms late\n",
                      100 * summary.client_cpu_share, summary.late_max_ms);
  for (const std::string& error : summary.errors) text += fmt::format("  failed: {}\n", error);
  return text;
}

namespace {

// Where latency leaves its flat part; "" for fewer than three rates.
std::string knee_text(std::span<const LoadSummary> runs) {
  std::map<double, double> curve;
  for (const LoadSummary& run : runs) {
    if (std::isfinite(run.request_rate)) curve[run.request_rate] = run.e2el.p95;
  }
  if (curve.size() < 3) return "";
  std::vector<double> rates, latencies;
  for (const auto& [rate, latency] : curve) {
    rates.push_back(rate);
    latencies.push_back(latency);
  }
  const std::string least = rate_text(rates.front());
  const auto knee = knee_of(rates, latencies);
  return knee ? fmt::format("p95 of E2E becomes twice that at {} requests/s between {} and {}\n", least,
                            rate_text(knee->from), rate_text(knee->to))
              : fmt::format("p95 of E2E stays below twice that at {} requests/s\n", least);
}

}  // namespace

std::string to_table(std::span<const LoadSummary> runs) {
  std::string text =
      fmt::format("{:>8}{:>8}{:>7}{:>10}{:>10}{:>11}{:>11}{:>10}{:>10}{:>10}{:>10}\n", "rate", "done", "failed",
                  "req/s", "good/s", "output t/s", "TTFT p50", "TTFT p99", "ITL p50", "ITL p99", "TPOT p99");
  for (const LoadSummary& run : runs) {
    text +=
        fmt::format("{:>8}{:>8}{:>7}{:>10.2f}{:>10}{:>11.1f}{:>11.1f}{:>10.1f}{:>10.2f}{:>10.2f}{:>10.2f}\n",
                    rate_text(run.request_rate), run.completed, run.failed, per_second(run.completed, run.duration_s),
                    run.with_goodput ? fmt::format("{:.2f}", per_second(run.good, run.duration_s)) : "-",
                    per_second(run.output_tokens, run.duration_s), run.ttft.p50, run.ttft.p99, run.itl.p50, run.itl.p99,
                    run.tpot.p99);
  }
  return text + "rate, req/s, good/s: requests a second; latencies in ms\n" + knee_text(runs);
}

std::string sweep_html(std::string_view title, std::span<const LoadSummary> runs) {
  std::vector<double> rates;
  for (const LoadSummary& run : runs) {
    rates.push_back(std::isfinite(run.request_rate) ? run.request_rate : per_second(run.completed, run.duration_s));
  }
  const auto series = [&](const char* name, auto&& value) {
    PlotSeries made{.name = name, .x = rates, .y = {}};
    for (const LoadSummary& run : runs) made.y.push_back(value(run));
    return made;
  };
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>{0}</title>\n"
      "<style>body{{font:15px/1.45 sans-serif;margin:1.5em "
      "auto;max-width:900px;color:#222}}pre{{overflow:auto}}</style>\n"
      "<h1>{0}</h1>\n<pre>{1}</pre>\n",
      html_escaped(title), html_escaped(to_table(runs)));
  Plot throughput{.title = "Throughput", .x_label = "request rate, 1/s", .y_label = "requests/s", .series = {}};
  throughput.series.push_back(
      series("complete", [](const LoadSummary& run) { return per_second(run.completed, run.duration_s); }));
  if (runs.front().with_goodput) {
    throughput.series.push_back(
        series("goodput", [](const LoadSummary& run) { return per_second(run.good, run.duration_s); }));
  }
  html += svg_of(throughput);
  for (const Named& each : kLatencies) {
    Plot plot{.title = each.title, .x_label = "request rate, 1/s", .y_label = "ms", .series = {}, .log_y = true};
    plot.series.push_back(series("p50", [&](const LoadSummary& run) { return (run.*each.latency).p50; }));
    plot.series.push_back(series("p95", [&](const LoadSummary& run) { return (run.*each.latency).p95; }));
    plot.series.push_back(series("p99", [&](const LoadSummary& run) { return (run.*each.latency).p99; }));
    html += svg_of(plot);
  }
  return html + "</html>\n";
}

}  // namespace inflight
