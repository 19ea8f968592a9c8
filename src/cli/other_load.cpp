// SPDX-License-Identifier: Apache-2.0
#include "cli/other_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace inflight::cli {
namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

// Busy time of all processors since the start of the machine, less this process's own.
double others_seconds() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0.0, nice = 0.0, system = 0.0, idle = 0.0, io = 0.0, interrupts = 0.0, soft = 0.0, stolen = 0.0;
  if (!(stat >> cpu >> user >> nice >> system >> idle >> io >> interrupts >> soft >> stolen)) return 0.0;
  rusage own{};
  getrusage(RUSAGE_SELF, &own);
  const double busy = (user + nice + system + interrupts + soft + stolen) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return busy - seconds_of(own.ru_utime) - seconds_of(own.ru_stime);
}

}  // namespace

OtherLoad::OtherLoad() : begin_(SteadyClock().now()), others_s_(others_seconds()) {}

double OtherLoad::share() const {
  const double elapsed = static_cast<double>(SteadyClock().now() - begin_) * 1e-9;
  const double processors = std::max(1U, std::thread::hardware_concurrency());
  return std::clamp((others_seconds() - others_s_) / (elapsed * processors), 0.0, 1.0);
}

}  // namespace inflight::cli
