// SPDX-License-Identifier: Apache-2.0
// The plan of device memory equals what is then allocated; what does not fit is refused before.
#include "exec/memory_plan.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "base/log.h"
#include "exec/cl_executor.h"
#include "model/model_loader.h"
#include "support/executor_runner.h"
#include "support/expect_error.h"
#include "support/pretended_device.h"
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
  const PlannedModel model{&model_.spec, &model_.weights, options()};
  const std::vector<PlannedModel> one = {model}, two = {model, model};
  const size_t room = plan_memory(device_.info(), one, 20).total();
  EXPECT_EQ(room, plan_memory(device_.info(), model_.spec, model_.weights, options()).total());
  EXPECT_EQ(plan_memory(device_.info(), two, 20).total(), 2 * room);
  constexpr size_t kAny = std::numeric_limits<size_t>::max();
  EXPECT_EQ(fitting_block_count(device_.info(), two, {2 * room, kAny}, 1000), 20);
  EXPECT_EQ(fitting_block_count(device_.info(), one, {room, kAny}, 1000), 20);
  EXPECT_EQ(fitting_block_count(device_.info(), one, {room, kAny}, 7), 7);
  EXPECT_EQ(fitting_block_count(device_.info(), one, {1000, kAny}, 1000), 0);
  const size_t block = options().kv.bytes_per_block();
  EXPECT_EQ(fitting_block_count(device_.info(), one, {kAny, 15 * block + 1}, 1000), 15);
}

// Of 7 KV heads 5 lie in slots: as many as steps need, a quarter of the blocks, or one a block, which is all there can
// be.
TEST_F(MemoryPlanning, LocalLayersLieInFewerSlotsThanThereAreBlocks) {
  ClExecutorOptions at = options();
  at.kv.head_count = 7;
  at.kv.local_head_count = 5;
  at.local_slots_min = 30;
  const size_t unit = size_t{16} * 2 * 16 * 2;  // tokens, K and V, D, bytes
  EXPECT_EQ(at.kv.bytes_per_block(), 2 * unit);
  EXPECT_EQ(at.kv.bytes_per_slot(), 5 * unit);
  EXPECT_EQ(at.kv.bytes_per_token(), 7 * unit / 16);
  for (const auto& [blocks, slots] : {std::pair{20, 20}, {31, 30}, {100, 30}, {120, 30}, {124, 31}, {400, 100}}) {
    at.kv_block_count = blocks;
    EXPECT_EQ(local_slot_count(at), slots) << blocks;
    const KvUnits units = kv_units(at);
    EXPECT_GE(units.first_block, 5 * slots);
    EXPECT_LT(units.first_block, 5 * slots + 2);
    EXPECT_EQ(units.first_block % 2, 0);  // or a block would lie in two buffers
    EXPECT_EQ(units.count, units.first_block + 2 * blocks);
    EXPECT_EQ(plan_memory(device_.info(), model_.spec, model_.weights, at).kv_bytes,
              unit * static_cast<size_t>(units.count));
  }
}

// As many whole blocks as a buffer holds, of which nothing but addresses depends: the kernels write blocks where copies
// find them, in whichever buffer.
TEST_F(MemoryPlanning, BuffersHoldWhatFitsAndTheCacheMaySpanThem) {
  ClExecutorOptions at = options();
  at.max_num_batched_tokens = 64;
  at.kv_block_count = 700;
  at.keep_logits = true;
  using Blocks = std::vector<BlockId>;
  const auto logits = [&](const Blocks& blocks, const Blocks& moved_to) {
    ClExecutor executor(device_, model_.spec, model_.weights, at);
    test::RunnerSequence sequence{.blocks = blocks};
    for (TokenId token = 0; token < 61; ++token) sequence.tokens.push_back(token);
    BatchPlan prompt;
    test::add_entry(prompt, sequence, 60);
    executor.submit(prompt);
    (void)executor.wait();
    sequence.computed = 60;
    sequence.blocks = moved_to;
    BatchPlan next;
    for (size_t i = 0; i < blocks.size(); ++i) next.copies.push_back({.from = blocks[i], .to = moved_to[i]});
    test::add_entry(next, sequence, 1);
    executor.submit(next);
    (void)executor.wait();
    return executor.logits();
  };
  const std::vector<std::vector<float>> expected =
      logits({BlockId{0}, BlockId{1}, BlockId{2}, BlockId{3}}, {BlockId{4}, BlockId{5}, BlockId{6}, BlockId{7}});
  test::info_of(device_).allocation_bytes_max = at.kv.bytes_per_block() * 301 + 100;
  EXPECT_EQ(blocks_a_chunk(device_.info(), at.kv), 301);
  EXPECT_EQ(logits({BlockId{300}, BlockId{301}, BlockId{601}, BlockId{602}},
                   {BlockId{603}, BlockId{0}, BlockId{302}, BlockId{1}}),
            expected);
}

// llvmpipe, which ends long loops, is the CPU of small items.
TEST(ClExecutorWarnings, TellOfVocabulariesThatAreTooLargeToDrawFrom) {
  Device device = Device::open({});
  test::info_of(device).small_items = true;
  test::info_of(device).host_code = false;
  test::info_of(device).cpu = {};
  for (const int32_t above : {0, 1}) {
    test::SyntheticModel synthetic;
    synthetic.spec.vocabulary_size = drawn_vocabulary_max(device.info()) + above;
    const test::TempFolder folder;
    const LoadedModel model = load_model(folder.write("model.gguf", test::build_model(synthetic).bytes()));
    int32_t warnings = 0;
    set_log_sink([&](LogLevel, std::string_view line) { warnings += line.find("vocabulary") != line.npos; },
                 LogLevel::Warning);
    const ClExecutor executor(device, model.spec, model.weights,
                              {.kv = KvLayout::of(model.spec, 16, KvType::F16), .kv_block_count = 1});
    set_log_sink({}, LogLevel::Error);
    EXPECT_EQ(warnings, above);
  }
}

TEST_F(MemoryPlanning, RefusesWhatTheDeviceCannotHold) {
  DeviceInfo small = device_.info();
  small.allocation_bytes_max = 50'000;
  INFLIGHT_EXPECT_ERROR(ErrorCode::OutOfMemory, "weights do not fit",
                        [&] { (void)plan_memory(small, model_.spec, model_.weights, options()); });
  ClExecutorOptions none = options();
  none.kv_block_count = 0;
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "kv_blocks is 0, allowed: 1 to",
                        [&] { (void)plan_memory(device_.info(), model_.spec, model_.weights, none); });
  ClExecutorOptions negative = options();
  negative.host_block_count = -1;
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "host_kv_blocks is -1, allowed: 0 to",
                        [&] { (void)plan_memory(device_.info(), model_.spec, model_.weights, negative); });
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
