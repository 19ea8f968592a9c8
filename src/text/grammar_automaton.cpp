// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_automaton.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/limits.h"

namespace inflight::grammar {

namespace {

constexpr fmt::format_string<size_t> kTooAmbiguous(
    "the grammar is too ambiguous: a text can be read in more than {} ways");

}  // namespace

int32_t Stacks::push(int32_t below, int32_t return_to) {
  const uint64_t key = (static_cast<uint64_t>(static_cast<uint32_t>(below)) << 32U) | static_cast<uint32_t>(return_to);
  const auto [place, inserted] = ids_.try_emplace(key, static_cast<int32_t>(frames_.size()));
  if (inserted) {
    if (frames_.size() > limits::kGrammarFramesMax) fail(ErrorCode::InvalidArgument, kTooAmbiguous, frames_.size());
    frames_.push_back({return_to, below});
  }
  return place->second;
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
    ++closure.work;
    if (!is_new(position)) continue;
    const Instruction& instruction = program.instructions[static_cast<size_t>(position.at)];
    switch (instruction.kind) {
      case Instruction::Kind::Bytes:
        closure.positions.push_back(position);
        break;
      case Instruction::Kind::Split:
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

Automaton::Automaton(const Program& program, const TokenTrie& trie) : program_(program), trie_(trie) {}

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
  TokenId last = -1;
  for (int32_t at = 1; at < count;) {
    const TokenTrie::Node& node = nodes[static_cast<size_t>(at)];
    const int32_t found = next(path[node.depth - 1U], node.byte);
    if (found == kDead) {
      at = node.end;
      continue;
    }
    path[node.depth] = found;
    for (int32_t i = node.tokens_begin; i < node.tokens_end; ++i)
      verdict.few.push_back(trie_.tokens()[static_cast<size_t>(i)]);
    const State& reached = states_[static_cast<size_t>(found)];
    if (reached.escaped && node.end > at + 1) verdict.escapes.push_back(at);
    at = reached.positions.empty() ? node.end : at + 1;
  }
  for (const TokenId id : trie_.tokens()) last = std::max(last, id);
  const size_t words = static_cast<size_t>(last) / 32 + 1;
  if (verdict.few.size() <= words) return verdict;
  verdict.mask.assign(words, 0);
  for (const TokenId id : verdict.few)
    verdict.mask[static_cast<size_t>(id) / 32] |= 1U << (static_cast<uint32_t>(id) % 32U);
  verdict.few.clear();
  verdict.few.shrink_to_fit();
  return verdict;
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
  ids_.clear();
  state_at_.clear();
  verdicts_.clear();
  verdict_words_ = 0;
}

}  // namespace inflight::grammar
