// SPDX-License-Identifier: Apache-2.0
// Makes token filters off the engine thread: compiling a grammar takes milliseconds, which no other request shall wait.
// THREAD: start() and forget(): the engine thread. The sources run on the compiler's own threads, which start with the
// first request that has one.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "core/token_filter.h"

namespace inflight {

// Makes the filter of a request, or throws what is wrong with it.  THREAD: any.
using FilterSource = std::function<std::unique_ptr<TokenFilter>()>;

class FilterCompiler {
 public:
  struct Result {
    RequestId request{};
    std::unique_ptr<TokenFilter> filter;  // null: it failed
    ErrorCode code = ErrorCode::Internal;
    std::string error;
  };

  // done: called on a compiler's thread, once for each start() but for those that were forgotten before their turn.
  explicit FilterCompiler(std::function<void(Result)> done) : done_(std::move(done)) {}
  FilterCompiler(const FilterCompiler&) = delete;
  FilterCompiler& operator=(const FilterCompiler&) = delete;
  // Waits for sources that run.
  ~FilterCompiler() = default;

  void start(RequestId request, FilterSource source);
  // The result is of no use any more.
  void forget(RequestId request);

 private:
  struct Work {
    RequestId request;
    FilterSource source;
  };
  void run(const std::stop_token& stop);

  std::function<void(Result)> done_;
  std::mutex mutex_;  // guards waiting_
  std::condition_variable_any wake_;
  std::deque<Work> waiting_;
  std::vector<std::jthread> threads_;  // last: they use everything above
};

}  // namespace inflight
