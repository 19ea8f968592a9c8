// SPDX-License-Identifier: Apache-2.0
#include "server/http_server.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstring>
#include <ctime>
#include <deque>
#include <mutex>
#include <random>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "server/http_connection.h"

namespace inflight::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Stream = asio::generic::stream_protocol;  // TCP or a Unix socket
using boost::system::error_code;
using std::chrono::milliseconds;

constexpr milliseconds kSweepPeriod{200};      // how exactly time limits are kept
constexpr milliseconds kAcceptRetryTime{100};  // when the process has no file descriptor left
constexpr size_t kShortTaskBytes = 256 << 10;  // a longer task leaves a worker to others

}  // namespace

class HttpServer::Core final : public ConnectionHost {
 public:
  Core(const HttpServerOptions& options, Handler handler, HttpHooks hooks)
      : options_(options),
        handler_(std::move(handler)),
        hooks_(std::move(hooks)),
        acceptor_(io_),
        accept_timer_(io_),
        signals_(io_),
        workers_(static_cast<size_t>(std::max(1, options.worker_count))) {
    std::random_device random;
    id_base_ = fmt::format("{:08x}{:08x}", random(), random());
    listen();
    every(kSweepPeriod, [this] { sweep(); });
    update_date();
    every(milliseconds(1000), [this] { update_date(); });
  }
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;
  ~Core() override {
    workers_.stop();
    workers_.join();
    for (const auto& connection : connections_) connection->close();
    if (!options_.uds.empty() && acceptor_.is_open()) ::unlink(options_.uds.c_str());
  }

  [[nodiscard]] std::string address() const {
    const Stream::endpoint at = acceptor_.local_endpoint();
    if (at.protocol().family() == AF_UNIX) {
      sockaddr_un path{};
      std::memcpy(&path, at.data(), std::min(at.size(), sizeof path - 1));
      return fmt::format("unix:{}", path.sun_path);
    }
    tcp::endpoint endpoint;
    endpoint.resize(at.size());
    std::memcpy(endpoint.data(), at.data(), at.size());
    const asio::ip::address host = endpoint.address();
    const std::string name = host.is_v6() ? "[" + host.to_string() + "]" : host.to_string();
    return fmt::format("http://{}:{}", name, endpoint.port());
  }

  [[nodiscard]] int listener() { return acceptor_.native_handle(); }

  void run() {
    accept();
    io_.run();
    for (const auto& connection : connections_) connection->close();  // nobody waits for what has not begun
    workers_.join();
  }

  void stop() { io_.stop(); }
  void post(Task task) { asio::post(io_, std::move(task)); }
  void work(uint64_t exchange, size_t bytes, Task task) {
    {
      const std::scoped_lock lock(waiting_mutex_);
      waiting_.push_back({exchange, bytes > kShortTaskBytes, std::move(task)});
    }
    asio::post(workers_, [this] { work_while_any(); });
  }

  void every(milliseconds period, std::function<void()> task) {
    timers_.push_back(std::make_unique<Timer>(asio::steady_timer(io_), period, std::move(task)));
    repeat(*timers_.back());
  }

  void on_signal(std::function<void()> task) {
    signals_.add(SIGINT);
    signals_.add(SIGTERM);
    signal_task_ = std::move(task);
    wait_signal();
  }

  [[nodiscard]] Exchange* find(uint64_t exchange) const {
    const auto found = exchanges_.find(exchange);
    return found == exchanges_.end() ? nullptr : found->second;
  }

  [[nodiscard]] std::vector<uint64_t> open_exchanges() const {
    std::vector<uint64_t> ids;
    for (const auto& [id, exchange] : exchanges_) ids.push_back(id);
    return ids;
  }

  void stop_accepting() {
    accepting_ = false;
    acceptor_.cancel();
    accept_timer_.cancel();
  }

  void close_idle() {
    draining_ = true;
    for (const auto& connection : connections_) connection->close_when_idle();
  }

  [[nodiscard]] HttpStats stats() const {
    HttpStats stats = stats_;
    stats.exchanges_open = static_cast<int32_t>(exchanges_.size());
    return stats;
  }

  // ConnectionHost
  [[nodiscard]] const HttpLimits& limits() const override { return options_.limits; }
  [[nodiscard]] std::string new_request_id() override { return fmt::format("{}{:x}", id_base_, ++request_count_); }
  void add_headers(Exchange& exchange, const HttpRequest& head) override {
    if (hooks_.add_headers) hooks_.add_headers(exchange, head);
  }
  [[nodiscard]] std::optional<HttpResponse> refusal(Exchange& exchange, const HttpRequest& head) override {
    return hooks_.refusal ? hooks_.refusal(exchange, head) : std::nullopt;
  }
  void ended(const HttpRecord& record) override {
    if (hooks_.ended) hooks_.ended(record);
  }
  void leave_place() override { --stats_.connections_open; }
  [[nodiscard]] uint64_t open_exchange(HttpConnection& connection) override {
    exchanges_.emplace(++last_exchange_, &connection);
    return last_exchange_;
  }
  void close_exchange(uint64_t exchange, bool client_gone) override {
    exchanges_.erase(exchange);
    if (client_gone) ++stats_.clients_gone;
    std::vector<Task> unwanted;  // freed behind the lock, as by work_while_any()
    const std::scoped_lock lock(waiting_mutex_);
    for (Waiting& waiting : waiting_) {
      if (waiting.exchange == exchange) unwanted.push_back(std::move(waiting.task));
    }
    std::erase_if(waiting_, [exchange](const Waiting& waiting) { return waiting.exchange == exchange; });
  }
  void handle(Exchange& exchange, HttpRequest request) override { handler_(exchange, std::move(request)); }
  [[nodiscard]] std::shared_ptr<BodyShare> body_share() override { return std::make_shared<BodyShare>(body_memory_); }
  void count_answer(int status) override { ++stats_.answers[status]; }
  [[nodiscard]] bool draining() const override { return draining_; }
  [[nodiscard]] const std::string& date() const override { return date_; }

 private:
  struct Waiting {
    uint64_t exchange;
    bool is_long;
    Task task;
  };
  struct Timer {
    Timer(asio::steady_timer timer_, milliseconds period_, std::function<void()> task_)
        : timer(std::move(timer_)), period(period_), task(std::move(task_)) {}
    asio::steady_timer timer;
    milliseconds period;
    std::function<void()> task;
  };

  // On a worker: one is posted for each task, and who ends a long one may begin with another.
  void work_while_any() {
    std::unique_lock lock(waiting_mutex_);
    for (auto next = next_task(); next != waiting_.end(); next = next_task()) {
      std::optional<Task> task = std::move(next->task);
      const int32_t is_long = next->is_long ? 1 : 0;
      waiting_.erase(next);
      long_running_ += is_long;
      lock.unlock();
      (*task)();
      task.reset();  // what it owns may be large: not under the lock
      lock.lock();
      long_running_ -= is_long;
    }
  }

  [[nodiscard]] std::deque<Waiting>::iterator next_task() {
    const auto is_short = [](const Waiting& waiting) { return !waiting.is_long; };
    const auto found = std::find_if(waiting_.begin(), waiting_.end(), is_short);
    if (found != waiting_.end() || long_running_ >= std::max(1, options_.worker_count - 1)) return found;
    return waiting_.begin();
  }

  [[nodiscard]] Stream::endpoint endpoint(error_code& error) {
    if (!options_.uds.empty()) {
      if (options_.uds.size() >= sizeof(sockaddr_un::sun_path)) {
        error = asio::error::name_too_long;
        return {};
      }
      return asio::local::stream_protocol::endpoint(options_.uds);
    }
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(options_.host, std::to_string(options_.port), tcp::resolver::passive, error);
    return found.empty() ? Stream::endpoint() : found.begin()->endpoint();
  }

  // A socket file that nobody listens to any more.
  void remove_dead_socket(const Stream::endpoint& endpoint) {
    struct stat status{};
    if (options_.uds.empty() || ::stat(options_.uds.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
    error_code error;
    Stream::socket probe(io_);
    probe.connect(endpoint, error);
    if (error == asio::error::connection_refused) ::unlink(options_.uds.c_str());
  }

  void listen() {
    if (options_.listener >= 0) return take_listener();
    const std::string place = options_.uds.empty() ? fmt::format("{}:{}", options_.host, options_.port) : options_.uds;
    error_code error;
    const Stream::endpoint at = endpoint(error);
    if (error) throw std::runtime_error(fmt::format("cannot resolve {}: {}", place, error.message()));
    remove_dead_socket(at);
    acceptor_.open(at.protocol(), error);
    if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor_.bind(at, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) throw std::runtime_error(fmt::format("cannot listen on {}: {}", place, error.message()));
  }

  void take_listener() {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    int listens = 0;
    socklen_t listens_size = sizeof listens;
    if (::getsockopt(options_.listener, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) != 0 || listens == 0 ||
        ::getsockname(options_.listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw std::runtime_error(fmt::format("file descriptor {} is no socket that listens", options_.listener));
    }
    acceptor_.assign(Stream(address.ss_family, SOCK_STREAM), options_.listener);
  }

  void accept() {
    if (!accepting_) return;  // it was told so while a client was let in
    acceptor_.async_accept([this](const error_code& error, Stream::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) {
        accept_timer_.expires_after(kAcceptRetryTime);
        accept_timer_.async_wait([this](const error_code& aborted) {
          if (!aborted) accept();
        });
        return;
      }
      connections_.push_back(std::make_unique<HttpConnection>(std::move(socket), *this));
      if (stats_.connections_open >= options_.limits.connections) {
        ++stats_.connections_refused;
        connections_.back()->refuse();
      } else {
        ++stats_.connections_accepted;
        ++stats_.connections_open;
        connections_.back()->start();
      }
      accept();
    });
  }

  void sweep() {
    const auto now = HttpConnection::Clock::now();
    for (const auto& connection : connections_) connection->check(now);
    std::erase_if(connections_, [](const auto& connection) { return connection->retired(); });
  }

  void update_date() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm parts{};
    char text[32];
    const size_t length = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &parts));
    date_.assign(text, length);
  }

  void repeat(Timer& timer) {
    timer.timer.expires_after(timer.period);
    timer.timer.async_wait([this, &timer](const error_code& aborted) {
      if (aborted) return;
      timer.task();
      repeat(timer);
    });
  }

  void wait_signal() {
    signals_.async_wait([this](const error_code& error, int) {
      if (error) return;
      signal_task_();
      wait_signal();
    });
  }

  const HttpServerOptions options_;
  const Handler handler_;
  const HttpHooks hooks_;
  asio::io_context io_{1};
  asio::basic_socket_acceptor<Stream> acceptor_;
  asio::steady_timer accept_timer_;
  asio::signal_set signals_;
  std::function<void()> signal_task_;
  std::vector<std::unique_ptr<Timer>> timers_;
  std::vector<std::unique_ptr<HttpConnection>> connections_;
  std::unordered_map<uint64_t, Exchange*> exchanges_;
  uint64_t last_exchange_ = 0;
  std::string id_base_;  // of this process, for requests' ids
  uint64_t request_count_ = 0;
  const std::shared_ptr<BodyMemory> body_memory_ = std::make_shared<BodyMemory>(options_.limits.bodies_bytes);
  bool accepting_ = true;
  bool draining_ = false;
  std::string date_;
  HttpStats stats_;
  std::mutex waiting_mutex_;
  std::deque<Waiting> waiting_;  // for a worker, in order
  int32_t long_running_ = 0;
  asio::thread_pool workers_;
};

HttpServer::HttpServer(const HttpServerOptions& options, Handler handler, HttpHooks hooks)
    : core_(std::make_unique<Core>(options, std::move(handler), std::move(hooks))) {}
HttpServer::~HttpServer() = default;

std::string HttpServer::address() const { return core_->address(); }
int HttpServer::listener() const { return core_->listener(); }
void HttpServer::run() { core_->run(); }
void HttpServer::stop() { core_->stop(); }
void HttpServer::post(Task task) { core_->post(std::move(task)); }
void HttpServer::work(uint64_t exchange, size_t bytes, Task task) { core_->work(exchange, bytes, std::move(task)); }
void HttpServer::every(milliseconds period, std::function<void()> task) { core_->every(period, std::move(task)); }
void HttpServer::on_signal(std::function<void()> task) { core_->on_signal(std::move(task)); }
Exchange* HttpServer::find(uint64_t exchange) { return core_->find(exchange); }
std::vector<uint64_t> HttpServer::open_exchanges() const { return core_->open_exchanges(); }
void HttpServer::stop_accepting() { core_->stop_accepting(); }
void HttpServer::close_idle() { core_->close_idle(); }
HttpStats HttpServer::stats() const { return core_->stats(); }

}  // namespace inflight::server
