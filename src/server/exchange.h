// SPDX-License-Identifier: Apache-2.0
// One request and its answer, as the API sees it: no sockets here.
// THREAD: everything on the server's network thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/api_error.h"
#include "server/http_types.h"

namespace inflight::server {

// What became of a request, for a log.
struct HttpRecord {
  std::string id, method, path;
  int status = 0;      // 0: the client left before there was one
  uint64_t bytes = 0;  // that were sent
  std::chrono::steady_clock::duration time{};
  std::optional<ApiError> error;  // that the answer is, or, in a stream, ended with
};

// Makes an answer bit by bit. Owned by its exchange: destroyed when the answer is complete or the client is gone. What
// its calls throw ends the answer with an error.
class Producer {
 public:
  Producer() = default;
  Producer(const Producer&) = delete;
  Producer& operator=(const Producer&) = delete;
  virtual ~Producer() = default;
  // What was written has been sent, or something new has come: go on.
  virtual void proceed() = 0;
  // The answer ends here, with an error. Does not throw.
  virtual void fail(const ApiError& error) = 0;
  // Several times a second.
  virtual void on_tick(std::chrono::steady_clock::time_point now) { static_cast<void>(now); }
};

// LIFETIME: until the answer is complete or the client is gone; keep its id, not its address (HttpServer::find()).
class Exchange {
 public:
  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  virtual ~Exchange() = default;

  [[nodiscard]] virtual uint64_t id() const = 0;
  [[nodiscard]] virtual std::string_view path() const = 0;  // of the request, without the query

  // Goes into the answer's header, whatever the answer is.
  virtual void add_header(Header header) = 0;

  // For the record: the answer is this error, or ends with it.
  virtual void ended_by(const ApiError& error) = 0;

  // A whole answer; or
  virtual void respond(HttpResponse response) = 0;
  // an answer in pieces. write() never blocks: what the client does not take yet is kept, so write only while ready().
  virtual void begin_stream(std::string_view content_type) = 0;
  virtual void write(std::string_view data) = 0;
  virtual void end_stream() = 0;
  [[nodiscard]] virtual bool ready() const = 0;

  // `producer` goes on with the answer.
  virtual void set_producer(std::unique_ptr<Producer> producer) = 0;
  [[nodiscard]] virtual Producer* producer() = 0;  // null: none
  // Calls the producer's proceed(), if there is one.
  virtual void proceed() = 0;
};

}  // namespace inflight::server
