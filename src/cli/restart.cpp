// SPDX-License-Identifier: Apache-2.0
#include "cli/restart.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/stderr_log.h"

namespace inflight::cli {
namespace {

constexpr int kFirstListener = 3;  // sd_listen_fds(3)

// NUL after each.
std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

std::vector<int> open_files() {
  std::vector<int> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string name = entry.path().filename().string();
    int file = -1;
    if (std::from_chars(name.data(), name.data() + name.size(), file).ec == std::errc()) files.push_back(file);
  }
  return files;
}

[[noreturn]] void give_up(const char* call) {
  print_to_stderr("inflight: cannot start again: {}: {}\n", call, std::strerror(errno));
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

int inherited_listener() {
  const char* const process = std::getenv("LISTEN_PID");
  const char* const count = std::getenv("LISTEN_FDS");
  const bool ours = process != nullptr && count != nullptr && process == std::to_string(::getpid());
  const std::string files = ours ? count : "0";
  ::unsetenv("LISTEN_PID");
  ::unsetenv("LISTEN_FDS");
  ::unsetenv("LISTEN_FDNAMES");
  if (files == "0") return -1;
  if (files != "1") fail(ErrorCode::InvalidArgument, "$LISTEN_FDS is '{}', allowed: one socket", files);
  ::fcntl(kFirstListener, F_SETFD, FD_CLOEXEC);
  return kFirstListener;
}

void restart_process(int listener) {
  std::vector<std::string> arguments = own_arguments();
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  if (listener != kFirstListener && ::dup2(listener, kFirstListener) < 0) give_up("dup2");
  for (const int file : open_files()) {
    if (file > kFirstListener) ::fcntl(file, F_SETFD, FD_CLOEXEC);
  }
  ::fcntl(kFirstListener, F_SETFD, 0);
  ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
  ::setenv("LISTEN_FDS", "1", 1);
  ::execv("/proc/self/exe", pointers.data());
  give_up("execv");
}

}  // namespace inflight::cli
