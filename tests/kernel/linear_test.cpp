// SPDX-License-Identifier: Apache-2.0
// Every file that provides linear_tile(): the bits of the contract, and the double reference, for all types and
// tile sizes.
//
// Covers: ops/linear_case.cpp, ops/linear_trial.cpp
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/math.h"
#include "ops/linear_choice.h"
#include "ops/linear_trial.h"

namespace inflight {
namespace {

bool runs_here(const Device& device, const std::string& file) {
  const HostCpuFeatures cpu = device.info().cpu;
  return file == "linear.cl" || (file == "linear_avx2.cl" && cpu.avx2 && cpu.fma && cpu.f16c) ||
         (file == "linear_avx_vnni.cl" && cpu.avx_vnni && cpu.fma && cpu.f16c) ||
         (file == "linear_amx.cl" && cpu.amx_int8) ||
         (file == kGroupsLinear && device.info().work_group_size_max >= kWorkGroup) ||
         ((file == "linear_vnni.cl" || file == "linear_vnni_l2.cl") && cpu.avx512_vnni);
}

LinearCase first_rows(const LinearCase& c, int32_t rows) {
  LinearCase first = c;
  first.shape.rows = rows;
  const auto keep = [&](auto& numbers, const auto& all, size_t width) {  // [depth / 32][rows][width]
    numbers.clear();
    for (size_t at = 0; at < all.size(); at += static_cast<size_t>(c.shape.rows) * width) {
      const auto begin = all.begin() + static_cast<ptrdiff_t>(at);
      numbers.insert(numbers.end(), begin, begin + static_cast<ptrdiff_t>(static_cast<size_t>(rows) * width));
    }
  };
  keep(first.bytes, c.bytes, 32);
  keep(first.scales, c.scales, 1);
  keep(first.sums, c.sums, 2);
  return first;
}

class LinearFile : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!runs_here(device_, GetParam())) GTEST_SKIP() << "this processor lacks the instructions of " << GetParam();
  }
  Device device_ = Device::open({});
};

// The contract's bits, computed here from its text with doubles for exact products, are near the double sum.
TEST(LinearCase, ExpectedOutputIsTheProduct) {
  for (const PanelType type : kPanelTypes) {
    const LinearCase c = make_linear_case({type, 21, 5632, 2}, 3);
    for (int32_t row = 0; row < 2; ++row) {
      for (int32_t output = 0; output < 21; ++output) {
        double sum = 0, magnitude = 0;
        for (int32_t k = 0; k < 5632; ++k) {
          const double product = static_cast<double>(weight_number(c, output, k)) *
                                 static_cast<double>(c.x[static_cast<size_t>(row * 5632 + k)]);
          sum += product;
          magnitude += std::abs(product);
        }
        ASSERT_NEAR(expected_output(c, row, output), sum, 1e-5 * magnitude) << static_cast<int>(type) << ' ' << output;
      }
    }
  }
}

TEST_P(LinearFile, GivesTheContractsBits) {
  LinearTrial trial(device_, GetParam());
  EXPECT_EQ(verify_linear(trial), "");
}

// Depths of real models, an odd number of outputs, every row count of a tile and more than one; a row's bits are those
// that it has alone.
TEST_P(LinearFile, RowsDoNotDependOnTheirNumber) {
  LinearTrial trial(device_, GetParam());
  for (const PanelType type : kPanelTypes) {
    for (const int32_t wanted : {32, 576, 1536, 5632}) {
      const int32_t depth = align_up(wanted, panel_unit(type).numbers);
      constexpr int32_t kRows = 53, kOutputs = 37, kStride = 48;
      const LinearCase c = make_linear_case({type, kOutputs, depth, kRows}, 5);
      const std::vector<float> all = trial.run(c);
      for (int32_t rows = 1; rows <= kRows; rows += rows < 14 ? 1 : 13) {
        const std::vector<float> some = trial.run(first_rows(c, rows), rows % 2 == 0);
        ASSERT_EQ(std::memcmp(some.data(), all.data(), some.size() * sizeof(float)), 0)
            << "type " << static_cast<int>(type) << " depth " << depth << " rows " << rows;
      }
      for (int32_t padding = kOutputs; padding < kStride; ++padding) {
        ASSERT_EQ(all[static_cast<size_t>(padding)], 0.0F) << "outputs behind the last are zero";
      }
    }
  }
}

// The largest magnitudes: sums in 16 bits must not wrap or saturate.
TEST_P(LinearFile, ExtremesAreExact) {
  LinearTrial trial(device_, GetParam());
  struct Kind {
    PanelType type;
    size_t begin, end;  // of a unit's numbers
  };
  for (const auto& [type, begin, end] :
       {Kind{PanelType::Q8_0, 2, 34}, Kind{PanelType::Q4_0, 2, 18}, Kind{PanelType::Q5_1, 4, 24},
        Kind{PanelType::Q6_K, 0, 192}, Kind{PanelType::IQ4_NL, 2, 18}, Kind{PanelType::MXFP4, 1, 17}}) {
    for (const int weight : {0x80, 0x7F, 0x00, 0xFF}) {
      for (const int value : {127, -127}) {
        constexpr int32_t kRows = 38;  // groups of 16, of 4 and fewer
        LinearCase c = make_linear_case({type, 16, 256, kRows}, 1);
        const auto unit = static_cast<size_t>(panel_unit(type).bytes);
        for (size_t i = 0; i < c.weights.size(); ++i) {
          if (i % unit >= begin && i % unit < end) c.weights[i] = static_cast<std::byte>(weight);
        }
        pack_panels({type, 16, 256, c.weights}, c.panels);
        for (int8_t& byte : c.bytes) byte = static_cast<int8_t>(value);
        const auto pair = static_cast<uint32_t>(-8 * 16 * value) & 0xFFFFU;
        for (size_t i = 0; i < c.sums.size(); ++i) {
          c.sums[i] = i % 2 == 0 ? static_cast<int32_t>(pair | pair << 16U) : -8 * 32 * value;
        }
        const std::vector<float> y = trial.run(c);
        for (int32_t row = 0; row < kRows; ++row) {
          for (int32_t output = 0; output < 16; ++output) {
            ASSERT_EQ(y[static_cast<size_t>(row * 16 + output)], expected_output(c, row, output))
                << static_cast<int>(type) << " weight " << weight << " value " << value;
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, LinearFile, testing::ValuesIn(kLinearFiles), [](const auto& file) {
  return std::string(file.param).substr(0, std::strlen(file.param) - 3);
});

}  // namespace
}  // namespace inflight
