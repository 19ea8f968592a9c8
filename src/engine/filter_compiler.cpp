// SPDX-License-Identifier: Apache-2.0
#include "engine/filter_compiler.h"

#include <system_error>
#include <utility>

namespace inflight {
namespace {

constexpr int kThreads = 2;  // so that one long grammar does not hold up all the others

}  // namespace

void FilterCompiler::start(RequestId request, FilterSource source) {
  while (threads_.size() < kThreads) {
    try {
      threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
    } catch (const std::system_error& error) {  // the process may have no more of them
      if (!threads_.empty()) break;
      return done_({.request = request,
                    .filter = nullptr,
                    .code = ErrorCode::OutOfMemory,
                    .error = std::string("no thread can be started that compiles the grammar: ") + error.what()});
    }
  }
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back({request, std::move(source)});
  }
  wake_.notify_one();
}

void FilterCompiler::forget(RequestId request) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(waiting_, [request](const Work& work) { return work.request == request; });
  const auto found = running_.find(to_integer(request));
  if (found != running_.end()) found->second.request_stop();
}

void FilterCompiler::run(const std::stop_token& stop) {
  for (;;) {
    std::unique_lock lock(mutex_);
    if (!wake_.wait(lock, stop, [this] { return !waiting_.empty(); }) || stop.stop_requested()) return;
    const Work work = std::move(waiting_.front());
    waiting_.pop_front();
    std::stop_source unwanted;
    running_.emplace(to_integer(work.request), unwanted);
    lock.unlock();
    const std::stop_callback at_end(stop, [&unwanted] { unwanted.request_stop(); });
    Result result{.request = work.request};
    try {
      result.filter = work.source(unwanted.get_token());
    } catch (const Error& error) {
      result.code = error.code();
      result.error = error.what();
    } catch (const std::exception& error) {
      result.error = error.what();
    }
    lock.lock();
    running_.erase(to_integer(work.request));
    lock.unlock();
    done_(std::move(result));
  }
}

}  // namespace inflight
