// SPDX-License-Identifier: Apache-2.0
// A call to be made once, later, with whatever it owns (std::function wants copies).
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace inflight::server {

class Task {
 public:
  template <typename Call, typename = std::enable_if_t<!std::is_same_v<std::decay_t<Call>, Task>>>
  Task(Call&& call)  // NOLINT: converts on purpose, as std::function does
      : call_(std::make_unique<Holder<std::decay_t<Call>>>(std::forward<Call>(call))) {}

  void operator()() { call_->run(); }

 private:
  struct Base {
    Base() = default;
    Base(const Base&) = delete;
    Base& operator=(const Base&) = delete;
    virtual ~Base() = default;
    virtual void run() = 0;
  };
  template <typename Call>
  struct Holder final : Base {
    explicit Holder(Call call) : held(std::move(call)) {}
    void run() override { held(); }
    Call held;
  };
  std::unique_ptr<Base> call_;
};

}  // namespace inflight::server
