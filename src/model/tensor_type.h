// SPDX-License-Identifier: Apache-2.0
// The number formats of stored tensors. Values are GGUF's type ids. Quantised types hold blocks of 32 numbers along a
// row: Q8_0 = f16 scale d, 32 int8 q, x = d*q;  Q4_0 = f16 scale d, 16 bytes whose low nibbles are numbers 0..15 and
// high nibbles 16..31, x = d*(q-8). The other block formats are in block_formats.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace inflight {

enum class TensorType : uint32_t {
  F32 = 0,
  F16 = 1,
  Q4_0 = 2,
  Q4_1 = 3,
  Q5_0 = 6,
  Q5_1 = 7,
  Q8_0 = 8,
  Q2_K = 10,
  Q3_K = 11,
  Q4_K = 12,
  Q5_K = 13,
  Q6_K = 14,
  IQ4_NL = 20,
  IQ4_XS = 23,
  BF16 = 30,
  MXFP4 = 39,
};

inline constexpr int32_t kQuantBlock = 32;  // numbers a block of Q8_0 and Q4_0

// Numbers and bytes of the smallest whole unit: 1 number for the float types, a block for the quantised ones.
struct TensorUnit {
  int32_t numbers;
  int32_t bytes;
};
[[nodiscard]] TensorUnit unit_of(TensorType type);
[[nodiscard]] const char* to_string(TensorType type);  // "Q8_0"
// A type that rows can be quantised to, F32, F16, BF16, Q8_0 or Q4_0, by its name in any case: "q8_0".
[[nodiscard]] std::optional<TensorType> parse_tensor_type(std::string_view name);
// One of these, Q4_1, Q5_1, Q6_K, IQ4_NL or MXFP4: a type that kernels compute with.
[[nodiscard]] std::optional<TensorType> parse_computed_type(std::string_view name);

// What the kernels compute with: the type itself for those above; for the others what they become when they are loaded:
// Q4_1 for Q4_K, Q5_1 for Q5_K and Q5_0, Q6_K for Q3_K, IQ4_NL for IQ4_XS, which hold the same numbers
// (block_formats.h), and Q8_0, to which the weights are rounded, for Q2_K.
[[nodiscard]] TensorType computed_type(TensorType type);
// "F32, F16, ...": the types that kernels compute with, for messages.
[[nodiscard]] std::string computed_type_names();
// "F32, F16, ...": every TensorType, for messages.
[[nodiscard]] std::string readable_type_names();

// A number format that GGUF knows, whether this build reads it or not.
struct StoredType {
  uint32_t id = 0;
  const char* name = nullptr;
  TensorUnit unit{};
};
[[nodiscard]] const StoredType* find_stored_type(uint32_t id);  // null: GGUF has no such type
[[nodiscard]] std::optional<TensorType> readable_type(uint32_t id);

// Bytes of a row of `columns` numbers.  REQUIRES: columns is a multiple of the unit's numbers.
[[nodiscard]] size_t row_bytes(TensorType type, int64_t columns);

}  // namespace inflight
