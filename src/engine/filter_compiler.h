// SPDX-License-Identifier: Apache-2.0
// Makes token filters off the engine thread: compiling a grammar takes milliseconds, which no other request shall wait.
// THREAD: start() and forget(): the engine thread. The sources run on the compiler's own threads, which start with the
// first request that has one; where none can be started that request alone fails.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/ids.h"
#include "core/token_filter.h"

namespace inflight {

// Makes the filter of a request, or throws what is wrong with it. Ends soon, with whatever error, once the token says
// that nobody waits for it.  THREAD: any.
using FilterSource = std::function<std::unique_ptr<TokenFilter>(const std::stop_token&)>;

class FilterCompiler {
 public:
  struct Result {
    RequestId request{};
    std::unique_ptr<TokenFilter> filter;  // null: it failed
    ErrorCode code = ErrorCode::Internal;
    std::string error;
  };

  // done: called on a compiler's thread, or in start(), once for each start() but for those that were forgotten before
  // their turn.
  explicit FilterCompiler(std::function<void(Result)> done) : done_(std::move(done)) {}
  FilterCompiler(const FilterCompiler&) = delete;
  FilterCompiler& operator=(const FilterCompiler&) = delete;
  // Has the sources that run stop, and waits for them.
  ~FilterCompiler() = default;

  void start(RequestId request, FilterSource source);
  // The result is of no use any more: a source that runs is told to stop.
  void forget(RequestId request);

 private:
  struct Work {
    RequestId request;
    FilterSource source;
  };
  void run(const std::stop_token& stop);

  std::function<void(Result)> done_;
  std::mutex mutex_;  // guards waiting_ and running_
  std::condition_variable_any wake_;
  std::deque<Work> waiting_;
  std::unordered_map<uint64_t, std::stop_source> running_;  // by request
  std::vector<std::jthread> threads_;                       // last: they use everything above
};

}  // namespace inflight
