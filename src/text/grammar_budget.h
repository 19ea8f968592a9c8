// SPDX-License-Identifier: Apache-2.0
// What compiling one grammar may take. Texts of a few hundred bytes can ask for 2^30 merges of schemas or 10^8
// elements, so whoever does work whose size the text decides charges it here.
#pragma once

#include <cstddef>
#include <stop_token>
#include <utility>

#include "base/error.h"

namespace inflight::grammar {

class Budget {
 public:
  // stop: requested when nobody waits for the grammar any more.
  explicit Budget(std::stop_token stop = {}) : stop_(std::move(stop)) {}
  Budget(const Budget&) = delete;
  Budget& operator=(const Budget&) = delete;

  static constexpr size_t kStepsMax = 20'000'000;  // in all
  static constexpr size_t kBytesPerStep = 16;      // of texts

  // A step is what takes up to some 100 ns or 100 bytes, such as copying a JSON value or making an element.
  // ERRORS: InvalidArgument beyond kStepsMax, Rejected after a stop.
  void charge(size_t steps) {
    if (stop_.stop_requested()) fail(ErrorCode::Rejected, "nobody waits for the grammar any more");
    steps_ += steps;
    if (steps_ > kStepsMax) {
      fail(ErrorCode::InvalidArgument, "the grammar needs more than {} steps to compile", size_t{kStepsMax});
    }
  }

 private:
  std::stop_token stop_;
  size_t steps_ = 0;
};

}  // namespace inflight::grammar
