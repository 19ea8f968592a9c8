// SPDX-License-Identifier: Apache-2.0
// Small GGUF files for tests. The layout is written from the format's specification, not through
// src/model, so that reader and writer cannot share a mistake. Says what it is told: wrong counts,
// types and offsets too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/tensor_type.h"

namespace inflight::test {

// Little-endian bytes, growing.
class ByteWriter {
 public:
  template <typename T>
  ByteWriter& number(T value) {
    return raw(std::as_bytes(std::span(&value, 1)));
  }
  ByteWriter& string(std::string_view text);  // 64-bit length, characters
  ByteWriter& raw(std::span<const std::byte> bytes);
  ByteWriter& pad_to(size_t alignment);
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class GgufWriter {
 public:
  // Header fields; counts are true ones unless set.
  uint32_t magic = 0x46554747;
  uint32_t version = 3;
  std::optional<uint64_t> tensor_count;
  std::optional<uint64_t> key_count;
  size_t alignment = 32;  // of the data; set the key general.alignment along with it

  GgufWriter& key_u32(std::string_view key, uint32_t value);
  GgufWriter& key_f32(std::string_view key, float value);
  GgufWriter& key_bool(std::string_view key, bool value);
  GgufWriter& key_string(std::string_view key, std::string_view value);
  GgufWriter& key_strings(std::string_view key, const std::vector<std::string>& values);
  GgufWriter& key_i32s(std::string_view key, const std::vector<int32_t>& values);
  GgufWriter& key_bools(std::string_view key, const std::vector<bool>& values);
  GgufWriter& key_f32s(std::string_view key, const std::vector<float>& values);
  GgufWriter& key_raw(std::string_view key, uint32_t type, std::span<const std::byte> value);

  // Data of tensors is laid out in order, each aligned. `offset` states another place than the true
  // one.
  GgufWriter& tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& dimensions,
                     std::span<const std::byte> data, std::optional<uint64_t> offset = {});
  // Numbers stored as `type`: dimensions[0] numbers a row.
  GgufWriter& tensor(std::string_view name, TensorType type, const std::vector<uint64_t>& dimensions,
                     std::span<const float> numbers);

  [[nodiscard]] std::vector<std::byte> bytes() const;
  [[nodiscard]] size_t header_bytes() const;  // up to the data, without padding

 private:
  [[nodiscard]] ByteWriter header() const;

  ByteWriter keys_;
  uint64_t keys_written_ = 0;
  ByteWriter entries_;
  uint64_t entries_written_ = 0;
  std::vector<std::vector<std::byte>> data_;
  uint64_t data_bytes_ = 0;
};

}  // namespace inflight::test
