// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server: one network thread for all connections, a few workers for what takes time. It knows limits,
// timeouts and framing, but nothing of language models.
//
// Why an event loop and not a thread a connection: docs/decisions/0010-http-library.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/exchange.h"
#include "server/http_types.h"
#include "server/task.h"

namespace inflight::server {

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any free one, see address()
  std::string uds;       // path of a Unix socket in their place; "": none. A dead one there is replaced
  int listener = -1;  // an open socket that listens already, in the place of them all; -1: none. The server closes it
  int32_t worker_count = 2;
  HttpLimits limits;
};

// Counters since the start, gauges of now.
struct HttpStats {
  uint64_t connections_accepted = 0;
  uint64_t connections_refused = 0;  // the limit was reached
  int32_t connections_open = 0;      // without those that were refused, or had their last answer
  int32_t exchanges_open = 0;        // requests that wait for (the rest of) their answer
  uint64_t clients_gone = 0;         // left before their answer was complete
  std::map<int, uint64_t> answers;   // by HTTP status
};

// What else the server asks its owner, on the network thread; empty: nothing. `head` is a request without its body.
struct HttpHooks {
  // Adds the headers that the answer has whatever it is. Of a request that was not understood `head` has what was.
  std::function<void(Exchange&, const HttpRequest& head)> add_headers{};
  // An answer in the place of the handler's, before the body is read: no stranger's body takes memory.
  std::function<std::optional<HttpResponse>(Exchange&, const HttpRequest& head)> refusal{};
  // An answer has ended, or its client has left.
  std::function<void(const HttpRecord&)> ended{};
};

class HttpServer {
 public:
  using Handler = std::function<void(Exchange&, HttpRequest)>;

  // Listens at once, answers once run() is called.  handler: called on the network thread for each request.
  // ERRORS: Failure as std::runtime_error naming address and reason.
  HttpServer(const HttpServerOptions& options, Handler handler, HttpHooks hooks = {});
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  // Where it listens, as people write it: "http://127.0.0.1:8000", "unix:/run/inflight.sock".
  [[nodiscard]] std::string address() const;
  [[nodiscard]] int listener() const;  // the socket's file descriptor

  // The network thread is whoever calls this; returns after stop(), every connection closed.
  void run();
  // Any thread.
  void stop();

  // Any thread: `task` runs on the network thread.
  void post(Task task);
  // Network thread: `task` runs on a worker, unless that exchange is over before its turn: then it is freed at once. So
  // no more tasks wait than there are connections.  bytes: of what it reads or makes. Short tasks come before long
  // ones, and of several workers one is always left to the short ones.
  void work(uint64_t exchange, size_t bytes, Task task);

  // Network thread, or before run(): calls `task` every `period`.
  void every(std::chrono::milliseconds period, std::function<void()> task);
  // Before run(): calls `task` on the network thread for SIGINT and SIGTERM, which then no longer end the process.
  void on_signal(std::function<void()> task);
  // Network thread: null when that exchange is over.
  [[nodiscard]] Exchange* find(uint64_t exchange);
  [[nodiscard]] std::vector<uint64_t> open_exchanges() const;
  // Network thread. Who connects from now on waits in the socket's queue, for whoever listens there next.
  void stop_accepting();
  // Network thread. Connections without an open exchange are closed; the others close after their answer.
  void close_idle();
  [[nodiscard]] HttpStats stats() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace inflight::server
