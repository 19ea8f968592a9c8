// SPDX-License-Identifier: Apache-2.0
// One number for all that a scheduler decided: which sequences computed how many tokens in which step, in order. Two
// runs with the same number took the same decisions. A step that only carries every sequence of the step before one
// token further adds to a count instead of the list, so that skipping such steps over gives the same number.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "core/batch_plan.h"

namespace inflight {

class DecisionHash {
 public:
  void add(const BatchPlan& plan) {
    if (is_carried_on(plan)) {
      ++repeats_;
      return;
    }
    uint64_t hash = folded(hash_, repeats_);
    repeats_ = 0;
    last_.resize(plan.entries.size());
    for (size_t i = 0; i < last_.size(); ++i) {
      const BatchEntry& entry = plan.entries[i];
      const uint64_t tokens =
          static_cast<uint64_t>(entry.computed_token_count) << 32 | static_cast<uint32_t>(entry.scheduled_token_count);
      hash = folded(hash, std::rotl(to_integer(entry.sequence) * 0xd1342543de82ef95ULL, 29) ^ tokens);
      last_[i] = {entry.sequence, entry.context_token_count()};
    }
    for (const auto* copies : {&plan.swap_out, &plan.swap_in}) hash = folded(hash, copies->size());
    hash_ = hash;
  }
  // The step before once more, `count` times, each sequence a token further each time.
  void add_carried_on(int64_t count) { repeats_ += static_cast<uint64_t>(count); }

  [[nodiscard]] uint64_t value() const { return folded(hash_, repeats_); }

 private:
  struct Entry {
    SequenceId sequence;
    int32_t end;  // context tokens when the list was made
  };

  [[nodiscard]] bool is_carried_on(const BatchPlan& plan) const {
    if (plan.entries.size() != last_.size() || !plan.swap_in.empty() || !plan.swap_out.empty()) return false;
    const auto steps = static_cast<int32_t>(repeats_);
    for (size_t i = 0; i < last_.size(); ++i) {
      const BatchEntry& entry = plan.entries[i];
      if (entry.sequence != last_[i].sequence || entry.scheduled_token_count != 1 ||
          entry.computed_token_count != last_[i].end + steps) {
        return false;
      }
    }
    return true;
  }
  [[nodiscard]] static uint64_t folded(uint64_t hash, uint64_t value) {
    return (std::rotl(hash, 23) ^ value) * 0x9e3779b97f4a7c15ULL;
  }

  std::vector<Entry> last_;
  uint64_t repeats_ = 0;
  uint64_t hash_ = 0x243f6a8885a308d3ULL;
};

}  // namespace inflight
