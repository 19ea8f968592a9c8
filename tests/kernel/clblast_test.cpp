// SPDX-License-Identifier: Apache-2.0
// Linear stages by CLBlast: the bits of linear.cl's contract, whatever the rows, the parameters and the pieces; a trial
// finds wrong ones.
//
// Covers: ops/clblast.cpp, ops/clblast_linear.cpp, ops/clblast_trial.cpp, ops/step_memory.cpp
#include <gtest/gtest.h>

#include <cmath>

#include "ops/clblast_trial.h"
#include "support/expect_error.h"

namespace inflight {
namespace {

class ClblastKernels : public testing::Test {
 protected:
  void SetUp() override {
    if (!Clblast::available()) GTEST_SKIP() << "libclblast.so.1 is not installed";
    if (device_.info().platform == "rusticl") GTEST_SKIP() << "its fma() rounds twice: CLBlast is refused there";
  }
  Device device_ = Device::open({});
};

constexpr ClblastLimits kLimits{.rows = 70, .depth = 4096, .outputs = 64};

TEST_F(ClblastKernels, GiveTheContractsBits) {
  ClblastTrial trial(device_, {}, kLimits);
  EXPECT_EQ(verify_clblast(trial), "");
}

// More outputs than are unpacked at a time, of an odd number of panels; every row of the pieces' edges.
TEST_F(ClblastKernels, PiecesFitTogether) {
  ClblastTrial trial(device_, {}, {.rows = 512, .depth = 32, .outputs = 16'407});
  const LinearCase c = make_linear_case({PanelType::F16, 16'407, 32, 512}, 7);
  const std::vector<float> y = trial.run(c);
  for (const int32_t row : {0, 1, 255, 511}) {
    for (const int32_t output : {0, 1, 8175, 8176, 8191, 8192, 8193, 16'383, 16'384, 16'400, 16'406}) {
      ASSERT_EQ(y[static_cast<size_t>(row) * 16'407 + static_cast<size_t>(output)], expected_output(c, row, output))
          << row << ' ' << output;
    }
  }
}

TEST_F(ClblastKernels, ADifferenceIsFound) {
  const LinearCase c = make_linear_case({PanelType::F32, 16, 32, 2}, 1);
  ClblastTrial trial(device_, {}, kLimits);
  std::vector<float> y = trial.run(c);
  EXPECT_EQ(linear_difference(c, y, 16), "");
  y[17] = std::nextafter(y[17], 2.0F);
  EXPECT_NE(linear_difference(c, y, 16).find("output [1, 1]"), std::string::npos);
}

TEST_F(ClblastKernels, ParametersThatClblastDoesNotKnowAreRefused) {
  INFLIGHT_EXPECT_ERROR(ErrorCode::Device, "Xgemm",
                        [&] { const ClblastTrial trial(device_, {{"NOSUCH", 1}}, kLimits); });
}

}  // namespace
}  // namespace inflight
