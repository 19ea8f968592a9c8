// SPDX-License-Identifier: Apache-2.0
// Writes what stands before a GGUF file's data: little-endian bytes, growing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/math.h"
#include "model/gguf_parser.h"

namespace inflight {

class GgufHeader {
 public:
  explicit GgufHeader(size_t tensor_count) {
    raw(std::as_bytes(std::span(std::string_view("GGUF"))));
    number(uint32_t{3});
    number(static_cast<uint64_t>(tensor_count));
    number(uint64_t{0});  // metadata entries, counted as they come
  }

  template <typename T>
  void number(T value) {
    raw(std::as_bytes(std::span(&value, 1)));
  }
  void string(std::string_view text) {
    number(static_cast<uint64_t>(text.size()));
    raw(std::as_bytes(std::span(text)));
  }
  void raw(std::span<const std::byte> bytes) {
    const size_t end = bytes_.size();
    bytes_.resize(end + bytes.size());
    std::copy(bytes.begin(), bytes.end(), bytes_.data() + end);
  }

  // Metadata, before the tensors.
  void entry(std::string_view key, uint32_t value) { scalar(key, GgufValueType::Uint32, value); }
  void entry(std::string_view key, float value) { scalar(key, GgufValueType::Float32, value); }
  void entry(std::string_view key, bool value) { scalar(key, GgufValueType::Bool, static_cast<uint8_t>(value)); }
  void entry(std::string_view key, std::string_view value) {
    begin(key, GgufValueType::String);
    string(value);
  }
  void entry(std::string_view key, std::span<const std::string> values) {
    begin_array(key, GgufValueType::String, values.size());
    for (const std::string& value : values) string(value);
  }
  void entry(std::string_view key, std::span<const int32_t> values) {
    begin_array(key, GgufValueType::Int32, values.size());
    raw(std::as_bytes(values));
  }
  void entry(std::string_view key, std::span<const float> values) {
    begin_array(key, GgufValueType::Float32, values.size());
    raw(std::as_bytes(values));
  }
  void entry(const GgufValue& value) {
    begin(value.key, value.type);
    if (value.type == GgufValueType::Array) number(value.element_type);
    if (value.type == GgufValueType::Array) number(value.count);
    if (value.type == GgufValueType::String) number(static_cast<uint64_t>(value.bytes.size()));
    raw(value.bytes);
  }

  void pad_to(size_t alignment) { bytes_.resize(align_up(bytes_.size(), alignment)); }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, GgufValueType type) {
    constexpr size_t kCountAt = 16;
    ++key_count_;
    std::memcpy(bytes_.data() + kCountAt, &key_count_, sizeof key_count_);
    string(key);
    number(type);
  }
  template <typename T>
  void scalar(std::string_view key, GgufValueType type, T value) {
    begin(key, type);
    number(value);
  }
  void begin_array(std::string_view key, GgufValueType element_type, size_t count) {
    begin(key, GgufValueType::Array);
    number(element_type);
    number(static_cast<uint64_t>(count));
  }

  std::vector<std::byte> bytes_;
  uint64_t key_count_ = 0;
};

}  // namespace inflight
