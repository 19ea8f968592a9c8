// SPDX-License-Identifier: Apache-2.0
#include "ops/linear_case.h"

#include <cmath>

#include "base/bytes.h"
#include "base/error.h"
#include "base/half.h"
#include "base/rng.h"

namespace inflight {
namespace {

// All 24 bits of a float are used: sums are rounded at every step, so that their order and fused products show.
float number_in_range(Rng& rng) { return static_cast<float>(rng.between(-0xFFFFFF, 0xFFFFFF)) * 0x1p-24F; }

// Of the half scale in a unit.
size_t scale_offset(PanelType type) { return type == PanelType::Q6_K ? 208 : 0; }

bool has_minimum(PanelType type) { return type == PanelType::Q4_1 || type == PanelType::Q5_1; }

// One unit of the type: a number, or a block.
void fill_unit(PanelType type, Rng& rng, std::byte* unit) {
  switch (type) {
    case PanelType::F32:
      store(number_in_range(rng), unit);
      return;
    case PanelType::F16:
      store(half_of_float(number_in_range(rng)), unit);
      return;
    case PanelType::BF16:
      store(bfloat_of_float(number_in_range(rng)), unit);
      return;
    default:
      break;
  }
  const auto bytes = static_cast<size_t>(panel_unit(type).bytes);
  for (size_t i = 0; i < bytes; ++i) unit[i] = static_cast<std::byte>(rng.below(256));
  if (type == PanelType::MXFP4) {
    unit[0] = static_cast<std::byte>(rng.between(110, 126));
    return;
  }
  const auto scale = static_cast<float>(rng.between(1, 1000));
  store(half_of_float(scale * (type == PanelType::Q6_K ? 1e-6F : 2e-5F)), unit + scale_offset(type));
  if (has_minimum(type)) store(half_of_float(static_cast<float>(rng.between(-1000, 1000)) * 2e-4F), unit + 2);
}

const std::byte* unit_at(const LinearCase& c, int32_t output, int32_t k) {
  const PanelUnit unit = panel_unit(c.shape.type);
  const auto index = static_cast<size_t>(output) * static_cast<size_t>(c.shape.depth / unit.numbers) +
                     static_cast<size_t>(k / unit.numbers);
  return c.weights.data() + index * static_cast<size_t>(unit.bytes);
}

// Number k of a unit, without scale and minimum.
int32_t quantised_number(PanelType type, const std::byte* unit, int32_t k) {
  const auto byte = [unit](int32_t at) { return static_cast<int32_t>(unit[at]); };
  const auto nibble = [&](int32_t at) { return k < 16 ? byte(at + k) & 15 : byte(at + k - 16) >> 4; };
  switch (type) {
    case PanelType::Q8_0:
      return load<int8_t>(unit + 2 + k);
    case PanelType::Q4_0:
      return nibble(2) - 8;
    case PanelType::IQ4_NL: {
      constexpr int32_t kTable[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
      return kTable[nibble(2)];
    }
    case PanelType::MXFP4: {
      const int32_t code = nibble(1) & 7, number = code < 4 ? code : (2 + code % 2) << (code / 2 - 1);
      return nibble(1) < 8 ? number : -number;
    }
    case PanelType::Q4_1:
      return nibble(4);
    case PanelType::Q5_1:
      return nibble(8) + 16 * (byte(4 + k / 8) >> k % 8 & 1);
    default: {  // Q6_K: in two halves of 128, whose quarters share bytes
      const int32_t half = k / 128, quarter = k / 32 % 4;
      const int32_t low = byte(64 * half + k % 64) >> (quarter < 2 ? 0 : 4) & 15;
      return low + 16 * (byte(128 + 32 * half + k % 32) >> 2 * quarter & 3) - 32;
    }
  }
}

// Of number k: rounded to half precision as in panels.
float scale_of(PanelType type, const std::byte* unit, int32_t k) {
  if (type == PanelType::MXFP4) return std::ldexp(1.0F, static_cast<int>(unit[0]) - 128);
  const float scale = float_of_half(load<uint16_t>(unit + scale_offset(type)));
  if (type != PanelType::Q6_K) return scale;
  return float_of_half(half_of_float(scale * static_cast<float>(load<int8_t>(unit + 192 + k / 16))));
}

float minimum_of(PanelType type, const std::byte* unit) {
  return has_minimum(type) ? float_of_half(load<uint16_t>(unit + 2)) : 0.0F;
}

void fill_rows(LinearCase& c, Rng& rng) {
  const auto numbers = static_cast<size_t>(c.shape.rows) * static_cast<size_t>(c.shape.depth);
  c.x.resize(numbers);
  if (!takes_bytes(c.shape.type)) {
    for (float& value : c.x) value = number_in_range(rng);
    return;
  }
  c.bytes.resize(numbers);
  c.scales.resize(numbers / kBlockDepths);
  c.sums.resize(numbers / kBlockDepths * 2);
  for (size_t unit = 0; unit < c.scales.size(); ++unit) {  // [rows][depth / 32]
    const auto blocks = static_cast<size_t>(c.shape.depth / kBlockDepths);
    const size_t block = unit % blocks * static_cast<size_t>(c.shape.rows) + unit / blocks;
    const float scale = static_cast<float>(rng.between(1, 1000)) * 7.7e-6F;
    uint32_t pairs[2] = {0, 0};
    for (size_t i = 0; i < kBlockDepths; ++i) {
      const int32_t value = rng.chance(0.25) ? (rng.chance(0.5) ? 127 : -127) : rng.between(-127, 127);
      c.bytes[block * kBlockDepths + i] = static_cast<int8_t>(value);
      c.x[unit * kBlockDepths + i] = scale * static_cast<float>(value);
      pairs[i % 4 / 2] -= static_cast<uint32_t>(8 * value);
    }
    c.scales[block] = scale;
    c.sums[2 * block] = static_cast<int32_t>((pairs[0] & 0xFFFFU) | pairs[1] << 16U);
    c.sums[2 * block + 1] = static_cast<int32_t>(pairs[0] + pairs[1]);
  }
}

}  // namespace

LinearCase make_linear_case(const LinearShape& shape, uint64_t seed) {
  const PanelUnit unit = panel_unit(shape.type);
  INFLIGHT_CHECK(shape.depth % unit.numbers == 0);
  LinearCase c{.shape = shape, .weights = {}, .panels = {}, .x = {}, .bytes = {}, .scales = {}, .sums = {}};
  Rng rng(seed);
  const auto units = static_cast<size_t>(shape.depth / unit.numbers) * static_cast<size_t>(shape.outputs);
  c.weights.resize(units * static_cast<size_t>(unit.bytes));
  for (size_t i = 0; i < units; ++i) fill_unit(shape.type, rng, &c.weights[i * static_cast<size_t>(unit.bytes)]);
  c.panels.resize(packed_bytes(shape.type, shape.outputs, shape.depth));
  pack_panels({shape.type, shape.outputs, shape.depth, c.weights}, c.panels);
  fill_rows(c, rng);
  return c;
}

float weight_number(const LinearCase& c, int32_t output, int32_t k) {
  const std::byte* const unit = unit_at(c, output, k);
  switch (c.shape.type) {
    case PanelType::F32:
      return load<float>(unit);
    case PanelType::F16:
      return float_of_half(load<uint16_t>(unit));
    case PanelType::BF16:
      return float_of_bfloat(load<uint16_t>(unit));
    default:
      break;
  }
  const int32_t at = k % panel_unit(c.shape.type).numbers;
  return scale_of(c.shape.type, unit, at) * static_cast<float>(quantised_number(c.shape.type, unit, at)) +
         minimum_of(c.shape.type, unit);
}

float expected_output(const LinearCase& c, int32_t row, int32_t output) {
  const size_t first = static_cast<size_t>(row) * static_cast<size_t>(c.shape.depth);
  float sum = 0.0F;
  if (!takes_bytes(c.shape.type)) {
    for (int32_t k = 0; k < c.shape.depth; ++k) {
      sum = std::fma(weight_number(c, output, k), c.x[first + static_cast<size_t>(k)], sum);
    }
    return sum;
  }
  const PanelType type = c.shape.type;
  const int32_t together = type == PanelType::Q6_K ? kBlockDepths / 2 : kBlockDepths;  // numbers of one scale
  for (int32_t k = 0; k < c.shape.depth; k += together) {
    const std::byte* const unit = unit_at(c, output, k);
    const int32_t first_number = k % panel_unit(type).numbers;
    const auto at = static_cast<size_t>(k / kBlockDepths * c.shape.rows + row);
    int32_t dot = 0;
    for (int32_t i = 0; i < together; ++i) {
      dot += quantised_number(type, unit, first_number + i) *
             c.bytes[at * kBlockDepths + static_cast<size_t>(k % kBlockDepths + i)];
    }
    sum = std::fma(static_cast<float>(dot), scale_of(type, unit, first_number) * c.scales[at], sum);
    if (has_minimum(type)) {
      const float numbers = static_cast<float>(c.sums[2 * at + 1]) * c.scales[at];  // -8 times those of the row
      sum = std::fma(-0.125F * minimum_of(type, unit), numbers, sum);
    }
  }
  return sum;
}

}  // namespace inflight
