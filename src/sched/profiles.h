// SPDX-License-Identifier: Apache-2.0
// Named combinations of policies and knobs for common uses, as data. A profile is applied first, explicit knobs after.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sched/setup_json.h"

namespace inflight {

struct ProfileSetting {
  const char* knob;   // as in setup_json.h and on the command line (with dashes)
  const char* value;  // as JSON: 256, 0.05, true, "lpm"
};
struct Profile {
  const char* name;
  const char* summary;
  std::span<const ProfileSetting> settings;
};

// rag, batch, tenant, sla.
[[nodiscard]] std::span<const Profile> profiles();

// ERRORS: NotFound listing the names there are.
[[nodiscard]] const Profile& find_profile(std::string_view name);
[[nodiscard]] std::span<const ProfileSetting> profile_settings(std::string_view name);

// `setup` with the profile's knobs in it; the others keep their values.  ERRORS: as find_profile().
// A token budget below max_num_seqs is raised to it.
[[nodiscard]] SchedulerSetup with_profile(const SchedulerSetup& setup, std::string_view name);

}  // namespace inflight
