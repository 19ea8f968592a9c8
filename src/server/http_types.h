// SPDX-License-Identifier: Apache-2.0
// An HTTP request and an answer as plain values, and the limits on them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace inflight::server {

struct Header {
  std::string name;
  std::string value;
};

// The memory for request bodies, which all connections share.
// THREAD: one takes, any give.
class BodyMemory {
 public:
  explicit BodyMemory(size_t bytes) : left_(bytes) {}
  // False: there is not so much left.
  [[nodiscard]] bool take(size_t bytes) {
    if (bytes > left_) return false;
    left_ -= bytes;
    return true;
  }
  void give(size_t bytes) { left_ += bytes; }

 private:
  std::atomic<size_t> left_;
};

// What one body has of it; given back with the object.
class BodyShare {
 public:
  explicit BodyShare(std::shared_ptr<BodyMemory> memory) : memory_(std::move(memory)) {}
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;
  ~BodyShare() { memory_->give(bytes_); }
  // False: there is not so much left.
  [[nodiscard]] bool grow_to(size_t bytes) {
    if (bytes <= bytes_) return true;
    if (!memory_->take(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }

 private:
  std::shared_ptr<BodyMemory> memory_;
  size_t bytes_ = 0;
};

struct HttpRequest {
  std::string id;  // of this process's requests; answers have it as X-Request-Id
  std::string method;
  std::string path;   // without the query
  std::string query;  // after '?'
  std::vector<Header> headers;
  std::string body;
  std::shared_ptr<BodyShare> body_share;  // of the connection too: until the body is freed and the answer complete

  // The first header of that name, upper and lower case alike; "" when absent.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::vector<Header> headers{};
};

// What a client may send and how long it may take. Beyond a limit it gets a 4xx and the connection ends.
struct HttpLimits {
  size_t header_bytes = 16 << 10;
  size_t header_count = 100;
  size_t body_bytes = 16 << 20;
  size_t bodies_bytes = 256 << 20;  // of all connections together
  int32_t connections = 2048;
  std::chrono::milliseconds header_time{10'000};  // from a request's first byte to the end of its header
  std::chrono::milliseconds body_time{30'000};    // for the body, and a second more for every 64 KiB of it
  std::chrono::milliseconds idle_time{75'000};    // between two requests
  std::chrono::milliseconds write_time{60'000};   // a client that takes no byte for so long is gone
};

// For a line of a log: bytes that are no printable ASCII as \xNN, at most `most` of `text`'s with "..." for the rest;
// "-" for nothing.
[[nodiscard]] std::string printable(std::string_view text, size_t most);

// "Not Found"; "Unknown" for a number without a phrase.
[[nodiscard]] std::string_view reason_phrase(int status);

// Upper and lower case alike (ASCII).
[[nodiscard]] bool same_word(std::string_view left, std::string_view right);

// A piece of a path with its %XX as bytes; nothing when one of them is no hexadecimal number.
[[nodiscard]] std::optional<std::string> percent_decoded(std::string_view text);

// Whether a host, as a URL has it (with a port or without), is this machine by its very name: localhost, 127.x.x.x,
// [::1].
[[nodiscard]] bool is_loopback(std::string_view host);

}  // namespace inflight::server
