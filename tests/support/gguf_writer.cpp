// SPDX-License-Identifier: Apache-2.0
#include "support/gguf_writer.h"

#include <algorithm>

#include "model/quantize.h"

namespace inflight::test {
namespace {

// Ids of the specification.
constexpr uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9;

template <typename T>
std::vector<std::byte> array_bytes(uint32_t element_type, const std::vector<T>& values) {
  ByteWriter out;
  out.number(element_type).number(static_cast<uint64_t>(values.size()));
  return out.raw(std::as_bytes(std::span(values))).bytes();
}

uint64_t rounded_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

}  // namespace

ByteWriter& ByteWriter::string(std::string_view text) {
  return number(static_cast<uint64_t>(text.size())).raw(std::as_bytes(std::span(text)));
}

ByteWriter& ByteWriter::raw(std::span<const std::byte> bytes) {
  const size_t end = bytes_.size();
  bytes_.resize(end + bytes.size());
  std::copy(bytes.begin(), bytes.end(), bytes_.data() + end);
  return *this;
}

ByteWriter& ByteWriter::pad_to(size_t alignment) {
  bytes_.resize(rounded_up(bytes_.size(), alignment));
  return *this;
}

GgufWriter& GgufWriter::key_raw(std::string_view key, uint32_t type, std::span<const std::byte> value) {
  keys_.string(key).number(type).raw(value);
  ++keys_written_;
  return *this;
}

GgufWriter& GgufWriter::key_u32(std::string_view key, uint32_t value) {
  return key_raw(key, kUint32, std::as_bytes(std::span(&value, 1)));
}

GgufWriter& GgufWriter::key_f32(std::string_view key, float value) {
  return key_raw(key, kFloat32, std::as_bytes(std::span(&value, 1)));
}

GgufWriter& GgufWriter::key_bool(std::string_view key, bool value) {
  const auto byte = static_cast<std::byte>(value ? 1 : 0);
  return key_raw(key, kBool, {&byte, 1});
}

GgufWriter& GgufWriter::key_string(std::string_view key, std::string_view value) {
  return key_raw(key, kString, ByteWriter().string(value).bytes());
}

GgufWriter& GgufWriter::key_strings(std::string_view key, const std::vector<std::string>& values) {
  ByteWriter out;
  out.number(kString).number(static_cast<uint64_t>(values.size()));
  for (const std::string& value : values) out.string(value);
  return key_raw(key, kArray, out.bytes());
}

GgufWriter& GgufWriter::key_i32s(std::string_view key, const std::vector<int32_t>& values) {
  return key_raw(key, kArray, array_bytes(kInt32, values));
}

GgufWriter& GgufWriter::key_bools(std::string_view key, const std::vector<bool>& values) {
  const std::vector<uint8_t> bytes(values.begin(), values.end());
  return key_raw(key, kArray, array_bytes(kBool, bytes));
}

GgufWriter& GgufWriter::key_f32s(std::string_view key, const std::vector<float>& values) {
  return key_raw(key, kArray, array_bytes(kFloat32, values));
}

GgufWriter& GgufWriter::tensor(std::string_view name, uint32_t type, const std::vector<uint64_t>& dimensions,
                               std::span<const std::byte> data, std::optional<uint64_t> offset) {
  entries_.string(name).number(static_cast<uint32_t>(dimensions.size()));
  for (const uint64_t dimension : dimensions) entries_.number(dimension);
  const uint64_t true_offset = rounded_up(data_bytes_, alignment);
  entries_.number(type).number(offset.value_or(true_offset));
  ++entries_written_;
  data_.emplace_back(data.begin(), data.end());
  data_bytes_ = true_offset + data.size();
  return *this;
}

GgufWriter& GgufWriter::tensor(std::string_view name, TensorType type, const std::vector<uint64_t>& dimensions,
                               std::span<const float> numbers) {
  const size_t columns = dimensions.at(0);
  const size_t stride = row_bytes(type, static_cast<int64_t>(columns));
  std::vector<std::byte> data(numbers.size() / columns * stride);
  for (size_t row = 0; row < numbers.size() / columns; ++row) {
    quantize_row(type, numbers.subspan(row * columns, columns), std::span(data).subspan(row * stride, stride));
  }
  return tensor(name, static_cast<uint32_t>(type), dimensions, data);
}

ByteWriter GgufWriter::header() const {
  ByteWriter out;
  out.number(magic).number(version);
  out.number(tensor_count.value_or(entries_written_)).number(key_count.value_or(keys_written_));
  out.raw(keys_.bytes()).raw(entries_.bytes());
  return out;
}

size_t GgufWriter::header_bytes() const { return header().bytes().size(); }

std::vector<std::byte> GgufWriter::bytes() const {
  ByteWriter out = header();
  for (const auto& data : data_) out.pad_to(alignment).raw(data);
  return out.bytes();
}

}  // namespace inflight::test
