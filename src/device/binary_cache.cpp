// SPDX-License-Identifier: Apache-2.0
#include "device/binary_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "device/program.h"

namespace inflight {
namespace {

XXH64_hash_t hash_of(std::span<const std::byte> content) { return XXH3_64bits(content.data(), content.size()); }

// Does not wait for who writes a pipe of that name.
File open_to_read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  return File(descriptor < 0 ? nullptr : ::fdopen(descriptor, "rb"));
}

void warn_once(std::atomic<bool>& warned, const std::string& message) {
  if (!warned.exchange(true)) log(LogLevel::Warning, "{}", message);
}

}  // namespace

std::string cache_folder() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    return std::string(value != nullptr ? value : "");
  };
  if (std::string own = variable("INFLIGHT_CACHE_DIR"); !own.empty()) return own;
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/inflight";
  if (const std::string home = variable("HOME"); !home.empty()) return home + "/.cache/inflight";
  return "";
}

std::optional<std::vector<std::byte>> BinaryCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const File file = open_to_read(path_of(key));
  if (file == nullptr) return std::nullopt;
  struct stat status{};  // of what was opened: another process may put a new file in its place
  const bool known = ::fstat(::fileno(file.get()), &status) == 0 && S_ISREG(status.st_mode);
  const auto bytes = static_cast<uintmax_t>(status.st_size);
  XXH64_hash_t hash = 0;
  if (known && bytes > sizeof(hash) && bytes <= limits::kCacheEntryBytesMax &&
      std::fread(&hash, sizeof(hash), 1, file.get()) == 1) {
    std::vector<std::byte> content(bytes - sizeof(hash));
    if (std::fread(content.data(), 1, content.size(), file.get()) == content.size() && hash_of(content) == hash) {
      return content;
    }
  }
  warn_damaged(key);
  return std::nullopt;
}

void BinaryCache::warn_damaged(const std::string& key) const {
  static std::atomic<bool> warned = false;
  warn_once(warned, path_of(key) + " is damaged or of another driver; building anew");
}

void BinaryCache::store(const std::string& key, std::span<const std::byte> content) const {
  static std::atomic<bool> warned = false;
  if (folder_.empty()) {
    return warn_once(
        warned,
        "no cache folder, since INFLIGHT_CACHE_DIR, XDG_CACHE_HOME and HOME are unset: kernels are compiled "
        "and tried at each start");
  }
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::string partial = unused_name(path_of(key));
  errno = 0;
  bool good = false;
  if (File file(std::fopen(partial.c_str(), "wbxe")); file != nullptr) {
    const XXH64_hash_t hash = hash_of(content);
    good = std::fwrite(&hash, sizeof(hash), 1, file.get()) == 1 &&
           std::fwrite(content.data(), 1, content.size(), file.get()) == content.size();
    good = std::fclose(file.release()) == 0 && good;
  }
  if (!good && !error) error.assign(errno, std::generic_category());
  if (good) std::filesystem::rename(partial, path_of(key), error);
  if (good && !error) return;
  std::error_code ignored;
  std::filesystem::remove(partial, ignored);
  warn_once(warned, "cannot write to the cache folder " + folder_ + ": " + error.message() +
                        "; compiled programs are not kept");
}

}  // namespace inflight
