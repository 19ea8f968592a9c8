// SPDX-License-Identifier: Apache-2.0
// shrink, expand and swiglu of lora.cl against sums in double, over adapters as they are packed for the device: ranks
// and sizes around 16, tiles of one and many rows, rows without an adapter, matrices that an adapter leaves alone. What
// must not be written is poisoned.
//
// Covers: exec/adapter_stages.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "exec/adapter_stages.h"
#include "exec/adapter_store.h"
#include "support/stage_bench.h"
#include "support/synthetic_adapter.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

constexpr double kTolerance = 1e-5;  // of the sum of magnitudes

// The sizes that lora.cl works with come with the stages.
KernelShape shape() {
  return {.head_count = 1, .kv_head_count = 1, .head_size = 16, .rope_pair_count = 8, .adapters = true};
}

std::vector<float> random_numbers(Rng& rng, size_t count) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(2.0 * rng.uniform() - 1.0);
  return numbers;
}

struct Product {
  double value = 0.0;
  double magnitude = 0.0;
};

Product adapted(const test::LowRank& one, std::span<const float> x, int32_t output) {
  Product sum;
  const auto depth = static_cast<size_t>(one.depth), rank = static_cast<size_t>(one.rank);
  for (size_t j = 0; j < rank; ++j) {
    double shrunk = 0.0, magnitude = 0.0;
    for (size_t k = 0; k < depth; ++k) {
      const double product = static_cast<double>(one.a[j * depth + k]) * static_cast<double>(x[k]);
      shrunk += product;
      magnitude += std::abs(product);
    }
    const double b = one.scale * static_cast<double>(one.b[static_cast<size_t>(output) * rank + j]);
    sum.value += b * shrunk;
    sum.magnitude += std::abs(b) * magnitude;
  }
  return sum;
}

struct Tile {
  int32_t slot, first, rows;
};

// Query, key and value of layer 1 for 60 rows: two adapters of different ranks in two slots.
void check(const test::SyntheticAdapter& first, const test::SyntheticAdapter& second, const ModelSpec& spec,
           int32_t panels) {
  constexpr int32_t kRows = 60, kRankMax = 40;
  const test::TempFolder folder;
  AdapterStore store(spec, kRankMax);
  const test::SyntheticAdapter adapters[] = {first, second};
  Device device = Device::open({});
  test::StageBench bench(device, shape(), size_t{1} << 18, 64);
  bench.adapters.resize(2 * store.slot_bytes());
  for (size_t slot = 0; slot < 2; ++slot) {
    const auto file = folder.write("a" + std::to_string(slot), test::build_adapter(adapters[slot], spec).bytes());
    store.load("a" + std::to_string(slot), file);
    const AdapterLease lease = store.lease("a" + std::to_string(slot));
    const std::vector<std::byte>& packed = lease.adapter()->bytes;
    std::memcpy(bench.adapters.data() + slot * store.slot_bytes(), packed.data(), packed.size());
  }
  Rng rng(7);
  const std::vector<float> x = random_numbers(rng, static_cast<size_t>(kRows * spec.hidden_size));
  const int32_t in = bench.add_floats(x);
  Arena arena;
  arena.shrunk = bench.add_poison(size_t{3} * kRows * kRankMax);
  const Tile tiles[] = {{1, 0, 1}, {0, 1, 32}, {1, 35, 3}, {0, 59, 1}};  // rows 33, 34 and 38 to 58: no adapter
  std::vector<int32_t> outs;
  std::vector<std::vector<float>> before;
  for (int32_t target = 0; target < 3; ++target) {
    const LoraShape shape = lora_shape(spec, static_cast<LoraTarget>(target));
    before.push_back(random_numbers(rng, static_cast<size_t>(kRows * shape.outputs)));
    outs.push_back(bench.add_floats(before.back()));
    bench.add_poison(16);
  }
  AdapterArgs args = adapter_args(spec, arena, {.rows = kRows, .lora_rank = kRankMax},
                                  {.slot_size = static_cast<int32_t>(store.slot_bytes() / 64), .panels = panels},
                                  {1, LoraTarget::Query, in, outs});
  std::vector<int32_t> words;
  for (const Tile& tile : tiles) words.insert(words.end(), {tile.slot, tile.first, tile.rows});
  args.tiles = bench.add_words(words);
  Stage shrink{.operation = Operation::Shrink};
  shrink.adapter = args;
  shrink.items = adapter_items(shrink, 4);
  Stage expand{.operation = Operation::Expand};
  expand.adapter = args;
  expand.items = adapter_items(expand, 4);
  bench.run({shrink, expand});

  for (size_t target = 0; target < 3; ++target) {
    const int32_t outputs = args.outputs[target];
    const auto place = static_cast<size_t>(outs[target]), count = static_cast<size_t>(outputs);
    for (size_t i = 0; i < 16; ++i)
      EXPECT_TRUE(test::StageBench::poisoned(bench.activations[place + kRows * count + i]));
    std::vector<bool> touched(kRows);
    for (const Tile& tile : tiles) {
      const auto all = test::low_ranks(adapters[tile.slot], spec);
      const std::string names[] = {"attn_q", "attn_k", "attn_v"};
      const auto one = std::ranges::find_if(
          all, [&](const test::LowRank& low) { return low.layer == 1 && low.target == names[target]; });
      if (one == all.end()) continue;
      for (auto row = static_cast<size_t>(tile.first); row < static_cast<size_t>(tile.first + tile.rows); ++row) {
        touched[row] = true;
        const auto input =
            std::span(x).subspan(row * static_cast<size_t>(spec.hidden_size), static_cast<size_t>(spec.hidden_size));
        for (size_t n = 0; n < count; ++n) {
          const Product expected = adapted(*one, input, static_cast<int32_t>(n));
          const double base = static_cast<double>(before[target][row * count + n]);
          ASSERT_NEAR(static_cast<double>(bench.activations[place + row * count + n]), base + expected.value,
                      kTolerance * (std::abs(base) + expected.magnitude))
              << "target " << target << " row " << row << " output " << n;
        }
      }
    }
    for (size_t row = 0; row < kRows; ++row) {
      if (touched[row]) continue;
      for (size_t n = 0; n < count; ++n) {
        ASSERT_EQ(bench.activations[place + row * count + n], before[target][row * count + n]) << "row " << row;
      }
    }
  }
}

TEST(Lora, AddsEachRowsOwnProducts) {
  ModelSpec spec = test::SyntheticModel::small_spec();
  check({.rank = 1, .seed = 1}, {.rank = 16, .seed = 2}, spec, 32);
  check({.rank = 17, .seed = 3}, {.rank = 40, .alpha = 1.0F, .seed = 4}, spec, 2);
  spec.hidden_size = 75;  // no multiple of 16
  spec.head_size = 7;
  spec.rope_dimension_count = 6;
  check({.rank = 15, .seed = 5}, {.rank = 33, .targets = {"attn_q", "attn_v"}, .seed = 6}, spec, 1);
  check({.rank = 2, .type = TensorType::F16, .seed = 7}, {.rank = 8, .type = TensorType::BF16, .seed = 8}, spec, 32);
}

// A quantised adapter's numbers are those that its file means.
TEST(Lora, TakesQuantisedFiles) {
  check({.rank = 32, .type = TensorType::Q8_0, .seed = 9}, {.rank = 32, .type = TensorType::F32, .seed = 9},
        test::SyntheticModel::small_spec(), 32);
}

TEST(Lora, SwigluOfRowsThatWereAddedTo) {
  Device device = Device::open({});
  for (const int32_t depth : {32, 96, 600, 75}) {
    constexpr int32_t kRows = 3;
    test::StageBench bench(device, shape(), size_t{1} << 14, 64);
    Rng rng(static_cast<uint64_t>(depth));
    std::vector<float> gate = random_numbers(rng, static_cast<size_t>(kRows * depth));
    for (float& number : gate) number *= 20.0F;
    const auto width = static_cast<size_t>(depth), apart = width + 5;  // rows of `up` lie among others' numbers
    const std::vector<float> up = random_numbers(rng, kRows * apart);
    Stage stage{.operation = Operation::Swiglu, .items = kRows * ((depth + kSwigluColumns - 1) / kSwigluColumns)};
    stage.swiglu = {.gate = bench.add_floats(gate),
                    .up = bench.add_floats(up),
                    .up_stride = static_cast<int32_t>(apart),
                    .depth = depth,
                    .rows = kRows,
                    .out = {}};
    stage.swiglu.out.floats = bench.add_poison(gate.size() + 16);
    bench.run({stage});
    const auto out = static_cast<size_t>(stage.swiglu.out.floats);
    for (size_t i = 0; i < gate.size(); ++i) {
      const auto g = static_cast<double>(gate[i]);
      const double expected = g / (1.0 + std::exp(-g)) * static_cast<double>(up[i / width * apart + i % width]);
      ASSERT_NEAR(static_cast<double>(bench.activations[out + i]), expected, 1e-6 * std::abs(expected) + 1e-7);
    }
    for (size_t i = 0; i < 16; ++i) EXPECT_TRUE(test::StageBench::poisoned(bench.activations[out + gate.size() + i]));
  }
}

}  // namespace
}  // namespace inflight
