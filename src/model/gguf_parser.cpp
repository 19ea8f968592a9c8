// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/limits.h"
#include "base/math.h"
#include "base/quote.h"

namespace inflight {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF's numbers are read in place");

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr size_t kAlignmentMin = 8;

class Parser {
 public:
  Parser(const std::string& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  GgufContents parse() {
    read_header();
    for (uint64_t i = 0; i < key_count_; ++i) read_metadata_entry(i);
    read_alignment();
    for (uint64_t i = 0; i < tensor_count_; ++i) read_tensor_entry(i);
    place_tensors();
    return std::move(contents_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::CorruptFile, "{}: {}: {}", path_, where(), fmt::format(format, std::forward<Args>(args)...));
  }

  // What is being read, for messages: "header", "metadata entry 3", "tensor 'output.weight'".
  std::string where() const {
    if (name_.data() != nullptr) return fmt::format("{} {}", section_, quote(name_));
    return entry_ ? fmt::format("{} {} of {}", section_, *entry_ + 1, entry_count_) : section_;
  }

  std::span<const std::byte> take(uint64_t count) {
    if (count > bytes_.size() - at_) {
      corrupt("needs {} bytes at byte {}, but the file ends at byte {}", count, at_, bytes_.size());
    }
    const auto taken = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return taken;
  }

  template <typename T>
  T take_number() {
    T value{};
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }

  std::string_view take_string(const char* what, uint64_t bytes_min, uint64_t bytes_max) {
    const auto length = take_number<uint64_t>();
    if (length < bytes_min || length > bytes_max) {
      corrupt("{} has {} bytes, allowed: {} to {}", what, length, bytes_min, bytes_max);
    }
    const auto text = take(length);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }

  void read_header() {
    section_ = "header";
    if (bytes_.size() < 4 || take_number<uint32_t>() != kMagic) {
      fail(ErrorCode::CorruptFile, "{}: is no GGUF file: it does not begin with 'GGUF'", path_);
    }
    contents_.version = take_number<uint32_t>();
    const uint32_t version = contents_.version;
    if (version != 2 && version != 3) {
      const bool big_endian = (version & 0xFFFFU) == 0 && version != 0;
      fail(ErrorCode::Unsupported, "{}: {}; supported: versions 2 and 3, little-endian", path_,
           big_endian ? "is a big-endian GGUF file" : fmt::format("is a GGUF file of version {}", version));
    }
    tensor_count_ = take_number<uint64_t>();
    key_count_ = take_number<uint64_t>();
    if (tensor_count_ > limits::kGgufTensorCountMax) {
      corrupt("claims {} tensors, allowed: up to {}", tensor_count_, limits::kGgufTensorCountMax);
    }
    if (key_count_ > limits::kGgufKeyCountMax) {
      corrupt("claims {} metadata entries, allowed: up to {}", key_count_, limits::kGgufKeyCountMax);
    }
  }

  void begin_entry(const char* section, uint64_t entry, uint64_t entry_count) {
    section_ = section;
    name_ = {};
    entry_ = entry;
    entry_count_ = entry_count;
  }

  GgufValueType take_value_type() {
    const auto id = take_number<uint32_t>();
    if (id >= kGgufValueTypeCount) {
      corrupt("has value type {}, allowed: 0 to {}", id, kGgufValueTypeCount - 1);
    }
    return static_cast<GgufValueType>(id);
  }

  void read_metadata_entry(uint64_t entry) {
    begin_entry("metadata entry", entry, key_count_);
    GgufValue value;
    value.key = take_string("the key", 1, limits::kGgufNameBytesMax);
    section_ = "metadata key";
    name_ = value.key;
    value.type = take_value_type();
    if (value.type == GgufValueType::String) {
      const auto text = take_string("the string", 0, limits::kGgufStringBytesMax);
      value.bytes = std::as_bytes(std::span(text));
    } else if (value.type == GgufValueType::Array) {
      value.element_type = take_value_type();
      value.count = take_array_count();
      const size_t begin = at_;
      skip_elements(value.element_type, value.count, 1);
      value.bytes = bytes_.subspan(begin, at_ - begin);
    } else {
      value.bytes = take(scalar_bytes(value.type));
    }
    if (!contents_.metadata_by_key.emplace(value.key, contents_.metadata.size()).second) {
      corrupt("occurs twice");
    }
    contents_.metadata.push_back(value);
  }

  uint64_t take_array_count() {
    const auto count = take_number<uint64_t>();
    if (count > limits::kGgufArrayCountMax) {
      corrupt("the array has {} elements, allowed: up to {}", count, limits::kGgufArrayCountMax);
    }
    return count;
  }

  // Each string and inner array takes bytes of the file, so the loops end with it however large
  // `count` is.
  void skip_elements(GgufValueType type, uint64_t count, int depth) {
    if (type == GgufValueType::String) {
      for (uint64_t i = 0; i < count; ++i) {
        (void)take_string("a string", 0, limits::kGgufStringBytesMax);
      }
    } else if (type == GgufValueType::Array) {
      if (depth == limits::kGgufArrayDepthMax) {
        corrupt("arrays are nested more than {} deep", limits::kGgufArrayDepthMax);
      }
      for (uint64_t i = 0; i < count; ++i) {
        const GgufValueType inner = take_value_type();
        skip_elements(inner, take_array_count(), depth + 1);
      }
    } else {
      (void)take(count * scalar_bytes(type));  // at most 2^28 * 8
    }
  }

  void read_alignment() {
    const auto found = contents_.metadata_by_key.find("general.alignment");
    if (found == contents_.metadata_by_key.end()) return;
    const GgufValue& value = contents_.metadata[found->second];
    name_ = value.key;
    if (value.type != GgufValueType::Uint32) corrupt("is {}, expected uint32", value.type_name());
    uint32_t alignment = 0;
    std::memcpy(&alignment, value.bytes.data(), sizeof alignment);
    if (!std::has_single_bit(alignment) || alignment < kAlignmentMin || alignment > limits::kGgufAlignmentMax) {
      corrupt("is {}, allowed: a power of two from {} to {}", alignment, kAlignmentMin, limits::kGgufAlignmentMax);
    }
    contents_.alignment = alignment;
  }

  void read_tensor_entry(uint64_t entry) {
    begin_entry("tensor", entry, tensor_count_);
    GgufTensor tensor;
    tensor.name = take_string("the name", 1, limits::kGgufNameBytesMax);
    name_ = tensor.name;
    const auto dimension_count = take_number<uint32_t>();
    if (dimension_count < 1 || dimension_count > tensor.dimensions.size()) {
      corrupt("has {} dimensions, allowed: 1 to {}", dimension_count, tensor.dimensions.size());
    }
    tensor.dimension_count = static_cast<int32_t>(dimension_count);
    for (uint32_t i = 0; i < dimension_count; ++i) tensor.dimensions[i] = take_number<int64_t>();
    const auto type = take_number<uint32_t>();
    tensor.type = find_stored_type(type);
    if (tensor.type == nullptr) {
      fail(ErrorCode::Unsupported, "{}: {}: has type {}, which is not known here", path_, where(), type);
    }
    offsets_.push_back(take_number<uint64_t>());
    sizes_.push_back(checked_bytes(tensor));
    if (!contents_.tensors_by_name.emplace(tensor.name, contents_.tensors.size()).second) {
      corrupt("occurs twice");
    }
    contents_.tensors.push_back(tensor);
  }

  uint64_t checked_bytes(const GgufTensor& tensor) const {
    const TensorUnit unit = tensor.type->unit;
    int64_t numbers = 1;
    for (const int64_t dimension : tensor.dimensions) {
      if (dimension < 1 || __builtin_mul_overflow(numbers, dimension, &numbers)) {
        corrupt("has shape {}, allowed: each at least 1, the product below 2^63", tensor.shape());
      }
    }
    if (tensor.columns() % unit.numbers != 0) {
      corrupt("has rows of {} numbers, allowed for {}: multiples of {}", tensor.columns(), tensor.type->name,
              unit.numbers);
    }
    uint64_t size = 0;
    if (__builtin_mul_overflow(static_cast<uint64_t>(numbers / unit.numbers), static_cast<uint64_t>(unit.bytes),
                               &size)) {
      corrupt("has shape {}, more than 2^64 bytes", tensor.shape());
    }
    return size;
  }

  // Gives each tensor its bytes: the data begins at the next aligned byte behind the header.
  void place_tensors() {
    const uint64_t data_begin = align_up<uint64_t>(at_, contents_.alignment);
    section_ = "tensor";
    for (size_t i = 0; i < contents_.tensors.size(); ++i) {
      GgufTensor& tensor = contents_.tensors[i];
      name_ = tensor.name;
      if (offsets_[i] % contents_.alignment != 0) {
        corrupt("its offset {} is no multiple of the alignment {}", offsets_[i], contents_.alignment);
      }
      uint64_t begin = 0;
      uint64_t end = 0;
      if (__builtin_add_overflow(data_begin, offsets_[i], &begin) || __builtin_add_overflow(begin, sizes_[i], &end) ||
          end > bytes_.size()) {
        corrupt("{} bytes at offset {} of the data at byte {} reach past the file's end at byte {}", sizes_[i],
                offsets_[i], data_begin, bytes_.size());
      }
      tensor.bytes = bytes_.subspan(static_cast<size_t>(begin), static_cast<size_t>(sizes_[i]));
    }
    check_overlap();
  }

  void check_overlap() {
    std::vector<const GgufTensor*> order(contents_.tensors.size());
    std::transform(contents_.tensors.begin(), contents_.tensors.end(), order.begin(),
                   [](const GgufTensor& tensor) { return &tensor; });
    std::sort(order.begin(), order.end(),
              [](const GgufTensor* a, const GgufTensor* b) { return a->bytes.data() < b->bytes.data(); });
    for (size_t i = 1; i < order.size(); ++i) {
      const GgufTensor& before = *order[i - 1];
      name_ = order[i]->name;
      if (before.bytes.data() + before.bytes.size() > order[i]->bytes.data()) {
        corrupt("overlaps tensor {}", quote(before.name));
      }
    }
  }

  const std::string& path_;
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  GgufContents contents_;
  std::vector<uint64_t> offsets_;  // of each tensor, from the begin of the data
  std::vector<uint64_t> sizes_;
  // What is being read: set while going, put into words by where().
  const char* section_ = "";
  std::string_view name_;
  std::optional<uint64_t> entry_;
  uint64_t entry_count_ = 0;
};

}  // namespace

const char* to_string(GgufValueType type) {
  constexpr std::array<const char*, kGgufValueTypeCount> kNames = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                                                   "int32",  "float32", "bool",   "string", "array",
                                                                   "uint64", "int64",   "float64"};
  return kNames.at(static_cast<size_t>(type));
}

size_t scalar_bytes(GgufValueType type) {
  constexpr std::array<size_t, kGgufValueTypeCount> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kBytes.at(static_cast<size_t>(type));
}

std::string GgufValue::type_name() const {
  if (type != GgufValueType::Array) return to_string(type);
  return fmt::format("array of {}", to_string(element_type));
}

std::string GgufTensor::shape() const {
  return fmt::format("[{}]", fmt::join(dimensions.begin(), dimensions.begin() + dimension_count, ", "));
}

GgufContents parse_gguf(const std::string& path, std::span<const std::byte> bytes) {
  return Parser(path, bytes).parse();
}

}  // namespace inflight
