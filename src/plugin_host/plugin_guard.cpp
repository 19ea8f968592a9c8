// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/plugin_guard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"

namespace inflight {
namespace {

constexpr std::array kCrashSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr size_t kSignalStackBytes = 64 * 1024;
constexpr size_t kStackGuardBytes = size_t{1} << 20;  // as the kernel keeps below the main thread's stack
constexpr int kJumpedByWatch = -1;                    // sigsetjmp's value; a crash gives the signal's number

// Takes the access from the last part of the calling thread's stack, while it lives: a runaway recursion whose frames
// are larger than the thread's own guard page (4 KB) then ends here, instead of stepping over it into other memory.
class WideStackGuard {
 public:
  WideStackGuard() {
    if (::getpid() == ::gettid()) return;  // the main thread's stack grows, and the kernel keeps it apart
    pthread_attr_t attributes;
    if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return;
    void* low = nullptr;
    size_t size = 0, guard = 0;
    const bool known =
        ::pthread_attr_getstack(&attributes, &low, &size) == 0 && ::pthread_attr_getguardsize(&attributes, &guard) == 0;
    ::pthread_attr_destroy(&attributes);
    if (!known || size < 4 * kStackGuardBytes + guard) return;  // a small stack is needed whole
    auto* const begin = static_cast<std::byte*>(low) + guard;   // the library's own guard, where it is counted in
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    begin_ = begin + (page - reinterpret_cast<uintptr_t>(begin) % page) % page;
    if (::mprotect(begin_, kStackGuardBytes, PROT_NONE) != 0) begin_ = nullptr;
  }
  ~WideStackGuard() {  // the stack may be given to another thread
    if (begin_ != nullptr) ::mprotect(begin_, kStackGuardBytes, PROT_READ | PROT_WRITE);
  }
  WideStackGuard(const WideStackGuard&) = delete;
  WideStackGuard& operator=(const WideStackGuard&) = delete;

 private:
  void* begin_ = nullptr;
};

// What the signal handlers and the watch know of one thread.
struct ThreadRecord {
  ThreadRecord();
  ~ThreadRecord();

  pthread_t thread = ::pthread_self();
  sigjmp_buf* jump = nullptr;  // of the call in progress; used by this thread and its handlers only
  GuardLimits limits;          // likewise
  uintptr_t restart_at = 0;    // the system call that the last try to cut saw about to begin; likewise
  std::atomic<int32_t> host_depth = 0;
  std::atomic<int32_t> cut_tries = 0;
  std::atomic<int32_t> stuck_after_ms = 0;
  std::atomic<uint64_t> serial = 0;  // odd: a call is in progress
  std::atomic<uint64_t> cut = 0;     // the serial of the call that is to end

  uint64_t watched_serial = 0;  // the watch's
  int32_t watched_ms = 0;
  std::unique_ptr<std::byte[]> signal_stack;
  WideStackGuard stack_guard;
};

// Initial-exec, so that a handler can read it without the loader allocating.
__attribute__((tls_model("initial-exec"))) thread_local ThreadRecord* t_record = nullptr;

// The process ends, or at least this thread, which is the plugin's doing while its call is in progress.
void on_process_end() {
  if (t_record == nullptr || t_record->jump == nullptr) return;
  log(LogLevel::Error, "policy {} ended the process in {}()", t_record->limits.policy, t_record->limits.op);
  ::_exit(EXIT_FAILURE);
}

[[nodiscard]] bool is_cut(const ThreadRecord& record) {
  return record.jump != nullptr && record.cut.load() == record.serial.load();
}

uintptr_t instruction_of(const void* context) {
  const auto* const machine = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  return static_cast<uintptr_t>(machine->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<uintptr_t>(machine->uc_mcontext.pc);
#else
  (void)machine;
  return 0;  // never in the plugin's code: calls are cut after kCutTriesMax tries
#endif
}

#if defined(__x86_64__)
constexpr std::array<unsigned char, 2> kSystemCall = {0x0F, 0x05};  // syscall
#elif defined(__aarch64__)
constexpr std::array<unsigned char, 4> kSystemCall = {0x01, 0x00, 0x00, 0xD4};  // svc #0
#endif

// Whether the thread waits in the kernel and not in the middle of anything that holds a lock of malloc's. The signal
// makes a system call that waits either fail with EINTR or begin again after the handler, which then finds the thread
// in front of the instruction; one that only happens to be there (as malloc in front of its mmap) is not found there
// at two tries in a row. A call that is over when the signal arrives was no waiting.
bool waits_in_kernel(ThreadRecord& record, const void* context) {
#if defined(__x86_64__) || defined(__aarch64__)
  // Byte by byte: whatever follows the first one belongs to the same instruction, so it can be read.
  const auto is_system_call = [](uintptr_t at) {
    const volatile unsigned char* code = reinterpret_cast<const unsigned char*>(at);
    return std::ranges::all_of(kSystemCall, [&](unsigned char byte) { return *code++ == byte; });
  };
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  const auto result = static_cast<int64_t>(registers.gregs[REG_RAX]);
#else
  const auto result = static_cast<int64_t>(registers.regs[0]);
#endif
  const uintptr_t at = instruction_of(context);
  if (result == -EINTR && is_system_call(at - kSystemCall.size())) return true;
  const uintptr_t begins = is_system_call(at) ? at : 0;
  return std::exchange(record.restart_at, begins) == begins && begins != 0;
#else
  (void)record, (void)context;
  return true;
#endif
}

struct Handlers {
  std::array<struct sigaction, kCrashSignals.size()> before{};
  int cut_signal = 0;
};
Handlers& handlers() {
  static Handlers installed;
  return installed;
}

// The crash is not a guarded plugin's: whoever was there before takes it.
void pass_on(int signal, siginfo_t* info, void* context) {
  const auto* const place = std::ranges::find(kCrashSignals, signal);
  const struct sigaction& before = handlers().before[static_cast<size_t>(place - kCrashSignals.begin())];
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    ::sigaction(signal, &before, nullptr);
    if (info->si_code <= 0) ::raise(signal);  // sent, not caused: it will not come again by itself
  }
}

void on_crash(int signal, siginfo_t* info, void* context) {
  ThreadRecord* const record = t_record;
  if (record != nullptr && record->jump != nullptr) ::siglongjmp(*record->jump, signal);
  pass_on(signal, info, context);
}

void on_cut(int, siginfo_t*, void* context) {
  ThreadRecord* const record = t_record;
  if (record == nullptr || !is_cut(*record) || record->host_depth.load() > 0) return;
  const int32_t tries = record->cut_tries.fetch_add(1);
  const bool safe = record->limits.code.contains(instruction_of(context)) ||
                    (tries >= kCutTriesMax && waits_in_kernel(*record, context)) || tries >= kCutTriesLast;
  if (safe) ::siglongjmp(*record->jump, kJumpedByWatch);
}

void install_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::at_quick_exit(on_process_end);
    Handlers& state = handlers();
    struct sigaction action{};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // left by a jump that restores no mask
    sigemptyset(&action.sa_mask);
    action.sa_sigaction = on_crash;
    for (size_t i = 0; i < kCrashSignals.size(); ++i) ::sigaction(kCrashSignals[i], &action, &state.before[i]);
    action.sa_sigaction = on_cut;
    action.sa_flags |= SA_RESTART;  // it may come just after the call: the host's own system calls are to go on
    for (int signal = SIGRTMAX - 1; signal > SIGRTMIN && state.cut_signal == 0; --signal) {
      struct sigaction present{};
      ::sigaction(signal, nullptr, &present);
      if ((present.sa_flags & SA_SIGINFO) != 0 || present.sa_handler != SIG_DFL) continue;  // the program's own
      ::sigaction(signal, &action, nullptr);
      state.cut_signal = signal;
    }
  });
}

// Looks at every thread's call each tick. Never destroyed: threads may end after static objects have.
class CallWatch {
 public:
  static CallWatch& instance() {
    static auto* const watch = new CallWatch;
    return *watch;
  }

  void add(ThreadRecord* record) {
    const std::scoped_lock lock(mutex_);
    records_.push_back(record);
  }
  void remove(ThreadRecord* record) {
    const std::scoped_lock lock(mutex_);
    std::erase(records_, record);
  }
  void add_user() {
    const std::scoped_lock lock(mutex_);
    if (++users_ == 1) start();
  }
  void remove_user() {
    const std::scoped_lock lock(mutex_);
    if (--users_ > 0) return;
    thread_.request_stop();
    wake_.notify_all();
    thread_.detach();  // it ends by itself at the next tick, at the latest
  }

 private:
  void start() {
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);  // no signal of the program is to land on the watch
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      for (ThreadRecord* record : records_) look_at(*record);
      wake_.wait_for(lock, std::chrono::milliseconds(kCallWatchTickMs));
    }
  }

  static void look_at(ThreadRecord& record) {
    const uint64_t serial = record.serial.load();
    if (serial % 2 == 0 || serial != record.watched_serial) {
      record.watched_serial = serial;
      record.watched_ms = 0;
      return;
    }
    record.watched_ms += kCallWatchTickMs;
    if (record.watched_ms < record.stuck_after_ms.load()) return;
    record.cut.store(serial);
    ::pthread_kill(record.thread, handlers().cut_signal);
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<ThreadRecord*> records_;
  int users_ = 0;
  std::jthread thread_;
};

ThreadRecord::ThreadRecord() {
  stack_t present{};
  ::sigaltstack(nullptr, &present);
  if ((present.ss_flags & SS_DISABLE) != 0) {
    signal_stack = std::make_unique<std::byte[]>(kSignalStackBytes);
    const stack_t own{.ss_sp = signal_stack.get(), .ss_flags = 0, .ss_size = kSignalStackBytes};
    ::sigaltstack(&own, nullptr);
  }
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int signal : kCrashSignals) sigaddset(&wanted, signal);
  sigaddset(&wanted, handlers().cut_signal);
  ::pthread_sigmask(SIG_UNBLOCK, &wanted, nullptr);
  CallWatch::instance().add(this);
  t_record = this;
}

ThreadRecord::~ThreadRecord() {  // exit() begins with the calling thread's
  on_process_end();
  t_record = nullptr;
  CallWatch::instance().remove(this);
  if (signal_stack == nullptr) return;
  const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  ::sigaltstack(&none, nullptr);
}

ThreadRecord& record_of_this_thread() {
  if (t_record == nullptr) {
    install_handlers();
    thread_local std::unique_ptr<ThreadRecord> owner;
    owner = std::make_unique<ThreadRecord>();
  }
  return *t_record;
}

void leave(ThreadRecord& record) {
  record.serial.fetch_add(1);
  record.jump = nullptr;
  record.host_depth.store(0);
}

GuardResult late(const ThreadRecord& record) {
  return {GuardOutcome::Stuck, "it did not return in time", record.cut_tries.load()};
}

}  // namespace

GuardResult caught() {
  try {
    throw;
  } catch (const std::exception& error) {
    return {GuardOutcome::Threw, std::string("an exception: ") + error.what()};
  } catch (...) {
    return {GuardOutcome::Threw, "an exception of unknown type"};
  }
}

GuardResult run_guarded(const GuardLimits& limits, void (*function)(void*), void* argument) {
  ThreadRecord& record = record_of_this_thread();
  const auto call = [function, argument] { function(argument); };
  if (record.jump != nullptr) return run_catching(call);
  sigjmp_buf jump;
  record.limits = limits;
  record.restart_at = 0;
  record.cut_tries.store(0);
  record.stuck_after_ms.store(limits.stuck_after_ms);
  // Without the mask: the handlers block nothing (SA_NODEFER), and saving it would cost a system call.
  const int jumped = sigsetjmp(jump, 0);
  if (jumped != 0) {
    ThreadRecord& own = *t_record;  // locals may be stale after the jump
    leave(own);
    if (jumped == kJumpedByWatch) return late(own);
    return {GuardOutcome::Crashed, std::string("SIG") + ::sigabbrev_np(jumped)};
  }
  record.jump = &jump;
  record.serial.fetch_add(1);
  GuardResult result = run_catching(call);
  const bool was_cut = is_cut(record);
  leave(record);
  if (was_cut && result.outcome == GuardOutcome::Returned) return late(record);
  return result;
}

ThreadUse thread_use() {
  rusage use{};
  ::getrusage(RUSAGE_THREAD, &use);
  const auto ns = [](const timeval& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + int64_t{time.tv_usec} * 1000;
  };
  return {ns(use.ru_utime) + ns(use.ru_stime), use.ru_nvcsw};
}

HostFunction::HostFunction() {
  if (t_record != nullptr) t_record->host_depth.fetch_add(1);
}

void HostFunction::end() {
  ThreadRecord* const record = t_record;
  if (record == nullptr) return;
  if (record->host_depth.fetch_sub(1) == 1 && is_cut(*record)) ::siglongjmp(*record->jump, kJumpedByWatch);
}

CallWatchUser::CallWatchUser() {
  install_handlers();
  CallWatch::instance().add_user();
}
CallWatchUser::~CallWatchUser() { CallWatch::instance().remove_user(); }

}  // namespace inflight
