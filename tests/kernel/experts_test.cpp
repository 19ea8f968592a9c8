// SPDX-License-Identifier: Apache-2.0
// The stages of experts.cl, each by itself: routing, sorting and merging against their definition in double and in
// plain loops, the experts' products against the bits of linear.cl's contract. What must not be written is poisoned.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "base/rng.h"
#include "ops/linear_case.h"
#include "support/stage_bench.h"

namespace inflight {
namespace {

constexpr double kExpertTolerance = 1e-5;

class ExpertStages : public testing::Test {
 protected:
  int32_t add_ints(std::span<const int32_t> values) {
    std::vector<float> floats;
    for (const int32_t value : values) floats.push_back(std::bit_cast<float>(value));
    return add(floats);
  }
  int32_t add(std::span<const float> values) {
    bench_.add_poison((16 - bench_.activations.size() % 16) % 16);  // rows begin at whole vectors
    return bench_.add_floats(values);
  }
  int32_t add_room(size_t count) { return add(std::vector<float>(count, -7.0F)); }
  std::vector<float> random_numbers(size_t count) {
    std::vector<float> numbers(count);
    for (float& number : numbers) number = static_cast<float>(4.0 * rng_.uniform() - 2.0);
    return numbers;
  }
  [[nodiscard]] float number(int32_t offset, size_t i) const {
    return bench_.activations[static_cast<size_t>(offset) + i];
  }
  [[nodiscard]] int32_t integer(int32_t offset, size_t i) const { return std::bit_cast<int32_t>(number(offset, i)); }

  Device device_ = Device::open({});
  test::StageBench bench_{device_,
                          {.head_count = 1, .kv_head_count = 1, .head_size = 16, .rope_pair_count = 8, .experts = true},
                          size_t{1} << 18,
                          64};
  Rng rng_{5};
};

struct Routing {
  int32_t experts, used;
  bool normed, bias;
  bool sigmoid = false;
  int32_t groups = 1, groups_used = 1;
  bool scales = false;
};

class ExpertRoutes : public ExpertStages, public testing::WithParamInterface<Routing> {};

TEST_P(ExpertRoutes, ChooseTheLargest) {
  constexpr size_t kRows = 9;
  constexpr float kScale = 2.5F;
  const auto experts = static_cast<size_t>(GetParam().experts), used = static_cast<size_t>(GetParam().used);
  std::vector<float> logits = random_numbers(kRows * experts);
  std::fill_n(logits.begin(), experts, 0.5F);  // equal ones: the lowest numbers
  // Far apart; a sigmoid would make ones of them.
  for (size_t i = 0; i < experts; ++i) logits[experts + i] *= GetParam().sigmoid ? 2.0F : 15.0F;
  if (GetParam().bias) {
    bench_.vectors = random_numbers(experts + 16);
    std::fill_n(bench_.vectors.begin() + 16, experts, 0.0F);
    bench_.vectors.back() = 3.0F;  // the last expert is always chosen, and its weight does not know
  }
  if (GetParam().scales) bench_.vectors = random_numbers(experts + 16);
  const int32_t in = add(logits), chosen = add_room(kRows * used), weights = add_room(kRows * used);
  bench_.add_poison(16);
  Stage stage{.operation = Operation::Route, .items = kRows};
  stage.route = {.logits = in,
                 .experts = GetParam().experts,
                 .used = GetParam().used,
                 .normed = int{GetParam().normed},
                 .bias = GetParam().bias ? 16 : kNone,
                 .chosen = chosen,
                 .weights = weights,
                 .scale = kScale,
                 .sigmoid = int{GetParam().sigmoid},
                 .groups = GetParam().groups,
                 .groups_used = GetParam().groups_used,
                 .scales = GetParam().scales ? 16 : kNone};
  bench_.run({stage});
  for (size_t row = 0; row < kRows; ++row) {
    SCOPED_TRACE(row);
    std::vector<double> p(logits.begin() + static_cast<ptrdiff_t>(row * experts),
                          logits.begin() + static_cast<ptrdiff_t>((row + 1) * experts));
    const double largest = *std::ranges::max_element(p);
    double total = 0.0;
    for (double& x : p) total += x = GetParam().sigmoid ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x - largest);
    for (double& x : p) x /= GetParam().sigmoid ? 1.0 : total;
    std::vector<double> scores = p;
    for (size_t i = 0; GetParam().bias && i < experts; ++i) scores[i] += static_cast<double>(bench_.vectors[16 + i]);
    const auto groups = static_cast<size_t>(GetParam().groups), size = experts / groups;
    std::vector<double> sums;  // of each group's two best
    for (size_t g = 0; groups > 1 && g < groups; ++g) {
      std::vector<double> own(scores.begin() + static_cast<ptrdiff_t>(g * size),
                              scores.begin() + static_cast<ptrdiff_t>((g + 1) * size));
      std::ranges::sort(own, std::greater());
      sums.push_back(own[0] + own[1]);
    }
    const auto score = [&](size_t i) {
      if (groups == 1) return scores[i];
      const double own = sums[i / size];
      const auto before = std::ranges::count_if(sums, [&](double other) { return other > own; }) +
                          std::count(sums.begin(), sums.begin() + static_cast<ptrdiff_t>(i / size), own);
      return before < GetParam().groups_used ? scores[i] : -std::numeric_limits<double>::infinity();
    };
    std::vector<size_t> order(experts);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return score(a) > score(b); });
    double sum = 0.0;
    for (size_t j = 0; j < used; ++j) sum += p[order[j]];
    const double divisor = GetParam().normed ? std::max(sum, 6.103515625e-5) : 1.0;
    for (size_t j = 0; j < used; ++j) {
      ASSERT_EQ(integer(chosen, row * used + j), static_cast<int32_t>(order[j])) << j;
      const double own = GetParam().scales ? double{bench_.vectors[16 + order[j]]} : 1.0;
      const double expected = p[order[j]] / divisor * double{kScale} * own;
      EXPECT_NEAR(number(weights, row * used + j), expected, kExpertTolerance * std::abs(expected) + 1e-30) << j;
    }
  }
  EXPECT_TRUE(test::StageBench::poisoned(number(weights, kRows * used)));
}

INSTANTIATE_TEST_SUITE_P(Sizes, ExpertRoutes,
                         testing::Values(Routing{1, 1, true, false}, Routing{8, 2, true, false},
                                         Routing{16, 16, false, false}, Routing{60, 4, false, false},
                                         Routing{67, 6, true, true}, Routing{128, 8, true, false},
                                         Routing{20, 3, true, false, true}, Routing{24, 4, true, true, true, 6, 2},
                                         Routing{256, 8, true, true, true, 8, 4},
                                         Routing{32, 4, false, false, false, 4, 1},
                                         Routing{19, 5, true, false, false, 1, 1, true}));

// NaN, from a broken file or a prompt that makes infinities, must not lead out of the tables.
TEST_F(ExpertStages, RoutesWithoutNumbersStayInRange) {
  constexpr int32_t kExperts = 20, kUsed = 3;
  std::vector<float> logits = random_numbers(2 * kExperts);
  logits[7] = std::numeric_limits<float>::quiet_NaN();
  logits[kExperts + 3] = std::numeric_limits<float>::infinity();
  const int32_t in = add(logits), chosen = add_room(2 * kUsed), weights = add_room(2 * kUsed);
  Stage stage{.operation = Operation::Route, .items = 2};
  stage.route = {.logits = in,
                 .experts = kExperts,
                 .used = kUsed,
                 .normed = 1,
                 .bias = kNone,
                 .chosen = chosen,
                 .weights = weights,
                 .scale = 1.0F};
  bench_.run({stage});
  for (size_t i = 0; i < 2 * kUsed; ++i) {
    EXPECT_GE(integer(chosen, i), 0);
    EXPECT_LT(integer(chosen, i), kExperts);
    EXPECT_TRUE(std::isnan(number(weights, i)));
  }
}

// Rows to their experts and back: gathered rows are those of the table, active experts those that have rows.
TEST_F(ExpertStages, SortsAndGathersRows) {
  constexpr int32_t kRows = 37, kUsed = 3, kExperts = 11, kDepth = 64, kBlocks = kDepth / 32, kAll = kRows * kUsed;
  std::vector<int32_t> chosen;
  for (int32_t i = 0; i < kAll; ++i) chosen.push_back(rng_.between(0, 4) * 2 + (i % 7 == 0 ? 1 : 0));  // never 10
  std::replace(chosen.begin(), chosen.end(), 9, 10);
  const std::vector<float> floats = random_numbers(kRows * kDepth);
  std::vector<int32_t> bytes(kRows * kDepth / 4), scales(kRows * kBlocks), sums(kRows * kBlocks * 2);
  for (auto* some : {&bytes, &scales, &sums}) {
    for (int32_t& word : *some) word = static_cast<int32_t>(rng_.below(1U << 30U));
  }
  SortArgs sort{.chosen = add_ints(chosen),
                .rows = kAll,
                .experts = kExperts,
                .counts = add_room(kExperts),
                .places = add_room(kAll),
                .active = add_room(1 + kExperts * kActiveWords)};
  GatherArgs gather{.in = {add(floats), add_ints(bytes), add_ints(scales), add_ints(sums)},
                    .out = {add_room(kAll * kDepth), add_room(kAll * kDepth / 4), add_room(kAll * kBlocks),
                            add_room(size_t{2} * kAll * kBlocks)},
                    .depth = kDepth,
                    .rows = kRows,
                    .used = kUsed,
                    .places = sort.places};
  bench_.add_poison(16);
  Stage first{.operation = Operation::Sort, .items = 1}, second{.operation = Operation::Gather, .items = kAll};
  first.sort = sort;
  second.gather = gather;
  bench_.run({first, second});

  std::vector<int32_t> order(kAll);  // pairs by place
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int32_t pair) { return chosen[static_cast<size_t>(pair)]; });
  size_t active = 0;
  for (int32_t place = 0; place < kAll;) {
    const int32_t expert = chosen[static_cast<size_t>(order[static_cast<size_t>(place)])];
    const auto count = static_cast<int32_t>(std::ranges::count(chosen, expert));
    const size_t at = 1 + active * kActiveWords;
    EXPECT_EQ(integer(sort.active, at), expert);
    EXPECT_EQ(integer(sort.active, at + 1), place);
    EXPECT_EQ(integer(sort.active, at + 2), place + count);
    place += count;
    ++active;
  }
  EXPECT_EQ(integer(sort.active, 0), static_cast<int32_t>(active));
  for (size_t place = 0; place < kAll; ++place) {
    SCOPED_TRACE(place);
    const auto pair = static_cast<size_t>(order[place]), row = pair / kUsed;
    ASSERT_EQ(integer(sort.places, pair), static_cast<int32_t>(place));
    for (size_t k = 0; k < kDepth; ++k) {
      ASSERT_EQ(number(gather.out.floats, place * kDepth + k), floats[row * kDepth + k]);
    }
    for (size_t block = 0; block < kBlocks; ++block) {
      const size_t from = block * kRows + row, to = block * kAll + place;
      ASSERT_EQ(integer(gather.out.scales, to), scales[from]);
      for (size_t i = 0; i < 2; ++i) ASSERT_EQ(integer(gather.out.sums, 2 * to + i), sums[2 * from + i]);
      for (size_t i = 0; i < 8; ++i) ASSERT_EQ(integer(gather.out.bytes, 8 * to + i), bytes[8 * from + i]);
    }
  }
  EXPECT_TRUE(test::StageBench::poisoned(number(gather.out.sums, size_t{2} * kAll * kBlocks)));
}

// An expert's products have the bits of a linear layer of its own, wherever its rows and panels begin.
TEST_F(ExpertStages, MultiplyByTheirOwnWeights) {
  constexpr int32_t kExperts = 5, kOutputs = 48, kRows = 23;  // three panels: every second expert begins within a pair
  struct Active {
    int32_t expert, begin, end;
  };
  constexpr Active kActive[] = {{0, 0, 1}, {1, 1, 10}, {3, 10, 12}, {4, 12, kRows}};
  for (const PanelType type :
       {PanelType::F32, PanelType::F16, PanelType::Q8_0, PanelType::Q4_0, PanelType::Q6_K, PanelType::MXFP4}) {
    SCOPED_TRACE(static_cast<int>(type));
    const LinearCase c = make_linear_case({type, kExperts * kOutputs, 256, kRows}, 11);
    for (const int32_t panels : {1, 2, 4}) {
      bench_.activations.clear();
      bench_.weights = c.panels;
      bench_.vectors = random_numbers(kExperts * kOutputs);  // biases
      std::vector<int32_t> table = {4};
      for (const Active& active : kActive) table.insert(table.end(), {active.expert, active.begin, active.end});
      std::vector<float> bytes((c.bytes.size() + 3) / 4);
      if (!bytes.empty()) std::memcpy(bytes.data(), c.bytes.data(), c.bytes.size());
      ExpertsArgs args{.weight = {{.type = type, .depth = 256, .outputs = kExperts * kOutputs}},
                       .in = {add(c.x), add(bytes), add(c.scales), add_ints(c.sums)},
                       .out = {.floats = add_room(kRows * kOutputs)},
                       .epilogue = Epilogue::Store,
                       .out_stride = kOutputs,
                       .rows = kRows,
                       .outputs = kOutputs,
                       .panels = panels,
                       .active = add_ints(table),
                       .bias = {0, kNone}};
      bench_.add_poison(16);
      Stage stage{.operation = Operation::Experts};
      stage.items = (kExperts + 1) * ((kOutputs / 16 + panels - 1) / panels);  // more than are active
      stage.experts = args;
      bench_.run({stage});
      for (const Active& active : kActive) {
        for (int32_t row = active.begin; row < active.end; ++row) {
          for (int32_t output = 0; output < kOutputs; ++output) {
            ASSERT_EQ(number(args.out.floats, static_cast<size_t>(row * kOutputs + output)),
                      expected_output(c, row, active.expert * kOutputs + output) +
                          bench_.vectors[static_cast<size_t>(active.expert * kOutputs + output)])
                << "row " << row << " output " << output << " panels " << panels;
          }
        }
      }
    }
  }
}

TEST_F(ExpertStages, MergesWeightedRowsAndTheSharedExpert) {
  constexpr int32_t kRows = 7, kUsed = 3, kDepth = 48, kAll = kRows * kUsed;
  std::vector<int32_t> places(kAll);
  std::iota(places.begin(), places.end(), 0);
  for (size_t i = places.size() - 1; i > 0; --i) std::swap(places[i], places[rng_.below(i + 1)]);
  const std::vector<float> experts = random_numbers(kAll * kDepth), weights = random_numbers(kAll);
  const std::vector<float> hidden = random_numbers(kRows * kDepth), shared = random_numbers(kRows * kDepth);
  const std::vector<float> x = random_numbers(kRows * kDepth);
  for (const auto& [gate, stores] : {std::pair(false, false), {true, false}, {false, true}}) {
    bench_.activations.clear();
    bench_.vectors = random_numbers(kDepth);
    MergeArgs args{.experts = add(experts),
                   .weights = add(weights),
                   .places = add_ints(places),
                   .used = kUsed,
                   .depth = kDepth,
                   .out = add(hidden),
                   .added_to = stores ? kNone : add(hidden),
                   .shared = gate ? add(shared) : kNone,
                   .shared_gate = gate ? 0 : kNone,
                   .in = gate ? add(x) : kNone};
    Stage stage{.operation = Operation::Merge, .items = kRows};
    stage.merge = args;
    bench_.run({stage});
    for (size_t row = 0; row < kRows; ++row) {
      double z = 0.0;
      for (size_t k = 0; k < kDepth; ++k) {
        z += static_cast<double>(bench_.vectors[k]) * static_cast<double>(x[row * kDepth + k]);
      }
      for (size_t k = 0; k < kDepth; ++k) {
        double expected = stores ? 0.0 : static_cast<double>(hidden[row * kDepth + k]), magnitude = std::abs(expected);
        const auto add_product = [&](double a, double b) {
          expected += a * b;
          magnitude += std::abs(a * b);
        };
        for (size_t j = 0; j < kUsed; ++j) {
          const auto place = static_cast<size_t>(places[row * kUsed + j]);
          add_product(static_cast<double>(weights[row * kUsed + j]), static_cast<double>(experts[place * kDepth + k]));
        }
        if (gate) add_product(1.0 / (1.0 + std::exp(-z)), static_cast<double>(shared[row * kDepth + k]));
        ASSERT_NEAR(number(args.out, row * kDepth + k), expected, kExpertTolerance * magnitude)
            << gate << ' ' << stores << ' ' << row;
      }
    }
  }
}

}  // namespace
}  // namespace inflight
