// SPDX-License-Identifier: Apache-2.0
// The trial of single stages: every operation is timed, attention's output was checked by the trial itself, and bytes
// and operations are what counting by hand gives.
#include "exec/stage_trial.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace inflight {
namespace {

StageTrialShape small_shape(KvType type, int32_t rows) {
  StageTrialShape shape;
  shape.spec = {.architecture = "llama",
                .layer_count = 2,
                .hidden_size = 128,
                .feed_forward_size = 128,
                .head_count = 4,
                .kv_head_count = 2,
                .head_size = 32,
                .vocabulary_size = 100,
                .context_length = 300,
                .rope_style = RopeStyle::HalfSplit,
                .rope_dimension_count = 32};
  shape.kv_type = type;
  shape.sequences = 3;
  shape.rows = rows;
  shape.context = 300;
  return shape;
}

TEST(StageTrial, TimesEveryOperationAndCountsItsWork) {
  Device device = Device::open({});
  for (const auto& [type, head_bytes] : {std::pair(KvType::F16, 64), {KvType::I16, 68}, {KvType::Q8_0, 34}}) {
    for (const int32_t rows : {1, 40}) {
      std::set<Operation> seen;
      for (const StageTiming& timing : StageTrial(device, small_shape(type, rows)).time(1)) {
        EXPECT_TRUE(seen.insert(timing.operation).second);
        EXPECT_GT(timing.median_seconds, 0.0);
        EXPECT_GT(timing.bytes, 0.0);
        if (timing.operation != Operation::Attention) continue;
        const double token_bytes = 2 * 2 * head_bytes;
        EXPECT_EQ(timing.bytes, 3 * 300 * token_bytes + 3 * rows * 128 * 8);
        double pairs = 0;
        for (int32_t row = 0; row < rows; ++row) pairs += 3 * (300 - row);
        EXPECT_EQ(timing.flops, 4 * 4 * 32 * pairs);
      }
      EXPECT_EQ(seen.size(), static_cast<size_t>(Operation::Shrink) - 2);  // plain ones but linear layers and changes
    }
  }
}

}  // namespace
}  // namespace inflight
