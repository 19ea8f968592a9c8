// SPDX-License-Identifier: Apache-2.0
// The plan of device memory equals what is then allocated; what does not fit is refused before.
#include "exec/memory_plan.h"

#include <gtest/gtest.h>

#include "exec/cl_executor.h"
#include "model/model_loader.h"
#include "support/expect_error.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

class MemoryPlanning : public testing::Test {
 protected:
  [[nodiscard]] ClExecutorOptions options() const {
    return {.kv = KvLayout::of(model_.spec, 16, KvType::F16),
            .kv_block_count = 20,
            .max_num_seqs = 3,
            .max_num_batched_tokens = 40};
  }
  test::TempFolder folder_;
  LoadedModel model_ = load_model(folder_.write("model.gguf", test::build_model({}).bytes()));
  Device device_ = Device::open({});
};

TEST_F(MemoryPlanning, StatesWhatTheExecutorAllocates) {
  const size_t before = device_.device_bytes();
  const MemoryPlan plan = plan_memory(device_.info(), model_.spec, model_.weights, options());
  EXPECT_EQ(plan.kv_bytes, size_t{20} * 16 * 2 * 2 * 2 * 16 * 2);  // blocks, tokens, K and V, layers, heads, D, bytes
  EXPECT_GE(plan.weight_bytes, size_t{300} * 64 * 4);
  const ClExecutor executor(device_, model_.spec, model_.weights, options());
  EXPECT_EQ(device_.device_bytes() - before, plan.total());
}

TEST_F(MemoryPlanning, FindsTheBlockCountThatFits) {
  ClExecutorOptions at = options();
  const size_t room = plan_memory(device_.info(), model_.spec, model_.weights, at).total();
  EXPECT_EQ(fitting_block_count(device_.info(), model_.spec, model_.weights, at, room, 1000), 20);
  EXPECT_EQ(fitting_block_count(device_.info(), model_.spec, model_.weights, at, room, 7), 7);
  EXPECT_EQ(fitting_block_count(device_.info(), model_.spec, model_.weights, at, 1000, 1000), 0);
}

TEST_F(MemoryPlanning, RefusesWhatTheDeviceCannotHold) {
  DeviceInfo small = device_.info();
  small.allocation_bytes_max = 50'000;
  INFLIGHT_EXPECT_ERROR(ErrorCode::OutOfMemory, "weights do not fit",
                        [&] { (void)plan_memory(small, model_.spec, model_.weights, options()); });
  ClExecutorOptions none = options();
  none.kv_block_count = 0;
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "kv_block_count is 0",
                        [&] { (void)plan_memory(device_.info(), model_.spec, model_.weights, none); });
}

TEST_F(MemoryPlanning, ChunksHoldWholePieces) {
  const std::vector<size_t> sizes = {100, 100, 30, 200};
  const ChunkPlan plan = plan_chunks(sizes, 256);
  ASSERT_EQ(plan.chunk_bytes.size(), 3U);
  EXPECT_EQ(plan.places[1].offset, 128U);
  EXPECT_EQ(plan.places[2].chunk, 1);
  EXPECT_EQ(plan.places[3].chunk, 2);
}

TEST_F(MemoryPlanning, LoadingReportsProgressAndStops) {
  ClExecutorOptions stopping = options();
  double last = 0.0;
  int calls = 0;
  stopping.progress = [&](double fraction, const char* what) {
    EXPECT_GT(fraction, last);
    EXPECT_NE(std::string(what), "");
    last = fraction;
    return ++calls == 3;
  };
  INFLIGHT_EXPECT_ERROR(ErrorCode::Rejected, "stopped at",
                        [&] { ClExecutor(device_, model_.spec, model_.weights, stopping); });
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace inflight
