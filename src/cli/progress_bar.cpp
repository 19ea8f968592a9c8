// SPDX-License-Identifier: Apache-2.0
#include "cli/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cli/format.h"
#include "cli/stderr_log.h"

namespace inflight::cli {
namespace {

constexpr TimeNs kDrawIntervalNs = 100'000'000;
constexpr TimeNs kSilentNs = 200'000'000;  // work that ends sooner shows no bar
constexpr size_t kBarCells = 24;

size_t terminal_columns() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

ProgressBar::ProgressBar(std::string label, const Clock& clock)
    : label_(std::move(label)), clock_(clock), visible_(::isatty(STDERR_FILENO) == 1), begin_(clock.now()) {}

ProgressBar::~ProgressBar() {
  if (anything_drawn_) std::fputs("\r\x1B[K", stderr);
}

bool ProgressBar::is_due(TimeNs now) const {
  return visible_ && now - begin_ >= kSilentNs && (!anything_drawn_ || now - drawn_ >= kDrawIntervalNs);
}

void ProgressBar::draw(double share, std::string_view rest, TimeNs now) {
  const auto full = static_cast<size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(kBarCells));
  std::string line =
      fmt::format("{} [{:#<{}}{:.<{}}] {:3.0f} %  {}", label_, "", full, "", kBarCells - full, share * 100.0, rest);
  line.resize(std::min(line.size(), terminal_columns() - 1));  // names are ASCII: no character is cut
  print_to_stderr("\r{}\x1B[K", line);
  drawn_ = now;
  anything_drawn_ = true;
}

void ProgressBar::update(size_t done_bytes, size_t total_bytes, std::string_view detail) {
  const TimeNs now = clock_.now();
  if (!first_) first_ = Point{done_bytes, now};
  if (!is_due(now)) return;
  const double share = total_bytes == 0 ? 1.0 : static_cast<double>(done_bytes) / static_cast<double>(total_bytes);
  const double seconds = std::max(static_cast<double>(now - first_->time) * 1e-9, 1e-3);
  const double rate = static_cast<double>(done_bytes - first_->bytes) / seconds;
  draw(share, fmt::format("{}/s  {}", bytes_text(static_cast<size_t>(rate)), detail), now);
}

void ProgressBar::announce(std::string_view detail) {
  if (visible_) draw(0.0, detail, clock_.now());
}

void ProgressBar::update_share(double share, std::string_view detail) {
  const TimeNs now = clock_.now();
  if (is_due(now)) draw(share, detail, now);
}

}  // namespace inflight::cli
