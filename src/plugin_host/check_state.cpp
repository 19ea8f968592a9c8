// SPDX-License-Identifier: Apache-2.0
// Checks of save() and load().
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "plugin_host/check_drivers.h"

namespace inflight {
namespace {

constexpr size_t kCheckedStateBytesMax = size_t{64} << 20;

struct Bytes {
  std::string text;
  size_t at = 0;
  size_t most = SIZE_MAX;  // moved by one call
};

int64_t write_some(void* context, const void* from, uint64_t count) {
  auto& bytes = *static_cast<Bytes*>(context);
  const size_t moved = std::min<size_t>(count, bytes.most);
  if (bytes.text.size() + moved > kCheckedStateBytesMax) return -1;
  bytes.text.append(static_cast<const char*>(from), moved);
  return static_cast<int64_t>(moved);
}
int64_t read_some(void* context, void* to, uint64_t count) {
  auto& bytes = *static_cast<Bytes*>(context);
  const size_t moved = std::min({static_cast<size_t>(count), bytes.most, bytes.text.size() - bytes.at});
  std::memcpy(to, bytes.text.data() + bytes.at, moved);
  bytes.at += moved;
  return static_cast<int64_t>(moved);
}

std::string saved(CheckDriver& driver, const inflight_policy_t& policy, size_t most = SIZE_MAX) {
  Bytes bytes{.text = {}, .at = 0, .most = most};
  const auto status = driver.save({&bytes, write_some});
  if (status != INFLIGHT_PLUGIN_OK) fail(ErrorCode::Plugin, "{}: save() gave status {}", policy.id, status);
  return bytes.text;
}
inflight_plugin_status_t loaded(CheckDriver& driver, const std::string& text, uint32_t version,
                                size_t most = SIZE_MAX) {
  Bytes bytes{.text = text, .at = 0, .most = most};
  return driver.load({&bytes, read_some}, version);
}

void check_policy(CheckContext& context, const inflight_policy_t& policy) {
  constexpr int kSteps = 200;
  const auto fresh = [&] { return make_driver(context, policy, context.options.seed, {}); };
  const auto origin = fresh();
  for (int i = 0; i < kSteps; ++i) origin->step();
  const std::string state = saved(*origin, policy);
  if (saved(*origin, policy, 1) != state) {
    fail(ErrorCode::Plugin, "{}: save() gives other bytes when they are taken one by one", policy.id);
  }
  for (const size_t most : {SIZE_MAX, size_t{1}}) {
    const auto copy = fresh();
    const auto status = loaded(*copy, state, policy.state_version, most);
    if (status != INFLIGHT_PLUGIN_OK) {
      fail(ErrorCode::Plugin, "{}: load() of what save() gave has status {}{}", policy.id, status,
           most == 1 ? " when the bytes come one by one" : "");
    }
    if (saved(*copy, policy) != state) fail(ErrorCode::Plugin, "{}: save, load, save gives other bytes", policy.id);
    copy->leave();
  }
  const auto must_refuse = [&](const std::string& text, uint32_t version, const char* what) {
    const auto victim = fresh();
    if (loaded(*victim, text, version) >= 0) fail(ErrorCode::Plugin, "{}: load() accepts {}", policy.id, what);
    victim->step();  // as if nothing had happened
    victim->leave();
  };
  if (!state.empty()) must_refuse("", policy.state_version, "an empty state");
  const size_t stride = std::max<size_t>(state.size() / 64, 1);
  for (size_t cut = stride; cut < state.size(); cut += stride) {
    must_refuse(state.substr(0, cut), policy.state_version, "a state that is cut off");
  }
  must_refuse(state, policy.state_version + 1000, "a state of a version that it does not know");
  Rng rng(context.options.seed);
  for (int i = 0; i < 50; ++i) {  // whatever it makes of that, it lives
    std::string noise(static_cast<size_t>(rng.between(0, 5000)), '\0');
    for (char& letter : noise) letter = static_cast<char>(rng.between(-128, 127));
    const auto victim = fresh();
    static_cast<void>(loaded(*victim, noise, policy.state_version));
    victim->step();
    victim->leave();
  }
  origin->leave();
}

std::string check_state(CheckContext& context) {
  int count = 0;
  for (const inflight_policy_t* policy : context.policies) {
    if ((policy->capabilities & INFLIGHT_CAP_STATE) == 0) continue;
    check_policy(context, *policy);
    ++count;
  }
  if (count == 0) throw CheckSkipped{"no policy claims INFLIGHT_CAP_STATE"};
  return "";
}

}  // namespace

std::span<const CheckTest> state_checks() {
  static constexpr CheckTest kTests[] = {{"state", "save, load, save; damaged state is refused", check_state}};
  return kTests;
}

}  // namespace inflight
