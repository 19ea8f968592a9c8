// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/policy_state.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace inflight {
namespace {

constexpr size_t kStateBytesMax = size_t{256} << 20;

struct Source {
  std::string_view rest;
};

int64_t append(void* context, const void* bytes, uint64_t count) {
  auto& text = *static_cast<std::string*>(context);
  if (count > kStateBytesMax - text.size()) return -1;
  HostFunction host;
  text.append(static_cast<const char*>(bytes), count);
  host.end();
  return static_cast<int64_t>(count);
}

int64_t take(void* context, void* bytes, uint64_t count) {
  auto& source = *static_cast<Source*>(context);
  const size_t moved = std::min<size_t>(count, source.rest.size());
  std::memcpy(bytes, source.rest.data(), moved);
  source.rest.remove_prefix(moved);
  return static_cast<int64_t>(moved);
}

inflight_plugin_status_t save(PolicyInstance& instance, const inflight_writer_t& writer) {
  const inflight_policy_t& policy = instance.policy();
  return policy.kind == INFLIGHT_KIND_SCHED ? policy.sched->save(instance.self(), &writer)
                                            : policy.evict->save(instance.self(), &writer);
}

inflight_plugin_status_t load(PolicyInstance& instance, const inflight_reader_t& reader, uint32_t version) {
  const inflight_policy_t& policy = instance.policy();
  return policy.kind == INFLIGHT_KIND_SCHED ? policy.sched->load(instance.self(), &reader, version)
                                            : policy.evict->load(instance.self(), &reader, version);
}

}  // namespace

bool can_hand_over_state(const PolicyInstance& from, const PolicyInstance& to) {
  const inflight_policy_t &old_policy = from.policy(), &new_policy = to.policy();
  const bool both = (old_policy.capabilities & new_policy.capabilities & INFLIGHT_CAP_STATE) != 0;
  return both && old_policy.kind == new_policy.kind && std::strcmp(old_policy.id, new_policy.id) == 0 &&
         old_policy.state_version >= new_policy.state_oldest && old_policy.state_version <= new_policy.state_version;
}

bool hand_over_state(PolicyInstance& from, PolicyInstance& to, TimeNs now) {
  std::string bytes;
  const inflight_writer_t writer{&bytes, append};
  if (!from.call("save", now, [&] { return save(from, writer); })) return false;
  Source source{bytes};
  const inflight_reader_t reader{&source, take};
  return to.call("load", now, [&] { return load(to, reader, from.policy().state_version); });
}

}  // namespace inflight
