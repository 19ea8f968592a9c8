// SPDX-License-Identifier: Apache-2.0
#include "model/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"

namespace inflight {

OutputFile::OutputFile(std::string path, size_t bytes, uint32_t mode)
    : path_(std::move(path)), partial_path_(unused_name(path_) + ".partial"), bytes_(bytes) {
  struct stat status{};
  if (::stat(path_.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    fail(ErrorCode::InvalidArgument, "{}: is {}, cannot be replaced by a file", path_,
         S_ISDIR(status.st_mode) ? "a directory" : "a device, pipe or socket");
  }
  open_partial(mode);
  // Not every file system can reserve; those that can say now that there is no room.
  if (::fallocate(descriptor_, 0, 0, static_cast<off_t>(bytes_)) != 0 && (errno == ENOSPC || errno == EFBIG)) {
    const int error = errno;
    remove_partial();
    fail_write(error);
  }
}

OutputFile::~OutputFile() { remove_partial(); }

void OutputFile::open_partial(uint32_t mode) {
#if defined(O_TMPFILE)
  if (::access("/proc/self/fd", X_OK) == 0) {  // by which commit() gives it a name
    const std::string parent = std::filesystem::path(path_).parent_path().string();
    descriptor_ = ::open(parent.empty() ? "." : parent.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
    if (descriptor_ >= 0) return;
  }
#endif
  descriptor_ = ::open(partial_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (descriptor_ < 0) fail_io("cannot create", errno);
  named_ = true;
}

void OutputFile::remove_partial() noexcept {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  if (named_) ::unlink(partial_path_.c_str());
  descriptor_ = -1;
}

void OutputFile::fail_io(const std::string& what, int error) const {
  fail(ErrorCode::Io, "{}: {}: {}", path_, what, std::generic_category().message(error));
}

void OutputFile::fail_write(int error) const { fail_io(fmt::format("cannot write {} bytes", bytes_), error); }

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write(errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void OutputFile::commit() {
  if (::fsync(descriptor_) != 0) fail_write(errno);
  if (!named_) {
    const std::string nameless = fmt::format("/proc/self/fd/{}", descriptor_);
    if (::linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, partial_path_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      fail_io("cannot name", errno);
    }
    named_ = true;
  }
  if (std::rename(partial_path_.c_str(), path_.c_str()) != 0) fail_io("cannot rename", errno);
  ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace inflight
