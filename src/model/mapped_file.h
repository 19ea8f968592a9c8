// SPDX-License-Identifier: Apache-2.0
// A whole file in memory, read-only, without copying it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace inflight {

// Which file it was, and with which contents: whoever writes, replaces, moves it or changes its rights
// changes one of these.
struct FileIdentity {
  std::string path;  // absolute, links followed
  uint64_t inode = 0;
  uint64_t bytes = 0;
  int64_t changed_ns = 0;  // ctime, which no program can set back
  uint32_t mode = 0600;    // access rights, as chmod's
};

class MappedFile {
 public:
  // ERRORS: NotFound; Io for what is no regular file or cannot be opened or mapped; CorruptFile for
  // an empty one.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  // LIFETIME: until this object is destroyed; its address survives a move. Whoever shortens the
  // file meanwhile takes the bytes away (the system then ends the process): replace model files by
  // renaming, as `inflight quantize` does.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  // Of when it was mapped.
  [[nodiscard]] const FileIdentity& identity() const { return identity_; }

 private:
  std::span<const std::byte> bytes_;
  FileIdentity identity_;
};

// Tells the system that these bytes of a mapped file are not needed soon: whole pages among them stop counting as this
// process's memory. Reading them again brings them back.   REQUIRES: they lie in a MappedFile.   THREAD: any.
void release_pages(std::span<const std::byte> bytes);

}  // namespace inflight
