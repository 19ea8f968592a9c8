// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_automaton.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>

#include "base/error.h"
#include "base/limits.h"

namespace inflight::grammar {

namespace {

constexpr int32_t kSubtreeMin = 8;       // smaller ones are walked at once
constexpr int32_t kHopsMax = 64;         // of a run through different states
constexpr int32_t kNoEnd = INT32_MAX;    // a run in one state
constexpr size_t kRunPositionsMax = 64;  // of states whose runs are looked for

constexpr fmt::format_string<size_t> kTooAmbiguous(
    "the grammar is too ambiguous: a text can be read in more than {} ways");

template <typename Test>
bool none_of_ascii(Test&& test) {
  for (uint8_t byte = 0; byte < 0x80; ++byte) {
    if (test(byte)) return false;
  }
  return true;
}

}  // namespace

uint64_t Stacks::key_of(const Frame& frame) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(frame.below)) << 32U) | static_cast<uint32_t>(frame.return_to);
}

int32_t Stacks::push(int32_t below, int32_t return_to) {
  const Frame frame{return_to, below};
  const auto [place, inserted] = ids_.try_emplace(key_of(frame), static_cast<int32_t>(frames_.size()));
  if (!inserted) return place->second;
  const int32_t id = place->second;
  if (frames_.size() > limits::kGrammarFramesMax) {
    ids_.erase(place);
    fail(ErrorCode::InvalidArgument, kTooAmbiguous, frames_.size());
  }
  frames_.push_back(frame);
  return id;
}

void Stacks::truncate(size_t size) {
  for (; frames_.size() > size; frames_.pop_back()) ids_.erase(key_of(frames_.back()));
}

Closure close(const Program& program, Stacks& stacks, std::span<const Position> positions) {
  Closure closure;
  std::vector<Position> open(positions.begin(), positions.end());
  std::vector<Position> seen;  // few: a set would cost more
  std::set<Position> many;
  const auto is_new = [&](const Position& position) {
    if (seen.size() < 32) {
      if (std::ranges::find(seen, position) != seen.end()) return false;
      seen.push_back(position);
      return true;
    }
    if (many.empty()) many.insert(seen.begin(), seen.end());
    if (many.size() > limits::kGrammarPositionsMax) fail(ErrorCode::InvalidArgument, kTooAmbiguous, many.size());
    return many.insert(position).second;
  };
  while (!open.empty()) {
    const Position position = open.back();
    open.pop_back();
    if (++closure.work > static_cast<size_t>(limits::kGrammarWorkMax)) {
      fail(ErrorCode::InvalidArgument, kTooAmbiguous, size_t{closure.work});
    }
    if (!is_new(position)) continue;
    const Instruction& instruction = program.instructions[static_cast<size_t>(position.at)];
    switch (instruction.kind) {
      case Instruction::Kind::Bytes:
        closure.positions.push_back(position);
        break;
      case Instruction::Kind::Split:
        closure.work += static_cast<size_t>(instruction.next - instruction.argument);
        for (int32_t i = instruction.argument; i < instruction.next; ++i) {
          open.push_back({program.targets[static_cast<size_t>(i)], position.stack});
        }
        break;
      case Instruction::Kind::Call: {
        // A call at the end of a rule needs no frame: lists do not grow the stack.
        const bool is_last =
            program.instructions[static_cast<size_t>(instruction.next)].kind == Instruction::Kind::Return;
        const int32_t stack = is_last ? position.stack : stacks.push(position.stack, instruction.next);
        open.push_back({program.rule_entries[static_cast<size_t>(instruction.argument)], stack});
        break;
      }
      case Instruction::Kind::Return:
        if (position.stack == 0) {
          closure.escaped = true;
        } else {
          const Stacks::Frame frame = stacks.top(position.stack);
          open.push_back({frame.return_to, frame.below});
        }
        break;
    }
  }
  std::ranges::sort(closure.positions);
  return closure;
}

Closure step(const Program& program, Stacks& stacks, std::span<const Position> positions, uint8_t byte) {
  std::vector<Position> moved;
  for (const Position& position : positions) {
    const Instruction& instruction = program.instructions[static_cast<size_t>(position.at)];
    if (program.sets[static_cast<size_t>(instruction.argument)].test(byte))
      moved.push_back({instruction.next, position.stack});
  }
  return close(program, stacks, moved);
}

Automaton::Automaton(const Program& program, const TokenTrie& trie) : program_(program), trie_(trie) {
  for (const TokenId id : trie.tokens()) mask_words_ = std::max(mask_words_, static_cast<size_t>(id) / 32 + 1);
}

size_t Automaton::Hash::operator()(const std::vector<Position>& positions) const {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const Position& position : positions) {
    for (const int32_t part : {position.at, position.stack}) {
      hash = (hash ^ static_cast<uint32_t>(part)) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 29U;
    }
  }
  return hash;
}

int32_t Automaton::intern(Closure closure) {
  if (closure.positions.empty() && !closure.escaped) return kDead;
  std::vector<Position> key = closure.positions;
  if (closure.escaped) key.push_back({-1, -1});
  const auto [place, inserted] = ids_.try_emplace(std::move(key), static_cast<int32_t>(states_.size()));
  if (inserted) {
    states_.push_back({std::move(closure.positions), closure.escaped,
                       std::vector<int32_t>(static_cast<size_t>(program_.class_count), kUnknown)});
  }
  return place->second;
}

int32_t Automaton::state_of(std::vector<int32_t> instructions) {
  Closure closure;
  for (const int32_t at : instructions) closure.positions.push_back({at, 0});
  std::ranges::sort(closure.positions);
  return intern(std::move(closure));
}

int32_t Automaton::state_at(int32_t instruction) {
  const auto found = state_at_.find(instruction);
  if (found != state_at_.end()) return found->second;
  const Position position{instruction, 0};
  const int32_t state = intern(close(program_, stacks_, std::span(&position, 1)));
  state_at_[instruction] = state;
  return state;
}

int32_t Automaton::find_next(int32_t state, uint8_t byte) {
  const auto& positions = states_[static_cast<size_t>(state)].positions;
  Closure closure = step(program_, stacks_, positions, byte);
  charge(1 + positions.size() + closure.work);
  const int32_t found = intern(std::move(closure));
  states_[static_cast<size_t>(state)].next[program_.byte_class[byte]] = found;
  return found;
}

const Automaton::Verdict& Automaton::verdict(int32_t state) {
  const auto found = verdicts_.find(state);
  if (found != verdicts_.end()) return found->second;
  Verdict verdict = judge(state);
  verdict_words_ += verdict.mask.size() + verdict.few.size() + verdict.escapes.size();
  return verdicts_.emplace(state, std::move(verdict)).first->second;
}

Automaton::Verdict Automaton::judge(int32_t state) {
  Verdict verdict;
  const auto& nodes = trie_.nodes();
  std::vector<int32_t> path(static_cast<size_t>(trie_.depth_max()) + 1, kDead);  // state by depth
  path[0] = state;
  const auto count = static_cast<int32_t>(nodes.size());
  for (int32_t at = 1; at < count;) {
    const TokenTrie::Node& node = nodes[static_cast<size_t>(at)];
    ++nodes_seen_;
    const int32_t found = next(path[node.depth - 1U], node.byte);
    if (found == kDead) {
      at = node.end;
      continue;
    }
    path[node.depth] = found;
    if (take_subtree(at, found, verdict.few)) {
      at = node.end;
      continue;
    }
    for (int32_t i = node.tokens_begin; i < node.tokens_end; ++i)
      verdict.few.push_back(trie_.tokens()[static_cast<size_t>(i)]);
    const State& reached = states_[static_cast<size_t>(found)];
    if (reached.escaped && node.end > at + 1) verdict.escapes.push_back(at);
    at = reached.positions.empty() ? node.end : at + 1;
  }
  if (verdict.few.size() <= mask_words_) return verdict;
  verdict.mask.assign(mask_words_, 0);
  for (const TokenId id : verdict.few)
    verdict.mask[static_cast<size_t>(id) / 32] |= 1U << (static_cast<uint32_t>(id) % 32U);
  verdict.few.clear();
  verdict.few.shrink_to_fit();
  return verdict;
}

// Appends the tokens of a node, reached in `state`, and of all below it, if they need not be walked to be known.
bool Automaton::take_subtree(int32_t node, int32_t state, std::vector<TokenId>& taken) {
  const TokenTrie::Node& root = trie_.nodes()[static_cast<size_t>(node)];
  if (root.end - node <= kSubtreeMin) return false;
  const Run& run = run_of(state);
  if ((root.below & ~run.kinds) != 0) return false;
  const bool all = root.height <= run.length;
  if (!all && (!run.ends || (root.below & TokenTrie::kBeyondAscii) != 0)) return false;
  const int32_t end = trie_.subtree_tokens_end(root);
  for (int32_t i = root.tokens_begin; i < end; ++i) {
    if (all || trie_.token_length(i) - root.depth <= run.length)
      taken.push_back(trie_.tokens()[static_cast<size_t>(i)]);
  }
  return true;
}

// Strings that count their characters go from state to state, others stay in one.
const Automaton::Run& Automaton::run_of(int32_t state) {
  if (const int32_t known = states_[static_cast<size_t>(state)].run; known != kUnknown)
    return runs_[static_cast<size_t>(known)];
  Run run;
  int32_t at = state;
  const bool is_plain = states_[static_cast<size_t>(state)].positions.size() <= kRunPositionsMax;
  for (int32_t count = 0; is_plain && count < kHopsMax && !escaped(at); ++count) {
    const Hop hop = hop_from(at);
    if (count == 0) run.kinds = hop.kinds;
    if (hop.kinds == 0 || (run.kinds & ~hop.kinds) != 0) break;
    run.length = hop.to == at ? kNoEnd : count + 1;
    if (hop.to == at) break;
    at = hop.to;
  }
  const auto goes_on = [&](uint8_t byte) {
    return (run.kinds >> TokenTrie::kind_of(byte) & 1U) != 0 && next(at, byte) != kDead;
  };
  run.ends = run.length > 0 && run.length < kHopsMax && !escaped(at) && none_of_ascii(goes_on);
  states_[static_cast<size_t>(state)].run = static_cast<int32_t>(runs_.size());
  runs_.push_back(run);
  return runs_.back();
}

// To the state itself, if any character leads there, else to where a letter leads.
Automaton::Hop Automaton::hop_from(int32_t state) {
  constexpr uint8_t kLetter = 'n';
  const bool stays = !none_of_ascii([&](uint8_t byte) { return next(state, byte) == state; });
  Hop hop{.to = stays ? state : next(state, kLetter)};
  if (hop.to == kDead) return hop;
  uint32_t elsewhere = 0;
  for (uint8_t byte = 0; byte < 0x80; ++byte) {
    const uint32_t kind = 1U << TokenTrie::kind_of(byte);
    (next(state, byte) == hop.to ? hop.kinds : elsewhere) |= kind;
  }
  hop.kinds &= ~elsewhere;
  if (reads_all_beyond_ascii(state, hop.to)) hop.kinds |= TokenTrie::kBeyondAscii;
  return hop;
}

// Whether each character beyond ASCII leads from `state` to `to`.
bool Automaton::reads_all_beyond_ascii(int32_t state, int32_t to) {
  struct Shape {  // the first byte, the second one, how many more
    uint8_t first_least, first_most, second_least, second_most;
    int more;
  };
  constexpr std::array<Shape, 8> kShapes{{{0xC2, 0xDF, 0x80, 0xBF, 0},
                                          {0xE0, 0xE0, 0xA0, 0xBF, 1},
                                          {0xE1, 0xEC, 0x80, 0xBF, 1},
                                          {0xED, 0xED, 0x80, 0x9F, 1},
                                          {0xEE, 0xEF, 0x80, 0xBF, 1},
                                          {0xF0, 0xF0, 0x90, 0xBF, 2},
                                          {0xF1, 0xF3, 0x80, 0xBF, 2},
                                          {0xF4, 0xF4, 0x80, 0x8F, 2}}};
  // All states that a byte of [least, most] leads to from those in `from`; none where one has no way on or has escaped.
  const auto behind = [this](const std::vector<int32_t>& from, uint8_t least, uint8_t most) {
    std::vector<int32_t> reached;
    for (const int32_t one : from) {
      for (int byte = least; byte <= most; ++byte) {
        const int32_t found = next(one, static_cast<uint8_t>(byte));
        if (found == kDead || escaped(found)) return std::vector<int32_t>();
        if (std::ranges::find(reached, found) == reached.end()) reached.push_back(found);
      }
    }
    return reached;
  };
  return std::ranges::all_of(kShapes, [&](const Shape& shape) {
    std::vector<int32_t> at = behind({state}, shape.first_least, shape.first_most);
    at = behind(at, shape.second_least, shape.second_most);
    for (int i = 0; i < shape.more; ++i) at = behind(at, 0x80, 0xBF);
    return at == std::vector<int32_t>{to};
  });
}

void Automaton::charge(size_t work) {
  work_ += work;
  if (work_ > static_cast<size_t>(limits::kGrammarWorkMax))
    fail(ErrorCode::InvalidArgument, kTooAmbiguous, size_t{work_});
}

void Automaton::trim() {
  work_ = 0;
  if (states_.size() <= limits::kGrammarStatesMax && verdict_words_ <= limits::kGrammarMaskWordsMax) return;
  stacks_ = Stacks();
  states_.clear();
  runs_.clear();
  ids_.clear();
  state_at_.clear();
  verdicts_.clear();
  verdict_words_ = 0;
}

}  // namespace inflight::grammar
