// SPDX-License-Identifier: Apache-2.0
#include "model/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/bounded_json.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/quote.h"

namespace inflight {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::pair<std::string_view, uint64_t>, 13> kWidths = {{{"F64", 8},
                                                                            {"F32", 4},
                                                                            {"F16", 2},
                                                                            {"BF16", 2},
                                                                            {"I64", 8},
                                                                            {"I32", 4},
                                                                            {"I16", 2},
                                                                            {"I8", 1},
                                                                            {"U64", 8},
                                                                            {"U32", 4},
                                                                            {"U16", 2},
                                                                            {"U8", 1},
                                                                            {"BOOL", 1}}};

class Reader {
 public:
  Reader(const std::string& path, std::span<const std::byte> file) : path_(path), file_(file) {}

  std::vector<SafeTensor> read() {
    uint64_t length = 0;
    if (file_.size() < sizeof length) corrupt("is no safetensors file: it has {} bytes", file_.size());
    std::memcpy(&length, file_.data(), sizeof length);
    const uint64_t most = std::min<uint64_t>(file_.size() - sizeof length, limits::kSafetensorsHeaderBytesMax);
    if (length > most) corrupt("is no safetensors file: its header has {} bytes, allowed: up to {}", length, most);
    const auto* const text = reinterpret_cast<const char*>(file_.data() + sizeof length);
    const Json header = parse_large_json({text, static_cast<size_t>(length)}, path_);
    if (!header.is_object()) corrupt("its header is no JSON object");
    data_ = file_.subspan(sizeof length + static_cast<size_t>(length));
    std::vector<SafeTensor> tensors;
    for (const auto& [name, entry] : header.items()) {
      if (name != "__metadata__") tensors.push_back(read_tensor(name, entry));
    }
    return tensors;
  }

 private:
  template <typename... Args>
  [[noreturn]] void corrupt(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorCode::CorruptFile, "{}: {}", path_, fmt::format(format, std::forward<Args>(args)...));
  }

  // Whole numbers from 0 on.
  std::vector<int64_t> numbers(const std::string& name, const Json& entry, const char* key) const {
    std::vector<int64_t> result;
    const auto list = entry.is_object() ? entry.find(key) : entry.end();
    if (!entry.is_object() || list == entry.end() || !list->is_array()) {
      corrupt("tensor {}: {} is missing or no list", quote(name), key);
    }
    for (const Json& number : *list) {
      constexpr uint64_t kMost = uint64_t{1} << 62;
      if (!number.is_number_unsigned() || number.get<uint64_t>() > kMost) {
        corrupt("tensor {}: {} has {}, allowed: whole numbers from 0 to 2^62", quote(name), key, number.dump());
      }
      result.push_back(number.get<int64_t>());
    }
    return result;
  }

  SafeTensor read_tensor(const std::string& name, const Json& entry) const {
    SafeTensor tensor{.name = name, .type = {}, .shape = numbers(name, entry, "shape"), .bytes = {}};
    const std::vector<int64_t> offsets = numbers(name, entry, "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1] || std::cmp_greater(offsets[1], data_.size())) {
      corrupt("tensor {}: data_offsets are [{}], allowed: a begin and an end within {} bytes of data", quote(name),
              fmt::join(offsets, ", "), data_.size());
    }
    const auto begin = static_cast<size_t>(offsets[0]);
    tensor.bytes = data_.subspan(begin, static_cast<size_t>(offsets[1]) - begin);
    if (const auto type = entry.find("dtype"); type != entry.end() && type->is_string()) {
      tensor.type = type->get<std::string>();
    } else {
      corrupt("tensor {}: dtype is missing or no text", quote(name));
    }
    check_size(tensor);
    return tensor;
  }

  void check_size(const SafeTensor& tensor) const {
    for (const auto& [type, width] : kWidths) {
      if (type != tensor.type) continue;
      uint64_t bytes = width;
      bool fits = true;
      for (const int64_t size : tensor.shape) {
        fits = fits && !__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes);
      }
      if (fits && bytes == tensor.bytes.size()) return;
      corrupt("tensor {} has {} bytes, which is not what {} of shape [{}] has", quote(tensor.name), tensor.bytes.size(),
              tensor.type, fmt::join(tensor.shape, ", "));
    }
  }

  const std::string& path_;
  std::span<const std::byte> file_, data_;
};

}  // namespace

std::vector<SafeTensor> parse_safetensors(const std::string& path, std::span<const std::byte> file) {
  return Reader(path, file).read();
}

}  // namespace inflight
