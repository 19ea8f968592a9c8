// SPDX-License-Identifier: Apache-2.0
#include "support/temp_folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace inflight::test {

TempFolder::TempFolder() : path_((std::filesystem::temp_directory_path() / "inflight-test-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make folder " + path_);
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::write(const std::string& name, std::span<const std::byte> bytes) const {
  // A new file, not the old one emptied: ext4 writes that one to the disk when it is closed.
  std::filesystem::remove(file(name));
  std::ofstream out(file(name), std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + file(name));
  return file(name);
}

std::string TempFolder::write(const std::string& name, const std::string& text) const {
  return write(name, std::as_bytes(std::span(text)));
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace inflight::test
