// SPDX-License-Identifier: Apache-2.0
// One client's connection: reads requests one after the other, hands each to the host and writes its answer.
//
// A read is always outstanding, also while an answer is being made, so that a client that leaves is noticed at once.
// THREAD: the network thread. LIFETIME: owned by the host, which frees it when retired().
#pragma once

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "server/exchange.h"
#include "server/http_types.h"

namespace inflight::server {

class HttpConnection;

// What a connection needs of the server.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;
  [[nodiscard]] virtual const HttpLimits& limits() const = 0;
  // Registers an open exchange and gives its number.
  [[nodiscard]] virtual uint64_t open_exchange(HttpConnection& connection) = 0;
  virtual void close_exchange(uint64_t exchange, bool client_gone) = 0;
  [[nodiscard]] virtual std::string new_request_id() = 0;
  // As HttpHooks.
  virtual void add_headers(Exchange& exchange, const HttpRequest& head) = 0;
  [[nodiscard]] virtual std::optional<HttpResponse> refusal(Exchange& exchange, const HttpRequest& head) = 0;
  virtual void ended(const HttpRecord& record) = 0;
  virtual void handle(Exchange& exchange, HttpRequest request) = 0;
  // A connection that was started will send no more requests: another may come in its place.
  virtual void leave_place() = 0;
  // For a new request's body.
  [[nodiscard]] virtual std::shared_ptr<BodyShare> body_share() = 0;
  virtual void count_answer(int status) = 0;
  [[nodiscard]] virtual bool draining() const = 0;
  [[nodiscard]] virtual const std::string& date() const = 0;  // for the header of that name
};

class HttpConnection final : public Exchange {
 public:
  using Clock = std::chrono::steady_clock;
  using Socket = boost::asio::generic::stream_protocol::socket;

  HttpConnection(Socket socket, ConnectionHost& host);

  void start();
  // Instead of start(): answers with 503 and closes; takes no place.
  void refuse();
  // Applies the time limits. Call now and then.
  void check(Clock::time_point now);
  void close();
  // Closes if a request has been answered and the next has not begun: a first one may be on its way.
  void close_when_idle();
  [[nodiscard]] bool retired() const { return closed_ && !reading_ && !writing_; }

  [[nodiscard]] uint64_t id() const override { return exchange_; }
  [[nodiscard]] std::string_view path() const override { return record_.path; }
  void add_header(Header header) override { common_headers_.push_back(std::move(header)); }
  void ended_by(const ApiError& error) override;
  void respond(HttpResponse response) override;
  void begin_stream(std::string_view content_type) override;
  void write(std::string_view data) override;
  void end_stream() override;
  [[nodiscard]] bool ready() const override;
  void set_producer(std::unique_ptr<Producer> producer) override { producer_ = std::move(producer); }
  void proceed() override;
  [[nodiscard]] Producer* producer() override { return producer_.get(); }

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  enum class State {
    Fresh,      // before the first request
    Idle,       // between requests
    Head,       // a request's header is coming
    Body,       // its body
    Answering,  // the host has the request
    Lingering,  // the last answer is on its way out; what still comes in is thrown away
  };

  void read();
  void on_read(const boost::system::error_code& error, size_t bytes);
  void parse();
  // Each returns false when the request was answered with an error.
  bool parse_some();
  bool accept_head();
  // What is known of the request, and the headers of its answer whatever it is.
  void take_head();
  void begin_answer();
  void dispatch();
  // Answers a request that cannot be understood; the connection ends after it.
  void reject(const ApiError& error);
  void respond_and_close(HttpResponse response);
  void linger();
  void leave_place();
  void append_head(int status, std::string_view content_type, std::optional<size_t> length);
  void flush();
  void on_written(const boost::system::error_code& error, size_t bytes);
  // `step` is a call of the producer.
  template <typename Step>
  void drive(Step step);
  void finish_exchange();
  void end_record();
  void set_deadline(std::chrono::milliseconds after) { deadline_ = Clock::now() + after; }

  Socket socket_;
  ConnectionHost& host_;
  State state_ = State::Fresh;
  bool closed_ = false, reading_ = false, writing_ = false;
  bool has_place_ = false;  // counts among the open connections
  Clock::time_point deadline_;
  Clock::time_point write_deadline_;

  std::array<char, 16384> chunk_;
  std::string input_;  // not yet parsed
  std::optional<Parser> parser_;
  std::shared_ptr<BodyShare> body_share_;  // of the request's body

  HttpRequest request_;  // without its body, until the host has it
  HttpRecord record_;
  std::optional<Clock::time_point> begun_;  // when the request's header was there, until its answer has ended
  uint64_t exchange_ = 0;                   // 0: none open
  std::unique_ptr<Producer> producer_;
  std::vector<Header> common_headers_;
  bool head_only_ = false;  // a HEAD request
  bool keep_alive_ = true;  // after this answer
  bool chunked_ = false;    // the answer's framing
  bool streaming_ = false;  // between begin_stream() and end_stream()
  bool answered_ = false;   // the whole answer is in output_
  std::string output_;      // to send next
  std::string sending_;     // being sent
  size_t sent_ = 0;         // of sending_
};

}  // namespace inflight::server
