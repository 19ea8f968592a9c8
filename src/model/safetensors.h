// SPDX-License-Identifier: Apache-2.0
// The tensors of a .safetensors file: 8 bytes with the length of a JSON object, that object, then the numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace inflight {

struct SafeTensor {
  std::string name;
  std::string type;            // "BF16", "F32", ...
  std::vector<int64_t> shape;  // numbers of a row last; each at least 0
  std::span<const std::byte> bytes;
};

// `path` is for messages only. Types with a known width have the bytes that their shape needs; those without are taken
// as they are.
// ERRORS:   CorruptFile; one line that names the file, the tensor, what was found and what is allowed.
// COST:     O(header); numbers are not read.   LIFETIME: views point into `file`.
[[nodiscard]] std::vector<SafeTensor> parse_safetensors(const std::string& path, std::span<const std::byte> file);

}  // namespace inflight
