// SPDX-License-Identifier: Apache-2.0
#include "sim/comparison.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "base/error.h"
#include "sim/parse_number.h"
#include "sim/workload_spec.h"

namespace inflight {
namespace {

using Json = nlohmann::ordered_json;

// A workload's text with one key set, in place of the value that it has there.
std::string with_workload_key(std::string workload, const std::string& key, const std::string& value) {
  const std::string assignment = "," + key + "=";
  if (const size_t begin = workload.find(assignment); begin != std::string::npos) {
    workload.erase(begin, workload.find(',', begin + 1) - begin);
  }
  return workload + assignment + value;
}

constexpr std::string_view kOfWorkload = "workload.";
std::string_view without_prefix(std::string_view key) {
  return key.starts_with(kOfWorkload) ? key.substr(kOfWorkload.size()) : key;
}

// The base with one key set.
void set_key(Json& spec, std::string_view given, const std::string& value) {
  const bool of_workload = given.starts_with(kOfWorkload);
  const std::string key = long_sim_key(without_prefix(given));
  const bool of_simulation =
      !of_workload && std::ranges::find(sim_keys(), std::string_view(key), &SimKey::name) != sim_keys().end();
  if (of_simulation) spec[key] = value;
  if (of_simulation && key != "seed") return;  // both have a seed: all that is random is drawn anew
  if (spec.contains("workload")) {
    spec["workload"] = with_workload_key(spec["workload"].get<std::string>(), key, value);
  } else if (!of_simulation) {
    fail(ErrorCode::InvalidArgument, "'{}' is no key of simulations; workload keys need a workload", given);
  }
}

bool takes_whole_numbers(std::string_view name) {
  const std::string key = long_sim_key(without_prefix(name));
  const auto known = std::ranges::find(sim_keys(), std::string_view(key), &SimKey::name);
  return known != sim_keys().end() ? known->type == SimKey::Type::Integer : workload_key_is_whole(key);
}

}  // namespace

Dimension parse_dimension(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0 || equals + 1 == text.size()) {
    fail(ErrorCode::InvalidArgument, "'{}' names no values, allowed: KEY=VALUE|VALUE|... or KEY=FROM:TO:COUNT", text);
  }
  Dimension dimension{.key = std::string(text.substr(0, equals)), .values = {}};
  const std::string_view values = text.substr(equals + 1);
  std::vector<double> range;
  for (size_t begin = 0; begin <= values.size();) {
    const size_t end = std::min(values.find(':', begin), values.size());
    const auto number = parse_number(values.substr(begin, end - begin));
    if (!number) break;
    range.push_back(*number);
    begin = end + 1;
  }
  if (range.size() == 3) {
    if (!(range[2] >= 2.0 && range[2] <= 1000.0 && range[2] == std::floor(range[2]))) {
      fail(ErrorCode::InvalidArgument, "the COUNT of '{}' is {}, allowed: 2 to 1000, a whole number", text, range[2]);
    }
    const auto count = static_cast<int>(range[2]);
    const bool whole = takes_whole_numbers(dimension.key);
    for (int i = 0; i < count; ++i) {
      const double value = range[0] + (range[1] - range[0]) * i / (count - 1);
      const bool is_whole = whole || value == std::floor(value);
      // Ends that are close have fewer whole numbers between them: each once.
      std::string one = is_whole ? fmt::format("{:.0f}", std::round(value)) : fmt::format("{:.6g}", value);
      if (dimension.values.empty() || dimension.values.back() != one) dimension.values.push_back(std::move(one));
    }
    return dimension;
  }
  for (size_t begin = 0; begin <= values.size();) {
    const size_t end = std::min(values.find('|', begin), values.size());
    std::string one(values.substr(begin, end - begin));
    if (std::ranges::find(dimension.values, one) != dimension.values.end()) {
      fail(ErrorCode::InvalidArgument, "'{}' lists '{}' twice, allowed: once", text, one);
    }
    dimension.values.push_back(std::move(one));
    begin = end + 1;
  }
  return dimension;
}

std::vector<ComparedRun> compare(const Json& base, const std::vector<Dimension>& dimensions, const Clock& wall,
                                 const CompareOptions& options) {
  constexpr size_t kRunsMax = 10'000;
  size_t count = 1;
  std::set<std::string> keys;
  for (const Dimension& dimension : dimensions) {
    // Both seeds may be.
    const std::string key = long_sim_key(without_prefix(dimension.key));
    if (!keys.insert(key == "seed" ? dimension.key : key).second) {
      fail(ErrorCode::InvalidArgument, "'{}' is compared twice, allowed: once", dimension.key);
    }
    count *= dimension.values.size();
    if (count > kRunsMax) fail(ErrorCode::InvalidArgument, "more than {} combinations to simulate", kRunsMax);
  }
  // A workload before what changes in it, and the seed of all before that of the workload.
  std::vector<size_t> order(dimensions.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t k) {
    const std::string& key = dimensions[k].key;
    return key == "workload" ? 0 : key.starts_with(kOfWorkload) ? 2 : 1;
  });
  std::vector<ComparedRun> runs(count);
  for (size_t i = 0; i < count; ++i) {
    Json spec = base;
    size_t rest = i, block = count;
    for (const Dimension& dimension : dimensions) {
      block /= dimension.values.size();
      const std::string& value = dimension.values[rest / block];
      rest %= block;
      runs[i].values.push_back(value);
      runs[i].name += (runs[i].name.empty() ? "" : ", ") +
                      (dimensions.size() > 1 || parse_number(value) ? dimension.key + " " : std::string()) + value;
    }
    for (const size_t k : order) set_key(spec, dimensions[k].key, runs[i].values[k]);
    runs[i].spec = read_sim_spec(spec);  // mistakes show before anything runs
  }
  std::mutex mutex;
  std::exception_ptr failure;
  std::atomic<size_t> next = 0;
  size_t done = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        const SimSpec& spec = runs[i].spec;
        SimObservers observers;
        if (options.timelines) observers.trace = &runs[i].timeline;
        runs[i].result = run_simulation(spec.options, load_workload(spec), wall, observers);
        runs[i].timeline.end(runs[i].result.makespan);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
      const std::scoped_lock lock(mutex);
      ++done;
      if (options.progress) options.progress(static_cast<double>(done) / static_cast<double>(count));
    }
  };
  const unsigned wanted =
      options.threads > 0 ? static_cast<unsigned>(options.threads) : std::thread::hardware_concurrency();
  {
    std::vector<std::jthread> threads;
    for (size_t i = 1; i < std::min<size_t>(std::max(wanted, 1U), count); ++i) threads.emplace_back(work);
    work();
  }
  if (failure) std::rethrow_exception(failure);
  return runs;
}

std::optional<Knee> knee_of(const std::vector<double>& x, const std::vector<double>& y) {
  if (x.empty()) return std::nullopt;
  const double limit = 2.0 * y.front();
  for (size_t i = 1; i < x.size(); ++i) {
    if (y[i] > limit) return Knee{x[i - 1], x[i]};
  }
  return std::nullopt;
}

}  // namespace inflight
