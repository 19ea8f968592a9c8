// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_dfa.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/limits.h"
#include "text/grammar_automaton.h"

namespace inflight::grammar {
namespace {

constexpr int32_t kNowhere = -1;
constexpr size_t kStateSteps = 16;    // of looking at all bytes that a state may read
constexpr size_t kPairsPerStep = 16;  // of arcs

using Row = std::array<int32_t, 256>;  // by byte: the state it leads to, or kNowhere

// No state reads nothing.
std::span<const Dfa::Arc> arcs_at(const Dfa& dfa, int32_t state) {
  if (state == kNowhere) return {};
  return dfa.states[static_cast<size_t>(state)].arcs;
}

Row row_of(const Dfa& dfa, int32_t state) {
  Row row;
  row.fill(kNowhere);
  for (const Dfa::Arc& arc : arcs_at(dfa, state)) {
    for (size_t byte = 0; byte < row.size(); ++byte) {
      if (arc.bytes.test(byte)) row[byte] = arc.to;
    }
  }
  return row;
}

int32_t state_behind(const Dfa& dfa, int32_t state, char byte) {
  for (const Dfa::Arc& arc : arcs_at(dfa, state)) {
    if (arc.bytes.test(static_cast<uint8_t>(byte))) return arc.to;
  }
  return kNowhere;
}

bool accepts_at(const Dfa& dfa, int32_t state) {
  return state != kNowhere && dfa.states[static_cast<size_t>(state)].accepts;
}

// An automaton whose states stand for keys, found one after the other from the first one; none if they are too many.
// arcs_of: gives for a key what leads on from it, as pairs of bytes and a key.
template <typename Key, typename ArcsOf, typename Accepts>
std::optional<Dfa> explored(const Key& first, Budget& budget, ArcsOf&& arcs_of, Accepts&& accepts) {
  Dfa dfa;
  std::map<Key, int32_t> ids{{first, 0}};
  std::vector<Key> keys{first};
  for (size_t at = 0; at < keys.size(); ++at) {
    budget.charge(kStateSteps);
    dfa.states[at].accepts = accepts(keys[at]);
    for (auto& [bytes, key] : arcs_of(keys[at])) {
      const auto [place, is_new] = ids.try_emplace(key, static_cast<int32_t>(keys.size()));
      if (is_new) {
        if (keys.size() >= limits::kGrammarDfaStatesMax) return {};
        keys.push_back(std::move(key));
        (void)dfa.add_state(false);
      }
      dfa.add_arc(static_cast<int32_t>(at), bytes, place->second);
    }
  }
  return dfa;
}

Dfa not_too_large(std::optional<Dfa> dfa) {
  if (!dfa) {
    fail(ErrorCode::Unsupported, "an automaton of more than {} states is not supported", limits::kGrammarDfaStatesMax);
  }
  return std::move(*dfa);
}

// What both read, or the left one alone.
enum class Product : uint8_t { Both, LeftOnly };

std::optional<Dfa> product(const Dfa& left, const Dfa& right, Product kind, Budget& budget) {
  using Key = std::pair<int32_t, int32_t>;
  const auto arcs_of = [&](const Key& key) {
    const std::span<const Dfa::Arc> mine = arcs_at(left, key.first);
    const std::span<const Dfa::Arc> theirs = arcs_at(right, key.second);
    budget.charge(mine.size() * theirs.size() / kPairsPerStep);
    std::vector<std::pair<ByteSet, Key>> arcs;
    for (const Dfa::Arc& one : mine) {
      ByteSet alone = one.bytes;
      for (const Dfa::Arc& other : theirs) {
        const ByteSet both = one.bytes & other.bytes;
        if (both.any()) arcs.emplace_back(both, Key{one.to, other.to});
        alone &= ~both;
      }
      if (kind == Product::LeftOnly && alone.any()) arcs.emplace_back(alone, Key{one.to, kNowhere});
    }
    return arcs;
  };
  return explored(Key{0, 0}, budget, arcs_of, [&](const Key& key) {
    return accepts_at(left, key.first) && accepts_at(right, key.second) == (kind == Product::Both);
  });
}

// With the fewest states: parted by whether they accept, then by the parts that they lead to, as long as that parts
// more.
Dfa minimised(const Dfa& dfa, Budget& budget) {
  std::vector<int32_t> part_of(dfa.states.size(), 0);
  for (size_t at = 0; at < part_of.size(); ++at) part_of[at] = dfa.states[at].accepts ? 1 : 0;
  for (size_t count = 0;;) {
    std::map<std::pair<int32_t, Row>, int32_t> parts;
    std::vector<int32_t> finer(part_of.size());
    for (size_t at = 0; at < part_of.size(); ++at) {
      budget.charge(kStateSteps);
      Row row = row_of(dfa, static_cast<int32_t>(at));
      for (int32_t& to : row) to = to == kNowhere ? kNowhere : part_of[static_cast<size_t>(to)];
      finer[at] = parts.try_emplace({part_of[at], row}, static_cast<int32_t>(parts.size())).first->second;
    }
    part_of = std::move(finer);
    if (parts.size() == count) break;
    count = parts.size();
  }
  Dfa small;
  small.states.resize(static_cast<size_t>(*std::ranges::max_element(part_of)) + 1);
  for (size_t at = 0; at < part_of.size(); ++at) {
    const int32_t part = part_of[at];
    small.states[static_cast<size_t>(part)].accepts = dfa.states[at].accepts;
    for (const Dfa::Arc& arc : dfa.states[at].arcs)
      small.add_arc(part, arc.bytes, part_of[static_cast<size_t>(arc.to)]);
  }
  return small;
}

// Any bytes, counting those that begin a character.
Dfa counted(int64_t min, std::optional<int64_t> max) {
  Dfa dfa;
  ByteSet within;  // of a character: behind its first byte
  for (size_t byte = 0x80; byte < 0xC0; ++byte) within.set(byte);
  const int64_t last = max ? *max : min;
  for (int64_t count = 0; count <= last; ++count) {
    const auto at = count == 0 ? 0 : dfa.add_state(false);
    dfa.states[static_cast<size_t>(at)].accepts = count >= min;
    if (count > 0) dfa.add_arc(at - 1, ~within, at);
    const bool stays = count == last && !max;
    dfa.add_arc(at, stays ? ByteSet().set() : within, at);
  }
  return dfa;
}

}  // namespace

int32_t Dfa::add_state(bool accepts) {
  states.push_back({accepts, {}});
  return static_cast<int32_t>(states.size() - 1);
}

void Dfa::add_arc(int32_t from, const ByteSet& bytes, int32_t to) {
  auto& arcs = states[static_cast<size_t>(from)].arcs;
  const auto known = std::ranges::find(arcs, to, &Arc::to);
  if (known == arcs.end()) {
    arcs.push_back({bytes, to});
  } else {
    known->bytes |= bytes;
  }
}

void Dfa::add_path(int32_t from, std::string_view text, int32_t to) {
  for (; text.size() > 1; text.remove_prefix(1)) {
    int32_t next = state_behind(*this, from, text[0]);
    if (next == kNowhere) {
      next = add_state(false);
      add_arc(from, ByteSet().set(static_cast<uint8_t>(text[0])), next);
    }
    from = next;
  }
  add_arc(from, ByteSet().set(static_cast<uint8_t>(text[0])), to);
}

bool Dfa::accepts(std::string_view text) const {
  int32_t at = 0;
  for (const char byte : text) {
    at = state_behind(*this, at, byte);
    if (at == kNowhere) return false;
  }
  return accepts_at(*this, at);
}

bool Dfa::is_empty() const { return std::ranges::none_of(states, &State::accepts); }

Dfa determinised(const Program& program, Budget& budget) {
  using Key = std::pair<std::vector<Position>, bool>;  // whether the text may end
  std::vector<ByteSet> classes(static_cast<size_t>(program.class_count));
  for (size_t byte = 0; byte < program.byte_class.size(); ++byte) classes[program.byte_class[byte]].set(byte);
  Stacks stacks;
  const auto key_of = [&](Closure closure) {
    budget.charge(1 + closure.work);
    return Key{std::move(closure.positions), closure.escaped};
  };
  const auto arcs_of = [&](const Key& key) {
    std::vector<std::pair<ByteSet, Key>> arcs;
    for (const ByteSet& bytes : classes) {
      const auto one = static_cast<uint8_t>(bytes._Find_first());
      Key next = key_of(step(program, stacks, key.first, one));
      if (!next.first.empty() || next.second) arcs.emplace_back(bytes, std::move(next));
    }
    return arcs;
  };
  const Position begin{program.rule_entries[static_cast<size_t>(program.root)], 0};
  const Key first = key_of(close(program, stacks, std::span(&begin, 1)));
  return not_too_large(explored(first, budget, arcs_of, [](const Key& key) { return key.second; }));
}

Dfa intersection(const Dfa& left, const Dfa& right, Budget& budget) {
  return not_too_large(product(left, right, Product::Both, budget));
}

Dfa difference(const Dfa& left, const Dfa& right, Budget& budget) {
  return not_too_large(product(left, right, Product::LeftOnly, budget));
}

Dfa of_length(const Dfa& texts, int64_t min, std::optional<int64_t> max, Budget& budget) {
  if (min > limits::kGrammarRepeatMax) {
    fail(ErrorCode::InvalidArgument, "texts of at least {} characters, allowed: {}", min, limits::kGrammarRepeatMax);
  }
  if (max) max = std::min(*max, limits::kGrammarRepeatMax);
  std::optional<Dfa> sized = product(texts, counted(min, max), Product::Both, budget);
  if (!sized && max) {
    const Dfa small = minimised(texts, budget);
    const auto fewer = static_cast<int64_t>(limits::kGrammarDfaStatesMax / small.states.size()) - 1;
    if (min <= fewer) sized = product(small, counted(min, std::min(*max, fewer)), Product::Both, budget);
    if (sized && sized->is_empty()) sized.reset();  // all such texts are longer
  }
  return not_too_large(std::move(sized));
}

}  // namespace inflight::grammar
