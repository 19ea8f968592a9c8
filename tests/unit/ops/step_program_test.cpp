// SPDX-License-Identifier: Apache-2.0
// Covers: ops/step_program.cpp, device/device.cpp, cl_kernels/run_step.cl
// Launches that may begin before the ones before them (docs/decisions/0050): in whatever order and how many at once,
// the steps come to their end in their own order. Truth: the same steps one by one, each waited for.
#include "ops/step_program.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <thread>

#include "device/buffer.h"

namespace inflight {
namespace {

constexpr int32_t kRows = 40, kWidth = 64, kRowWords = kRows * kWidth;

// Steps of one stage: rows of one half of the activations are normed into the other half, so each needs all of the
// last.
class StepLaunches : public testing::Test {
 protected:
  void SetUp() override {
    const bool fused = program_.mode() == LaunchMode::Fused && !words_[0].in_place().empty();
    if (!fused) GTEST_SKIP() << device_.info().name << " has a launch a stage";
    std::array<float, kWidth> scales{};
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = 1.0F + 0.01F * static_cast<float>(i);
    scales_.write(scales);
    zeros_.clear();
  }

  // The rows as they are before the step `number`.
  void begin_before(int32_t number) {
    std::vector<float> rows(2 * kRowWords, -1.0F);
    for (size_t i = 0; i < kRowWords; ++i) rows[i] = 1.0F + static_cast<float>(i % 97);
    activations_.write(rows);
    row_tokens_.write(std::array{0, 0, static_cast<int32_t>(static_cast<uint32_t>(number) - 1U)});
  }

  // Puts the step into words_[place]; an even one reads the first half.
  void put_step(size_t place, int32_t number, bool even) {
    const NormArgs norm{.in = even ? 0 : kRowWords,
                        .rows_from = kNone,
                        .weight = 0,
                        .depth = kWidth,
                        .epsilon = 1e-5F,
                        .rows = kRows,
                        .out = {.floats = even ? kRowWords : 0}};
    const Stage stage{.operation = Operation::Norm,
                      .items = kRows,
                      .counter = 0,
                      .wait_counter = kNone,
                      .wait_count = 0,
                      .batch = 1,
                      .norm = norm};
    std::array<int32_t, kWords> words{};
    words[kStepStageCount] = 1;
    words[kStepStages] = kStageAt;
    words[kStepNumber] = number;
    words[kStepDone] = 2;
    words[kStepLastCounter] = 0;
    words[kStepLastCount] = kRows;
    std::memcpy(&words[kStageAt], &stage, sizeof(stage));
    std::ranges::copy(words, words_[place].in_place().begin());
  }

  [[nodiscard]] int32_t done_items(size_t place) {
    return std::atomic_ref(words_[place].in_place()[kStepCounters]).load(std::memory_order_acquire);
  }

  [[nodiscard]] StepMemory memory(size_t place) const {
    StepMemory memory;
    memory.weights[0] = memory.kv[0] = memory.angles = &zeros_.memory();
    memory.vectors = &scales_.memory();
    memory.activations = &activations_.memory();
    memory.row_tokens = &row_tokens_.memory();
    memory.step = &words_[place].memory();
    return memory;
  }

  [[nodiscard]] std::vector<float> activations() const {
    std::vector<float> rows(2 * kRowWords);
    activations_.read(rows);
    return rows;
  }

  [[nodiscard]] std::vector<float> one_by_one(int steps) {
    begin_before(0);
    for (int i = 0; i < steps; ++i) {
      put_step(0, i, i % 2 == 0);
      program_.run(memory(0), {});
      device_.finish();
    }
    return activations();
  }

  static constexpr int32_t kStageAt = kStepCounters + kStepCounterStride;
  static constexpr size_t kWords = size_t{kStageAt} + kStageWords;

  Device device_ = Device::open({});
  StepProgram program_{device_,
                       {.head_count = 2, .kv_head_count = 1, .head_size = 32, .rope_pair_count = 16, .weight_types = 0},
                       LaunchMode::Automatic};
  Buffer<float> scales_{device_, "scales", kWidth}, activations_{device_, "rows", size_t{2} * kRowWords};
  Buffer<float> zeros_{device_, "zeros", 64};
  Buffer<int32_t> row_tokens_{device_, "row tokens", 3};
  std::array<Buffer<int32_t>, 3> words_{Buffer<int32_t>(device_, "step", kWords),
                                        Buffer<int32_t>(device_, "step", kWords),
                                        Buffer<int32_t>(device_, "step", kWords)};
};

TEST_F(StepLaunches, TheYoungerLaunchFirstDoesBothSteps) {
  const std::vector<float> wanted = one_by_one(2);
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max(), kLeast = std::numeric_limits<int32_t>::min();
  // The numbers start again behind the largest.
  for (const auto& [older, younger] : {std::pair{0, 1}, {kMost - 1, kMost}, {kMost, kLeast}, {-1, 0}}) {
    begin_before(older);
    put_step(0, older, true);
    put_step(1, younger, false);
    Completion done;
    program_.run_fused(memory(1), words_[0].memory(), done);
    done.wait();
    EXPECT_EQ(done_items(0), kRows) << older;
    EXPECT_EQ(done_items(1), kRows) << older;
    EXPECT_EQ(activations(), wanted) << older;
    program_.run_fused(memory(0), words_[0].memory(), done);  // finds nothing left to do
    done.wait();
    EXPECT_EQ(activations(), wanted) << older;
  }
}

TEST_F(StepLaunches, ALaunchEndsWhileAnothersWorkerHasItsLastItem) {
  begin_before(0);
  put_step(0, 0, true);
  words_[0].in_place()[kStepTicket] = kRows;  // all have been drawn
  Completion done;
  program_.run_fused(memory(0), words_[0].memory(), done);
  done.wait();
  EXPECT_EQ(done_items(0), 0);
}

TEST_F(StepLaunches, ManyBesideOneAnotherGiveWhatTheyGiveOneByOne) {
  constexpr int kSteps = 2000;
  const std::vector<float> wanted = one_by_one(kSteps);
  begin_before(0);
  std::array<Completion, 3> done;
  for (int i = 0; i < kSteps; ++i) {  // as ClExecutor does it: two in flight
    const auto place = static_cast<size_t>(i % 3), before = static_cast<size_t>((i + 2) % 3);
    put_step(place, i, i % 2 == 0);
    program_.run_fused(memory(place), words_[i == 0 ? place : before].memory(), done[place]);
    device_.flush();
    if (i == 0) continue;
    done[before].wait();
    while (done_items(before) != kRows) std::this_thread::yield();
  }
  device_.finish();
  EXPECT_EQ(activations(), wanted);
}

}  // namespace
}  // namespace inflight
