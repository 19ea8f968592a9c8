// SPDX-License-Identifier: Apache-2.0
// A grammar's program, determinised as far as it is used, and what each of its states makes of a vocabulary.
//
// A state here is what one rule's frame can be in, seen without the frames below it ("the base"): a set of positions,
// each with the frames that were entered since. Reading a byte gives another state; when the frame returns into the
// unknown base, the state has `escaped`. So the tokens that a state allows whatever the base is are found once and
// kept, and only those that go on behind an escape are looked at again with the actual base. THREAD: one at a time;
// GrammarMatcher holds the lock.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/grammar_program.h"
#include "text/token_trie.h"

namespace inflight::grammar {

// Call stacks with shared tails. 0 is the base: nothing above it.
class Stacks {
 public:
  struct Frame {
    int32_t return_to = 0;  // instruction
    int32_t below = 0;
  };
  [[nodiscard]] int32_t push(int32_t below, int32_t return_to);
  // REQUIRES: stack > 0.
  [[nodiscard]] const Frame& top(int32_t stack) const { return frames_[static_cast<size_t>(stack)]; }
  [[nodiscard]] size_t size() const { return frames_.size(); }
  // Forgets the frames that were pushed since there were `size`.   REQUIRES: nothing refers to them.
  void truncate(size_t size);

 private:
  [[nodiscard]] static uint64_t key_of(const Frame& frame);

  std::vector<Frame> frames_ = std::vector<Frame>(1);
  std::unordered_map<uint64_t, int32_t> ids_;
};

struct Position {
  int32_t at = 0;  // an instruction of kind Bytes
  int32_t stack = 0;
  auto operator<=>(const Position&) const = default;
};

// What `positions` lead to without a byte: sorted Bytes positions, and whether the base is returned to.
struct Closure {
  std::vector<Position> positions;
  bool escaped = false;
  size_t work = 0;  // positions looked at
};
// ERRORS (both): InvalidArgument beyond limits::kGrammarPositionsMax or kGrammarFramesMax: the grammar is too
// ambiguous.
[[nodiscard]] Closure close(const Program& program, Stacks& stacks, std::span<const Position> positions);
// What one byte leads to.
[[nodiscard]] Closure step(const Program& program, Stacks& stacks, std::span<const Position> positions, uint8_t byte);

class Automaton {
 public:
  // LIFETIME: both are borrowed.
  Automaton(const Program& program, const TokenTrie& trie);

  // What a state makes of the vocabulary.
  struct Verdict {
    std::vector<uint32_t> mask;  // tokens it allows whatever the base is; empty when they are `few`
    std::vector<TokenId> few;
    std::vector<int32_t> escapes;  // trie nodes at which the frame returns, with more below them
  };

  // States of positions that all have the base for a stack.
  [[nodiscard]] int32_t state_of(std::vector<int32_t> instructions);
  [[nodiscard]] int32_t state_at(int32_t instruction);
  [[nodiscard]] bool escaped(int32_t state) const { return states_[static_cast<size_t>(state)].escaped; }
  // The state behind `byte`; kDead where there is none.
  [[nodiscard]] int32_t next(int32_t state, uint8_t byte) {
    const int32_t known = states_[static_cast<size_t>(state)].next[program_.byte_class[byte]];
    return known != kUnknown ? known : find_next(state, byte);
  }
  [[nodiscard]] const Verdict& verdict(int32_t state);

  // Nodes of the trie that verdicts were made from.
  [[nodiscard]] size_t nodes_seen() const { return nodes_seen_; }
  // Positions looked at since trim().
  [[nodiscard]] size_t work() const { return work_; }

  // Counts what is done for one mask.  ERRORS: InvalidArgument beyond limits::kGrammarWorkMax.
  void charge(size_t work);

  // Before each mask: forgets everything when that has become much. No state number stays valid.
  void trim();

  static constexpr int32_t kDead = -1;

 private:
  static constexpr int32_t kUnknown = -2;
  struct State {
    std::vector<Position> positions;
    bool escaped = false;
    std::vector<int32_t> next;  // by byte class
    int32_t run = kUnknown;     // of runs_
  };
  // Texts that are read whatever they are in particular: of these kinds (TokenTrie), at most so many bytes. None of the
  // states on the way has escaped, but for the last one perhaps.
  struct Run {
    uint32_t kinds = 0;
    int32_t length = 0;
    bool ends = false;  // longer ones of one-byte characters are not read
  };
  // What one character leads to: the state behind all kinds of characters in `kinds`.
  struct Hop {
    uint32_t kinds = 0;
    int32_t to = kDead;
  };
  struct Hash {
    size_t operator()(const std::vector<Position>& positions) const;
  };
  [[nodiscard]] int32_t intern(Closure closure);
  [[nodiscard]] int32_t find_next(int32_t state, uint8_t byte);
  [[nodiscard]] Verdict judge(int32_t state);
  [[nodiscard]] bool take_subtree(int32_t node, int32_t state, std::vector<TokenId>& taken);
  [[nodiscard]] const Run& run_of(int32_t state);
  [[nodiscard]] Hop hop_from(int32_t state);
  [[nodiscard]] bool reads_all_beyond_ascii(int32_t state, int32_t to);

  const Program& program_;
  const TokenTrie& trie_;
  Stacks stacks_;
  std::vector<State> states_;
  std::unordered_map<std::vector<Position>, int32_t, Hash> ids_;  // an escaped one ends with {-1, -1}
  std::unordered_map<int32_t, int32_t> state_at_;
  std::vector<Run> runs_;
  std::unordered_map<int32_t, Verdict> verdicts_;
  size_t nodes_seen_ = 0;
  size_t mask_words_ = 0;  // of all tokens
  size_t verdict_words_ = 0;
  size_t work_ = 0;  // since trim()
};

}  // namespace inflight::grammar
