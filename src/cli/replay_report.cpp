// SPDX-License-Identifier: Apache-2.0
#include "cli/replay_report.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/format.h"

namespace inflight::cli {

nlohmann::ordered_json replay_json(const ReplayResult& result) {
  nlohmann::ordered_json json = {{"plans", result.plans},
                                 {"requests", result.requests},
                                 {"requests_unfinished", result.unfinished},
                                 {"identical", !result.difference},
                                 {"difference", nullptr}};
  if (result.difference) {
    json["difference"] = {{"step", result.difference->step},
                          {"recorded", result.difference->recorded},
                          {"replayed", result.difference->replayed}};
  }
  return json;
}

std::string describe(const ReplayResult& result) {
  if (!result.difference) {
    const std::string rest =
        result.unfinished == 0 ? "" : fmt::format("; it ends before {} of them do", grouped(result.unfinished));
    return fmt::format("{} plans of {} requests: all identical{}\n", grouped(result.plans), grouped(result.requests),
                       rest);
  }
  return fmt::format("step {} differs, after {} equal plans: recorded {}, replayed {}\n", result.difference->step,
                     grouped(result.plans - 1), result.difference->recorded, result.difference->replayed);
}

void print_replay(const ReplayResult& result, bool as_json) {
  if (as_json) {
    print_json(replay_json(result));
  } else {
    fmt::print("{}", describe(result));
  }
  if (result.difference) throw CLI::RuntimeError(1);
}

}  // namespace inflight::cli
