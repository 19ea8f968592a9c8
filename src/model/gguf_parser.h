// SPDX-License-Identifier: Apache-2.0
// The bytes of a GGUF file (versions 2 and 3, little-endian) taken apart and checked: counts,
// lengths, offsets, types and sizes against the file and against limits.h. Afterwards no view
// reaches outside the bytes. Knows nothing of what keys and tensors mean.
// Source: the GGUF specification (ggml, docs/gguf.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/tensor_type.h"

namespace inflight {

// Values are GGUF's ids.
enum class GgufValueType : uint32_t {
  Uint8 = 0,
  Int8 = 1,
  Uint16 = 2,
  Int16 = 3,
  Uint32 = 4,
  Int32 = 5,
  Float32 = 6,
  Bool = 7,
  String = 8,
  Array = 9,
  Uint64 = 10,
  Int64 = 11,
  Float64 = 12,
};
inline constexpr uint32_t kGgufValueTypeCount = 13;

[[nodiscard]] const char* to_string(GgufValueType type);  // "uint32"
[[nodiscard]] size_t scalar_bytes(GgufValueType type);    // 0 for String and Array

// One metadata entry, not decoded. `bytes` of a string: its characters. Of an array: its elements
// as they are stored, each string behind its 64-bit length, each inner array behind its type and
// count.
struct GgufValue {
  std::string_view key;
  GgufValueType type{};
  GgufValueType element_type{};  // of an array
  uint64_t count = 1;            // elements of an array
  std::span<const std::byte> bytes;

  [[nodiscard]] std::string type_name() const;  // "uint32", "array of string"
};

struct GgufTensor {
  std::string_view name;
  const StoredType* type = nullptr;  // never null
  int32_t dimension_count = 1;
  std::array<int64_t, 4> dimensions{1, 1, 1, 1};  // numbers of a row first; all >= 1, the product fits
  std::span<const std::byte> bytes;

  [[nodiscard]] int64_t columns() const { return dimensions[0]; }
  [[nodiscard]] int64_t rows() const { return dimensions[1] * dimensions[2] * dimensions[3]; }
  [[nodiscard]] int64_t numbers() const { return columns() * rows(); }
  [[nodiscard]] std::string shape() const;  // "[2048, 5632]"
};

// LIFETIME: all views point into the parsed bytes.
struct GgufContents {
  uint32_t version = 0;
  uint64_t alignment = 32;          // of tensor data within the file; a power of two
  std::vector<GgufValue> metadata;  // in the file's order, as are the tensors
  std::vector<GgufTensor> tensors;
  std::unordered_map<std::string_view, size_t> metadata_by_key;
  std::unordered_map<std::string_view, size_t> tensors_by_name;
};

// `path` is for messages only.
// ERRORS: CorruptFile, Unsupported; one line that names the file, the thing, what was found and
//         what is allowed.
// COST:   O(bytes of the header); tensor data is not read. Memory: O(entries).
[[nodiscard]] GgufContents parse_gguf(const std::string& path, std::span<const std::byte> bytes);

}  // namespace inflight
