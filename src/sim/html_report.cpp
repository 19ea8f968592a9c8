// SPDX-License-Identifier: Apache-2.0
#include "sim/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <limits>

namespace inflight {
namespace {

// Okabe and Ito's palette: told apart by everybody.
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                 "#e69f00", "#56b4e9", "#8a8a8a", "#8a8a00"};
// Of a timeline's sequences: without vermillion, which looks like the red of who was preempted.
constexpr std::array kRowColours = {kColours[0], kColours[2], kColours[3], kColours[4], kColours[5]};
constexpr double kWidth = 640.0, kHeight = 300.0, kLeft = 70.0, kRight = 20.0, kTop = 30.0, kBottom = 45.0;

// A round step that cuts `range` into about five.
double tick_of(double range) {
  const double raw = range / 5.0;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10.0 * power;
}

// As many decimals as the ticks' distance needs.
std::string tick_text(double value, double step) {
  const double digits = std::max(0.0, -std::floor(std::log10(step) + 1e-9));
  return fmt::format("{:.{}f}", value + 0.0, static_cast<int>(digits));  // no "-0"
}

struct Axis {
  double low = 0.0, high = 1.0;
  bool log = false;
  [[nodiscard]] double at(double value) const {
    if (log) return (std::log10(value) - std::log10(low)) / (std::log10(high) - std::log10(low));
    return (value - low) / (high - low);
  }
};

Axis axis_of(const Plot& plot, std::vector<double> PlotSeries::* member, bool log) {
  double low = std::numeric_limits<double>::max(), high = std::numeric_limits<double>::lowest();
  for (const PlotSeries& series : plot.series) {
    for (const double value : series.*member) {
      if (log && value <= 0.0) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (low > high) return {};
  if (!log) low = std::min(low, 0.0);
  if (high <= low) high = low + 1.0;
  return {low, log ? high * 1.2 : high, log};
}

struct Tick {
  double value;
  std::string text;
};

std::vector<Tick> even_ticks(const Axis& axis) {
  std::vector<Tick> ticks;
  const double step = tick_of(axis.high - axis.low);
  for (double value = std::ceil(axis.low / step) * step; value <= axis.high + 1e-9; value += step)
    ticks.push_back({value, tick_text(value, step)});
  return ticks;
}

// The powers of ten, each times every one of `factors`.
std::vector<Tick> decade_ticks(const Axis& axis, std::initializer_list<double> factors) {
  std::vector<Tick> ticks;
  for (double power = std::pow(10.0, std::floor(std::log10(axis.low))); power <= axis.high; power *= 10.0) {
    for (const double factor : factors) {
      const double value = factor * power;
      if (value >= axis.low && value <= axis.high) ticks.push_back({value, fmt::format("{:.4g}", value)});
    }
  }
  return ticks;
}

// At least two, however short the range.
std::vector<Tick> ticks_along(const Axis& axis) {
  if (!axis.log) return even_ticks(axis);
  std::vector<Tick> ticks = decade_ticks(axis, {1.0});
  if (ticks.size() < 2) ticks = decade_ticks(axis, {1.0, 2.0, 5.0});
  return ticks.size() < 2 ? even_ticks(axis) : ticks;
}

std::string ticks_of(const Axis& x, const Axis& y) {
  std::string svg;
  const double inner_width = kWidth - kLeft - kRight, inner_height = kHeight - kTop - kBottom;
  for (const Tick& tick : ticks_along(x)) {
    svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>",
                       kLeft + x.at(tick.value) * inner_width, kHeight - kBottom + 16, tick.text);
  }
  for (const Tick& tick : ticks_along(y)) {
    const double at = kHeight - kBottom - y.at(tick.value) * inner_height;
    svg += fmt::format(
        "<line x1='{}' x2='{}' y1='{:.1f}' y2='{:.1f}' stroke='#888' stroke-opacity='0.3'/><text x='{}' "
        "y='{:.1f}' text-anchor='end'>{}</text>",
        kLeft, kWidth - kRight, at, at, kLeft - 6, at + 4, tick.text);
  }
  return svg;
}

std::string table_of(std::span<const ReportRun> runs) {
  std::string html =
      "<table><tr><th>run<th>steps<th>rejected<th>unfinished<th>makespan s<th>output tokens/s<th>requests/s<th>TTFT "
      "p50<th>p95<th>p99 ms<th>ITL "
      "p50<th>p95<th>p99 ms<th>E2E mean ms<th>goodput/s<th>useful slots<th>prefix "
      "hits<th>preempted<th>recomputed<th>KV "
      "used<th>fairness<th>guesses<th>right<th>tokens a step of a sequence</tr>\n";
  for (const ReportRun& run : runs) {
    const SimResult& r = *run.result;
    html += fmt::format(
        "<tr><td>{}<td>{}<td>{}<td>{}<td>{:.3f}<td>{:.1f}<td>{:.2f}<td>{:.1f}<td>{:.1f}<td>{:.1f}<td>{:.2f}<td>{:.2f}<"
        "td>{:.2f}<td>"
        "{:.1f}"
        "<td>{:.2f}<td>{:.1f} %<td>{:.1f} %<td>{}<td>{:.1f} %<td>{:.1f} %<td>{:.3f}<td>{}<td>{:.1f} %<td>{:.2f}</tr>\n",
        html_escaped(run.name), r.scheduler.steps, r.rejected, r.unfinished, r.makespan_s(),
        r.output_tokens_per_second(),
        static_cast<double>(r.scheduler.requests_finished) / std::max(r.makespan_s(), 1e-9), r.ttft.p50, r.ttft.p95,
        r.ttft.p99, r.itl.p50, r.itl.p95, r.itl.p99, r.e2e.mean, r.goodput(), 100 * r.useful_slot_share(),
        100 * r.prefix_hit_rate(), r.scheduler.preemptions, 100 * r.recompute_tax(), 100 * r.kv_usage_mean,
        r.fairness.index, r.scheduler.draft_tokens, 100 * r.guesses().acceptance_rate(),
        r.guesses().mean_acceptance_length());
  }
  html += "</table>\n";
  for (const ReportRun& run : runs) {
    for (const std::string& line : run.result->describe_taken_out()) {
      html += fmt::format("<p>{}: {}</p>\n", html_escaped(run.name), html_escaped(line));
    }
  }
  return html;
}

// Share of the answered requests that had ended (or their first token) within a time.
PlotSeries distribution_of(const ReportRun& run, bool first_token) {
  std::vector<double> values;
  for (const RequestRecord& record : run.result->requests) {
    if (record.reason == FinishReason::Error) continue;
    const TimeNs end = first_token ? record.first_token : record.end;
    if (end != kNotYet) values.push_back(static_cast<double>(end - record.arrival) * 1e-6);
  }
  std::ranges::sort(values);
  PlotSeries series{.name = run.name, .x = {}, .y = {}};
  constexpr size_t kPoints = 100;
  for (size_t i = 0; i <= kPoints && !values.empty(); ++i) {
    series.x.push_back(values[std::min(values.size() - 1, i * values.size() / kPoints)]);
    series.y.push_back(static_cast<double>(i) / kPoints);
  }
  return series;
}

std::string load_plot(const ReportRun& run) {
  Plot plot{.title = run.name + (run.result->replicas > 1 ? ": sequences of replica 0" : ": sequences"),
            .x_label = "time, s",
            .y_label = "sequences",
            .series = {}};
  PlotSeries decoding{"decoding", {}, {}}, waiting{"waiting", {}, {}};
  const auto& steps = run.timeline->steps();
  const size_t stride = std::max<size_t>(1, steps.size() / 400);
  for (size_t i = 0; i < steps.size(); i += stride) {
    const double at = static_cast<double>(steps[i].begin) * 1e-9;
    decoding.x.push_back(at);
    decoding.y.push_back(steps[i].decodes);
    waiting.x.push_back(at);
    waiting.y.push_back(steps[i].waiting);
  }
  plot.series = {decoding, waiting};
  return svg_of(plot);
}

// What either factor has added to the first use, and both.
std::string kv_plot(const ReportRun& run) {
  const KvGrowth& growth = run.result->kv_growth;
  PlotSeries concurrency{"by more sequences", {}, {}}, length{"by longer sequences", {}, {}}, both{"both", {}, {}};
  for (const KvUse& use : growth.samples()) {
    const KvGrowthParts parts = split_kv_growth(growth.first(), use);
    for (PlotSeries* series : {&concurrency, &length, &both}) series->x.push_back(static_cast<double>(use.time) * 1e-9);
    concurrency.y.push_back(parts.by_concurrency);
    length.y.push_back(parts.by_length);
    both.y.push_back(parts.by_concurrency + parts.by_length);
  }
  return svg_of({.title = run.name + ": KV use since the first step",
                 .x_label = "time, s",
                 .y_label = "tokens of KV",
                 .series = {concurrency, length, both}});
}

}  // namespace

std::string html_escaped(std::string_view text) {
  std::string out;
  for (const char character : text) {
    switch (character) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += character;
    }
  }
  return out;
}

std::string svg_of(const Plot& plot) {
  const Axis x = axis_of(plot, &PlotSeries::x, false), y = axis_of(plot, &PlotSeries::y, plot.log_y);
  const double inner_width = kWidth - kLeft - kRight, inner_height = kHeight - kTop - kBottom;
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {} {}' width='{}' font-family='sans-serif' font-size='11' "
      "fill='currentColor'>",
      kWidth, kHeight + 16.0 * static_cast<double>((plot.series.size() + 2) / 3), kWidth);
  svg +=
      fmt::format("<text x='{}' y='16' font-size='13' font-weight='bold'>{}</text>", kLeft, html_escaped(plot.title));
  svg += ticks_of(x, y);
  svg += fmt::format("<rect x='{}' y='{}' width='{}' height='{}' fill='none' stroke='#888'/>", kLeft, kTop, inner_width,
                     inner_height);
  svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>{}</text>", kLeft + inner_width / 2, kHeight - 12,
                     html_escaped(plot.x_label));
  svg += fmt::format("<text transform='translate(14,{}) rotate(-90)' text-anchor='middle'>{}</text>",
                     kTop + inner_height / 2, html_escaped(plot.y_label));
  for (size_t s = 0; s < plot.series.size(); ++s) {
    const PlotSeries& series = plot.series[s];
    const char* const colour = kColours[s % kColours.size()];
    std::string points;
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (plot.log_y && series.y[i] <= 0.0) continue;
      points += fmt::format("{:.1f},{:.1f} ", kLeft + x.at(series.x[i]) * inner_width,
                            kHeight - kBottom - y.at(series.y[i]) * inner_height);
    }
    const char* const dashes = s < kColours.size() ? "" : " stroke-dasharray='5 3'";
    svg += fmt::format("<polyline points='{}' fill='none' stroke='{}' stroke-width='1.6'{}/>", points, colour, dashes);
    if (series.name.empty()) continue;
    const double legend_x = kLeft + static_cast<double>(s % 3) * inner_width / 3.0,
                 legend_y = kHeight + 16.0 * static_cast<double>(s / 3);
    svg += fmt::format(
        "<line x1='{:.1f}' y1='{:.1f}' x2='{:.1f}' y2='{:.1f}' stroke='{}' stroke-width='4'{}/><text x='{:.1f}' "
        "y='{:.1f}'>{}</text>",
        legend_x, legend_y + 2, legend_x + 13, legend_y + 2, colour, dashes, legend_x + 17, legend_y + 6,
        html_escaped(series.name));
  }
  return svg + "</svg>\n";
}

std::string svg_of(const Timeline& timeline, int32_t rows) {
  TimeNs end = 1;
  for (const auto& interval : timeline.intervals()) end = std::max(end, interval.end);
  constexpr double kTimelineWidth = 960.0, kMargin = 44.0, kAxis = 36.0;
  const double row_height = std::clamp(320.0 / rows, 2.0, 16.0), height = row_height * rows;
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {} {:.0f}' width='{}' font-family='sans-serif' "
      "font-size='11' fill='currentColor'><rect x='{}' y='0' width='{}' height='{:.1f}' fill='#888' "
      "fill-opacity='0.15' "
      "stroke='#888'/>",
      kMargin + kTimelineWidth, height + kAxis, kMargin + kTimelineWidth, kMargin, kTimelineWidth, height);
  const auto at = [&](TimeNs time) {
    return kMargin + static_cast<double>(time) / static_cast<double>(end) * kTimelineWidth;
  };
  const double seconds = static_cast<double>(end) * 1e-9, step = tick_of(seconds);
  for (double value = 0.0; value <= seconds; value += step) {
    svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>{}</text>",
                       kMargin + value / seconds * kTimelineWidth, height + 14, tick_text(value, step));
  }
  svg += fmt::format("<text x='{:.1f}' y='{:.1f}' text-anchor='middle'>time, s</text>", kMargin + kTimelineWidth / 2,
                     height + 30);
  svg += fmt::format("<text transform='translate(14,{:.1f}) rotate(-90)' text-anchor='middle'>slot</text>", height / 2);
  svg += fmt::format("<text x='{}' y='11' text-anchor='end'>1</text>", kMargin - 5);
  if (rows > 1)
    svg += fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{}</text>", kMargin - 5, height - 2, rows);
  for (const auto& interval : timeline.intervals()) {
    const TimeNs prefilled = interval.prefilled == kNotYet ? interval.end : interval.prefilled;
    const double top = row_height * interval.row;
    svg += fmt::format("<rect x='{:.2f}' y='{:.1f}' width='{:.2f}' height='{:.1f}' fill='#9ecae1'/>",
                       at(interval.begin), top, at(prefilled) - at(interval.begin), row_height - 0.5);
    svg += fmt::format(
        "<rect x='{:.2f}' y='{:.1f}' width='{:.2f}' height='{:.1f}' fill='{}'><title>sequence {}</title></rect>",
        at(prefilled), top, std::max(at(interval.end) - at(prefilled) - 0.3, 0.2), row_height - 0.5,
        interval.preempted ? "#d62728" : kRowColours[interval.sequence % kRowColours.size()], interval.sequence);
  }
  return svg + "</svg>\n";
}

std::string html_report(std::string_view title, std::span<const ReportRun> runs, std::span<const Plot> plots) {
  std::string html = fmt::format(
      "<!doctype html><html lang='en'><meta charset='utf-8'><title>{}</title>"
      "<style>:root{{color-scheme:light dark}}body{{font:14px sans-serif;margin:2em;max-width:1320px;background:#fff;"
      "color:#1c2430}}@media(prefers-color-scheme:dark){{body{{background:#12161c;color:#e6eaf0}}}}table{{border-"
      "collapse:collapse;font-size:12px}}td,th{{border:1px solid #8888;padding:3px 6px;text-align:right}}"
      "td{{white-space:nowrap}}td:first-child,th:first-child{{text-align:left}}h2{{margin-top:2em}}"
      ".wide{{overflow-x:auto}}.plots{{display:flex;flex-wrap:wrap;gap:1em}}.plots>*{{flex:1 1 "
      "480px;max-width:640px}}svg{{max-width:100%;height:auto}}"
      "</style><h1>{}</h1>\n",
      html_escaped(title), html_escaped(title));
  html += "<div class='wide'>" + table_of(runs) + "</div>\n";
  if (!plots.empty()) {
    html += "<h2>Along the sweep</h2>\n<div class='plots'>";
    for (const Plot& plot : plots) html += svg_of(plot);
    html += "</div>\n";
  }
  Plot ttft{.title = "Time to first token",
            .x_label = "time to first token, ms",
            .y_label = "share of requests",
            .series = {}};
  Plot e2e{
      .title = "Time to last token", .x_label = "time to last token, ms", .y_label = "share of requests", .series = {}};
  for (const ReportRun& run : runs) {
    ttft.series.push_back(distribution_of(run, true));
    e2e.series.push_back(distribution_of(run, false));
  }
  html += "<h2>Latencies</h2>\n<div class='plots'>" + svg_of(ttft) + svg_of(e2e) + "</div>\n";
  html +=
      "<h2>Why KV use grew</h2><p>More sequences at once (--max-num-seqs), or longer ones (--max-model-len).</p>\n"
      "<div class='plots'>";
  for (const ReportRun& run : runs) {
    html += fmt::format("<div>{}<p>{}.</p></div>", kv_plot(run), html_escaped(describe_growth(run.result->kv_growth)));
  }
  html += "</div>\n";
  for (const ReportRun& run : runs) {
    if (run.timeline == nullptr) continue;
    html += fmt::format(
        "<h2>Batch timeline: {}{}</h2><p>One line a slot: light = prompt, coloured = decoding, red = was preempted, "
        "grey = idle.</p>\n",
        html_escaped(run.name), run.result->replicas > 1 ? ", replica 0" : "");
    html += svg_of(*run.timeline, run.result->max_num_seqs);
    html += load_plot(run);
  }
  return html + "</html>\n";
}

}  // namespace inflight
