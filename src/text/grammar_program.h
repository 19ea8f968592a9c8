// SPDX-License-Identifier: Apache-2.0
// What regular expressions, GBNF and JSON schemas are compiled to: a pushdown automaton over bytes. Rules are
// subprograms; within a rule the program is a nondeterministic automaton.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/grammar_budget.h"
#include "text/grammar_dfa.h"

namespace inflight::grammar {

// Sorted, disjoint ranges of code points, surrogates never among them.
class CharacterSet {
 public:
  using Range = std::pair<char32_t, char32_t>;  // both ends are in it

  CharacterSet() = default;
  CharacterSet(char32_t first, char32_t last) : CharacterSet(std::vector<Range>{{first, last}}) {}
  // All of `ranges`, in any order; one that ends before it begins is empty.   COST: O(n log n).
  explicit CharacterSet(std::vector<Range> ranges);
  void add(char32_t first, char32_t last) { add(CharacterSet(first, last)); }
  void add(const CharacterSet& other);  // COST: as making it anew
  [[nodiscard]] CharacterSet complement() const;
  [[nodiscard]] CharacterSet minus(const CharacterSet& other) const;
  [[nodiscard]] bool contains(char32_t code_point) const;
  [[nodiscard]] const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

struct Instruction {
  enum class Kind : uint8_t {
    Bytes,   // one byte of sets[argument], then next
    Split,   // any of targets[argument, next)
    Call,    // rule `argument`, then next
    Return,  // the rule ends
  };
  Kind kind = Kind::Return;
  int32_t argument = 0;
  int32_t next = 0;
};

struct Program {
  std::vector<Instruction> instructions;
  std::vector<int32_t> targets;
  std::vector<ByteSet> sets;
  std::vector<int32_t> rule_entries;
  int32_t root = 0;                       // rule
  std::array<uint8_t, 256> byte_class{};  // bytes that no set tells apart are of one class
  int32_t class_count = 1;
};

using NodeId = int32_t;

// Expressions, bottom up, then compile(). Nodes may be used more than once, and nested as deep as there are elements.
// ERRORS (all that make nodes): InvalidArgument beyond limits::kGrammarInstructionsMax; those of Budget::charge().
class Builder {
 public:
  // LIFETIME: the budget is borrowed.
  explicit Builder(Budget& budget) : budget_(budget) {}

  [[nodiscard]] Budget& budget() { return budget_; }
  [[nodiscard]] NodeId empty();
  [[nodiscard]] NodeId nothing();  // matches no text at all
  [[nodiscard]] NodeId literal(std::string_view bytes);
  [[nodiscard]] NodeId bytes(const ByteSet& set);
  [[nodiscard]] NodeId characters(const CharacterSet& set);  // one of them, in UTF-8
  [[nodiscard]] NodeId sequence(std::vector<NodeId> parts);
  [[nodiscard]] NodeId any_of(std::vector<NodeId> choices);
  // At least min, at most max times; no max: any number. Many large parts become calls of a rule. ERRORS:
  // InvalidArgument beyond limits::kGrammarRepeatMax.
  [[nodiscard]] NodeId repeat(NodeId part, int64_t min, std::optional<int64_t> max);
  [[nodiscard]] NodeId automaton(Dfa dfa);  // one of its texts
  [[nodiscard]] NodeId optional(NodeId part) { return repeat(part, 0, 1); }

  [[nodiscard]] int32_t new_rule(std::string name);
  void define(int32_t rule, NodeId body);
  [[nodiscard]] bool is_defined(int32_t rule) const { return rules_[static_cast<size_t>(rule)].body >= 0; }
  [[nodiscard]] NodeId call(int32_t rule);

  // ERRORS: InvalidArgument for a rule that begins with itself, a grammar that no text can satisfy, more than
  //         limits::kGrammarInstructionsMax.
  [[nodiscard]] Program compile(int32_t root);
  // The same; nothing for a grammar that no text can satisfy.
  [[nodiscard]] std::optional<Program> try_compile(int32_t root);

 private:
  enum class Kind : uint8_t { Bytes, Sequence, AnyOf, Repeat, Call, Automaton };
  struct Node {
    Kind kind = Kind::Sequence;
    int32_t argument = 0;  // set, rule, automaton
    std::vector<NodeId> parts;
    int64_t min = 0;
    std::optional<int64_t> max;
    int64_t size = 0;  // instructions, about

    // Of Repeat: how often the part is compiled besides the `min` times.
    [[nodiscard]] int64_t optional_count() const { return max ? std::max<int64_t>(*max - min, 0) : 1; }
    [[nodiscard]] int64_t copy_count() const { return min + optional_count(); }
  };
  struct Rule {
    std::string name;
    NodeId body = -1;
  };
  using Place = std::pair<NodeId, int32_t>;  // a node, and the instruction that comes behind it
  // A node whose parts are being compiled.
  struct Open {
    Place place;
    int32_t entry = 0;               // of what is compiled
    int64_t done = 0;                // parts
    std::vector<int32_t> targets{};  // of AnyOf
  };
  [[nodiscard]] int64_t size_of(const Node& node) const;
  [[nodiscard]] NodeId add(Node node);
  [[nodiscard]] int32_t set_id(const ByteSet& set);
  [[nodiscard]] int32_t emit(Instruction instruction);
  [[nodiscard]] int32_t emit_split(const std::vector<int32_t>& targets);
  [[nodiscard]] int32_t emit_automaton(const Dfa& dfa, int32_t next);
  [[nodiscard]] int32_t compile_node(NodeId node, int32_t next);
  [[nodiscard]] std::optional<Place> next_part(Open& open);
  void take_part(Open& open, int32_t entry);
  [[nodiscard]] int32_t finish(const Open& open);
  void refuse_left_recursion() const;
  [[nodiscard]] bool remove_dead_ends();
  void find_byte_classes();

  Budget& budget_;
  std::vector<Node> nodes_;
  std::vector<Dfa> automata_;
  std::vector<Rule> rules_;
  std::map<std::string, int32_t> set_ids_;  // by the set's text
  std::map<int32_t, NodeId> set_nodes_;
  std::map<Place, int32_t> compiled_;  // to its entry
  Program program_;
};

// The number for Builder::repeat() whose digits begin at `at`, which is then behind them; one of more than 63 bits is
// the greatest. Nothing where there is no digit.
[[nodiscard]] std::optional<int64_t> take_count(std::string_view text, size_t& at);

// What `write` builds, as an automaton.  ERRORS: as Builder::try_compile() and determinised().
[[nodiscard]] Dfa texts_of(Budget& budget, const std::function<NodeId(Builder&)>& write);

}  // namespace inflight::grammar
