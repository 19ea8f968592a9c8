// SPDX-License-Identifier: Apache-2.0
// What one client of the HTTP layer may take from the others: memory, connections, workers, time.
#include <gtest/gtest.h>

#include <thread>

#include "echo_server.h"

namespace inflight::server {
namespace {

using namespace test;
using namespace std::chrono_literals;

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
  const std::string full = ask(server, head + std::string(100, 'x'));
  EXPECT_EQ(status_of(full), 503);
  EXPECT_NE(full.find("\r\nRetry-After: "), std::string::npos) << full;
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

TEST(HttpServer, RefusesConnectionsBeyondTheLimit) {
  HttpLimits limits;
  limits.connections = 2;
  EchoServer server(limits);
  RawClient first(server.port()), second(server.port());
  while (server.stats().connections_open < 2) std::this_thread::yield();
  RawClient third(server.port());
  const std::string refused = third.read_all();
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_NE(refused.find("\r\nRetry-After: "), std::string::npos) << refused;
  EXPECT_EQ(server.stats().connections_open, 2);
  first.send(get("/still"));
  EXPECT_EQ(status_of(first.read_all()), 200);
}

// Neither those that had their last answer nor those that were refused take a place.
TEST(HttpServer, CountsOpenConnectionsOnly) {
  HttpLimits limits;
  limits.connections = 1;
  EchoServer server(limits);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(status_of(ask(server, get("/one"))), 200) << i;
  RawClient only(server.port());
  while (server.stats().connections_open < 1) std::this_thread::yield();
  EXPECT_EQ(status_of(ask(server, get("/two"))), 503);
  only.close();
  while (server.stats().connections_open > 0) std::this_thread::yield();
  EXPECT_EQ(status_of(ask(server, get("/three"))), 200);
}

TEST(HttpServer, AClientThatLeavesInAWholeAnswerHasGone) {
  EchoServer server;
  RawClient client(server.port());
  client.send(get("/big"));
  static_cast<void>(client.read_until("\r\n\r\n"));
  client.close();
  while (server.stats().exchanges_open > 0) std::this_thread::yield();
  EXPECT_EQ(server.stats().clients_gone, 1U);
}

// Not after its body, which would take memory from those that may ask; where there is none the connection stays.
TEST(HttpServer, RefusesByTheHeaderAlone) {
  HttpLimits limits;
  limits.bodies_bytes = 150;
  EchoServer server(limits);
  const std::string post = "POST /refused HTTP/1.1\r\nHost: h\r\n";
  for (const char* const more : {"Content-Length: 100\r\n\r\n", "Content-Length: 100\r\nExpect: 100-continue\r\n\r\n",
                                 "Transfer-Encoding: chunked\r\n\r\n", "Content-Length: 100\r\n\r\nabc"}) {
    const std::string answer = ask(server, post + more);  // nothing of the body follows
    EXPECT_EQ(status_of(answer), 401) << answer;
    EXPECT_NE(answer.find("\r\nConnection: close\r\n"), std::string::npos) << answer;
    EXPECT_NE(answer.find("\r\nX-Method: POST\r\n"), std::string::npos) << answer;
  }
  RawClient client(server.port());
  client.send(get("/refused", "") + get("/one"));
  const std::string answers = client.read_all();
  EXPECT_EQ(status_of(answers), 401) << answers;
  EXPECT_TRUE(answers.ends_with("GET /one? []")) << answers;
}

// Long tasks leave a worker to short ones, which do not wait behind them.
TEST(HttpServer, ShortTasksDoNotWaitForLongOnes) {
  EchoServer server({}, 2);
  const auto post = [](const std::string& path, size_t bytes) {
    return "POST " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: " + std::to_string(bytes) +
           "\r\n\r\n" + std::string(bytes, 'x');
  };
  RawClient first(server.port()), second(server.port()), third(server.port());
  for (RawClient* const client : {&first, &second, &third}) client->send(post("/held", 300'000));
  while (server.held() < 1 || server.stats().exchanges_open < 3) std::this_thread::yield();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(status_of(ask(server, post("/late", 10))), 200);
  EXPECT_EQ(server.held(), 1);
  server.release();
  for (RawClient* const client : {&first, &second, &third}) EXPECT_EQ(status_of(client->read_all()), 200);
  EXPECT_EQ(server.held(), 3);
}

}  // namespace
}  // namespace inflight::server
