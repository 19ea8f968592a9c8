// SPDX-License-Identifier: Apache-2.0
// A TCP client that sends exactly the bytes it is told to, for requests that no proper client would make.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace inflight::server::test {

class RawClient {
 public:
  explicit RawClient(uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot connect");
    }
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { close(); }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server has closed: the answer tells why
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void end_sending() { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  // Everything up to the server's end of the connection.
  std::string read_all() {
    while (receive()) {
    }
    return std::exchange(received_, "");
  }
  // Up to and with `mark`.
  std::string read_until(std::string_view mark) {
    size_t at = 0;
    while ((at = received_.find(mark)) == std::string::npos) {
      if (!receive())
        throw std::runtime_error("the connection ended before '" + std::string(mark) + "'; got: " + received_);
    }
    std::string text = received_.substr(0, at + mark.size());
    received_.erase(0, at + mark.size());
    return text;
  }

 private:
  bool receive() {
    pollfd ready{socket_, POLLIN, 0};
    if (::poll(&ready, 1, 20'000) <= 0) throw std::runtime_error("no answer; got: " + received_);
    char bytes[4096];
    const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
    if (count <= 0) return false;
    received_.append(bytes, static_cast<size_t>(count));
    return true;
  }

  int socket_;
  std::string received_;
};

}  // namespace inflight::server::test
