// SPDX-License-Identifier: Apache-2.0
// Small files by key in a folder that anybody may damage, delete or make read-only at any time: never an error, one
// warning a kind and process. Each file begins with a hash of the rest, so that damage is seen.
// THREAD: any; also several processes at once: a file appears whole by renaming.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace inflight {

class BinaryCache {
 public:
  // An empty folder name: nothing is found or stored.
  explicit BinaryCache(std::string folder) : folder_(std::move(folder)) {}

  [[nodiscard]] std::optional<std::vector<std::byte>> find(const std::string& key) const;
  void store(const std::string& key, std::span<const std::byte> content) const;
  void warn_damaged(const std::string& key) const;

 private:
  [[nodiscard]] std::string path_of(const std::string& key) const { return folder_ + "/" + key; }
  std::string folder_;
};

}  // namespace inflight
