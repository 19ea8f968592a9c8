// SPDX-License-Identifier: Apache-2.0
#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace inflight {
namespace {

struct Descriptor {
  int value = -1;
  explicit Descriptor(int descriptor) : value(descriptor) {}
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

[[noreturn]] void fail_io(const std::string& path, const char* action, int error) {
  fail(error == ENOENT ? ErrorCode::NotFound : ErrorCode::Io, "{}: cannot {}: {}", path, action,
       std::generic_category().message(error));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.value < 0) fail_io(path, "open", errno);
  struct stat status{};
  if (::fstat(file.value, &status) != 0) fail_io(path, "examine", errno);
  if (!S_ISREG(status.st_mode)) {
    fail(ErrorCode::Io, "{}: is {}, expected a regular file", path,
         S_ISDIR(status.st_mode) ? "a directory" : "a device, pipe or socket");
  }
  if (status.st_size == 0) fail(ErrorCode::CorruptFile, "{}: is empty", path);
  const auto size = static_cast<size_t>(status.st_size);
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (address == MAP_FAILED) fail_io(path, "map", errno);
  bytes_ = {static_cast<const std::byte*>(address), size};
  std::error_code unknown;
  identity_ = {.path = std::filesystem::canonical(path, unknown).string(),
               .inode = status.st_ino,
               .bytes = size,
               .changed_ns = status.st_ctim.tv_sec * int64_t{1'000'000'000} + status.st_ctim.tv_nsec,
               .mode = status.st_mode & 0777U};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void release_pages(std::span<const std::byte> bytes) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  const uintptr_t first = (begin + page - 1) / page * page, end = (begin + bytes.size()) / page * page;
  if (first >= end) return;
  auto* const address = const_cast<std::byte*>(bytes.data()) + (first - begin);
  static_cast<void>(::madvise(address, end - first, MADV_DONTNEED));  // advice: nothing depends on it
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), identity_(std::move(other.identity_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(identity_, other.identity_);
  return *this;
}

}  // namespace inflight
