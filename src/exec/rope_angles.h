// SPDX-License-Identifier: Apache-2.0
// Cosine and sine of every rotated pair at every position, computed here in double: no device's trigonometry matters.
// Sources: Su et al. 2021; the Llama 3.1 model card's rescaling of frequencies; YaRN, Peng et al. 2023 (arXiv
// 2309.00071), with the ramp over pairs of its authors' code, as in transformers and llama.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/model_spec.h"
#include "device/buffer.h"

namespace inflight {

// Radians a position of each pair, scaling and factors applied. factors: empty, or one a pair, each divides.
[[nodiscard]] std::vector<double> rope_frequencies(const ModelSpec& spec, std::span<const float> factors);

class RopeAngles {
 public:
  // The table has room for `position_count` positions and is filled as they are needed.
  // factors: see rope_frequencies().
  RopeAngles(Device& device, const ModelSpec& spec, std::span<const float> factors, int32_t position_count);

  // Fills the table for positions below `end`.  REQUIRES: end <= position_count.
  void require(int32_t end);
  // [position][pair][cos, sin], times the magnitude; then, where local layers rotate otherwise, the same for these;
  // then, where queries have a temperature, the first times this.
  [[nodiscard]] const Buffer<float>& table() const { return table_; }
  // Where the table of a layer begins; kNone: it does not rotate.
  [[nodiscard]] static int32_t offset(const ModelSpec& spec, int32_t layer, int32_t position_count);
  // The same of its queries.
  [[nodiscard]] static int32_t query_offset(const ModelSpec& spec, int32_t layer, int32_t position_count);
  // Size of it all.
  [[nodiscard]] static size_t floats(const ModelSpec& spec, int32_t position_count);

 private:
  void fill(std::span<const double> frequencies, double magnitude, int32_t end, size_t offset,
            double temperature = 0.0);

  std::vector<double> frequencies_, local_frequencies_;
  double magnitude_;
  double temperature_scale_;
  int32_t temperature_length_;
  int32_t position_count_;
  int32_t filled_ = 0;
  Buffer<float> table_;
};

}  // namespace inflight
