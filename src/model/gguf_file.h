// SPDX-License-Identifier: Apache-2.0
// A GGUF file, mapped read-only and checked as a whole when it is opened: metadata by key, tensors by name. A model in
// several files (llama-gguf-split) is opened by its first one, NAME-00001-of-00003.gguf, and is as if it were one file:
// the others lie beside it, with the tensors that they have; the metadata is the first one's, without its split.* keys.
// A folder that transformers saved is taken for the file that would be made of it (checkpoint.h).   THREAD: immutable
// once open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/gguf_parser.h"
#include "model/mapped_file.h"

namespace inflight {

struct Checkpoint;

// LIFETIME: all views point into the mapping; they live as long as the file object and survive its
// move.
class GgufFile {
 public:
  // ERRORS: NotFound, Io, CorruptFile, Unsupported; one line that names the file, the thing, what
  //         was found and what is allowed.
  // COST:   O(header); tensor data is not read.
  explicit GgufFile(const std::string& path);
  GgufFile(GgufFile&& other) noexcept;
  GgufFile& operator=(GgufFile&& other) noexcept;
  ~GgufFile();

  [[nodiscard]] const std::string& path() const { return path_; }
  // The files that tensors lie in, in order.
  [[nodiscard]] std::span<const MappedFile> parts() const { return parts_; }
  [[nodiscard]] bool is_checkpoint() const { return checkpoint_ != nullptr; }  // not GGUF, but a folder
  [[nodiscard]] uint32_t version() const { return contents_.version; }
  [[nodiscard]] uint64_t alignment() const { return contents_.alignment; }
  [[nodiscard]] size_t file_bytes() const;  // of all parts
  [[nodiscard]] std::span<const GgufValue> metadata() const { return contents_.metadata; }
  [[nodiscard]] std::span<const GgufTensor> tensors() const { return contents_.tensors; }

  [[nodiscard]] const GgufValue* find_value(std::string_view key) const;     // null: absent
  [[nodiscard]] const GgufTensor* find_tensor(std::string_view name) const;  // null: absent

  // The value of a key, or nothing where the file does not have it.
  // ERRORS: CorruptFile when it is of another kind: "key 'x' is a string, expected an integer".
  [[nodiscard]] std::optional<int64_t> find_integer(std::string_view key) const;
  [[nodiscard]] std::optional<double> find_number(std::string_view key) const;  // float or integer
  [[nodiscard]] std::optional<bool> find_bool(std::string_view key) const;
  [[nodiscard]] std::optional<std::string_view> find_string(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<int64_t>> find_integers(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<double>> find_numbers(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<bool>> find_bools(std::string_view key) const;
  [[nodiscard]] std::optional<std::vector<std::string_view>> find_strings(std::string_view key) const;

 private:
  void open_file();
  void join_parts(int64_t count);
  void open_checkpoint();

  std::string path_;
  std::vector<MappedFile> parts_;
  std::unique_ptr<const Checkpoint> checkpoint_;  // what is not in the files of a folder; null: a file
  GgufContents contents_;
};

// One scalar, widened.
// REQUIRES: type is neither String nor Array; `bytes` holds scalar_bytes(type) of it.
using GgufScalar = std::variant<bool, int64_t, uint64_t, double>;
[[nodiscard]] GgufScalar decode_scalar(GgufValueType type, const std::byte* bytes);

// The elements of an array of strings.  REQUIRES: value.element_type is String.
[[nodiscard]] std::vector<std::string_view> decode_strings(const GgufValue& value);

}  // namespace inflight
