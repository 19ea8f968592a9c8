// SPDX-License-Identifier: Apache-2.0
#include "device/driver_signals.h"

#include <dlfcn.h>

#include <array>
#include <mutex>

namespace inflight {
namespace {

struct Dispositions {
  std::mutex mutex;
  int users = 0;
  std::array<struct sigaction, NSIG> before{};
};

Dispositions& dispositions() {
  static Dispositions saved;
  return saved;
}

void* handler_of(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ? reinterpret_cast<void*>(action.sa_sigaction)
                                             : reinterpret_cast<void*>(action.sa_handler);
}

// Where the file lies in memory that holds this address.
void* file_of(void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

}  // namespace

DriverSignals::DriverSignals() {
  ::sigaltstack(nullptr, &stack_before_);
  Dispositions& saved = dispositions();
  const std::scoped_lock lock(saved.mutex);
  if (saved.users++ > 0) return;
  for (int signal = 1; signal < NSIG; ++signal)
    ::sigaction(signal, nullptr, &saved.before[static_cast<size_t>(signal)]);
}

DriverSignals::~DriverSignals() {
  const bool was_there = (stack_before_.ss_flags & SS_DISABLE) == 0;
  if (was_there) ::sigaltstack(&stack_before_, nullptr);
  Dispositions& saved = dispositions();
  const std::scoped_lock lock(saved.mutex);
  if (--saved.users > 0) return;
  void* const own = file_of(reinterpret_cast<void*>(&file_of));
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction now{};
    const struct sigaction& before = saved.before[static_cast<size_t>(signal)];
    if (::sigaction(signal, nullptr, &now) != 0 || handler_of(now) == handler_of(before)) continue;
    if (file_of(handler_of(now)) != own) ::sigaction(signal, &before, nullptr);
  }
}

}  // namespace inflight
