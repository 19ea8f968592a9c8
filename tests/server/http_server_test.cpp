// SPDX-License-Identifier: Apache-2.0
// The HTTP layer against raw bytes: what RFC 9112 says about framing, and what an attacker or a broken client may send.
#include "server/http_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/un.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "raw_client.h"

namespace inflight::server {
namespace {

using test::RawClient;
using namespace std::chrono_literals;

// Answers with what it got: "METHOD path?query [body]". /late answers from a worker, /held when release() was called,
// /stream in pieces, /endless never ends, /big is larger than any socket buffer, /throws/NAME has a producer that
// throws.
class EchoServer {
 public:
  explicit EchoServer(HttpLimits limits = {})
      : server_({.host = "127.0.0.1", .port = 0, .worker_count = 1, .limits = limits},
                [this](Exchange& exchange, HttpRequest request) { answer(exchange, std::move(request)); }),
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

  void answer(Exchange& exchange, HttpRequest request) {
    exchange.add_header({"X-Test", "yes"});
    const std::string text = request.method + " " + request.path + "?" + request.query + " [" + request.body + "]";
    if (request.path == "/late") {
      server_.work(exchange.id(), [this, id = exchange.id(), text] {
        server_.post([this, id, text] {
          if (Exchange* const open = server_.find(id)) open->respond({.body = text});
        });
      });
    } else if (request.path == "/held") {
      server_.work(exchange.id(), [this, id = exchange.id(), request = std::move(request), text] {
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
  HttpServer server_;
  std::thread thread_;
};

// One request on its own connection, up to the server's close.
std::string ask(EchoServer& server, const std::string& bytes) {
  RawClient client(server.port());
  client.send(bytes);
  return client.read_all();
}

std::string get(const std::string& path, const std::string& more = "Connection: close\r\n") {
  return "GET " + path + " HTTP/1.1\r\nHost: here\r\n" + more + "\r\n";
}

int status_of(const std::string& answer) { return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3)); }

TEST(HttpServer, AnswersWithLengthDateAndHeaders) {
  EchoServer server;
  const std::string answer = ask(server, get("/a/b?c=d"));
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_NE(answer.find("Content-Length: 15\r\n"), std::string::npos) << answer;
  EXPECT_NE(answer.find(" GMT\r\n"), std::string::npos);
  EXPECT_NE(answer.find("X-Test: yes\r\n"), std::string::npos);
  EXPECT_TRUE(answer.ends_with("\r\n\r\nGET /a/b?c=d []")) << answer;
}

TEST(HttpServer, KeepsTheConnectionAndAnswersPipelinedRequestsInOrder) {
  EchoServer server;
  RawClient client(server.port());
  client.send(get("/late?1", "") + get("/two", "") + "POST /three HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc" +
              get("/four"));
  const std::string answers = client.read_all();
  const size_t one = answers.find("GET /late?1 []"), two = answers.find("GET /two? []"),
               three = answers.find("POST /three? [abc]"), four = answers.find("GET /four? []");
  ASSERT_NE(four, std::string::npos) << answers;
  EXPECT_TRUE(one < two && two < three && three < four) << answers;
}

// RFC 9112, C.2.2: a client of HTTP/1.0 waits for the end where it is not told that the connection stays.
TEST(HttpServer, TellsHttp10ThatTheConnectionStays) {
  EchoServer server;
  RawClient client(server.port());
  client.send("GET /one HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + std::string("GET /two HTTP/1.0\r\n\r\n"));
  const std::string answers = client.read_all();
  const size_t stays = answers.find("Connection: keep-alive\r\n"), one = answers.find("GET /one? []");
  ASSERT_NE(one, std::string::npos) << answers;
  EXPECT_LT(stays, one) << answers;
  EXPECT_TRUE(answers.ends_with("GET /two? []")) << answers;
  EXPECT_EQ(ask(server, get("/one")).find("keep-alive"), std::string::npos);
}

TEST(HttpServer, ReadsABodyInAnyPieces) {
  EchoServer server;
  const std::string request =
      "POST /p HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n4;extension=1\r\ndefg\r\n0\r\n\r\n";
  for (const size_t step : {size_t{1}, size_t{7}, request.size()}) {
    RawClient client(server.port());
    for (size_t i = 0; i < request.size(); i += step) client.send(std::string_view(request).substr(i, step));
    EXPECT_TRUE(client.read_all().ends_with("POST /p? [abcdefg]"));
  }
}

TEST(HttpServer, StreamsInChunksAndForHttp10UntilClose) {
  EchoServer server;
  const std::string chunked = ask(server, get("/stream"));
  EXPECT_NE(chunked.find("Transfer-Encoding: chunked\r\n"), std::string::npos);
  EXPECT_TRUE(chunked.ends_with("\r\n\r\nb\r\ndata: one\n\n\r\nb\r\ndata: two\n\n\r\n0\r\n\r\n")) << chunked;
  const std::string old = ask(server, "GET /stream HTTP/1.0\r\n\r\n");
  EXPECT_TRUE(old.ends_with("\r\n\r\ndata: one\n\ndata: two\n\n")) << old;
  EXPECT_EQ(old.find("chunked"), std::string::npos);
}

TEST(HttpServer, HeadHasNoBody) {
  EchoServer server;
  const std::string answer = ask(server, "HEAD /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
  EXPECT_NE(answer.find("Content-Length: 11\r\n"), std::string::npos) << answer;
}

// What belonged to the request before does not to the answer that refuses the next.
TEST(HttpServer, ARefusalIsAnAnswerOfItsOwn) {
  EchoServer server;
  RawClient client(server.port());
  client.send("HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(client.read_until("\r\n\r\n").find("200 OK"), std::string::npos);
  client.send(get("/stream", ""));
  EXPECT_NE(client.read_until("0\r\n\r\n").find("\r\nX-Accel-Buffering: no\r\n"), std::string::npos);
  client.send("HEAD /x HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(client.read_until("\r\n\r\n").find("200 OK"), std::string::npos);
  client.send("GET / HTTP/1.1\r\n\r\n");  // no Host
  const std::string refusal = client.read_all();
  const size_t body = refusal.find("\r\n\r\n") + 4;
  EXPECT_NE(refusal.find(fmt::format("\r\nContent-Length: {}\r\n", refusal.size() - body)), std::string::npos)
      << refusal;
  EXPECT_GT(refusal.size(), body);
  EXPECT_EQ(refusal.find("X-Accel-Buffering"), std::string::npos) << refusal;
}

TEST(HttpServer, ContinuesOnRequest) {
  EchoServer server;
  RawClient client(server.port());
  client.send("POST /p HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("ok");
  EXPECT_TRUE(client.read_all().ends_with("POST /p? [ok]"));
}

// Refused when it is read, not when the time for the rest has passed: nothing follows here.
TEST(HttpServer, RefusesBareLineFeedsAtOnce) {
  EchoServer server;
  const std::string chunked = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* const body :
       {"3\nabc\n0\n\n", "3\r\nabc\n", "3\r\nabc\r\n0\n\n", "3\r\nabc\r\n0\r\nA: b\n\n", "3;x\n"}) {
    EXPECT_EQ(status_of(ask(server, chunked + body)), 400) << body;
  }
  EXPECT_EQ(status_of(ask(server, "GET / HTTP/1.1\nHost: h\n\n")), 400);
  EXPECT_EQ(status_of(ask(server, "GET / HTTP/1.1\r\nHost: h\n\n")), 400);
}

// A client that begins with TLS waits for an answer: it gets one at once.
TEST(HttpServer, TellsClientsThatSpeakTls) {
  EchoServer server;
  RawClient client(server.port());
  client.send("\x16\x03\x01\x02");
  const std::string answer = client.read_until("}}");
  EXPECT_EQ(status_of(answer), 400);
  EXPECT_NE(answer.find("this server speaks no TLS"), std::string::npos) << answer;
}

// The truth: RFC 3986, 2.1.
TEST(HttpTypes, DecodesPercentEscapes) {
  EXPECT_EQ(percent_decoded(""), "");
  EXPECT_EQ(percent_decoded("a/b c"), "a/b c");
  EXPECT_EQ(percent_decoded("%61%2f%2F%C3%a9%25"), "a//\xC3\xA9%");
  for (const char* const bad : {"%", "a%2", "%zz", "%2z", "%-1", "%+1", "%0x", "%%41"}) {
    EXPECT_EQ(percent_decoded(bad), std::nullopt) << bad;
  }
}

TEST(HttpTypes, KnowsTheNamesOfThisMachine) {
  for (const char* const own : {"localhost", "LOCALHOST:80", "127.0.0.1", "127.1.2.3:8000", "[::1]", "[::1]:8000"}) {
    EXPECT_TRUE(is_loopback(own)) << own;
  }
  for (const char* const other : {"", "localhost.example", "127.example", "127", "0.0.0.0:8000", "10.0.0.1",
                                  "[::1].example", "[::]", "example:127"}) {
    EXPECT_FALSE(is_loopback(other)) << other;
  }
}

struct BadRequest {
  const char* name;
  std::string bytes;
  int status;
};

TEST(HttpServer, RefusesWhatIsAmbiguousOrMalformed) {
  EchoServer server;
  const std::string host = "Host: h\r\n";
  const BadRequest cases[] = {
      {"both lengths",
       "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"both lengths, other order",
       "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400},
      {"two lengths", "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {"equal lengths", "POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
      {"length list", "POST / HTTP/1.1\r\n" + host + "Content-Length: 3, 3\r\n\r\nabc", 400},
      {"negative length", "POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", 400},
      {"signed length", "POST / HTTP/1.1\r\n" + host + "Content-Length: +3\r\n\r\nabc", 400},
      {"hex length", "POST / HTTP/1.1\r\n" + host + "Content-Length: 0x3\r\n\r\nabc", 400},
      {"huge length", "POST / HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n", 400},
      {"unknown encoding", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
      {"identity encoding", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: identity\r\n\r\nabc", 501},
      {"two encodings",
       "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
       400},
      {"list of encodings", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {"chunked in 1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"bad chunk size", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
       400},
      {"chunk size overflow", "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
       400},
      {"no host", "GET / HTTP/1.1\r\n\r\n", 400},
      {"two hosts", "GET / HTTP/1.1\r\n" + host + host + "\r\n", 400},
      {"space before colon", "GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400},
      {"nul in header", std::string("GET / HTTP/1.1\r\nHost: h\0x\r\n\r\n", 28), 400},
      {"bare line feed", "GET / HTTP/1.1\nHost: h\n\n", 400},
      {"version 2", "GET / HTTP/2.0\r\n" + host + "\r\n", 400},
      {"no version", "GET /\r\n\r\n", 400},
      {"not HTTP", "\x17\x03\x01\x02hello\r\n\r\n", 400},
      {"target without slash", "GET other HTTP/1.1\r\n" + host + "\r\n", 400},
      {"folded field", "GET / HTTP/1.1\r\n" + host + "A: b\r\n c\r\n\r\n", 400},
      {"folded by a tab", "GET / HTTP/1.1\r\n" + host + "A: b\r\n\tc\r\n\r\n", 400},
      {"folded to an empty line", "GET / HTTP/1.1\r\n" + host + "A: b\r\n \r\n\r\n", 400},
      {"folded length", "POST / HTTP/1.1\r\n" + host + "Content-Length:\r\n 3\r\n\r\nabc", 400},
      {"folded first field", "GET / HTTP/1.1\r\n " + host + host + "\r\n", 400},
      {"line feed in a folded line", "GET / HTTP/1.1\r\n" + host + "A: b\n c\r\n\r\n", 400},
      {"expectation", "POST / HTTP/1.1\r\n" + host + "Expect: money\r\nContent-Length: 1\r\n\r\n", 417},
  };
  for (const BadRequest& bad : cases) {
    // A second request behind it must never be seen as one: that would be smuggling.
    const std::string answer = ask(server, bad.bytes + get("/smuggled"));
    EXPECT_EQ(status_of(answer), bad.status) << bad.name << ": " << answer;
    EXPECT_EQ(answer.find("/smuggled"), std::string::npos) << bad.name;
    EXPECT_NE(answer.find("\"type\":\"invalid_request_error\""), answer.find("\"type\":\"server_error\"")) << bad.name;
    EXPECT_NE(answer.find("Connection: close"), std::string::npos) << bad.name;
  }
}

TEST(HttpServer, KeepsItsLimits) {
  HttpLimits limits;
  limits.header_bytes = 1000;
  limits.header_count = 10;
  limits.body_bytes = 100;
  EchoServer server(limits);
  EXPECT_EQ(status_of(ask(server, get("/" + std::string(2000, 'a')))), 431);
  std::string many;
  for (int i = 0; i < 20; ++i) many += "A: b\r\n";
  EXPECT_EQ(status_of(ask(server, get("/", many))), 431);
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n";
  EXPECT_EQ(status_of(ask(server, post + "Content-Length: 101\r\n\r\n")), 413);
  EXPECT_EQ(status_of(ask(server,
                          post + "Transfer-Encoding: chunked\r\n\r\n80\r\n" + std::string(128, 'x') + "\r\n0\r\n\r\n")),
            413);
  EXPECT_EQ(status_of(ask(server, post + "Content-Length: 100\r\n\r\n" + std::string(100, 'x'))), 200);
  // What is no body must not be kept without end either. The client goes on sending until it is cut off.
  const std::string chunked = post + "Transfer-Encoding: chunked\r\n\r\n";
  for (const char* const begin : {"1;", "1\r\nx\r\n0\r\nT: ", "1"}) {
    const std::string answer = ask(server, chunked + begin + std::string(100'000, 'e'));
    EXPECT_TRUE(status_of(answer) == 431 || status_of(answer) == 400) << begin << ": " << answer;
  }
}

TEST(HttpServer, SharesTheMemoryForBodies) {
  HttpLimits limits;
  limits.bodies_bytes = 150;
  EchoServer server(limits);
  const std::string head = "POST /never HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n";
  RawClient first(server.port());
  first.send(head + std::string(100, 'x'));
  while (server.stats().exchanges_open < 1) std::this_thread::yield();
  EXPECT_EQ(status_of(ask(server, head + std::string(100, 'x'))), 503);
  first.close();
  while (server.stats().exchanges_open > 0) std::this_thread::yield();
  EXPECT_EQ(status_of(ask(server, "POST /p HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 100\r\n\r\n" +
                                      std::string(100, 'x'))),
            200);
}

// A body that a worker reads is there although its client has left; one that waits for a worker goes with its client.
TEST(HttpServer, AClientThatLeavesDoesNotFreeWhatIsStillHeld) {
  HttpLimits limits;
  limits.bodies_bytes = 150;
  EchoServer server(limits);
  const auto post = [](const std::string& path, size_t bytes) {
    return "POST " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: " + std::to_string(bytes) +
           "\r\n\r\n" + std::string(bytes, 'x');
  };
  const auto leave = [&server](RawClient& client) {
    client.close();
    while (server.stats().exchanges_open > 0) std::this_thread::yield();
  };
  RawClient working(server.port());
  working.send(post("/held", 100));
  while (server.held() < 1) std::this_thread::yield();
  leave(working);
  EXPECT_EQ(status_of(ask(server, post("/p", 100))), 503);
  for (int i = 0; i < 3; ++i) {
    RawClient waiting(server.port());
    waiting.send(post("/held", 50));
    while (server.stats().exchanges_open < 1) std::this_thread::yield();
    leave(waiting);
  }
  EXPECT_EQ(status_of(ask(server, post("/p", 50))), 200);
  server.release();
  EXPECT_EQ(status_of(ask(server, post("/held", 20))), 200);
  EXPECT_EQ(server.held(), 2);  // of five
  EXPECT_EQ(status_of(ask(server, post("/p", 100))), 200);
}

TEST(HttpServer, AProducerThatThrowsEndsItsAnswerOnly) {
  EchoServer server;
  const std::string first = ask(server, get("/throws/first"));
  EXPECT_EQ(status_of(first), 503) << first;
  EXPECT_NE(first.find("it broke"), std::string::npos) << first;
  const std::string later = ask(server, get("/throws/later"));
  EXPECT_NE(later.find("begun,"), std::string::npos) << later;
  EXPECT_NE(later.find("failed"), std::string::npos) << later;
  const std::string tick = ask(server, get("/throws/tick"));
  EXPECT_EQ(status_of(tick), 500) << tick;
  EXPECT_EQ(status_of(ask(server, get("/still"))), 200);
}

// A length that no memory has room for must not end the server either.
TEST(HttpServer, AnImpossibleLengthEndsItsConnectionOnly) {
#ifdef INFLIGHT_SANITIZED
  GTEST_SKIP() << "sanitizers end the process at what cannot be allocated";
#endif
  HttpLimits limits;
  limits.body_bytes = size_t{1} << 62;
  EchoServer server(limits);
  EXPECT_EQ(ask(server, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4000000000000000000\r\n\r\nx"), "");
  EXPECT_EQ(status_of(ask(server, get("/still"))), 200);
}

TEST(HttpServer, DropsSlowSenders) {
  HttpLimits limits;
  limits.header_time = 50ms;
  limits.body_time = 50ms;
  limits.idle_time = 50ms;
  EchoServer server(limits);
  EXPECT_EQ(status_of(ask(server, "GET / HTTP/1.1\r\nHos")), 408);
  EXPECT_EQ(status_of(ask(server, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc")), 408);
  EXPECT_EQ(ask(server, ""), "");  // nothing was asked, nothing is answered
}

TEST(HttpServer, NoticesAtOnceThatAClientHasGone) {
  EchoServer server;
  RawClient client(server.port());
  client.send(get("/endless"));
  EXPECT_NE(client.read_until("begin").find("200 OK"), std::string::npos);
  client.close();
  EXPECT_EQ(server.gone.get_future().wait_for(20s), std::future_status::ready);
  EXPECT_EQ(server.stats().clients_gone, 1U);
  EXPECT_EQ(server.stats().exchanges_open, 0);
}

TEST(HttpServer, DropsAReaderThatTakesNothing) {
  HttpLimits limits;
  limits.write_time = 50ms;
  EchoServer server(limits);
  RawClient client(server.port());
  client.send(get("/endless"));  // and never reads: the producer stops when the socket is full
  EXPECT_EQ(server.gone.get_future().wait_for(20s), std::future_status::ready);
}

TEST(HttpServer, AnswersAClientThatClosedItsSendingHalf) {
  EchoServer server;
  RawClient client(server.port());
  client.send(get("/big", ""));
  client.end_sending();
  EXPECT_GT(client.read_all().size(), size_t{8} << 20);
}

TEST(HttpServer, RefusesConnectionsBeyondTheLimit) {
  HttpLimits limits;
  limits.connections = 2;
  EchoServer server(limits);
  RawClient first(server.port()), second(server.port());
  while (server.stats().connections_open < 2) std::this_thread::yield();
  RawClient third(server.port());
  EXPECT_EQ(status_of(third.read_all()), 503);
  first.send(get("/still"));
  EXPECT_EQ(status_of(first.read_all()), 200);
}

TEST(HttpServer, ClosesAfterTheAnswerWhenDraining) {
  EchoServer server;
  RawClient idle(server.port()), busy(server.port()), fresh(server.port());
  idle.send(get("/one", ""));
  busy.send(get("/never", ""));
  const auto settled = [](const HttpStats& stats) {
    return stats.connections_open == 3 && stats.answers.contains(200) && stats.exchanges_open == 1;
  };
  while (!settled(server.stats())) std::this_thread::yield();
  server.http().post([&] { server.http().close_idle(); });
  EXPECT_TRUE(idle.read_all().ends_with("GET /one? []"));  // and the end of the connection
  fresh.send(get("/two", ""));                             // its first request was on its way
  const std::string late = fresh.read_all();
  EXPECT_TRUE(late.ends_with("GET /two? []")) << late;
  EXPECT_NE(late.find("Connection: close"), std::string::npos) << late;
  server.http().post([&] {
    for (const uint64_t id : server.http().open_exchanges()) server.http().find(id)->respond({.body = "done"});
  });
  const std::string answer = busy.read_all();
  EXPECT_TRUE(answer.ends_with("done")) << answer;
  EXPECT_NE(answer.find("Connection: close"), std::string::npos) << answer;
}

// checklist 118: another process on the same machine feeds the engine without a network.
TEST(HttpServer, ListensOnAUnixSocket) {
  std::string folder = (std::filesystem::temp_directory_path() / "inflight-uds-XXXXXX").string();
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/socket";
  const auto talk = [&path] {
    HttpServer server({.uds = path}, [](Exchange& exchange, const HttpRequest& request) {
      exchange.respond({.body = request.method + " " + request.path});
    });
    EXPECT_EQ(server.address(), "unix:" + path);
    EXPECT_THROW(HttpServer({.uds = path}, {}), std::runtime_error);  // it is in use
    std::thread thread([&server] { server.run(); });
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const int client = ::socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    const std::string request = get("/over/unix");
    EXPECT_EQ(::send(client, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    std::string answer(4096, '\0');
    for (size_t all = 0; all < answer.size();) {
      const ssize_t got = ::recv(client, answer.data() + all, answer.size() - all, 0);
      if (got <= 0) break;
      all += static_cast<size_t>(got);
    }
    EXPECT_NE(answer.find("GET /over/unix"), std::string::npos) << answer;
    ::close(client);
    server.stop();
    thread.join();
  };
  talk();
  EXPECT_FALSE(std::filesystem::exists(path));
  const int dead = ::socket(AF_UNIX, SOCK_STREAM, 0);  // what a server leaves that was killed
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(dead);
  talk();
  std::ofstream(path) << "no socket";
  EXPECT_THROW(HttpServer({.uds = path}, {}), std::runtime_error);
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove_all(folder);
}

TEST(HttpServer, SaysWhyItCannotListen) {
  EchoServer server;
  try {
    const HttpServer second({.host = "127.0.0.1", .port = server.port()}, {});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("cannot listen on 127.0.0.1:"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace inflight::server
