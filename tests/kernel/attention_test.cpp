// SPDX-License-Identifier: Apache-2.0
// rope, attention and combine against the definition in doubles, over KV storage full of NaN where nothing was written;
// and the promise behind determinism: tiles, splits, single rows and what GPUs are given lead to the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <span>

#include "base/half.h"
#include "base/math.h"
#include "base/rng.h"
#include "support/pretended_device.h"
#include "support/stage_bench.h"

namespace inflight {
namespace {

struct Heads {
  const char* name;
  int32_t heads, kv_heads, head_size, block_tokens;
  int32_t window = 0;
  KvType kv = KvType::F32;
  bool sinks = false;
  int32_t other_kv_heads = 0;  // of a model whose other layers have so many
};

class Attention : public testing::TestWithParam<Heads> {
 protected:
  static constexpr int32_t kTokens = 530;  // two whole partitions and a piece
  [[nodiscard]] KernelShape shape() const {
    return {.head_count = GetParam().heads,
            .kv_head_count = GetParam().other_kv_heads > 0 ? GetParam().other_kv_heads : GetParam().kv_heads,
            .local_kv_head_count = GetParam().other_kv_heads > 0 ? GetParam().kv_heads : 0,
            .head_size = GetParam().head_size,
            .rope_pair_count = GetParam().head_size / 2,
            .rope_interleaved = true,
            .block_token_count = GetParam().block_tokens,
            .kv_type = GetParam().kv,
            .sliding_window = GetParam().window,
            .weight_types = 0};
  }
  [[nodiscard]] size_t query_count() const { return static_cast<size_t>(GetParam().heads * GetParam().head_size); }
  [[nodiscard]] size_t key_count() const { return static_cast<size_t>(GetParam().kv_heads * GetParam().head_size); }

  [[nodiscard]] static int32_t first_seen(int32_t position) {
    return GetParam().window > 0 ? std::max(position - GetParam().window + 1, 0) : 0;
  }

  struct Row {
    int32_t position;
    int32_t tile;  // rows of its item, in the first row of a tile; 0 in the others
    bool split;
  };

  // Rows at positions [first, first + 11): each alone; or in tiles of 4 and 7.
  [[nodiscard]] static std::vector<Row> in_tiles(int32_t first) {
    std::vector<Row> rows;
    for (int32_t i = 0; i < 11; ++i) {
      rows.push_back({.position = first + i, .tile = i == 0 ? 4 : i == 4 ? 7 : 0, .split = false});
    }
    return rows;
  }
  [[nodiscard]] static std::vector<Row> alone(int32_t first, bool split) {
    std::vector<Row> rows;
    for (int32_t i = 0; i < 11; ++i) rows.push_back({.position = first + i, .tile = 1, .split = split});
    return rows;
  }

  // The attended rows [rows][H*D] at the given positions of one sequence of kTokens tokens.
  std::vector<float> attend(const std::vector<Row>& rows) { return attend(rows, device_); }
  std::vector<float> attend_by_groups(const std::vector<Row>& rows) {
    return attend(rows, device_, LaunchMode::Groups);
  }
  std::vector<float> attend(const std::vector<Row>& rows, Device& device, LaunchMode mode = LaunchMode::Stages) {
    const auto [name, heads, kv_heads, head_size, block_tokens, window, kv, sinks, others] = GetParam();
    const int32_t blocks = div_ceil(kTokens, block_tokens);
    const size_t kv_bytes = static_cast<size_t>(blocks + 2) * static_cast<size_t>(block_tokens) * 2 * key_count() * 4;
    test::StageBench bench(device, shape(), 4'000'000, kv_bytes, mode);
    bench.vectors = sinks_;
    bench.angles.clear();
    for (int32_t i = 0; i < kTokens * head_size / 2; ++i) bench.angles.insert(bench.angles.end(), {1.0F, 0.0F});

    std::vector<int32_t> table, positions, tables;
    for (int32_t i = 0; i < blocks; ++i) table.push_back((blocks + 1 - i) * kv_heads);  // backwards; 0 and 1 stay NaN
    const int32_t table_at = bench.add_words(table);
    for (int32_t i = 0; i < kTokens; ++i) {
      positions.push_back(i);
      tables.push_back(table_at);
    }
    const RopeArgs rope = {.query = bench.add_floats(std::vector<float>(query_count() * kTokens)),
                           .key = bench.add_floats(keys_),
                           .value = bench.add_floats(values_),
                           .positions = bench.add_words(positions),
                           .tables = bench.add_words(tables),
                           .unit = 0,
                           .kv_heads = kv_heads,
                           .query_norm = kNone,
                           .key_norm = kNone};
    std::vector<float> queries;
    std::vector<int32_t> row_positions, row_tables, list, combine;
    const int32_t shared = heads / kv_heads;
    int32_t slots = 0, tile_table = table_at;
    for (size_t r = 0; r < rows.size(); ++r) {
      const auto from = queries_.begin() + static_cast<int64_t>(query_count()) * rows[r].position;
      queries.insert(queries.end(), from, from + static_cast<int64_t>(query_count()));
      row_positions.push_back(rows[r].position);
      // Blocks behind the window of a tile's first row are out of reach: they lead to NaN.
      if (rows[r].tile > 0 && first_seen(rows[r].position) >= block_tokens) {
        std::vector<int32_t> released = table;
        std::fill_n(released.begin(), first_seen(rows[r].position) / block_tokens, 0);
        tile_table = bench.add_words(released);
      }
      row_tables.push_back(tile_table);
      const int32_t last = rows[r].tile > 0 ? rows[r + static_cast<size_t>(rows[r].tile) - 1].position : 0;
      const int32_t begin = first_seen(rows[r].position) / kAttentionPartition;
      const int32_t partitions = last / kAttentionPartition + 1 - begin;
      combine.insert(combine.end(), {rows[r].split ? slots : kNone, partitions});
      for (int32_t group = 0; group < kv_heads && rows[r].tile > 0; ++group) {
        const int32_t pieces = rows[r].split ? partitions : 1;
        for (int32_t piece = 0; piece < pieces; ++piece) {
          list.insert(list.end(), {static_cast<int32_t>(r), rows[r].tile, group, begin + (rows[r].split ? piece : 0),
                                   begin + (rows[r].split ? piece + 1 : partitions),
                                   rows[r].split ? slots + group * shared * partitions : kNone, partitions, begin});
        }
      }
      if (rows[r].split) slots += heads * partitions;
    }
    const int32_t query = bench.add_floats(queries), out = bench.add_poison(queries.size());
    const int32_t guard = bench.add_poison(64);
    const int32_t partials = bench.add_poison(static_cast<size_t>(slots) * static_cast<size_t>(head_size + 2));
    Stage rotate{.operation = Operation::Rope, .items = kTokens * kv_heads};
    rotate.rope = rope;
    Stage attention{.operation = Operation::Attention,
                    .items = static_cast<int32_t>(list.size()) / kAttentionItemWords};
    attention.attention = {.query = query,
                           .out = out,
                           .list = bench.add_words(list),
                           .positions = bench.add_words(row_positions),
                           .tables = bench.add_words(row_tables),
                           .partials = partials,
                           .unit = 0,
                           .kv_heads = kv_heads,
                           .sinks = sinks ? 0 : kNone};
    Stage merge{.operation = Operation::Combine,
                .items = static_cast<int32_t>(rows.size()) * StepProgram::combine_slices(shape())};
    merge.combine = {.in = out, .list = bench.add_words(combine), .partials = partials, .sinks = sinks ? 0 : kNone};
    bench.run({rotate, attention, merge});
    for (size_t i = 0; i < 64; ++i) {
      EXPECT_TRUE(test::StageBench::poisoned(bench.activations[static_cast<size_t>(guard) + i]));
    }
    return {bench.activations.begin() + out, bench.activations.begin() + out + static_cast<int64_t>(queries.size())};
  }

  // F16: each as a half. Q8_0 by its definition: 32 numbers by their largest / 127, which is kept as a half. I16: a
  // head's numbers by their largest / 8191.
  [[nodiscard]] static std::vector<float> as_stored(std::vector<float> numbers) {
    for (float& number : numbers) {
      if (GetParam().kv == KvType::F16) number = float_of_half(half_of_float(number));
    }
    for (size_t at = 0; at < numbers.size() && GetParam().kv == KvType::Q8_0; at += 32) {
      const auto block = std::span(numbers).subspan(at, 32);
      float largest = 0.0F;
      for (const float number : block) largest = std::max(largest, std::abs(number));
      const float scale = largest / 127.0F, inverse = 1.0F / scale;  // as the kernel: ties go the same way
      for (float& number : block) number = float_of_half(half_of_float(scale)) * std::nearbyint(number * inverse);
    }
    const auto size = static_cast<size_t>(GetParam().head_size);
    for (size_t at = 0; at < numbers.size() && GetParam().kv == KvType::I16; at += size) {
      const auto head = std::span(numbers).subspan(at, size);
      float largest = 0.0F;
      for (const float number : head) largest = std::max(largest, std::abs(number));
      for (float& number : head) {
        const double steps = static_cast<double>(number) * static_cast<double>(8191.0F / largest);
        number = static_cast<float>(static_cast<double>(largest) / 8191.0 * std::nearbyint(steps));
      }
    }
    return numbers;
  }

  // Of I16 queries and weights are rounded, too.
  [[nodiscard]] static double tolerance() { return GetParam().kv == KvType::I16 ? 3e-4 : 2e-5; }

  [[nodiscard]] std::vector<double> truth(int32_t position) const {
    const auto size = static_cast<size_t>(GetParam().head_size);
    const auto shared = static_cast<size_t>(GetParam().heads / GetParam().kv_heads);
    std::vector<double> result(query_count());
    for (size_t head = 0; head < static_cast<size_t>(GetParam().heads); ++head) {
      std::vector<double> scores;
      const auto first = static_cast<size_t>(first_seen(position));
      for (size_t j = first; j <= static_cast<size_t>(position); ++j) {
        double score = 0.0;
        for (size_t i = 0; i < size; ++i) {
          score += static_cast<double>(queries_[static_cast<size_t>(position) * query_count() + head * size + i]) *
                   static_cast<double>(stored_keys_[j * key_count() + head / shared * size + i]);
        }
        scores.push_back(score / std::sqrt(static_cast<double>(size)));
      }
      if (GetParam().sinks) scores.push_back(static_cast<double>(sinks_[head]));
      const double largest = *std::max_element(scores.begin(), scores.end());
      double total = 0.0;
      for (double& score : scores) total += score = std::exp(score - largest);
      if (GetParam().sinks) scores.pop_back();  // of no token
      for (size_t j = 0; j < scores.size(); ++j) {
        for (size_t i = 0; i < size; ++i) {
          result[head * size + i] +=
              scores[j] / total *
              static_cast<double>(stored_values_[(first + j) * key_count() + head / shared * size + i]);
        }
      }
    }
    return result;
  }

  // Those of the positions that the device can compute.
  [[nodiscard]] std::vector<Row> alone_at(std::initializer_list<int32_t> positions) const {
    std::vector<Row> rows;
    for (const int32_t position : positions) {
      if (position >= attention_context_max(device_.info(), shape())) break;
      rows.push_back({.position = position, .tile = 1, .split = false});
    }
    return rows;
  }

  void expect_truth(const std::vector<Row>& rows, const std::vector<float>& found) const {
    for (size_t r = 0; r < rows.size(); ++r) {
      const std::vector<double> expected = truth(rows[r].position);
      for (size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(found[r * expected.size() + i]), expected[i], tolerance())
            << rows[r].position << ' ' << i;
      }
    }
  }

  void SetUp() override {
    Rng rng(21);
    const auto fill = [&](std::vector<float>& to, size_t count) {
      for (size_t i = 0; i < count; ++i) to.push_back(static_cast<float>(4.0 * rng.uniform() - 2.0));
    };
    for (std::vector<float>* numbers : {&queries_, &keys_, &values_}) numbers->clear();
    fill(queries_, query_count() * kTokens);
    fill(keys_, key_count() * kTokens);
    fill(values_, key_count() * kTokens);
    stored_keys_ = as_stored(keys_);
    stored_values_ = as_stored(values_);
  }

  Device device_ = Device::open({});
  std::vector<float> queries_, keys_, values_;  // of each position
  // Below and among the scores, and far above some: in the same order as the heads.
  std::vector<float> sinks_ = {-1.0F, 3.0F, 30.0F, 6.0F, -40.0F, 0.0F, 5.0F, 4.0F, 9.0F};
  std::vector<float> stored_keys_, stored_values_;  // what the KV storage makes of them
};

TEST_P(Attention, EqualsTheDefinitionAroundEveryEdge) {
  const std::vector<Row> rows = alone_at({0, 1, 7, 8, 15, 16, 17, 127, 128, 254, 255, 256, 257, 511, 512, 529});
  const std::vector<float> found = attend(rows);
  expect_truth(rows, found);
  if (device_.info().small_items) return;
  Device gpu = test::open_as_gpu();
  EXPECT_EQ(attend(rows, gpu), found);
}

// Sums of integers are as large as they may be: all numbers of a head have one magnitude, and all tokens but those that
// point the other way have one weight. A sum that left its 32 bits would have the other sign.
class AttentionOfInts : public Attention {};
TEST_P(AttentionOfInts, LargestSums) {
  const auto fill = [](std::vector<float>& to, size_t token_numbers, float even, float odd) {
    for (size_t i = 0; i < to.size(); ++i) {
      to[i] = (i / token_numbers % 2 == 0 ? even : odd) * (i % 2 == 0 ? 1.0F : -1.0F);
    }
  };
  fill(queries_, query_count(), 2.0F, 2.0F);
  fill(keys_, key_count(), 2.0F, -2.0F);
  fill(values_, key_count(), 2.0F, 0.5F);
  stored_keys_ = as_stored(keys_);
  stored_values_ = as_stored(values_);
  const std::vector<Row> rows = alone_at({0, 255, 510, 529});
  expect_truth(rows, attend(rows));
}

TEST_P(Attention, WorkGroupsGiveTheSameBits) {
  if (GetParam().kv == KvType::I16) GTEST_SKIP() << "work-groups have no attention over I16";
  if (const char* why = test::why_not_tested(device_.info(), LaunchMode::Groups)) GTEST_SKIP() << why;
  for (const int32_t first : {0, 250, 500}) {
    const std::vector<float> expected = attend(alone(first, false));
    EXPECT_EQ(attend_by_groups(alone(first, false)), expected) << first;
    EXPECT_EQ(attend_by_groups(alone(first, true)), expected) << first;
    EXPECT_EQ(attend_by_groups(in_tiles(first)), expected) << first;
  }
}

TEST_P(Attention, TilesAndSplitsGiveTheSameBits) {
  if (attention_context_max(device_.info(), shape()) / 7 < kTokens) {  // a tile's rows are in one item
    GTEST_SKIP() << "long loops are cut on this device";
  }
  for (const int32_t first : {0, 9, 250, 500}) {
    const std::vector<float> expected = attend(alone(first, false));
    EXPECT_EQ(attend(alone(first, true)), expected) << first;
    EXPECT_EQ(attend(in_tiles(first)), expected) << first;
  }
}

// A value that is stored as infinity, in the middle of a tile or at the far end of its first row's window.
TEST_P(Attention, RowsThatDoNotSeeAnInfinityAreAsWithoutIt) {
  if (attention_context_max(device_.info(), shape()) / 7 < kTokens) GTEST_SKIP() << "long loops are cut on this device";
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (const int32_t first : {250, 500}) {
    std::vector<int32_t> places = {first + 2};
    if (GetParam().window > 0) places.push_back(first_seen(first));
    for (const int32_t infinite : places) {
      std::fill_n(values_.begin() + static_cast<int64_t>(key_count()) * infinite, key_count(),
                  std::numeric_limits<float>::infinity());
      const std::vector<float> expected = attend(alone(first, false)), found = attend(in_tiles(first));
      EXPECT_TRUE(std::ranges::equal(found, expected, same)) << first << ' ' << infinite;
      const auto finite =
          static_cast<size_t>(std::ranges::count_if(expected, [](float number) { return std::isfinite(number); }));
      int32_t blind = 0;
      for (int32_t i = first; i < first + 11; ++i) blind += i < infinite || infinite < first_seen(i);
      EXPECT_EQ(finite, static_cast<size_t>(blind) * query_count()) << first << ' ' << infinite;
      SetUp();
    }
  }
}

// Also where the next partition has finite scores, and the largest of the first is none.
TEST_P(Attention, PartitionOfNaNKeysMakesTheRowNaN) {
  std::fill_n(keys_.begin(), key_count() * kAttentionPartition, std::numeric_limits<float>::quiet_NaN());
  for (const bool split : {false, true}) {
    const std::vector<float> found = attend(alone(290, split));
    EXPECT_TRUE(std::ranges::all_of(found, [](float number) { return std::isnan(number); })) << split;
  }
}

TEST(DefaultKvType, IsOfIntegersWhereKernelsAreCodeOfAnX86WithAvx2) {
  DeviceInfo device{.type = DeviceType::Cpu, .host_code = true};
  EXPECT_EQ(default_kv_type(device), KvType::F16);
  device.cpu.avx2 = true;
#if defined(__x86_64__) && defined(__linux__)
  EXPECT_EQ(default_kv_type(device), KvType::I16);
#endif
  device.host_code = false;  // Intel's runtime
  EXPECT_EQ(default_kv_type(device), KvType::F16);
}

std::string name_of(const testing::TestParamInfo<Heads>& test) { return test.param.name; }

INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Values(Heads{"Shared3", 9, 3, 16, 16}, Heads{"Equal", 3, 3, 8, 8},
                                         Heads{"Single", 20, 1, 6, 128}, Heads{"Window", 6, 2, 16, 16, 100},
                                         Heads{"LongWindow", 4, 2, 8, 8, 300},
                                         Heads{"Shared7", 14, 2, 64, 16, 0, KvType::F16},
                                         Heads{"HalvesOf8", 6, 1, 64, 8, 300, KvType::F16},
                                         Heads{"EightBits", 6, 2, 64, 16, 0, KvType::Q8_0},
                                         Heads{"EightBitsOf8", 4, 4, 32, 8, 300, KvType::Q8_0},
                                         Heads{"Sinks", 9, 3, 16, 16, 0, KvType::F16, true},
                                         Heads{"SinksAndWindow", 6, 2, 64, 16, 300, KvType::Q8_0, true},
                                         Heads{"SinksOfInts", 8, 1, 64, 16, 128, KvType::I16, true},
                                         Heads{"More", 8, 4, 64, 16, 100, KvType::F16, false, 1},
                                         Heads{"MoreOfInts", 8, 4, 64, 16, 100, KvType::I16, false, 2},
                                         Heads{"Fewer", 6, 2, 16, 16, 0, KvType::F32, false, 3}),
                         name_of);
constexpr Heads kInts[] = {{"Ints", 9, 3, 64, 16, 0, KvType::I16},
                           {"Ints7", 14, 2, 128, 32, 100, KvType::I16},
                           {"IntsOf8", 20, 1, 6, 8, 300, KvType::I16}};
INSTANTIATE_TEST_SUITE_P(Ints, Attention, testing::ValuesIn(kInts), name_of);
INSTANTIATE_TEST_SUITE_P(Ints, AttentionOfInts, testing::ValuesIn(kInts), name_of);

}  // namespace
}  // namespace inflight
