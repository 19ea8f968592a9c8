// SPDX-License-Identifier: Apache-2.0
// The state of a policy as bytes: what a hot swap hands over.
// THREAD: the engine thread only.
#pragma once

#include <string>

#include "plugin_host/policy_instance.h"

namespace inflight {

// The new one can take what the old one saves: both claim INFLIGHT_CAP_STATE, are the same policy by id, and the old
// one's version is in the new one's range.
[[nodiscard]] bool can_hand_over_state(const PolicyInstance& from, const PolicyInstance& to);

// Hands the state over. False: one of them failed, which is a strike of that one.
// REQUIRES: can_hand_over_state().
[[nodiscard]] bool hand_over_state(PolicyInstance& from, PolicyInstance& to, TimeNs now);

}  // namespace inflight
