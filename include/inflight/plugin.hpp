// SPDX-License-Identifier: Apache-2.0
// plugin.h for C++17: write a class with the ops that you need, say what it is, export it.
//
//   struct Lof {                                     // longest output first
//     static constexpr inflight::Policy kPolicy = inflight::sched_policy("org.example.lof", "Longest output first")
//         .reads(INFLIGHT_COLUMN_LENGTHS).can(INFLIGHT_CAP_DETERMINISTIC);
//     explicit Lof(const inflight::SchedSetup&) {}
//     inflight_plugin_status_t score(const inflight_step_t& step, int64_t* key0, int64_t*) {
//       for (uint32_t i = 0; i < step.waiting->count; ++i) key0[i] = -int64_t{step.waiting->max_output_tokens[i]};
//       return INFLIGHT_PLUGIN_OK;
//     }
//   };
//   INFLIGHT_EXPORT_POLICY(Lof)
//
// Scheduling ops: on_events, plan, score, order, admit, pick_victims, set_param, save, load. Eviction ops: on_insert,
// on_hit, on_pin, on_release, on_evict, rank, pick, admit_unit, set_param, save, load. Signatures as in plugin.h with
// `self` left out and pointers to structs as references. Both kinds may have exit(const inflight_exit_t&). The
// constructor takes a SchedSetup or an EvictSetup. An exception out of an op counts as INFLIGHT_PLUGIN_E_INTERNAL, one
// out of the constructor as INFLIGHT_PLUGIN_E_MEMORY.
#ifndef INFLIGHT_PLUGIN_HPP
#define INFLIGHT_PLUGIN_HPP

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "inflight/plugin.h"

namespace inflight {
inline namespace plugin_v1 {

// The host table with its context filled in. What it does is told there (plugin.h: inflight_host_t), and from where it
// may be called: [S] inside an op or the constructor, [A] anywhere.
class PluginHost {
 public:
  explicit PluginHost(const inflight_host_t* host) : host_(host) {}
  int64_t now_ns() const { return host_->now_ns(host_->context); }
  uint64_t random() const { return host_->rand_u64(host_->context); }
  void log(uint32_t level, std::string_view text) const { host_->log(host_->context, level, text.data(), text.size()); }
  void set_error(std::string_view text) const { host_->set_error(host_->context, text.data(), text.size()); }
  void metric(const char* name, double value) const { host_->metric(host_->context, name, value); }
  int64_t estimate_step_ns(const inflight_step_work_t& work) const { return host_->estimate_step_ns(host_->context, &work); }
  // parents[i] for units[i]; false: it cannot, and the array is untouched or half written.
  bool unit_parents(const uint32_t* units, uint32_t count, uint32_t* parents) const {
    return host_->unit_parents(host_->context, units, count, parents) == INFLIGHT_PLUGIN_OK;
  }
  // tokens[i]: prompt tokens of the waiting request in slots[i] that are stored now; false as above. Costs hashing.
  bool match_prefix(const uint32_t* slots, uint32_t count, uint32_t* tokens) const {
    return host_->match_prefix(host_->context, slots, count, tokens) == INFLIGHT_PLUGIN_OK;
  }
  // Memory that the host accounts for; null when there is none. alignment: a power of two.
  void* alloc(uint64_t bytes, uint64_t alignment) const { return host_->alloc(host_->context, bytes, alignment); }
  // memory: of alloc(), or null.
  void free(void* memory) const { host_->free(host_->context, memory); }
  // The policy is taken out after this op; `why` goes to the log and the report.
  void request_exit(int32_t code, const char* why) const { host_->request_exit(host_->context, code, why); }

 private:
  const inflight_host_t* host_;
};

// The step's decodes as work, to which a policy adds the prefill that it asks about. Needs the columns STATE and LENGTHS.
inline inflight_step_work_t decodes_of(const inflight_step_t& step) {
  inflight_step_work_t work{};
  work.decode_sequences = step.decoding;
  const inflight_requests_t& running = *step.running;
  for (uint32_t i = 0; i < running.count; ++i) {
    if (running.state[i] == INFLIGHT_REQUEST_DECODE) work.decode_context += running.computed_tokens[i] + 1;
  }
  return work;
}

// The values of the declared parameters; the host has checked type and range and filled in defaults.
class PolicyParams {
 public:
  explicit PolicyParams(const inflight_config_t* config) : config_(config) {}
  int64_t int64(const char* key) const { return find(key)->value.int64; }
  bool boolean(const char* key) const { return find(key)->value.int64 != 0; }
  double float64(const char* key) const { return find(key)->value.float64; }
  const char* string(const char* key) const { return find(key)->value.string; }

 private:
  const inflight_key_value_t* find(const char* key) const {
    const char* at = reinterpret_cast<const char*>(config_->pairs);
    for (uint32_t i = 0; i < config_->count; ++i, at += config_->stride) {
      const auto* pair = reinterpret_cast<const inflight_key_value_t*>(at);
      if (std::strcmp(pair->key, key) == 0) return pair;
    }
    static const inflight_key_value_t kNone = {"", INFLIGHT_TYPE_STRING, 0, {nullptr}};
    return &kNone;  // not declared in kParams
  }
  const inflight_config_t* config_;
};

// All of `bytes`, however few the host moves at a time; false: it cannot.
inline bool write_all(const inflight_writer_t& writer, const void* bytes, uint64_t count) {
  const char* at = static_cast<const char*>(bytes);
  while (count > 0) {
    const int64_t moved = writer.write(writer.context, at, count);
    if (moved <= 0) return false;
    at += moved;
    count -= static_cast<uint64_t>(moved);
  }
  return true;
}
inline bool read_all(const inflight_reader_t& reader, void* bytes, uint64_t count) {
  char* at = static_cast<char*>(bytes);
  while (count > 0) {
    const int64_t moved = reader.read(reader.context, at, count);
    if (moved <= 0) return false;
    at += moved;
    count -= static_cast<uint64_t>(moved);
  }
  return true;
}

template <typename Environment>
struct PolicySetup {
  PluginHost host;
  const Environment& environment;
  PolicyParams config;
};
using SchedSetup = PolicySetup<inflight_sched_environment_t>;
using EvictSetup = PolicySetup<inflight_evict_environment_t>;

// What a policy is: the descriptor without its ops, built up by chaining.
struct Policy : inflight_policy_t {
  constexpr Policy reads(uint32_t columns) const {  // INFLIGHT_COLUMN_* or INFLIGHT_UNIT_*
    Policy next = *this;
    (kind == INFLIGHT_KIND_SCHED ? next.request_columns : next.unit_columns) = columns;
    return next;
  }
  template <typename... Types>
  constexpr Policy hears(Types... types) const {  // INFLIGHT_EVENT_*
    Policy next = *this;
    next.events = (0u | ... | (1u << types));
    return next;
  }
  constexpr Policy can(uint64_t capability_bits) const {
    Policy next = *this;
    next.capabilities |= capability_bits;
    return next;
  }
  template <size_t Count>
  constexpr Policy takes(const inflight_param_t (&declared)[Count]) const {
    Policy next = *this;
    next.params = declared;
    next.param_count = Count;
    return next;
  }
  constexpr Policy by(const char* vendor_name, const char* licence, const char* version_text) const {
    Policy next = *this;
    next.vendor = vendor_name;
    next.license = licence;
    next.version = version_text;
    return next;
  }
  constexpr Policy stores_state(uint32_t newest, uint32_t oldest) const {
    Policy next = can(INFLIGHT_CAP_STATE);
    next.state_version = newest;
    next.state_oldest = oldest;
    return next;
  }
};

constexpr Policy make_policy(uint32_t kind, const char* id, const char* summary) {
  Policy policy{};
  policy.struct_size = sizeof(inflight_policy_t);
  policy.kind = kind;
  policy.id = id;
  policy.name = policy.summary = summary;
  policy.version = "1.0";
  policy.vendor = policy.license = "";
  return policy;
}
constexpr Policy sched_policy(const char* id, const char* summary) { return make_policy(INFLIGHT_KIND_SCHED, id, summary); }
constexpr Policy evict_policy(const char* id, const char* summary) { return make_policy(INFLIGHT_KIND_EVICT, id, summary); }

// For pick_victims: names all that run, those with the largest badness(i) first, of equals the last admitted. Returns how
// many. `index` has room for all.
template <typename Badness>
uint32_t name_victims(const inflight_requests_t& running, uint32_t* index, Badness&& badness) {
  for (uint32_t i = 0; i < running.count; ++i) index[i] = i;
  std::sort(index, index + running.count, [&](uint32_t a, uint32_t b) {
    const auto of_a = badness(a), of_b = badness(b);
    return of_a != of_b ? of_a > of_b : a > b;
  });
  return running.count;
}

namespace plugin_detail {

template <typename Call>
inflight_plugin_status_t guard(Call&& call, inflight_plugin_status_t otherwise) {
#if defined(__cpp_exceptions)
  try {
    return call();
  } catch (...) {
    return otherwise;
  }
#else
  (void)otherwise;
  return call();
#endif
}

template <typename T>
decltype(auto) pass(T argument) {
  if constexpr (std::is_pointer_v<T> && std::is_class_v<std::remove_pointer_t<T>>) {
    return *argument;
  } else {
    return argument;
  }
}

// Each op: a member function template that exists when P has the method, else a null pointer. A member of an op's name that
// is no op (overloaded, private, a template, a variable) does not compile: it would be left out without a word.
#define INFLIGHT_PLUGIN_OP(name)                                                                               \
  struct name_##name {                                                                                         \
    int name;                                                                                                  \
  };                                                                                                           \
  template <typename P>                                                                                        \
  struct both_##name : std::conditional_t<std::is_final_v<P>, Policy, P>, name_##name {};                      \
  template <typename P, typename = void>                                                                       \
  struct has_##name : std::true_type {};                                                                       \
  template <typename P>                                                                                        \
  struct has_##name<P, std::void_t<decltype(&both_##name<P>::name)>> : std::false_type {};                     \
  template <typename P, typename = void>                                                                       \
  struct op_##name {                                                                                           \
    template <typename... A>                                                                                   \
    static constexpr inflight_plugin_status_t (*of(inflight_plugin_status_t (*)(void*, A...)))(void*, A...) {  \
      static_assert(!has_##name<P>::value, "the policy's " #name " is not one public function of that name");  \
      return nullptr;                                                                                          \
    }                                                                                                          \
  };                                                                                                           \
  template <typename P>                                                                                        \
  struct op_##name<P, std::void_t<decltype(&P::name)>> {                                                       \
    template <typename... A>                                                                                   \
    static inflight_plugin_status_t call(void* self, A... arguments) {                                         \
      return guard([&] { return static_cast<P*>(self)->name(pass(arguments)...); }, INFLIGHT_PLUGIN_E_INTERNAL); \
    }                                                                                                          \
    template <typename... A>                                                                                   \
    static constexpr inflight_plugin_status_t (*of(inflight_plugin_status_t (*)(void*, A...)))(void*, A...) {  \
      return call<A...>;                                                                                       \
    }                                                                                                          \
  };
INFLIGHT_PLUGIN_OP(on_events)
INFLIGHT_PLUGIN_OP(plan)
INFLIGHT_PLUGIN_OP(score)
INFLIGHT_PLUGIN_OP(order)
INFLIGHT_PLUGIN_OP(admit)
INFLIGHT_PLUGIN_OP(pick_victims)
INFLIGHT_PLUGIN_OP(set_param)
INFLIGHT_PLUGIN_OP(save)
INFLIGHT_PLUGIN_OP(load)
INFLIGHT_PLUGIN_OP(on_insert)
INFLIGHT_PLUGIN_OP(on_hit)
INFLIGHT_PLUGIN_OP(on_pin)
INFLIGHT_PLUGIN_OP(on_release)
INFLIGHT_PLUGIN_OP(on_evict)
INFLIGHT_PLUGIN_OP(rank)
INFLIGHT_PLUGIN_OP(pick)
INFLIGHT_PLUGIN_OP(admit_unit)
#undef INFLIGHT_PLUGIN_OP

template <typename P, typename = void>
struct op_exit {
  static constexpr void (*kCall)(void*, const inflight_exit_t*) = nullptr;
};
template <typename P>
struct op_exit<P, std::void_t<decltype(&P::exit)>> {
  static void call(void* self, const inflight_exit_t* info) { static_cast<P*>(self)->exit(*info); }
  static constexpr void (*kCall)(void*, const inflight_exit_t*) = call;
};

template <typename P, typename Environment>
inflight_plugin_status_t create(const inflight_host_t* host, const Environment* environment,
                                const inflight_config_t* config, void** self) {
  return guard(
      [&] {
        *self = new P(PolicySetup<Environment>{PluginHost(host), *environment, PolicyParams(config)});
        return INFLIGHT_PLUGIN_OK;
      },
      INFLIGHT_PLUGIN_E_MEMORY);
}
template <typename P>
void destroy(void* self) {
  delete static_cast<P*>(self);
}

#define INFLIGHT_PLUGIN_FILL(ops, name) ops.name = op_##name<P>::of(ops.name)
template <typename P>
inflight_sched_ops_t make_sched_ops() {
  inflight_sched_ops_t ops{};
  ops.struct_size = sizeof ops;
  ops.create = create<P, inflight_sched_environment_t>;
  ops.destroy = destroy<P>;
  ops.exit = op_exit<P>::kCall;
  INFLIGHT_PLUGIN_FILL(ops, on_events);
  INFLIGHT_PLUGIN_FILL(ops, plan);
  INFLIGHT_PLUGIN_FILL(ops, score);
  INFLIGHT_PLUGIN_FILL(ops, order);
  INFLIGHT_PLUGIN_FILL(ops, admit);
  INFLIGHT_PLUGIN_FILL(ops, pick_victims);
  INFLIGHT_PLUGIN_FILL(ops, set_param);
  INFLIGHT_PLUGIN_FILL(ops, save);
  INFLIGHT_PLUGIN_FILL(ops, load);
  return ops;
}
template <typename P>
inflight_evict_ops_t make_evict_ops() {
  inflight_evict_ops_t ops{};
  ops.struct_size = sizeof ops;
  ops.create = create<P, inflight_evict_environment_t>;
  ops.destroy = destroy<P>;
  ops.exit = op_exit<P>::kCall;
  INFLIGHT_PLUGIN_FILL(ops, on_insert);
  INFLIGHT_PLUGIN_FILL(ops, on_hit);
  INFLIGHT_PLUGIN_FILL(ops, on_pin);
  INFLIGHT_PLUGIN_FILL(ops, on_release);
  INFLIGHT_PLUGIN_FILL(ops, on_evict);
  INFLIGHT_PLUGIN_FILL(ops, rank);
  INFLIGHT_PLUGIN_FILL(ops, pick);
  INFLIGHT_PLUGIN_FILL(ops, admit_unit);
  INFLIGHT_PLUGIN_FILL(ops, set_param);
  INFLIGHT_PLUGIN_FILL(ops, save);
  INFLIGHT_PLUGIN_FILL(ops, load);
  return ops;
}
#undef INFLIGHT_PLUGIN_FILL

template <typename P>
const inflight_policy_t* describe() {
  static const inflight_policy_t kDescriptor = [] {
    inflight_policy_t policy = P::kPolicy;
    if constexpr (P::kPolicy.kind == INFLIGHT_KIND_SCHED) {
      static const inflight_sched_ops_t kOps = make_sched_ops<P>();
      policy.sched = &kOps;
    } else {
      static const inflight_evict_ops_t kOps = make_evict_ops<P>();
      policy.evict = &kOps;
    }
    return policy;
  }();
  return &kDescriptor;
}

constexpr inflight_plugin_note_t note_of(const Policy& policy) {
  inflight_plugin_note_t note{9, sizeof note.text, INFLIGHT_PLUGIN_ABI_MAJOR, {"inflight"}, {}};
  char* at = note.text;
  for (const char* text = policy.kind == INFLIGHT_KIND_SCHED ? "sched " : "evict "; *text != '\0';) *at++ = *text++;
  for (const char* text = policy.id; *text != '\0';) *at++ = *text++;  // too long an id does not compile
  return note;
}
template <size_t Count>
struct Notes {
  inflight_plugin_note_t note[Count];
};
template <typename... P>
constexpr Notes<sizeof...(P)> notes_of() {
  return {{note_of(P::kPolicy)...}};
}

template <typename... P>
const inflight_module_t* module_of() {
  static const inflight_policy_t* const kPolicies[] = {describe<P>()...};
  static const inflight_module_t kModule = {sizeof(inflight_module_t), INFLIGHT_PLUGIN_ABI_MINOR, 0, sizeof...(P),
                                            kPolicies};
  return &kModule;
}

}  // namespace plugin_detail
}  // namespace plugin_v1
}  // namespace inflight

// Exports one or more policies from this file; once a file, outside of namespaces.
#define INFLIGHT_EXPORT_POLICIES(...)                                                                             \
  INFLIGHT_PLUGIN_NOTE_SECTION static constexpr auto inflight_plugin_notes =                                      \
      inflight::plugin_detail::notes_of<__VA_ARGS__>();                                                           \
  extern "C" INFLIGHT_PLUGIN_EXPORT const inflight_module_t* inflight_plugin_query_v1(const inflight_query_t*) {  \
    return inflight::plugin_detail::module_of<__VA_ARGS__>();                                                     \
  }
#define INFLIGHT_EXPORT_POLICY(policy) INFLIGHT_EXPORT_POLICIES(policy)

#endif
