// SPDX-License-Identifier: Apache-2.0
// Synthetic workloads from one line of text: KIND,key=value,...  Every kind is a set of defaults; every key works with
// every kind. workload_help() lists them all.
#pragma once

#include <string>
#include <string_view>

#include "sim/workload.h"

namespace inflight {

// "bimodal,requests=500,seed=3", "lengths=50,60,400,80".
// ERRORS: InvalidArgument naming the kind or key, the value and what is allowed.
[[nodiscard]] Workload make_workload(std::string_view spec);

// Kinds and keys with their defaults, for people.
[[nodiscard]] std::string workload_help();

}  // namespace inflight
