// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/plugin_check.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/clock.h"
#include "base/error.h"
#include "plugin_host/check_tests.h"
#include "plugin_host/plugin_file.h"

namespace inflight {
namespace {

constexpr rlim_t kMemoryBytesMax = rlim_t{4} << 30;
// The last two bytes from a child that came to its end, the second one its verdict: what ends the process without them
// is the plugin's exit().
constexpr char kEnded = '\0';

#ifdef INFLIGHT_SANITIZED
constexpr bool kLimitsMemory = false;  // sanitizers reserve terabytes
#else
constexpr bool kLimitsMemory = true;
#endif

std::vector<CheckTest> all_tests() {
  std::vector<CheckTest> all;
  for (const auto tests : {file_checks(), policy_checks(), state_checks(), liveness_checks()}) {
    all.insert(all.end(), tests.begin(), tests.end());
  }
  return all;
}

void limit_process(int32_t seconds) {
  const auto whole = static_cast<rlim_t>(seconds);
  const rlimit time{whole, whole}, memory{kMemoryBytesMax, kMemoryBytesMax}, core{0, 0};
  ::setrlimit(RLIMIT_CPU, &time);
  ::setrlimit(RLIMIT_CORE, &core);
  if (kLimitsMemory) ::setrlimit(RLIMIT_AS, &memory);
  ::alarm(static_cast<unsigned>(seconds));
}

std::vector<const inflight_policy_t*> checked_policies(const PluginModule& module, const std::string& member) {
  std::vector<const inflight_policy_t*> checked;
  for (const inflight_policy_t* policy : module.policies()) {
    if (member.empty() || member == policy->id || member == short_name(*policy)) checked.push_back(policy);
  }
  return checked;
}

// The child: writes its message, then that it ended, and how.
[[noreturn]] void run_child(const CheckTest& test, const CheckOptions& options, CheckProgress& progress, int out) {
  limit_process(options.limit_seconds);
  auto verdict = CheckStatus::Passed;
  std::string message;
  try {
    const auto module = PluginModule::load(options.path);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::signal(signal, SIG_DFL);
    CheckContext context{options, progress, *module, checked_policies(*module, options.member)};
    message = test.run(context);
  } catch (const CheckSkipped& skipped) {
    verdict = CheckStatus::Skipped;
    message = skipped.why;
  } catch (const std::exception& error) {
    verdict = CheckStatus::Failed;
    message = error.what();
  }
  message.resize(std::min<size_t>(message.size(), 4000));  // what a pipe takes at once
  message += kEnded;
  message += static_cast<char>(verdict);
  ::_exit(::write(out, message.data(), message.size()) < 0);
}

std::string read_to_end(int in) {
  std::string text;
  char part[1024];
  for (;;) {
    const ssize_t got = ::read(in, part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part, static_cast<size_t>(got));
  }
}

std::string place_of(const CheckProgress& progress) {
  if (progress.op[0] == '\0') return "";
  return fmt::format("{}: {}(), call {}: ", progress.policy, progress.op, progress.call);
}

CheckResult run_test(const CheckTest& test, const CheckOptions& options, CheckProgress& progress) {
  progress = {};
  int ends[2];
  if (::pipe(ends) != 0) fail(ErrorCode::Io, "no pipe to a check: {}", std::strerror(errno));
  std::fflush(nullptr);
  const SteadyClock clock;
  const TimeNs begin = clock.now();
  const pid_t child = ::fork();
  if (child < 0) fail(ErrorCode::Io, "no process for a check: {}", std::strerror(errno));
  if (child == 0) {
    ::close(ends[0]);
    run_child(test, options, progress, ends[1]);
  }
  ::close(ends[1]);
  CheckResult result{test.group, test.name, CheckStatus::Passed, read_to_end(ends[0])};
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  result.seconds = static_cast<double>(clock.now() - begin) * 1e-9;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const bool late = signal == SIGALRM || signal == SIGXCPU || signal == SIGKILL;
    result.status = CheckStatus::Failed;
    result.message = place_of(progress) + (late ? fmt::format("did not return within {} s", options.limit_seconds)
                                                : std::string("crashed with SIG") + ::sigabbrev_np(signal));
  } else if (const size_t size = result.message.size(); size < 2 || result.message[size - 2] != kEnded) {
    result.status = CheckStatus::Failed;
    result.message = place_of(progress) + "ended the process";
  } else {
    result.status = static_cast<CheckStatus>(result.message.back());
    result.message.resize(size - 2);
  }
  return result;
}

// What to say of a file without the member; nothing when it has one.
std::string missing_member(CheckContext& context) {
  if (!context.policies.empty()) return "";
  std::string known;
  for (const inflight_policy_t* policy : context.module.policies()) {
    known += (known.empty() ? "" : ", ") + short_name(*policy);
  }
  return fmt::format("{} holds no policy '{}', but: {}", context.options.path, context.options.member, known);
}

// Looks in a child, as the checks do: the file's code runs there only. One that does not load fails the checks instead.
void require_member(const CheckOptions& options) {
  CheckProgress progress{};
  const CheckResult looked = run_test({"", "", missing_member}, options, progress);
  if (looked.status == CheckStatus::Passed && !looked.message.empty()) fail(ErrorCode::NotFound, "{}", looked.message);
}

}  // namespace

void note_progress(CheckContext& context, const inflight_policy_t& policy, const char* op, int64_t call) {
  CheckProgress& progress = context.progress;
  std::snprintf(progress.policy, sizeof progress.policy, "%s", policy.id);
  std::snprintf(progress.op, sizeof progress.op, "%s", op);
  progress.call = call;
}

std::vector<CheckResult> check_plugin(const CheckOptions& options,
                                      const std::function<void(const CheckResult&)>& on_result) {
  require_plugin_file(options.path);
  const auto tests = all_tests();
  for (const std::string& group : options.only) {
    if (std::ranges::none_of(tests, [&](const CheckTest& test) { return group == test.group; })) {
      fail(ErrorCode::InvalidArgument,
           "there is no check '{}', allowed: file, query, create, ops, determinism, state, time, liveness", group);
    }
  }
  if (!options.member.empty()) require_member(options);
  void* const shared =
      ::mmap(nullptr, sizeof(CheckProgress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) fail(ErrorCode::OutOfMemory, "no memory for the checks");
  auto& progress = *new (shared) CheckProgress;
  std::vector<CheckResult> results;
  for (const CheckTest& test : tests) {
    if (!options.only.empty() && std::ranges::find(options.only, test.group) == options.only.end()) continue;
    results.push_back(run_test(test, options, progress));
    on_result(results.back());
  }
  ::munmap(shared, sizeof(CheckProgress));
  return results;
}

}  // namespace inflight
