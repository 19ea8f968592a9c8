// SPDX-License-Identifier: Apache-2.0
// Token counts drawn from a distribution that is written as text:
//   128                      always
//   10-50                    uniform, both ends included
//   exp:128                  exponential with this mean, at least 1
//   lognormal:128:0.8        median and sigma of the logarithm
//   mix:0.8:10-50:200-500    the first with this probability, else the second
//   file:PATH                the numbers of a text file, one a line, in turn
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/rng.h"

namespace inflight {

class LengthDistribution {
 public:
  // ERRORS: InvalidArgument naming `what`, the text and what is allowed; NotFound, Io, CorruptFile of the file.
  LengthDistribution(std::string_view what, std::string_view text);

  // In [1, limits::kContextTokensMax].
  [[nodiscard]] int32_t draw(Rng& rng);

 private:
  enum class Kind : uint8_t { Uniform, Exponential, Lognormal, Mixture, List };
  Kind kind_ = Kind::Uniform;
  double a_ = 0.0, b_ = 0.0;  // low, high; mean; median, sigma; probability
  std::vector<LengthDistribution> parts_;
  std::vector<int32_t> list_;
  size_t next_ = 0;
};

// A standard normal number (Box and Muller 1958).
[[nodiscard]] double draw_normal(Rng& rng);
// Of unit mean; shape > 0.   Source: Marsaglia and Tsang 2000.
[[nodiscard]] double draw_gamma(Rng& rng, double shape);

}  // namespace inflight
