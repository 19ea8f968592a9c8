// SPDX-License-Identifier: Apache-2.0
#include "model/gguf_file.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/limits.h"
#include "base/quote.h"
#include "model/checkpoint.h"

namespace inflight {
namespace {

template <typename Stored, typename Wide>
GgufScalar load_as(const std::byte* bytes) {
  Stored value{};
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<Wide>(value);
}

template <typename Index>
std::optional<size_t> find_index(const Index& index, std::string_view name) {
  const auto found = index.find(name);
  if (found == index.end()) return {};
  return found->second;
}

// One value as the type that a caller expects of it.
class Lookup {
 public:
  Lookup(const std::string& path, const GgufValue& value) : path_(path), value_(value) {}

  int64_t integer() const {
    require_scalar("an integer");
    return integer_at(value_.type, value_.bytes.data());
  }

  double number() const {
    require_scalar("a number");
    return number_at(value_.type, value_.bytes.data());
  }

  bool boolean() const {
    if (value_.type != GgufValueType::Bool) wrong_type("a bool");
    return boolean_at(value_.type, value_.bytes.data());
  }

  std::string_view string() const {
    if (value_.type != GgufValueType::String) wrong_type("a string");
    return {reinterpret_cast<const char*>(value_.bytes.data()), value_.bytes.size()};
  }

  std::vector<int64_t> integers() const { return elements("an array of integers", &Lookup::integer_at); }

  std::vector<double> numbers() const { return elements("an array of numbers", &Lookup::number_at); }

  std::vector<bool> booleans() const { return elements("an array of bools", &Lookup::boolean_at); }

  std::vector<std::string_view> strings() const {
    if (value_.type != GgufValueType::Array || value_.element_type != GgufValueType::String) {
      wrong_type("an array of strings");
    }
    return decode_strings(value_);
  }

 private:
  int64_t integer_at(GgufValueType type, const std::byte* bytes) const {
    const GgufScalar scalar = decode_scalar(type, bytes);
    if (const auto* number = std::get_if<int64_t>(&scalar)) return *number;
    if (const auto* number = std::get_if<uint64_t>(&scalar)) {
      if (*number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return static_cast<int64_t>(*number);
      }
      fail(ErrorCode::CorruptFile, "{}: metadata key {} is {}, allowed: below 2^63", path_, quote(value_.key), *number);
    }
    wrong_type("an integer");
  }

  bool boolean_at(GgufValueType type, const std::byte* bytes) const {
    if (type != GgufValueType::Bool) wrong_type("bools");
    return std::get<bool>(decode_scalar(type, bytes));
  }

  double number_at(GgufValueType type, const std::byte* bytes) const {
    const GgufScalar scalar = decode_scalar(type, bytes);
    if (std::holds_alternative<bool>(scalar)) wrong_type("a number");
    return std::visit([](auto number) { return static_cast<double>(number); }, scalar);
  }

  template <typename T>
  std::vector<T> elements(const char* expected, T (Lookup::*element_at)(GgufValueType, const std::byte*) const) const {
    const size_t stride = value_.type == GgufValueType::Array ? scalar_bytes(value_.element_type) : 0;
    if (stride == 0) wrong_type(expected);
    std::vector<T> all;
    all.reserve(static_cast<size_t>(value_.count));
    for (size_t at = 0; at < value_.bytes.size(); at += stride) {
      all.push_back((this->*element_at)(value_.element_type, value_.bytes.data() + at));
    }
    return all;
  }

  void require_scalar(const char* expected) const {
    if (scalar_bytes(value_.type) == 0) wrong_type(expected);
  }

  [[noreturn]] void wrong_type(const char* expected) const {
    fail(ErrorCode::CorruptFile, "{}: metadata key {} has type {}, expected {}", path_, quote(value_.key),
         value_.type_name(), expected);
  }

  const std::string& path_;
  const GgufValue& value_;
};

template <typename T>
std::optional<T> read_if_present(const GgufFile& file, std::string_view key, T (Lookup::*read)() const) {
  const GgufValue* const value = file.find_value(key);
  if (value == nullptr) return {};
  return (Lookup(file.path(), *value).*read)();
}

constexpr std::string_view kPartNumber = "split.no", kPartCount = "split.count", kTensorCount = "split.tensors.count";

// The files of a model whose first one is `path`, that among them; number: its own, from 0 on.
std::vector<std::string> part_paths(const std::string& path, int64_t number, int64_t count) {
  if (count > limits::kGgufPartsMax) {
    fail(ErrorCode::CorruptFile, "{}: is one of {} parts ({}), allowed: up to {}", path, count, kPartCount,
         limits::kGgufPartsMax);
  }
  const auto end_of_name = [count](int64_t part) { return fmt::format("-{:05}-of-{:05}.gguf", part + 1, count); };
  if (number != 0) {
    fail(ErrorCode::InvalidArgument,
         "{}: is part {} of a model in {} files: give the first one, whose name ends with {}", path, number + 1, count,
         end_of_name(0));
  }
  if (!path.ends_with(end_of_name(0))) {
    fail(ErrorCode::InvalidArgument,
         "{}: is the first of {} files, which are found by their names: its own has to end with {}", path, count,
         end_of_name(0));
  }
  std::vector<std::string> paths;
  for (int64_t part = 0; part < count; ++part) {
    paths.push_back(path.substr(0, path.size() - end_of_name(0).size()) + end_of_name(part));
  }
  return paths;
}

}  // namespace

GgufScalar decode_scalar(GgufValueType type, const std::byte* bytes) {
  INFLIGHT_CHECK(scalar_bytes(type) != 0);
  switch (type) {
    case GgufValueType::Uint8:
      return load_as<uint8_t, uint64_t>(bytes);
    case GgufValueType::Int8:
      return load_as<int8_t, int64_t>(bytes);
    case GgufValueType::Uint16:
      return load_as<uint16_t, uint64_t>(bytes);
    case GgufValueType::Int16:
      return load_as<int16_t, int64_t>(bytes);
    case GgufValueType::Uint32:
      return load_as<uint32_t, uint64_t>(bytes);
    case GgufValueType::Int32:
      return load_as<int32_t, int64_t>(bytes);
    case GgufValueType::Uint64:
      return load_as<uint64_t, uint64_t>(bytes);
    case GgufValueType::Int64:
      return load_as<int64_t, int64_t>(bytes);
    case GgufValueType::Float32:
      return load_as<float, double>(bytes);
    case GgufValueType::Float64:
      return load_as<double, double>(bytes);
    case GgufValueType::Bool:
      return *bytes != std::byte{0};
    case GgufValueType::String:
    case GgufValueType::Array:
      break;
  }
  return false;  // not reached
}

std::vector<std::string_view> decode_strings(const GgufValue& value) {
  INFLIGHT_CHECK(value.type == GgufValueType::Array && value.element_type == GgufValueType::String);
  std::vector<std::string_view> strings;
  strings.reserve(static_cast<size_t>(value.count));
  const auto* at = reinterpret_cast<const char*>(value.bytes.data());
  for (uint64_t i = 0; i < value.count; ++i) {
    uint64_t length = 0;
    std::memcpy(&length, at, sizeof length);
    strings.emplace_back(at + sizeof length, static_cast<size_t>(length));
    at += sizeof length + length;
  }
  return strings;
}

GgufFile::GgufFile(const std::string& path) : path_(path) {
  std::error_code absent;
  if (std::filesystem::is_directory(path, absent)) {
    open_checkpoint();
  } else {
    open_file();
  }
}

GgufFile::GgufFile(GgufFile&& other) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&& other) noexcept = default;
GgufFile::~GgufFile() = default;

void GgufFile::open_file() {
  parts_.emplace_back(path_);
  contents_ = parse_gguf(path_, parts_.front().bytes());
  if (const int64_t count = find_integer(kPartCount).value_or(1); count > 1) join_parts(count);
}

void GgufFile::open_checkpoint() {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
  auto checkpoint = std::make_unique<Checkpoint>(read_checkpoint(path_));
  contents_ = parse_gguf(path_, checkpoint->header);
  contents_.tensors = std::move(checkpoint->tensors);
  for (const GgufTensor& tensor : contents_.tensors) {
    contents_.tensors_by_name.emplace(tensor.name, contents_.tensors_by_name.size());
  }
  parts_ = std::move(checkpoint->files);
  checkpoint_ = std::move(checkpoint);
}

void GgufFile::join_parts(int64_t count) {
  const std::vector<std::string> paths = part_paths(path_, find_integer(kPartNumber).value_or(0), count);
  const std::optional<int64_t> tensor_count = find_integer(kTensorCount);
  for (size_t i = 1; i < paths.size(); ++i) {
    const MappedFile& part = parts_.emplace_back(paths[i]);
    const GgufContents contents = parse_gguf(paths[i], part.bytes());
    const auto stated = [&](std::string_view key) {
      const auto found = find_index(contents.metadata_by_key, key);
      return found ? Lookup(paths[i], contents.metadata[*found]).integer() : -1;
    };
    if (stated(kPartNumber) != static_cast<int64_t>(i) || stated(kPartCount) != count) {
      fail(ErrorCode::CorruptFile,
           "{}: says that it is number {} of {} parts (split.no, split.count), expected {} of {}", paths[i],
           stated(kPartNumber), stated(kPartCount), i, count);
    }
    for (const GgufTensor& tensor : contents.tensors) {
      if (!contents_.tensors_by_name.emplace(tensor.name, contents_.tensors.size()).second) {
        fail(ErrorCode::CorruptFile, "{}: tensor {} is in another part, too", paths[i], quote(tensor.name));
      }
      contents_.tensors.push_back(tensor);
    }
  }
  if (tensor_count && std::cmp_not_equal(*tensor_count, contents_.tensors.size())) {
    fail(ErrorCode::CorruptFile, "{}: its parts have {} tensors, expected {} ({})", path_, contents_.tensors.size(),
         *tensor_count, kTensorCount);
  }
  std::erase_if(contents_.metadata, [](const GgufValue& value) { return value.key.starts_with("split."); });
  contents_.metadata_by_key.clear();
  for (const GgufValue& value : contents_.metadata) {
    contents_.metadata_by_key.emplace(value.key, contents_.metadata_by_key.size());
  }
}

size_t GgufFile::file_bytes() const {
  size_t bytes = 0;
  for (const MappedFile& part : parts_) bytes += part.bytes().size();
  return bytes;
}

const GgufValue* GgufFile::find_value(std::string_view key) const {
  const auto index = find_index(contents_.metadata_by_key, key);
  return index ? &contents_.metadata[*index] : nullptr;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto index = find_index(contents_.tensors_by_name, name);
  return index ? &contents_.tensors[*index] : nullptr;
}

std::optional<int64_t> GgufFile::find_integer(std::string_view key) const {
  return read_if_present(*this, key, &Lookup::integer);
}

std::optional<double> GgufFile::find_number(std::string_view key) const {
  return read_if_present(*this, key, &Lookup::number);
}

std::optional<bool> GgufFile::find_bool(std::string_view key) const {
  return read_if_present(*this, key, &Lookup::boolean);
}

std::optional<std::string_view> GgufFile::find_string(std::string_view key) const {
  return read_if_present(*this, key, &Lookup::string);
}

std::optional<std::vector<int64_t>> GgufFile::find_integers(std::string_view key) const {
  return read_if_present(*this, key, &Lookup::integers);
}

std::optional<std::vector<double>> GgufFile::find_numbers(std::string_view key) const {
  return read_if_present(*this, key, &Lookup::numbers);
}

std::optional<std::vector<bool>> GgufFile::find_bools(std::string_view key) const {
  return read_if_present(*this, key, &Lookup::booleans);
}

std::optional<std::vector<std::string_view>> GgufFile::find_strings(std::string_view key) const {
  return read_if_present(*this, key, &Lookup::strings);
}

}  // namespace inflight
