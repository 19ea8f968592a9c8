// SPDX-License-Identifier: Apache-2.0
#include "server/http_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/http/error.hpp>
#include <iterator>
#include <utility>

#include "inflight/version.h"
#include "server/api_error.h"

namespace inflight::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr size_t kWriteBufferMax = 64 << 10;      // an answer's producer waits beyond
constexpr size_t kPipelinedBytesMax = 256 << 10;  // sent by a client before its last answer was complete
constexpr milliseconds kLingerTime{2'000};        // for the client to read the last answer
constexpr int32_t kRetryAfterS = 1;               // what is full here is soon not so any more
constexpr char kTlsHandshake = 0x16;              // the first byte of a client that speaks TLS

ApiError explain(const error_code& error, const HttpLimits& limits) {
  if (error == http::error::header_limit) {
    return {431, fmt::format("the request's header is longer than {} bytes", limits.header_bytes)};
  }
  if (error == http::error::body_limit) {
    return {413, fmt::format("the request's body is longer than {} bytes", limits.body_bytes)};
  }
  if (error == http::error::bad_version)
    return {400, "the request's first line must end in HTTP/1.0 or HTTP/1.1 and CR LF"};
  return {400, fmt::format("malformed HTTP request: {}", error.message())};
}

// What is wrong with a header that the parser let pass.
std::optional<ApiError> mistake_in(const http::request_header<>& head, const HttpLimits& limits) {
  const auto count = static_cast<size_t>(std::distance(head.begin(), head.end()));
  if (count > limits.header_count) {
    return ApiError{
        431, fmt::format("the request has {} header fields, at most {} are allowed", count, limits.header_count)};
  }
  const auto hosts = head.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && head.version() >= 11)) {
    return ApiError{400, fmt::format("the request has {} Host fields, HTTP/1.1 wants exactly one", hosts)};
  }
  // Anything but one plain "chunked" is where servers and proxies disagree about a request's end (request smuggling).
  if (const auto encodings = head.count(http::field::transfer_encoding); encodings > 0) {
    if (head.version() < 11) return ApiError{400, "Transfer-Encoding in an HTTP/1.0 request"};
    const auto value = head[http::field::transfer_encoding];
    if (encodings > 1 || !same_word({value.data(), value.size()}, "chunked")) {
      return ApiError{501, "the only Transfer-Encoding that is understood is one field 'chunked'"};
    }
    if (head.count(http::field::content_length) > 0) {
      return ApiError{400, "a request has either Content-Length or Transfer-Encoding, not both"};
    }
  }
  if (const auto lengths = head.count(http::field::content_length); lengths > 1) {
    return ApiError{400, fmt::format("the request has {} Content-Length fields, at most one is allowed", lengths)};
  }
  const auto length = head[http::field::content_length];
  if (length.find_first_not_of("0123456789") != length.npos) {
    return ApiError{400, "Content-Length must be one decimal number"};
  }
  const auto expect = head[http::field::expect];
  if (!expect.empty() && !same_word({expect.data(), expect.size()}, "100-continue")) {
    return ApiError{417, "the only Expect that is understood is '100-continue'"};
  }
  const auto target = head.target();
  const bool asterisk = target == "*" && head.method() == http::verb::options;
  if (!asterisk && !target.starts_with('/') && !target.starts_with("http://") && !target.starts_with("https://")) {
    return ApiError{400, "the request's target must be a path beginning with '/'"};
  }
  return std::nullopt;
}

// A header field that goes on in the next line (RFC 9112, 5.2): proxies join it or do not, so nobody may send it.
bool has_folded_field(std::string_view head) {
  return head.find("\r\n ") != head.npos || head.find("\r\n\t") != head.npos;
}

// A line that ends without CR: the parser would wait for the CR LF that some take it for (RFC 9112, 2.2).
bool has_bare_line_feed(std::string_view text) {
  for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 1)) {
    if (at == 0 || text[at - 1] != '\r') return true;
  }
  return false;
}

// "http://host/path" as "/path".
std::string_view path_of(std::string_view target) {
  if (const size_t scheme = target.find("://"); !target.starts_with('/') && scheme != std::string_view::npos) {
    const size_t slash = target.find('/', scheme + 3);
    return slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target;
}

// A request without its body.
HttpRequest head_of(const http::request_header<>& head) {
  HttpRequest request;
  request.method.assign(head.method_string().data(), head.method_string().size());
  const std::string_view target = path_of({head.target().data(), head.target().size()});
  const size_t path_size = std::min(target.size(), target.find('?'));
  request.path = target.substr(0, path_size);
  if (path_size < target.size()) request.query = target.substr(path_size + 1);
  for (const auto& field : head) {
    request.headers.push_back({std::string(field.name_string().data(), field.name_string().size()),
                               std::string(field.value().data(), field.value().size())});
  }
  return request;
}

}  // namespace

HttpConnection::HttpConnection(Socket socket, ConnectionHost& host)
    : socket_(std::move(socket)), host_(host), deadline_(Clock::now() + host.limits().idle_time) {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);  // a Unix socket has no delay
}

void HttpConnection::start() {
  has_place_ = true;
  read();
}

void HttpConnection::refuse() {
  reject({503, fmt::format("all {} connections are in use", host_.limits().connections), "", "", kRetryAfterS});
  read();
}

void HttpConnection::read() {
  if (closed_ || reading_) return;
  reading_ = true;
  socket_.async_read_some(asio::buffer(chunk_), [this](const error_code& error, size_t bytes) {
    reading_ = false;
    on_read(error, bytes);
  });
}

void HttpConnection::on_read(const error_code& error, size_t bytes) {
  if (closed_) return;
  if (error) {
    // A client may close its sending half after the last request: an answer that is ready still goes out.
    if (!answered_) return close();
    keep_alive_ = false;
    if (!writing_) close();
    return;
  }
  if (state_ != State::Lingering) input_.append(chunk_.data(), bytes);
  parse();
  if (state_ == State::Answering && input_.size() > kPipelinedBytesMax) return close();
  read();
}

void HttpConnection::parse() {
  try {
    while (!closed_ && state_ != State::Answering && state_ != State::Lingering && parse_some()) {
    }
  } catch (const std::exception&) {  // no memory for what this client sends is no reason to leave the others
    close();
  }
}

bool HttpConnection::parse_some() {
  if (state_ == State::Fresh || state_ == State::Idle) {
    input_.erase(0, input_.find_first_not_of("\r\n"));  // empty lines before a request are to be ignored
    if (input_.empty()) return false;
    if (input_.front() == kTlsHandshake) {
      reject({400, "this server speaks no TLS: use http://, or a proxy that ends TLS before it"});
      return false;
    }
    state_ = State::Head;
    set_deadline(host_.limits().header_time);
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(host_.limits().header_bytes));
    parser_->body_limit(host_.limits().body_bytes);
    body_share_ = host_.body_share();
  }
  if (input_.empty()) return false;
  parser_->eager(state_ == State::Body);
  error_code error;
  const size_t used = parser_->put(asio::buffer(input_), error);
  const bool folded = state_ == State::Head && has_folded_field(std::string_view(input_).substr(0, used));
  input_.erase(0, used);
  if (error == http::error::need_more) error = {};
  if (error) {
    reject(explain(error, host_.limits()));
    return false;
  }
  if (folded) {
    reject({400, "a header field goes on in the next line, one line each is allowed"});
    return false;
  }
  if (used == 0 && has_bare_line_feed(input_)) {
    reject({400, "a line of the request ends in LF, CR LF is expected"});
    return false;
  }
  if (state_ == State::Head) {
    if (!parser_->is_header_done()) return false;
    if (!accept_head()) return false;
    state_ = State::Body;
  }
  if (!body_share_->grow_to(parser_->get().body().size())) {
    reject({503, "too many large requests at once", "", "", kRetryAfterS});
    return false;
  }
  if (parser_->is_done()) {
    dispatch();
  } else if (used == 0 && input_.size() > host_.limits().header_bytes) {  // what the parser waits for the rest of
    reject(
        {431, fmt::format("a chunk's extension or the trailer is longer than {} bytes", host_.limits().header_bytes)});
    return false;
  }
  return used > 0 || state_ == State::Answering;
}

bool HttpConnection::accept_head() {
  const auto& head = parser_->get();
  if (const std::optional<ApiError> mistake = mistake_in(head.base(), host_.limits())) {
    reject(*mistake);
    return false;
  }
  take_head();
  if (std::optional<HttpResponse> refusal = host_.refusal(*this, request_)) {
    if (parser_->is_done()) {
      begin_answer();
      respond(std::move(*refusal));
    } else {
      respond_and_close(std::move(*refusal));
    }
    return false;
  }
  const uint64_t length = parser_->content_length() ? *parser_->content_length() : host_.limits().body_bytes;
  constexpr uint64_t kDayMs = 86'400'000;  // what a clock can hold, whatever a client says
  set_deadline(host_.limits().body_time + milliseconds(std::min(length / 64, kDayMs)));
  if (head.count(http::field::expect) > 0 && !parser_->is_done() && input_.empty()) {
    output_ += "HTTP/1.1 100 Continue\r\n\r\n";
    flush();
  }
  return true;
}

void HttpConnection::take_head() {
  request_ = parser_ ? head_of(parser_->get()) : HttpRequest();
  request_.id = host_.new_request_id();
  record_ = {.id = request_.id, .method = request_.method, .path = request_.path};
  begun_ = Clock::now();
  head_only_ = request_.method == "HEAD";
  common_headers_.assign({{"X-Request-Id", request_.id}});
  host_.add_headers(*this, request_);
}

void HttpConnection::begin_answer() {
  keep_alive_ = parser_->keep_alive();
  chunked_ = parser_->get().version() >= 11;
  parser_.reset();
  state_ = State::Answering;
}

void HttpConnection::dispatch() {
  request_.body = std::move(parser_->get().body());
  request_.body_share = body_share_;
  begin_answer();
  exchange_ = host_.open_exchange(*this);
  host_.handle(*this, std::move(request_));
}

void HttpConnection::reject(const ApiError& error) {
  if (state_ != State::Body) take_head();
  ended_by(error);
  respond_and_close(error.response(path()));
}

void HttpConnection::respond_and_close(HttpResponse response) {
  keep_alive_ = false;
  chunked_ = false;
  input_.clear();
  respond(std::move(response));
  linger();
}

void HttpConnection::linger() {
  state_ = State::Lingering;
  set_deadline(kLingerTime);
  leave_place();
}

void HttpConnection::leave_place() {
  if (std::exchange(has_place_, false)) host_.leave_place();
}

void HttpConnection::ended_by(const ApiError& error) {
  if (begun_ && !answered_) record_.error = error;
}

void HttpConnection::append_head(int status, std::string_view content_type, std::optional<size_t> length) {
  host_.count_answer(status);
  record_.status = status;
  if (host_.draining()) keep_alive_ = false;
  auto out = std::back_inserter(output_);
  fmt::format_to(out, "HTTP/1.1 {} {}\r\nServer: inflight/" INFLIGHT_VERSION_STRING "\r\nDate: {}\r\n", status,
                 reason_phrase(status), host_.date());
  if (!content_type.empty()) fmt::format_to(out, "Content-Type: {}\r\n", content_type);
  for (const Header& header : common_headers_) fmt::format_to(out, "{}: {}\r\n", header.name, header.value);
  if (length) {
    if (status != 204) fmt::format_to(out, "Content-Length: {}\r\n", *length);
  } else if (chunked_) {
    output_ += "Transfer-Encoding: chunked\r\n";
  } else {
    keep_alive_ = false;  // HTTP/1.0: the end of the connection is the end of the answer
  }
  if (!keep_alive_) {
    output_ += "Connection: close\r\n";
  } else if (!chunked_) {  // HTTP/1.0 closes unless told otherwise
    output_ += "Connection: keep-alive\r\n";
  }
}

void HttpConnection::respond(HttpResponse response) {
  if (closed_ || answered_ || streaming_) return;
  append_head(response.status, response.status == 204 ? "" : response.content_type, response.body.size());
  for (const Header& header : response.headers) output_ += header.name + ": " + header.value + "\r\n";
  output_ += "\r\n";
  if (!head_only_ && response.status != 204) output_ += response.body;
  answered_ = true;
  flush();
}

void HttpConnection::begin_stream(std::string_view content_type) {
  if (closed_ || answered_ || streaming_) return;
  common_headers_.push_back({"Cache-Control", "no-cache"});
  common_headers_.push_back({"X-Accel-Buffering", "no"});  // proxies: pass on at once
  append_head(200, content_type, std::nullopt);
  output_ += "\r\n";
  streaming_ = true;
  flush();
}

void HttpConnection::write(std::string_view data) {
  if (closed_ || !streaming_ || data.empty()) return;
  if (chunked_) {
    fmt::format_to(std::back_inserter(output_), "{:x}\r\n", data.size());
    output_ += data;
    output_ += "\r\n";
  } else {
    output_ += data;
  }
  flush();
}

void HttpConnection::end_stream() {
  if (closed_ || !streaming_) return;
  if (chunked_) output_ += "0\r\n\r\n";
  streaming_ = false;
  answered_ = true;
  flush();
}

bool HttpConnection::ready() const { return !closed_ && output_.size() < kWriteBufferMax; }

void HttpConnection::flush() {
  if (closed_ || writing_) return;
  if (sent_ == sending_.size()) {
    sending_.clear();
    sent_ = 0;
    std::swap(sending_, output_);
  }
  if (sending_.empty()) return;
  writing_ = true;
  write_deadline_ = Clock::now() + host_.limits().write_time;
  socket_.async_write_some(asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
                           [this](const error_code& error, size_t bytes) {
                             writing_ = false;
                             on_written(error, bytes);
                           });
}

void HttpConnection::on_written(const error_code& error, size_t bytes) {
  if (closed_) return;
  if (error) return close();
  sent_ += bytes;
  record_.bytes += bytes;
  if (sent_ < sending_.size() || !output_.empty()) return flush();
  if (answered_) {
    finish_exchange();
  } else {
    proceed();
  }
}

template <typename Step>
void HttpConnection::drive(Step step) {
  if (closed_ || !producer_) return;
  try {
    step(*producer_);
  } catch (...) {
    producer_->fail(current_error());
  }
}

void HttpConnection::proceed() {
  drive([](Producer& producer) { producer.proceed(); });
}

void HttpConnection::finish_exchange() {
  end_record();
  if (exchange_ != 0) host_.close_exchange(std::exchange(exchange_, 0), false);
  producer_.reset();
  body_share_.reset();
  common_headers_.clear();
  answered_ = false;
  if (keep_alive_ && !host_.draining()) {
    state_ = State::Idle;
    set_deadline(host_.limits().idle_time);
    parse();
    return;
  }
  // Closing with unread input would make the kernel drop the answer on its way: first end our half.
  error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
  input_.clear();
  linger();
  if (!reading_) close();  // the client has closed its half before
}

void HttpConnection::end_record() {
  if (!begun_) return;
  record_.time = Clock::now() - *begun_;
  begun_.reset();
  host_.ended(record_);
}

void HttpConnection::check(Clock::time_point now) {
  if (closed_) return;
  if (writing_ && now > write_deadline_) return close();
  if (state_ == State::Answering && producer_) {
    return drive([now](Producer& producer) { producer.on_tick(now); });
  }
  if (now <= deadline_) return;
  switch (state_) {
    case State::Fresh:
    case State::Idle:
    case State::Lingering:
      return close();
    case State::Head:
      return reject({408, "the request's header did not arrive in time"});
    case State::Body:
      return reject({408, "the request's body did not arrive in time"});
    case State::Answering:
      return;
  }
}

void HttpConnection::close_when_idle() {
  if (state_ == State::Idle) close();
}

void HttpConnection::close() {
  if (closed_) return;
  closed_ = true;
  error_code ignored;
  socket_.close(ignored);
  leave_place();
  end_record();
  if (exchange_ != 0) host_.close_exchange(std::exchange(exchange_, 0), true);
  producer_.reset();
  body_share_.reset();
}

}  // namespace inflight::server
