// SPDX-License-Identifier: Apache-2.0
// The angles of YaRN against transformers 4.57's _compute_yarn_parameters() in float64; those of the other scalings,
// and what comes of them, are in reference_test.cpp.
#include "exec/rope_angles.h"

#include <gtest/gtest.h>

#include <map>

namespace inflight {
namespace {

TEST(RopeFrequencies, AreTransformersOfYarn) {
  ModelSpec spec;  // Qwen2.5's for 128k tokens
  spec.rope_dimension_count = 128;
  spec.rope_base = 1e6F;
  spec.rope_scaling = {.kind = RopeScaling::Kind::Yarn, .factor = 4.0F, .original_context_length = 32768};
  const std::map<size_t, double> qwen = {{0, 1.0},
                                         {1, 0.80584218776148187},
                                         {20, 0.013335214321633241},
                                         {23, 0.0069783058485986633},
                                         {24, 0.0053753214907901019},
                                         {30, 0.0010643609812470017},
                                         {39, 6.4903943208370279e-05},
                                         {40, 4.4456985250973067e-05},
                                         {41, 3.5825314255924068e-05},
                                         {63, 3.1023444018792988e-07}};
  const std::vector<double> frequencies = rope_frequencies(spec, {});
  ASSERT_EQ(frequencies.size(), 64U);
  for (const auto& [pair, frequency] : qwen) EXPECT_NEAR(frequencies[pair] / frequency, 1.0, 1e-12) << pair;

  spec.rope_dimension_count = 32;
  spec.rope_base = 1e4F;
  spec.rope_scaling = {.kind = RopeScaling::Kind::Yarn,
                       .factor = 2.5F,
                       .original_context_length = 512,
                       .beta_fast = 16.0F,
                       .beta_slow = 2.0F};
  const std::vector<double> other = {1.0,
                                     0.56234132519034907,
                                     0.31622776601683794,
                                     0.1564885880834252,
                                     0.075999999999999998,
                                     0.035989844812182342,
                                     0.016443843832875574,
                                     0.0071131176401556919,
                                     0.0040000000000000001,
                                     0.0022493653007613964,
                                     0.0012649110640673518,
                                     0.00071131176401556919,
                                     0.00040000000000000002,
                                     0.00022493653007613966,
                                     0.00012649110640673515,
                                     7.1131176401556916e-05};
  const std::vector<double> ours = rope_frequencies(spec, {});
  ASSERT_EQ(ours.size(), other.size());
  for (size_t pair = 0; pair < other.size(); ++pair) EXPECT_NEAR(ours[pair] / other[pair], 1.0, 1e-12) << pair;
}

}  // namespace
}  // namespace inflight
