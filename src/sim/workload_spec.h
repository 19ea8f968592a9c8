// SPDX-License-Identifier: Apache-2.0
// Synthetic workloads from one line of text: KIND,key=value,...  Every kind is a set of defaults; every key works with
// every kind. workload_help() lists them all.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "sim/workload.h"

namespace inflight {

// What a workload may hold, for specifications that others give.
struct WorkloadLimits {
  int64_t requests = limits::kSimRequestsMax;
  int64_t tokens = INT64_MAX;  // of all prompts and outputs
};

// "bimodal,requests=500,seed=3", "lengths=50,60,400,80".
// ERRORS: InvalidArgument naming the kind or key, the value and what is allowed.   COST: memory and time by `allowed`.
[[nodiscard]] Workload make_workload(std::string_view spec, const WorkloadLimits& allowed = {});

// The files that lengths of a specification, or of a key's value, name: file:PATH.
[[nodiscard]] std::vector<std::string> length_files(std::string_view text);

// Whether the key takes whole numbers only.
[[nodiscard]] bool workload_key_is_whole(std::string_view name);

// Kinds and keys with their defaults, for people.
[[nodiscard]] std::string workload_help();

}  // namespace inflight
