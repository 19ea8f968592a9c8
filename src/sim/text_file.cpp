// SPDX-License-Identifier: Apache-2.0
#include "sim/text_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/limits.h"

namespace inflight {

std::string read_text_file(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  if (!file) fail(errno == ENOENT ? ErrorCode::NotFound : ErrorCode::Io, "{}: {}", path, std::strerror(errno));
  std::string text;
  constexpr size_t kChunk = size_t{1} << 20;
  for (size_t got = kChunk; got == kChunk;) {
    const size_t before = text.size();
    if (before > limits::kTraceBytesMax) {
      fail(ErrorCode::InvalidArgument, "{}: is larger than {} bytes, the most that is read", path,
           limits::kTraceBytesMax);
    }
    text.resize(before + kChunk);
    got = std::fread(text.data() + before, 1, kChunk, file.get());
    text.resize(before + got);
  }
  if (std::ferror(file.get()) != 0) fail(ErrorCode::Io, "{}: {}", path, std::strerror(errno));
  return text;
}

void write_text_file(const std::string& path, std::string_view text) {
  File file(std::fopen(path.c_str(), "wb"));
  if (!file) fail(ErrorCode::Io, "{}: {}", path, std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size();
  if (written && std::fclose(file.release()) == 0) return;
  const std::string reason = std::strerror(errno);
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) std::remove(path.c_str());
  fail(ErrorCode::Io, "{}: {}", path, reason);
}

}  // namespace inflight
