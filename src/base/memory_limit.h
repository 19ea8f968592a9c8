// SPDX-License-Identifier: Apache-2.0
// How much of the host's memory is this process's to use.
#pragma once

#include <cstdint>
#include <string>

namespace inflight {

// Bytes: the least of the machine's memory, the memory limits of the process's control groups (containers, systemd;
// versions 1 and 2 of Linux's, each with those above it) and the limit of its address space (ulimit -v).
// What others use of it is not taken off.   THREAD: any.   COST: a few small files are read.
[[nodiscard]] int64_t host_memory_limit();

// The control groups' part of it: `groups` has the lines of /proc/self/cgroup, `root` is where the groups' files are
// mounted. INT64_MAX: there is none.
[[nodiscard]] int64_t control_group_limit(const std::string& groups, const std::string& root);

}  // namespace inflight
