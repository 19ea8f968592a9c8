// SPDX-License-Identifier: Apache-2.0
// A file that appears whole or not at all: written without a name, or beside its place where the file system knows no
// such files, then renamed. So a process that is killed leaves nothing, at most where it had to have a name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace inflight {

class OutputFile {
 public:
  // Reserves `bytes` on the disk, so that a full one is found before the work is done. mode: as open()'s.
  // ERRORS: InvalidArgument when `path` is there and no regular file; Io.
  OutputFile(std::string path, size_t bytes, uint32_t mode = 0666);
  // Removes what was written, unless it was committed.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // ERRORS: Io, naming the path and the system's reason.
  void write(std::span<const std::byte> bytes);
  // Makes the file durable and gives it its name, replacing what had it.
  // ERRORS: Io; then nothing was replaced.
  void commit();

 private:
  [[noreturn]] void fail_io(const std::string& what, int error) const;
  [[noreturn]] void fail_write(int error) const;
  void open_partial(uint32_t mode);
  void remove_partial() noexcept;

  std::string path_;
  std::string partial_path_;
  size_t bytes_ = 0;  // expected
  int descriptor_ = -1;
  bool named_ = false;  // partial_path_ is there
};

}  // namespace inflight
