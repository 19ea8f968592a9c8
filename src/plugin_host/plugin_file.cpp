// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/plugin_file.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sha2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "inflight/plugin.h"
#include "plugin_host/plugin_notes.h"
#include "plugin_host/plugins_lock.h"

namespace inflight {
namespace {

constexpr off_t kFileBytesMax = off_t{256} << 20;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }
  // Left to the caller to close.
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

std::string path_of(int descriptor) { return fmt::format("/proc/self/fd/{}", descriptor); }

std::vector<std::byte> read_whole(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info{};
  if (file.number() < 0 || ::fstat(file.number(), &info) != 0) {
    fail(errno == ENOENT ? ErrorCode::NotFound : ErrorCode::Io, "{}: {}", path, std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) fail(ErrorCode::NotFound, "{}: no such plugin file", path);
  if (info.st_size > kFileBytesMax) {
    fail(ErrorCode::Plugin, "{}: has {} bytes, allowed: {}", path, info.st_size, kFileBytesMax);
  }
  std::vector<std::byte> bytes(static_cast<size_t>(info.st_size));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(file.number(), bytes.data() + done, bytes.size() - done);
    if (got < 0) fail(ErrorCode::Io, "{}: {}", path, std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

std::string sha256_of(const std::vector<std::byte>& bytes) {
  std::array<char, SHA256_DIGEST_STRING_LENGTH> text{};
  ::SHA256Data(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size(), text.data());
  return text.data();
}

// A file in memory with these bytes and no name that anybody else could open.
void write_whole(const Descriptor& file, const std::vector<std::byte>& bytes, const std::string& path) {
  if (file.number() < 0) fail(ErrorCode::Plugin, "{}: no memory file to load it from: {}", path, std::strerror(errno));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t put = ::write(file.number(), bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail(ErrorCode::Plugin, "{}: cannot be copied to memory: {}", path, std::strerror(errno));
    done += static_cast<size_t>(put);
  }
}

// dlerror() with the path that the user knows.
std::string load_error(const std::string& loaded_as, const std::string& path) {
  const char* const text = ::dlerror();
  std::string message = text == nullptr ? "unknown error" : text;
  for (size_t at = message.find(loaded_as); at != std::string::npos; at = message.find(loaded_as)) {
    message.replace(at, loaded_as.size(), path);
  }
  return message.starts_with(path) ? message : path + ": " + message;
}

struct Search {
  uintptr_t address;
  CodeRange found;
};

int visit_object(dl_phdr_info* object, size_t, void* search_pointer) {
  auto& search = *static_cast<Search*>(search_pointer);
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    const uintptr_t begin = object->dlpi_addr + segment.p_vaddr, end = begin + segment.p_memsz;
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_X) == 0) continue;
    if (CodeRange{begin, end}.contains(search.address)) {
      search.found = {begin, end};
      return 1;
    }
  }
  return 0;
}

CodeRange code_around(const void* symbol) {
  Search search{reinterpret_cast<uintptr_t>(symbol), {}};
  ::dl_iterate_phdr(visit_object, &search);
  return search.found;
}

}  // namespace

void require_trusted_file(const std::string& file, const std::string& what) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::canonical(file, error);
  if (error) fail(ErrorCode::Plugin, "{} {}: {}", what, file, error.message());
  for (std::filesystem::path path = absolute;; path = path.parent_path()) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) fail(ErrorCode::Plugin, "{}: {}", path.string(), std::strerror(errno));
    if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
      fail(ErrorCode::Plugin, "{} {} is not trusted: {} belongs to user {}, allowed: root or the user who runs this",
           what, file, path.string(), info.st_uid);
    }
    // In a sticky directory (as /tmp) only the owner of an entry may replace it.
    const bool open = (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    const bool sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) != 0;
    if (open && !sticky) {
      fail(ErrorCode::Plugin, "{} {} is not trusted: {} can be written by others (mode {:o}), allowed: chmod go-w",
           what, file, path.string(), info.st_mode & 07777);
    }
    if (path == path.root_path()) return;
  }
}

std::string sha256_of_file(const std::string& path) { return sha256_of(read_whole(path)); }

void require_plugin_file(const std::string& path) {
  using enum std::filesystem::file_type;
  std::error_code error;
  const std::filesystem::file_type type = std::filesystem::status(path, error).type();
  if (type == not_found) fail(ErrorCode::NotFound, "{}: no such plugin file", path);
  if (type == none) fail(ErrorCode::Plugin, "{}: cannot be looked at: {}", path, error.message());
  if (type == directory) fail(ErrorCode::Plugin, "{}: is a folder, allowed: a plugin file", path);
  if (!path.ends_with(kPluginSuffix)) fail(ErrorCode::Plugin, "{}: plugin files are named *{}", path, kPluginSuffix);
  if (type != regular) fail(ErrorCode::NotFound, "{}: no such plugin file", path);
}

LoadedFile load_plugin_file(const std::string& path) {
  require_plugin_file(path);
  require_trusted_file(path, "plugin");
  const std::vector<std::byte> bytes = read_whole(path);
  LoadedFile file;
  file.sha256 = sha256_of(bytes);
  Descriptor copy(::memfd_create("inflight-plugin", MFD_CLOEXEC));
  write_whole(copy, bytes, path);
  const std::string loaded_as = path_of(copy.number());
  require_locked(read_plugins_lock(), path, file.sha256, read_plugin_notes(loaded_as, path));
  file.handle = ::dlopen(loaded_as.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (file.handle == nullptr) fail(ErrorCode::Plugin, "cannot be loaded: {}", load_error(loaded_as, path));
  file.descriptor = copy.release();
  file.query = ::dlsym(file.handle, INFLIGHT_PLUGIN_ENTRY_SYMBOL);
  if (file.query == nullptr) {
    unload_plugin_file(file);
    fail(ErrorCode::Plugin, "{}: does not export {} (a plugin for ABI major {})", path, INFLIGHT_PLUGIN_ENTRY_SYMBOL,
         INFLIGHT_PLUGIN_ABI_MAJOR);
  }
  file.code = code_around(file.query);
  return file;
}

void unload_plugin_file(const LoadedFile& file) {
  ::dlclose(file.handle);
  // An object that cannot be unloaded (unique symbols, say) keeps its name: the next file would be taken for it.
  if (void* const still_there = ::dlopen(path_of(file.descriptor).c_str(), RTLD_LAZY | RTLD_NOLOAD)) {
    ::dlclose(still_there);
  } else {
    ::close(file.descriptor);
  }
}

}  // namespace inflight
