// SPDX-License-Identifier: Apache-2.0
// Metadata of a GGUF file by which a model's shape is stated.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/quote.h"
#include "model/gguf_file.h"

namespace inflight {

// Of an architecture whose GGUF files have heads' numbers in pairs of neighbours: here the pairs are halves. A key of
// this project's, in the metadata that is made of a checkpoint; in no file.
inline constexpr const char* kHalfSplitKey = "rope.half_split";

// The keys "<architecture>.<name>" of one file.
class SpecKeys {
 public:
  SpecKeys(const GgufFile& file, std::string_view architecture) : file_(file), architecture_(architecture) {}

  [[nodiscard]] std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }

  // A count of at least `least`. Per-layer arrays of one repeated value are taken for that value.
  [[nodiscard]] std::optional<int32_t> find_count(std::string_view name, int32_t least = 1) const {
    const GgufValue* const value = file_.find_value(key(name));
    if (value == nullptr) return {};
    int64_t count = 0;
    if (value->type == GgufValueType::Array) {
      const auto counts = *file_.find_integers(key(name));
      if (counts.empty() || std::any_of(counts.begin(), counts.end(), [&](int64_t c) { return c != counts[0]; })) {
        fail(ErrorCode::Unsupported, "{}: metadata key {} differs from layer to layer; supported: one value for all",
             file_.path(), quote(key(name)));
      }
      count = counts[0];
    } else {
      count = *file_.find_integer(key(name));
    }
    if (count < least || count > std::numeric_limits<int32_t>::max()) {
      fail(ErrorCode::CorruptFile, "{}: metadata key {} is {}, allowed: {} to {}", file_.path(), quote(key(name)),
           count, least, std::numeric_limits<int32_t>::max());
    }
    return static_cast<int32_t>(count);
  }

  [[nodiscard]] int32_t count(std::string_view name) const { return present(find_count(name), name); }

  [[nodiscard]] std::optional<float> find_float(std::string_view name) const {
    const auto number = file_.find_number(key(name));
    if (!number) return {};
    return static_cast<float>(*number);
  }

  [[nodiscard]] float number(std::string_view name) const { return present(find_float(name), name); }

  // Of a key with an element a layer.
  void require_layers(std::string_view name, size_t elements, int32_t layers) const {
    if (std::cmp_greater_equal(elements, layers)) return;
    fail(ErrorCode::CorruptFile, "{}: metadata key {} has {} elements, the model {} layers", file_.path(),
         quote(key(name)), elements, layers);
  }

 private:
  template <typename T>
  T present(const std::optional<T>& value, std::string_view name) const {
    if (!value) {
      fail(ErrorCode::CorruptFile, "{}: metadata key {} is missing", file_.path(), quote(key(name)));
    }
    return *value;
  }

  const GgufFile& file_;
  std::string_view architecture_;
};

}  // namespace inflight
