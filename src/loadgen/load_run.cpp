// SPDX-License-Identifier: Apache-2.0
#include "loadgen/load_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <ctime>
#include <deque>
#include <limits>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/quote.h"

namespace inflight {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using nlohmann::json;

constexpr size_t kErrorBytesMax = 200;  // of what a server says

class Exchange;

// When requests are sent, and what comes of them.
class Run {
 public:
  Run(const Workload& workload, const LoadOptions& options, const std::function<void(size_t)>& progress)
      : workload_(workload), options_(options), progress_(progress), timer_(io_), followers_(workload) {
    records_.requests.resize(workload.requests.size());
    tcp::resolver resolver(io_);
    error_code error;
    endpoints_ = resolver.resolve(options.target.host, options.target.port, error);
    if (error) fail(ErrorCode::Io, "cannot resolve {}: {}", options.target.host, error.message());
  }

  LoadRecords all() {
    for (size_t i = 0; i < workload_.requests.size(); ++i) {
      const SimRequest& request = workload_.requests[i];
      if (request.after == kNoRequest) due_.emplace_back(request.arrival, i);
    }
    std::make_heap(due_.begin(), due_.end(), std::greater<>());
    const std::clock_t cpu = std::clock();
    begin_ = clock_.now();
    send_due();
    io_.run();
    const double seconds = static_cast<double>(now()) * 1e-9;
    records_.client_cpu_share = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC / std::max(seconds, 1e-9);
    return std::move(records_);
  }

  [[nodiscard]] TimeNs now() const { return clock_.now() - begin_; }
  [[nodiscard]] LoadRecord& record(size_t index) { return records_.requests[index]; }
  [[nodiscard]] const Workload& workload() const { return workload_; }
  [[nodiscard]] const LoadOptions& options() const { return options_; }
  [[nodiscard]] const tcp::resolver::results_type& endpoints() const { return endpoints_; }
  [[nodiscard]] asio::io_context& io() { return io_; }

  void on_end(size_t index) {
    --open_;
    progress_(++ended_);
    followers_.each(static_cast<int32_t>(index), [this](int32_t follower) {
      const auto next = static_cast<size_t>(follower);
      due_.emplace_back(now() + workload_.requests[next].arrival, next);
      std::push_heap(due_.begin(), due_.end(), std::greater<>());
    });
    send_due();
  }

 private:
  void send_due();

  const Workload& workload_;
  const LoadOptions& options_;
  const std::function<void(size_t)>& progress_;
  SteadyClock clock_;
  asio::io_context io_{1};
  asio::steady_timer timer_;
  tcp::resolver::results_type endpoints_;
  std::vector<std::pair<TimeNs, size_t>> due_;  // a heap, the earliest on top
  Followers followers_;
  TimeNs begin_ = 0;
  int32_t open_ = 0;
  size_t ended_ = 0;
  LoadRecords records_;
};

// One request on one connection.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Run& run, size_t index) : run_(run), index_(index), stream_(run.io()) {
    parser_.body_limit(std::numeric_limits<uint64_t>::max());
  }

  void start() {
    const LoadOptions& options = run_.options();
    request_.method(http::verb::post);
    request_.target(options.target.path);
    request_.version(11);
    request_.set(http::field::host, options.target.authority);
    request_.set(http::field::content_type, "application/json");
    request_.set(http::field::connection, "close");
    if (!options.api_key.empty()) request_.set(http::field::authorization, "Bearer " + options.api_key);
    request_.body() = load_body(run_.workload(), index_, options);
    request_.prepare_payload();
    record().begin = run_.now();
    stream_.expires_after(options.timeout);
    stream_.async_connect(run_.endpoints(), [self = shared_from_this()](const error_code& error, const auto&) {
      if (error) return self->end("cannot connect: " + error.message());
      self->write();
    });
  }

 private:
  [[nodiscard]] LoadRecord& record() { return run_.record(index_); }

  void write() {
    http::async_write(stream_, request_, [self = shared_from_this()](const error_code& error, size_t) {
      if (error) return self->end("sending: " + error.message());
      self->read();
    });
  }

  void read() {
    stream_.expires_after(run_.options().timeout);
    http::async_read_some(stream_, buffer_, parser_,
                          [self = shared_from_this()](const error_code& error, size_t) { self->on_read(error); });
  }

  void on_read(const error_code& error) {
    if (error && error != http::error::end_of_stream) return end("receiving: " + error.message());
    if (parser_.is_header_done() && parser_.get().result() == http::status::ok) take(parser_.get().body());
    if (!failure_.empty()) return end(failure_);
    if (!parser_.is_done() && !error) return read();
    if (!parser_.is_header_done()) return end("the server closed without an answer");
    if (parser_.get().result() != http::status::ok) {
      return end(fmt::format("HTTP {}: {}", parser_.get().result_int(), escape(parser_.get().body(), kErrorBytesMax)));
    }
    if (!parser_.is_done()) return end("the answer was cut off");
    end(record().token_times.empty() ? "no token came" : "");
  }

  // Whole lines of what has come.
  void take(std::string& body) {
    pending_ += body;
    body.clear();
    size_t begin = 0;
    for (size_t newline = 0; (newline = pending_.find('\n', begin)) != std::string::npos; begin = newline + 1) {
      take_line(std::string_view(pending_).substr(begin, newline - begin));
    }
    pending_.erase(0, begin);
  }

  void take_line(std::string_view line) {
    constexpr std::string_view kData = "data:";
    if (!line.starts_with(kData)) return;
    line.remove_prefix(kData.size());
    if (line.find("[DONE]") != std::string_view::npos) return;
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object()) {
      failure_ = fmt::format("an event that is no JSON object: {}", escape(line, kErrorBytesMax));
      return;
    }
    if (const auto error = event.find("error"); error != event.end() && !error->is_null()) {
      failure_ = escape(error->dump(), kErrorBytesMax);
    }
    if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object()) {
      record().prompt_tokens = count_in(*usage, "prompt_tokens");
      record().output_tokens = count_in(*usage, "completion_tokens");
    }
    const auto choices = event.find("choices");
    if (choices == event.end() || !choices->is_array() || choices->empty()) return;
    if (has_text(choices->front())) record().token_times.push_back(run_.now());
  }

  // 0 where it is no such number.
  [[nodiscard]] static int32_t count_in(const json& usage, const char* key) {
    const auto found = usage.find(key);
    const bool is_count = found != usage.end() && found->is_number_integer() && *found >= 0 && *found <= INT32_MAX;
    return is_count ? found->get<int32_t>() : 0;
  }

  [[nodiscard]] static bool has_text(const json& choice) {
    const auto text_in = [](const json& holder, const char* key) {
      const auto found = holder.find(key);
      return found != holder.end() && found->is_string() && !found->get_ref<const std::string&>().empty();
    };
    if (text_in(choice, "text")) return true;
    const auto delta = choice.find("delta");
    return delta != choice.end() && (text_in(*delta, "content") || text_in(*delta, "reasoning_content"));
  }

  void end(const std::string& error) {
    LoadRecord& result = record();
    result.complete = error.empty();
    result.error = error;
    if (result.prompt_tokens == 0) result.prompt_tokens = run_.workload().requests[index_].prompt_tokens;
    if (result.output_tokens == 0) result.output_tokens = static_cast<int32_t>(result.token_times.size());
    stream_.close();
    run_.on_end(index_);
  }

  Run& run_;
  const size_t index_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response_parser<http::string_body> parser_;
  std::string pending_;  // an incomplete line
  std::string failure_;
};

void Run::send_due() {
  while (!due_.empty() && due_.front().first <= now() &&
         (options_.max_concurrency == 0 || open_ < options_.max_concurrency)) {
    const auto [time, index] = due_.front();
    std::pop_heap(due_.begin(), due_.end(), std::greater<>());
    due_.pop_back();
    if (options_.max_concurrency == 0) records_.late_max = std::max(records_.late_max, now() - time);
    records_.max_concurrent = std::max(records_.max_concurrent, ++open_);
    std::make_shared<Exchange>(*this, index)->start();
  }
  if (due_.empty() || due_.front().first <= now()) return;  // the next end sends the next
  timer_.expires_after(std::chrono::nanoseconds(due_.front().first - now()));
  timer_.async_wait([this](const error_code& aborted) {
    if (!aborted) send_due();
  });
}

}  // namespace

LoadRecords run_load(const Workload& workload, const LoadOptions& options,
                     const std::function<void(size_t)>& progress) {
  return Run(workload, options, progress).all();
}

}  // namespace inflight
