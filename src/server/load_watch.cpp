// SPDX-License-Identifier: Apache-2.0
#include "server/load_watch.h"

#include <algorithm>
#include <cmath>

namespace inflight::server {
namespace {

constexpr std::chrono::seconds kPaceWindow{30};
constexpr int32_t kRetryAfterMax_s = 60;

}  // namespace

void LoadWatch::observe(const inflight_stats_t& stats, Clock::time_point now) {
  waiting_ = stats.requests_waiting;
  failed_ = stats.failed != 0;
  hung_ = stats.hung != 0;
  samples_.push_back({now, stats.requests_finished + stats.requests_aborted + stats.requests_failed});
  while (now - samples_.front().time > kPaceWindow) samples_.pop_front();
}

int32_t LoadWatch::retry_after_s() const {
  if (samples_.size() < 2 || waiting_ == 0) return 1;
  const double seconds = std::chrono::duration<double>(samples_.back().time - samples_.front().time).count();
  const double pace = static_cast<double>(samples_.back().finished - samples_.front().finished) / seconds;
  if (!(pace > 0)) return kRetryAfterMax_s;
  return std::clamp(static_cast<int32_t>(std::ceil(0.5 * waiting_ / pace)), 1, kRetryAfterMax_s);
}

}  // namespace inflight::server
