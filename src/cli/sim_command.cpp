// SPDX-License-Identifier: Apache-2.0
// `inflight sim`: the engine's scheduler on a virtual clock. Options become the keys of sim_spec.h one to one.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/progress_bar.h"
#include "cli/replay_report.h"
#include "cli/sim_options.h"
#include "sim/comparison.h"
#include "sim/html_report.h"
#include "sim/parse_number.h"
#include "sim/recording.h"
#include "sim/replay.h"
#include "sim/sim_spec.h"
#include "sim/text_file.h"
#include "sim/workload_spec.h"

namespace inflight::cli {
namespace {

std::string to_text(const SimResult& result) {
  const SchedulerStats& stats = result.scheduler;
  std::string text;
  const std::string devices = result.replicas > 1 ? fmt::format("{} x ", result.replicas) : "";
  text += fmt::format("{} requests ({}) on {}{}, {} batching, policy {}\n", grouped(stats.requests_finished),
                      result.workload, devices, result.device, result.batching, result.schedule_policy);
  text +=
      fmt::format("  makespan {:.3f} s, {} steps, {:.1f} output tokens/s, {:.2f} requests/s\n", result.makespan_s(),
                  grouped(stats.steps), result.output_tokens_per_second(),
                  result.makespan_s() > 0 ? static_cast<double>(stats.requests_finished) / result.makespan_s() : 0.0);
  for (const std::string& line : result.describe_taken_out()) text += "  " + line + "\n";
  const int64_t late = stats.requests_finished + result.unfinished - result.deadlines_met;
  if (result.rejected > 0 || late > 0) {
    text += fmt::format("  rejected {}, past their deadlines {}: goodput {:.2f} requests/s\n", grouped(result.rejected),
                        grouped(late), result.goodput());
  }
  if (result.cut_off > 0) {
    text +=
        fmt::format("  cut off in the recording {}: their outputs are as long as it tells\n", grouped(result.cut_off));
  }
  if (result.left_out > 0) {
    text +=
        fmt::format("  left out of the trace {}: they have no prompt or no output tokens\n", grouped(result.left_out));
  }
  if (result.unfinished > 0) {
    text += fmt::format("  cut off by the time limit {}: not in the times below, counted as past their deadlines\n",
                        grouped(result.unfinished));
  }
  text += fmt::format("  useful slots {:.1f} %, static batching would reach {:.1f} % in {} cycles\n",
                      100.0 * result.useful_slot_share(), 100.0 * result.static_batching.useful_slot_share,
                      grouped(result.static_batching.cycles));
  text += fmt::format("  prefix hits {:.1f} %, preemptions {}, recomputed {:.1f} %, KV used {:.1f} % (most {:.1f} %)\n",
                      100.0 * result.prefix_hit_rate(), grouped(stats.preemptions), 100.0 * result.recompute_tax(),
                      100.0 * result.kv_usage_mean, 100.0 * result.kv_usage_max);
  text += describe_guesses(result.guesses());
  text += "  " + describe_growth(result.kv_growth) + "\n";
  text += fmt::format("  {:<6} {:>12} {:>12} {:>12} {:>12}\n", "ms", "mean", "p50", "p95", "p99");
  text += table_row("TTFT", result.ttft) + table_row("ITL", result.itl) + table_row("E2E", result.e2e);
  text += fmt::format(
      "  simulated in {:.3f} s: {} requests/s; decisions {:016x}\n", result.wall_s,
      grouped(static_cast<int64_t>(static_cast<double>(result.requests.size()) / std::max(result.wall_s, 1e-9))),
      result.decision_hash);
  return text;
}

using Names = std::vector<std::string>;

// What else was given beside an option that says what is to be done.   ERRORS: InvalidArgument naming the first that
// is_refused() is true of.
template <typename IsRefused>
void refuse_beside(const CLI::App& command, const char* option, IsRefused&& is_refused, const std::string& allowed) {
  for (const CLI::Option* const given : command.get_options([](const CLI::Option* one) { return one->count() > 0; })) {
    if (given->check_name(option) || !is_refused(*given)) continue;
    fail(ErrorCode::InvalidArgument, "{} cannot be combined with {}, allowed: {}", option, given->get_name(), allowed);
  }
}
bool is_one_of(const CLI::Option& option, const Names& names) {
  return std::ranges::any_of(names, [&](const std::string& name) { return option.check_name(name); });
}

// The recorded decisions again.
void run_replay(const CLI::App& command) {
  const Names allowed = {"--policy", "--evict", "--json"};
  refuse_beside(
      command, "--replay", [&](const CLI::Option& option) { return !is_one_of(option, allowed); },
      "--policy, --evict, --json (a recording holds its configuration)");
  const auto path = command["--replay"]->as<std::string>();
  ReplayOptions options;
  if (command.count("--policy") > 0) options.schedule_policy = command["--policy"]->as<std::string>();
  if (command.count("--evict") > 0) options.eviction_policy = command["--evict"]->as<std::string>();
  print_replay(replay_trace(read_recording(path), options), command.count("--json") > 0);
}

std::string text_option(const CLI::App& command, const char* name) {
  return command.count(name) > 0 ? command[name]->as<std::string>() : std::string();
}

void print_comparison(const std::vector<ComparedRun>& runs, bool as_json) {
  if (as_json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const ComparedRun& run : runs) {
      list.push_back({{"name", run.name}, {"result", nlohmann::ordered_json::parse(to_json(run.result))}});
    }
    print_json({{"runs", list}});
    return;
  }
  size_t width = 4;
  for (const ComparedRun& run : runs) width = std::max(width, run.name.size());
  fmt::print("latencies in ms\n");
  fmt::print("{:<{}} {:>9} {:>10} {:>10} {:>10} {:>10} {:>9} {:>9} {:>7} {:>7} {:>8}\n", "run", width, "steps",
             "tokens/s", "TTFT p50", "TTFT p95", "E2E mean", "ITL p50", "ITL p99", "slots", "hits", "preempt");
  for (const ComparedRun& run : runs) {
    const SimResult& r = run.result;
    fmt::print("{:<{}} {:>9} {:>10.1f} {:>10.1f} {:>10.1f} {:>10.1f} {:>9.2f} {:>9.2f} {:>5.1f} % {:>5.1f} % {:>7}\n",
               run.name, width, r.scheduler.steps, r.output_tokens_per_second(), r.ttft.p50, r.ttft.p95, r.e2e.mean,
               r.itl.p50, r.itl.p99, 100 * r.useful_slot_share(), 100 * r.prefix_hit_rate(), r.scheduler.preemptions);
  }
  for (const ComparedRun& run : runs) {
    const SimResult& r = run.result;
    for (const std::string& line : r.describe_taken_out()) fmt::print("{}: {}\n", run.name, line);
    if (r.rejected + r.unfinished > 0) {
      fmt::print("{}: {} requests rejected, {} unfinished, which are in no TTFT or E2E\n", run.name, r.rejected,
                 r.unfinished);
    }
  }
}

// Along the last dimension, where its values are numbers: a rising curve for each combination of the others; else none.
std::vector<PlotSeries> curves_along(const Dimension& last, const std::vector<ComparedRun>& runs,
                                     double (*figure)(const SimResult&)) {
  const size_t count = last.values.size();
  std::vector<PlotSeries> curves;
  for (size_t begin = 0; begin + count <= runs.size(); begin += count) {
    std::map<double, double> points;
    for (size_t i = begin; i < begin + count; ++i) {
      const auto value = parse_number(runs[i].values.back());
      if (!value) return {};
      points[*value] = figure(runs[i].result);
    }
    PlotSeries& curve = curves.emplace_back();
    for (const auto& [x, y] : points) {
      curve.x.push_back(x);
      curve.y.push_back(y);
    }
    const auto& values = runs[begin].values;
    for (size_t i = 0; i + 1 < values.size(); ++i) curve.name += (i > 0 ? ", " : "") + values[i];
  }
  return curves;
}

double e2e_p95(const SimResult& result) { return result.e2e.p95; }
double tokens_per_second(const SimResult& result) { return result.output_tokens_per_second(); }

void print_knees(const Dimension& last, const std::vector<PlotSeries>& curves) {
  for (const PlotSeries& curve : curves) {
    const std::string who = curve.name.empty() ? "" : curve.name + ": ";
    if (const auto knee = knee_of(curve.x, curve.y)) {
      fmt::print("{}p95 of E2E becomes twice that at {} {} between {} {} and {}\n", who, last.key, curve.x.front(),
                 last.key, knee->from, knee->to);
    } else {
      fmt::print("{}p95 of E2E stays below twice that at {} {}\n", who, last.key, curve.x.front());
    }
  }
}

void run_compare(const CLI::App& command) {
  const Names of_one_run = {"--csv", "--chrome-trace", "--record", "--repeat", "--timeline"};
  refuse_beside(
      command, "--compare", [&](const CLI::Option& option) { return is_one_of(option, of_one_run); },
      "--html, --json and the keys of simulations");
  std::vector<Dimension> dimensions;
  for (const auto& text : command["--compare"]->as<std::vector<std::string>>()) {
    dimensions.push_back(parse_dimension(text));
  }
  const std::string html = text_option(command, "--html");
  const SteadyClock clock;
  std::vector<ComparedRun> runs;
  {
    ProgressBar bar("simulating", clock);
    runs = compare(sim_options_json(command), dimensions, clock,
                   {.timelines = !html.empty(), .progress = [&bar](double share) { bar.update_share(share, ""); }});
  }
  const bool as_json = command.count("--json") > 0;
  print_comparison(runs, as_json);
  const Dimension& last = dimensions.back();
  if (!as_json && last.values.size() > 2 && last.key != "seed") print_knees(last, curves_along(last, runs, e2e_p95));
  if (html.empty()) return;
  std::vector<Plot> plots;
  if (last.values.size() > 1) {
    plots = {{"p95 of E2E", last.key, "ms", curves_along(last, runs, e2e_p95)},
             {"Throughput", last.key, "output tokens/s", curves_along(last, runs, tokens_per_second)}};
    std::erase_if(plots, [](const Plot& plot) { return plot.series.empty(); });
  }
  std::vector<ReportRun> report;
  for (const ComparedRun& run : runs) report.push_back({run.name, &run.result, &run.timeline});
  write_text_file(html, html_report("inflight: simulated runs compared", report, plots));
}

// Who watches the run, and what it writes where.
class Observation {
 public:
  Observation(const CLI::App& command, const SimSpec& spec, const Workload& workload)
      : html_(text_option(command, "--html")),
        chrome_(text_option(command, "--chrome-trace")),
        in_json_(spec.timeline),
        whose_(spec.options.replicas > 1 ? " of replica 0" : "") {
    const std::string path = text_option(command, "--record");
    if (!path.empty() && !(html_.empty() && chrome_.empty() && !in_json_)) {
      fail(ErrorCode::InvalidArgument,
           "--record cannot be combined with --html, --chrome-trace or --timeline, allowed: one run each");
    }
    if (!path.empty() && spec.options.replicas > 1) {
      fail(ErrorCode::InvalidArgument, "--record writes down one engine's decisions, found --replicas {}, allowed: 1",
           spec.options.replicas);
    }
    if (!path.empty()) recording_.emplace(path, resolved_setup(spec.options, workload));
  }
  [[nodiscard]] SchedulerTrace* trace() {
    if (recording_) return &recording_->trace();
    return html_.empty() && chrome_.empty() && !in_json_ ? nullptr : &timeline_;
  }
  [[nodiscard]] const Timeline* timeline_for_json() const { return in_json_ ? &timeline_ : nullptr; }
  void write(const SimResult& result) {
    if (recording_) recording_->close();
    timeline_.end(result.makespan);
    if (!chrome_.empty()) write_text_file(chrome_, to_chrome_trace(timeline_, whose_));
    const ReportRun run{result.schedule_policy + ", " + result.batching, &result, &timeline_};
    if (!html_.empty()) write_text_file(html_, html_report("inflight: " + result.workload, std::span(&run, 1)));
  }

 private:
  std::string html_, chrome_;
  bool in_json_;
  std::string whose_;  // the timeline
  std::optional<RecordingWriter> recording_;
  Timeline timeline_;
};

// Every file that the runs may read.
Names inputs_of(const CLI::App& command) {
  Names inputs = {text_option(command, "--replay")};
  const auto add = [&inputs](std::string_view key, const std::string& value) {
    for (const std::string& file : files_named(key, value)) inputs.push_back(file);
  };
  for (const SimKey& key : sim_keys()) add(key.name, text_option(command, sim_flag(key.name).c_str()));
  if (command.count("--compare") == 0) return inputs;
  for (const auto& text : command["--compare"]->as<std::vector<std::string>>()) {
    const Dimension dimension = parse_dimension(text);
    for (const std::string& value : dimension.values) add(long_sim_key(dimension.key), value);
  }
  return inputs;
}

void run_sim(const CLI::App& command) {
  std::vector<OutputFile> outputs;
  for (const char* const option : {"--record", "--html", "--chrome-trace", "--csv"}) {
    outputs.push_back({option, text_option(command, option)});
  }
  check_outputs(outputs, inputs_of(command));
  if (command.count("--replay") > 0) {
    run_replay(command);
    return;
  }
  if (command.count("--compare") > 0) {
    run_compare(command);
    return;
  }
  const SimSpec spec = read_sim_spec(sim_options_json(command));
  const Workload workload = load_workload(spec);
  const SteadyClock clock;
  Observation observation(command, spec, workload);
  const int repeat = command.count("--repeat") > 0 ? command["--repeat"]->as<int>() : 1;
  if (repeat > 1 && observation.trace() != nullptr) {
    fail(ErrorCode::InvalidArgument, "--repeat cannot be combined with files of one run, allowed: one of them");
  }
  SimResult result;
  std::vector<double> wall;
  {
    ProgressBar bar("simulating", clock);
    const SimObservers observers{.trace = observation.trace(),
                                 .progress = [&bar](double share) { bar.update_share(share, ""); }};
    for (int i = 0; i < repeat; ++i) {
      result = run_simulation(spec.options, workload, clock, observers);
      wall.push_back(result.wall_s);
    }
  }
  std::ranges::sort(wall);
  result.wall_s = wall[wall.size() / 2];
  observation.write(result);
  if (command.count("--csv") > 0) write_text_file(command["--csv"]->as<std::string>(), to_csv(result, workload));
  if (command.count("--json") > 0) {
    fmt::print("{}\n", to_json(result, observation.timeline_for_json()));
  } else {
    fmt::print("{}", to_text(result));
  }
}

}  // namespace

void add_sim_command(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("sim", "Run a workload or a trace on a simulated device");
  add_sim_options(*command);
  command->add_option("--csv")->description("Write one line a request to FILE")->type_name("FILE");
  command->add_option("--html")->description("Write plots and the batch timeline to FILE")->type_name("FILE");
  command->add_option("--chrome-trace")->description("Write the steps to FILE, for Perfetto")->type_name("FILE");
  command->add_option("--compare")
      ->description(
          "Run every combination: KEY=VALUE|VALUE|... or KEY=FROM:TO:COUNT; keys of these options or of workloads "
          "(seed: of both; workload.seed: of the workload only); may be repeated")
      ->type_name("KEY=VALUES")
      ->take_all();
  command->add_option("--record")
      ->description("Write every decision to FILE, for --replay and --trace")
      ->type_name("FILE");
  command->add_option("--repeat")
      ->description("Run it N times: wall_s is the median [1]")
      ->type_name("N")
      ->check(CLI::Range(1, 1000));
  command->add_option("--replay")
      ->description(
          "Take a recording's decisions again (with --policy or --evict: another's) and compare each step; status 1: "
          "one differs")
      ->type_name("FILE");
  command->add_flag("--json")->description("One JSON object");
  command->footer(
      "Examples:\n"
      "  inflight sim --workload bimodal,requests=400 --max-num-seqs 8 --html report.html\n"
      "  inflight sim --workload lengths=50,60,400,80 --batching static --max-num-seqs 4 --device unit\n"
      "  inflight sim --trace azure.csv --policy lpm --device gpu-8b,tensor_parallel=8\n"
      "  inflight sim --workload lognormal,predict=oracle --compare 'policy=fcfs|sjf' --compare rate=1:8:8\n"
      "  inflight sim --workload prefix,rate=20 --replicas 4 --routing prefix\n"
      "  inflight calibrate -m model.gguf -o here.json; inflight sim --workload bimodal --device here.json\n\n" +
      workload_help());
  command->callback([command] { run_sim(*command); });
}

}  // namespace inflight::cli
