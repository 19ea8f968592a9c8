// SPDX-License-Identifier: Apache-2.0
// Deterministic finite automata over bytes: sets of texts that, unlike a grammar's expressions, can be intersected and
// subtracted. They are for what must hold at once: a pattern beside a length, multiples within bounds, names that no
// pattern matches.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/grammar_budget.h"

namespace inflight::grammar {

using ByteSet = std::bitset<256>;
struct Program;

// The first state is where texts begin; every state can be reached from it.
struct Dfa {
  struct Arc {
    ByteSet bytes;
    int32_t to = 0;
  };
  struct State {
    bool accepts = false;   // a text may end here
    std::vector<Arc> arcs;  // at most one for each byte, and for each state
  };
  std::vector<State> states = std::vector<State>(1);

  [[nodiscard]] int32_t add_state(bool accepts);
  // REQUIRES: no byte of `bytes` leads from `from` anywhere yet.
  void add_arc(int32_t from, const ByteSet& bytes, int32_t to);
  // Makes `text` lead from `from` to `to`, through states of its own as far as it does not share its beginning with
  // others added so.   REQUIRES: no such text is the beginning of another one.
  void add_path(int32_t from, std::string_view text, int32_t to);

  [[nodiscard]] bool accepts(std::string_view text) const;
  [[nodiscard]] bool is_empty() const;  // accepts no text
};

// ERRORS (all that make automata): Unsupported beyond limits::kGrammarDfaStatesMax; those of Budget::charge().

// The texts of a program. ERRORS: besides, those of close().
[[nodiscard]] Dfa determinised(const Program& program, Budget& budget);
[[nodiscard]] Dfa intersection(const Dfa& left, const Dfa& right, Budget& budget);
[[nodiscard]] Dfa difference(const Dfa& left, const Dfa& right, Budget& budget);

// Those texts of `texts`, which are UTF-8, that have at least min and at most max characters. Where that takes too many
// states only shorter ones: all of at most some number of characters, which is at least min.
// ERRORS: InvalidArgument beyond limits::kGrammarRepeatMax.
[[nodiscard]] Dfa of_length(const Dfa& texts, int64_t min, std::optional<int64_t> max, Budget& budget);

}  // namespace inflight::grammar
