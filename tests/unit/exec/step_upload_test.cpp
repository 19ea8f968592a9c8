// SPDX-License-Identifier: Apache-2.0
// The words of a step of a model whose last layers compute the rows alone that somebody wants: of a prompt they have
// tables of their own, of a step that only decodes those of all layers.
// Covers: exec/step_upload.cpp
#include "exec/step_upload.h"

#include <gtest/gtest.h>

#include <vector>

#include "support/executor_runner.h"
#include "support/synthetic_model.h"

namespace inflight {
namespace {

TEST(StepUpload, TablesOfAllRowsServeLayersThatShareKAndV) {
  test::SyntheticModel model;
  model.make_gemma4();
  StepUpload upload(model.spec, 16, {.round_rows = 8, .units = {.in_block = 6}});
  for (const int32_t prompt : {0, 20}) {  // tokens of a third sequence, of which one is drawn
    std::vector<test::RunnerSequence> sequences(3);
    BatchPlan plan;
    for (int32_t i = 0; i < (prompt > 0 ? 3 : 2); ++i) {
      test::RunnerSequence& sequence = sequences[static_cast<size_t>(i)];
      const int32_t count = i < 2 ? 1 : prompt;
      sequence.row = i;
      sequence.tokens.assign(static_cast<size_t>(i < 2 ? 30 : prompt), 5);
      sequence.computed = i < 2 ? 29 : 0;
      sequence.blocks = {BlockId{2 * i}, BlockId{2 * i + 1}};
      test::add_entry(plan, sequence, count);
    }
    const StepTables& tables = upload.build(plan);
    const auto word = [&](int32_t at, int32_t i) { return upload.words()[static_cast<size_t>(at + i)]; };
    const bool same = prompt == 0;
    EXPECT_EQ(tables.all.rows, 2 + prompt);
    EXPECT_EQ(tables.last.rows, same ? 2 : 3);
    EXPECT_EQ(tables.last.attention.list == tables.all.attention.list, same);
    EXPECT_EQ(tables.last.local_attention.list == tables.all.local_attention.list, same);
    for (int32_t i = 0; i < tables.last.rows; ++i) {
      const int32_t row = i < 2 ? i : 1 + prompt;
      EXPECT_EQ(word(tables.last_rows, i), row);
      EXPECT_EQ(word(tables.last.positions, i), word(tables.all.positions, row));
      EXPECT_EQ(word(tables.last.tables, i), word(tables.all.tables, row));
      EXPECT_EQ(word(tables.last.positions, i), i < 2 ? 29 : prompt - 1);
    }
  }
}

}  // namespace
}  // namespace inflight
