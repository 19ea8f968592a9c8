// SPDX-License-Identifier: Apache-2.0
// The HTTP layer against raw bytes: what RFC 9112 says about framing, and what an attacker or a broken client may send.
#include "server/http_server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/un.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "echo_server.h"

namespace inflight::server {
namespace {

using namespace test;

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

TEST(HttpTypes, PrintsAnyBytes) {
  EXPECT_EQ(printable("/v1/a b", 10), "/v1/a b");
  EXPECT_EQ(printable("a\n\x1B[2J\xFF\x7F", 10), "a\\x0a\\x1b[2J\\xff\\x7f");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("", 3), "-");
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

TEST(HttpServer, AnswersAClientThatClosedItsSendingHalf) {
  EchoServer server;
  RawClient client(server.port());
  client.send(get("/big", ""));
  client.end_sending();
  EXPECT_GT(client.read_all().size(), size_t{8} << 20);
}

TEST(HttpServer, EveryAnswerHasTheCommonHeaders) {
  EchoServer server;
  for (const std::string& bytes :
       {get("/one"), get("/stream"), std::string("GET /\xFF HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n")}) {
    const std::string answer = ask(server, bytes);
    for (const char* const header : {"\r\nX-Request-Id: ", "\r\nX-Method: "}) {
      const size_t at = answer.find(header);
      ASSERT_NE(at, std::string::npos) << answer;
      EXPECT_EQ(answer.find(header, at + 1), std::string::npos) << answer;
    }
  }
}

TEST(HttpServer, RecordsWhatBecameOfEachRequest) {
  EchoServer server;
  const std::string one = ask(server, get("/one?two")), refused = ask(server, get("/refused"));
  ask(server, get("/throws/later"));
  RawClient gone(server.port());
  gone.send(get("/never"));
  while (server.stats().exchanges_open < 1) std::this_thread::yield();
  gone.close();
  while (server.records().size() < 4) std::this_thread::yield();
  const std::vector<HttpRecord> records = server.records();
  const HttpRecord wanted[] = {{.method = "GET", .path = "/one", .status = 200, .bytes = one.size()},
                               {.path = "/refused", .status = 401, .bytes = refused.size()},
                               {.path = "/throws/later", .status = 200},
                               {.path = "/never"}};
  const int errors[] = {0, 401, 0, 0};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(records[i].path, wanted[i].path);
    EXPECT_EQ(records[i].status, wanted[i].status);
    EXPECT_EQ(records[i].error ? records[i].error->status() : 0, errors[i]);
    if (wanted[i].bytes > 0) {
      EXPECT_EQ(records[i].bytes, wanted[i].bytes);
    }
  }
  EXPECT_NE(one.find("\r\nX-Request-Id: " + records[0].id + "\r\n"), std::string::npos) << one;
  EXPECT_EQ(records[3].bytes, 0U);
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
