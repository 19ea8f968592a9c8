// SPDX-License-Identifier: Apache-2.0
// A server that the HTTP layer's tests ask, and how they ask it.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "raw_client.h"
#include "server/http_server.h"

namespace inflight::server::test {

// Answers with what it got: "METHOD path?query [body]". /late answers from a worker, /held when release() was called,
// /stream in pieces, /endless never ends, /big is larger than any socket buffer, /throws/NAME has a producer that
// throws. /refused is refused when its header is there.
class EchoServer {
 public:
  explicit EchoServer(HttpLimits limits = {}, int32_t worker_count = 1)
      : server_({.host = "127.0.0.1", .port = 0, .worker_count = worker_count, .limits = limits},
                [this](Exchange& exchange, HttpRequest request) { answer(exchange, std::move(request)); },
                {.add_headers = [](Exchange& exchange,
                                   const HttpRequest& head) { exchange.add_header({"X-Method", head.method}); },
                 .refusal = refusal,
                 .ended = [this](const HttpRecord& record) { records_.push_back(record); }}),
        thread_([this] { server_.run(); }) {}
  ~EchoServer() {
    server_.stop();
    thread_.join();
  }
  EchoServer(const EchoServer&) = delete;
  EchoServer& operator=(const EchoServer&) = delete;

  [[nodiscard]] uint16_t port() const {
    const std::string address = server_.address();
    return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
  HttpServer& http() { return server_; }
  HttpStats stats() {
    std::promise<HttpStats> promise;
    server_.post([&] { promise.set_value(server_.stats()); });
    return promise.get_future().get();
  }
  std::vector<HttpRecord> records() {
    std::promise<std::vector<HttpRecord>> promise;
    server_.post([&] { promise.set_value(records_); });
    return promise.get_future().get();
  }
  // Fulfilled when the producer of /endless is destroyed.
  std::promise<void> gone;
  // How many of /held a worker has begun with.
  [[nodiscard]] int held() const { return held_; }
  void release() { released_.set_value(); }

 private:
  // Counts for ever, but only as fast as the client reads.
  class Endless final : public Producer {
   public:
    Endless(Exchange& exchange, std::promise<void>& gone) : exchange_(exchange), gone_(gone) {}
    ~Endless() override { gone_.set_value(); }
    void proceed() override { exchange_.write(std::string(1000, 'x')); }
    void fail(const ApiError& error) override { exchange_.respond(error.response(exchange_.path())); }

   private:
    Exchange& exchange_;
    std::promise<void>& gone_;
  };

  class Throwing final : public Producer {
   public:
    Throwing(Exchange& exchange, std::string where) : exchange_(exchange), where_(std::move(where)) {}
    void proceed() override {
      if (where_ == "first" || std::exchange(begun_, true)) throw ApiError(503, "it broke", "", "broken");
      exchange_.begin_stream("text/plain");
      exchange_.write("begun,");
    }
    void on_tick(std::chrono::steady_clock::time_point) override {
      if (where_ == "tick") throw std::runtime_error("it broke");
    }
    void fail(const ApiError& error) override {
      if (!begun_) return exchange_.respond(error.response(exchange_.path()));
      exchange_.write("failed");
      exchange_.end_stream();
    }

   private:
    Exchange& exchange_;
    const std::string where_;
    bool begun_ = false;
  };

  static std::optional<HttpResponse> refusal(Exchange& exchange, const HttpRequest& head) {
    if (head.path != "/refused") return std::nullopt;
    const ApiError error(401, "who are you?");
    exchange.ended_by(error);
    return error.response(exchange.path());
  }

  void answer(Exchange& exchange, HttpRequest request) {
    exchange.add_header({"X-Test", "yes"});
    const size_t bytes = request.body.size();
    const std::string text = request.method + " " + request.path + "?" + request.query + " [" + request.body + "]";
    if (request.path == "/late") {
      server_.work(exchange.id(), bytes, [this, id = exchange.id(), text] {
        server_.post([this, id, text] {
          if (Exchange* const open = server_.find(id)) open->respond({.body = text});
        });
      });
    } else if (request.path == "/held") {
      server_.work(exchange.id(), bytes, [this, id = exchange.id(), request = std::move(request), text] {
        ++held_;
        held_until_.wait();
        server_.post([this, id, text] {
          if (Exchange* const open = server_.find(id)) open->respond({.body = text});
        });
      });
    } else if (request.path.starts_with("/throws/")) {
      const std::string where = request.path.substr(8);
      exchange.set_producer(std::make_unique<Throwing>(exchange, where));
      if (where != "tick") exchange.proceed();
    } else if (request.path == "/stream") {
      exchange.begin_stream("text/event-stream");
      exchange.write("data: one\n\n");
      exchange.write("data: two\n\n");
      exchange.end_stream();
    } else if (request.path == "/endless") {
      exchange.begin_stream("text/event-stream");
      exchange.set_producer(std::make_unique<Endless>(exchange, gone));
      exchange.write("begin");
    } else if (request.path == "/big") {
      exchange.respond({.body = std::string(8 << 20, 'b')});
    } else if (request.path != "/never") {
      exchange.respond({.body = text});
    }
  }

  std::atomic<int> held_ = 0;
  std::promise<void> released_;
  std::shared_future<void> held_until_ = released_.get_future();
  std::vector<HttpRecord> records_;
  HttpServer server_;
  std::thread thread_;
};

// One request on its own connection, up to the server's close.
inline std::string ask(EchoServer& server, const std::string& bytes) {
  RawClient client(server.port());
  client.send(bytes);
  return client.read_all();
}

inline std::string get(const std::string& path, const std::string& more = "Connection: close\r\n") {
  return "GET " + path + " HTTP/1.1\r\nHost: here\r\n" + more + "\r\n";
}

inline int status_of(const std::string& answer) { return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3)); }

}  // namespace inflight::server::test
