// SPDX-License-Identifier: Apache-2.0
// Many durations in little memory: the mean is exact, quantiles are within 0.1 % (buckets whose width grows with their
// value, as in HdrHistogram) and never outside of what was added.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/clock.h"

namespace inflight {

class LatencyHistogram {
 public:
  // REQUIRES: duration >= 0, count >= 1.
  void add(TimeNs duration, int64_t count = 1) {
    const size_t bucket = bucket_of(duration);
    if (bucket >= counts_.size()) counts_.resize(bucket + 1);
    counts_[bucket] += count;
    total_ += count;
    sum_ += static_cast<double>(duration) * static_cast<double>(count);
    min_ = std::min(min_, duration);
    max_ = std::max(max_, duration);
  }
  void add(const LatencyHistogram& other) {
    if (other.counts_.size() > counts_.size()) counts_.resize(other.counts_.size());
    for (size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
    total_ += other.total_;
    sum_ += other.sum_;
    min_ = std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
  }

  [[nodiscard]] int64_t count() const { return total_; }
  [[nodiscard]] TimeNs max() const { return max_; }
  [[nodiscard]] double mean() const { return total_ == 0 ? 0.0 : sum_ / static_cast<double>(total_); }
  // The smallest duration that a share q of them do not exceed (nearest rank); 0 when there are none.
  [[nodiscard]] double quantile(double q) const {
    const auto rank = static_cast<int64_t>(q * static_cast<double>(total_) + 0.999999);
    int64_t seen = 0;
    for (size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen < rank || counts_[i] == 0) continue;
      return std::clamp(middle_of(i), static_cast<double>(min_), static_cast<double>(max_));
    }
    return static_cast<double>(max_);
  }

 private:
  static constexpr unsigned kBits = 9;  // values below 2^(kBits + 1) have a bucket of their own

  static size_t bucket_of(TimeNs duration) {
    const auto value = static_cast<uint64_t>(duration < 0 ? 0 : duration);
    const auto width = static_cast<unsigned>(std::bit_width(value));
    if (width <= kBits + 1) return value;
    const unsigned shift = width - kBits - 1;
    return (static_cast<size_t>(shift) << kBits) + (value >> shift);
  }
  static double middle_of(size_t bucket) {
    if (bucket < (size_t{2} << kBits)) return static_cast<double>(bucket);
    const size_t shift = (bucket >> kBits) - 1;
    const uint64_t low = ((bucket & ((size_t{1} << kBits) - 1)) | (size_t{1} << kBits)) << shift;
    return static_cast<double>(low) + static_cast<double>((uint64_t{1} << shift) - 1) / 2.0;
  }

  std::vector<int64_t> counts_;  // by bucket, up to the last that is not empty
  int64_t total_ = 0;
  double sum_ = 0.0;
  TimeNs min_ = std::numeric_limits<TimeNs>::max();
  TimeNs max_ = 0;
};

}  // namespace inflight
