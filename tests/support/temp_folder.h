// SPDX-License-Identifier: Apache-2.0
// A folder for one test's files, removed with everything in it at the end.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace inflight::test {

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // Path of a file in it, which need not exist.
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and returns its path.
  std::string write(const std::string& name, std::span<const std::byte> bytes) const;
  std::string write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

// The bytes of a file; throws when it cannot be read.
[[nodiscard]] std::string read_file(const std::string& path);

}  // namespace inflight::test
