// SPDX-License-Identifier: Apache-2.0
#include "text/grammar_program.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/error.h"
#include "base/limits.h"
#include "base/utf8.h"

namespace inflight::grammar {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr char32_t kBeforeSurrogates = 0xD7FF, kBehindSurrogates = 0xE000;
constexpr size_t kBytesSteps = 8, kCompiledSteps = 8;  // of looking a set up, of keeping what is compiled
constexpr int64_t kRepeatedInstructionsMax = 1'000;    // of equal parts that are written one by one

// The byte ranges of the UTF-8 sequences that spell [first, last], one list a run of equal shape.
void split_utf8(char32_t first, char32_t last, std::vector<std::vector<ByteSet>>& sequences) {
  for (const char32_t edge : {char32_t{0x7F}, char32_t{0x7FF}, char32_t{0xFFFF}}) {
    if (first <= edge && edge < last) {
      split_utf8(first, edge, sequences);
      return split_utf8(edge + 1, last, sequences);
    }
  }
  const int continuation_count = first < 0x80 ? 0 : first < 0x800 ? 1 : first < 0x10000 ? 2 : 3;
  for (int i = 1; i <= continuation_count; ++i) {
    const char32_t low = (char32_t{1} << (6 * i)) - 1;  // the last i bytes
    if ((first & ~low) == (last & ~low)) continue;
    if ((first & low) != 0) {
      split_utf8(first, first | low, sequences);
      return split_utf8((first | low) + 1, last, sequences);
    }
    if ((last & low) != low) {
      split_utf8(first, (last & ~low) - 1, sequences);
      return split_utf8(last & ~low, last, sequences);
    }
  }
  std::string from;
  std::string to;
  append_utf8(from, first);
  append_utf8(to, last);
  std::vector<ByteSet> sequence(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    for (int byte = static_cast<uint8_t>(from[i]); byte <= static_cast<uint8_t>(to[i]); ++byte) {
      sequence[i].set(static_cast<size_t>(byte));
    }
  }
  sequences.push_back(std::move(sequence));
}

}  // namespace

CharacterSet::CharacterSet(std::vector<Range> ranges) {
  std::ranges::sort(ranges);
  const auto append = [this](char32_t first, char32_t last) {
    if (first > last) return;
    if (!ranges_.empty() && first <= ranges_.back().second + 1) {
      ranges_.back().second = std::max(ranges_.back().second, last);
    } else {
      ranges_.emplace_back(first, last);
    }
  };
  for (const auto& [first, last] : ranges) {
    append(first, std::min(last, kBeforeSurrogates));
    append(std::max(first, kBehindSurrogates), last);
  }
}

void CharacterSet::add(const CharacterSet& other) {
  std::vector<Range> all = ranges_;
  all.insert(all.end(), other.ranges_.begin(), other.ranges_.end());
  *this = CharacterSet(std::move(all));
}

CharacterSet CharacterSet::complement() const {
  std::vector<Range> between;
  char32_t next = 0;
  for (const auto& [first, last] : ranges_) {
    if (first > next) between.emplace_back(next, first - 1);
    next = last + 1;
  }
  if (next <= kLast) between.emplace_back(next, kLast);
  return CharacterSet(std::move(between));
}

CharacterSet CharacterSet::minus(const CharacterSet& other) const {
  CharacterSet rest = complement();
  rest.add(other);
  return rest.complement();
}

bool CharacterSet::contains(char32_t code_point) const {
  return std::ranges::any_of(
      ranges_, [=](const auto& range) { return range.first <= code_point && code_point <= range.second; });
}

// At most, whatever is compiled once for several places.
int64_t Builder::size_of(const Node& node) const {
  int64_t size = 1;
  for (const NodeId part : node.parts) size += nodes_[static_cast<size_t>(part)].size;
  if (node.kind == Kind::Repeat) size *= std::max<int64_t>(1, node.copy_count());
  if (node.kind == Kind::Automaton) size = static_cast<int64_t>(limits::kGrammarInstructionsMax);
  return std::min(size, static_cast<int64_t>(limits::kGrammarInstructionsMax));
}

NodeId Builder::add(Node node) {
  budget_.charge(1 + node.parts.size());
  node.size = size_of(node);
  nodes_.push_back(std::move(node));
  if (nodes_.size() > limits::kGrammarInstructionsMax) {
    fail(ErrorCode::InvalidArgument, "the grammar has more than {} elements", limits::kGrammarInstructionsMax);
  }
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId Builder::empty() { return add({.kind = Kind::Sequence}); }
NodeId Builder::nothing() { return add({.kind = Kind::AnyOf}); }

int32_t Builder::set_id(const ByteSet& set) {
  budget_.charge(kBytesSteps);
  const auto [place, inserted] = set_ids_.try_emplace(set.to_string(), static_cast<int32_t>(program_.sets.size()));
  if (inserted) program_.sets.push_back(set);
  return place->second;
}

NodeId Builder::bytes(const ByteSet& set) {
  const int32_t id = set_id(set);
  const auto known = set_nodes_.find(id);
  if (known != set_nodes_.end()) return known->second;
  return set_nodes_[id] = add({.kind = Kind::Bytes, .argument = id});
}

NodeId Builder::literal(std::string_view text) {
  std::vector<NodeId> parts;
  for (const char byte : text) parts.push_back(bytes(ByteSet().set(static_cast<uint8_t>(byte))));
  return sequence(std::move(parts));
}

NodeId Builder::characters(const CharacterSet& set) {
  std::vector<std::vector<ByteSet>> sequences;
  for (const auto& [first, last] : set.ranges()) split_utf8(first, last, sequences);
  ByteSet single;
  std::vector<NodeId> choices;
  for (const auto& byte_sets : sequences) {
    if (byte_sets.size() == 1) {
      single |= byte_sets[0];
      continue;
    }
    std::vector<NodeId> parts;
    for (const ByteSet& one : byte_sets) parts.push_back(bytes(one));
    choices.push_back(sequence(std::move(parts)));
  }
  if (single.any()) choices.push_back(bytes(single));
  return any_of(std::move(choices));
}

NodeId Builder::sequence(std::vector<NodeId> parts) {
  return parts.size() == 1 ? parts[0] : add({.kind = Kind::Sequence, .parts = std::move(parts)});
}

NodeId Builder::any_of(std::vector<NodeId> choices) {
  return choices.size() == 1 ? choices[0] : add({.kind = Kind::AnyOf, .parts = std::move(choices)});
}

NodeId Builder::repeat(NodeId part, int64_t min, std::optional<int64_t> max) {
  if (min > limits::kGrammarRepeatMax || (max && *max > limits::kGrammarRepeatMax)) {
    fail(ErrorCode::InvalidArgument, "a grammar repeats a part {} times, allowed: {}", max ? *max : min,
         limits::kGrammarRepeatMax);
  }
  Node node{.kind = Kind::Repeat, .parts = {part}, .min = min, .max = max};
  const int64_t size = nodes_[static_cast<size_t>(part)].size, copies = node.copy_count();
  if (size > 1 && copies > 1 && size * copies > kRepeatedInstructionsMax) {
    const int32_t rule = new_rule("");
    define(rule, part);
    node.parts = {call(rule)};
  }
  return add(std::move(node));
}

NodeId Builder::automaton(Dfa dfa) {
  automata_.push_back(std::move(dfa));
  return add({.kind = Kind::Automaton, .argument = static_cast<int32_t>(automata_.size() - 1)});
}

int32_t Builder::new_rule(std::string name) {
  rules_.push_back({std::move(name), -1});
  return static_cast<int32_t>(rules_.size() - 1);
}

void Builder::define(int32_t rule, NodeId body) { rules_[static_cast<size_t>(rule)].body = body; }
NodeId Builder::call(int32_t rule) { return add({.kind = Kind::Call, .argument = rule}); }

int32_t Builder::emit(Instruction instruction) {
  if (program_.instructions.size() >= limits::kGrammarInstructionsMax) {
    fail(ErrorCode::InvalidArgument, "the grammar needs more than {} instructions", limits::kGrammarInstructionsMax);
  }
  program_.instructions.push_back(instruction);
  return static_cast<int32_t>(program_.instructions.size() - 1);
}

int32_t Builder::emit_split(const std::vector<int32_t>& targets) {
  const auto begin = static_cast<int32_t>(program_.targets.size());
  program_.targets.insert(program_.targets.end(), targets.begin(), targets.end());
  return emit({Instruction::Kind::Split, begin, static_cast<int32_t>(program_.targets.size())});
}

// Each state's choice stands behind the bytes that it may read, the first state last: as a rule a state's successors
// are known to come to an end before it is looked at (remove_dead_ends()).
int32_t Builder::emit_automaton(const Dfa& dfa, int32_t next) {
  const size_t count = dfa.states.size();
  std::vector<int32_t> entries(count);
  auto at = static_cast<int32_t>(program_.instructions.size());
  for (size_t i = count; i-- > 0;) {
    at += static_cast<int32_t>(dfa.states[i].arcs.size());
    entries[i] = at++;
  }
  for (size_t i = count; i-- > 0;) {
    std::vector<int32_t> targets;
    for (const Dfa::Arc& arc : dfa.states[i].arcs)
      targets.push_back(emit({Instruction::Kind::Bytes, set_id(arc.bytes), entries[static_cast<size_t>(arc.to)]}));
    if (dfa.states[i].accepts) targets.push_back(next);
    INFLIGHT_CHECK(emit_split(targets) == entries[i]);
  }
  return entries[0];
}

// Parts are compiled from the last one back, and on a stack of our own: nodes may be nested hundreds of thousands deep.
int32_t Builder::compile_node(NodeId id, int32_t next) {
  std::vector<Open> open{{.place = {id, next}, .entry = next}};
  while (true) {
    budget_.charge(1);
    if (const std::optional<Place> part = next_part(open.back())) {
      if (const auto found = compiled_.find(*part); found != compiled_.end()) {
        take_part(open.back(), found->second);
      } else {
        open.push_back({.place = *part, .entry = part->second});
      }
      continue;
    }
    const int32_t entry = finish(open.back());
    budget_.charge(kCompiledSteps);
    compiled_[open.back().place] = entry;
    open.pop_back();
    if (open.empty()) return entry;
    take_part(open.back(), entry);
  }
}

std::optional<Builder::Place> Builder::next_part(Open& open) {
  const auto [id, next] = open.place;
  const Node& node = nodes_[static_cast<size_t>(id)];
  const auto done = static_cast<size_t>(open.done);
  switch (node.kind) {
    case Kind::Bytes:
    case Kind::Call:
    case Kind::Automaton:
      return std::nullopt;
    case Kind::Sequence:
      if (done == node.parts.size()) return std::nullopt;
      return Place{node.parts[node.parts.size() - 1 - done], open.entry};
    case Kind::AnyOf:
      if (done == node.parts.size()) return std::nullopt;
      return Place{node.parts[done], next};
    case Kind::Repeat:
      if (open.done == node.copy_count()) return std::nullopt;
      if (open.done == 0 && !node.max) open.entry = emit_split({next, next});  // patched: the part again, or on
      return Place{node.parts[0], open.entry};
  }
  return std::nullopt;
}

// entry: of what next_part() gave.
void Builder::take_part(Open& open, int32_t entry) {
  const auto [id, next] = open.place;
  const Node& node = nodes_[static_cast<size_t>(id)];
  if (node.kind == Kind::AnyOf) {
    open.targets.push_back(entry);
  } else if (node.kind == Kind::Sequence || open.done >= node.optional_count()) {
    open.entry = entry;
  } else if (node.max) {
    open.entry = emit_split({entry, next});
  } else {
    program_.targets[static_cast<size_t>(program_.instructions[static_cast<size_t>(open.entry)].argument)] = entry;
  }
  ++open.done;
}

// All parts are compiled.
int32_t Builder::finish(const Open& open) {
  const auto [id, next] = open.place;
  const Node& node = nodes_[static_cast<size_t>(id)];
  if (node.kind == Kind::Bytes) return emit({Instruction::Kind::Bytes, node.argument, next});
  if (node.kind == Kind::Call) return emit({Instruction::Kind::Call, node.argument, next});
  if (node.kind == Kind::Automaton) return emit_automaton(automata_[static_cast<size_t>(node.argument)], next);
  return node.kind == Kind::AnyOf ? emit_split(open.targets) : open.entry;
}

Program Builder::compile(int32_t root) {
  std::optional<Program> program = try_compile(root);
  if (!program) fail(ErrorCode::InvalidArgument, "no text satisfies the grammar");
  return std::move(*program);
}

std::optional<Program> Builder::try_compile(int32_t root) {
  program_.root = root;
  for (const Rule& rule : rules_) {
    if (rule.body < 0) fail(ErrorCode::InvalidArgument, "rule '{}' is used but not defined", rule.name);
    const int32_t end = emit({});
    program_.rule_entries.push_back(compile_node(rule.body, end));
  }
  refuse_left_recursion();
  if (!remove_dead_ends()) return {};
  find_byte_classes();
  return std::move(program_);
}

// A rule that can call itself before it has read a byte would never come to read one.
void Builder::refuse_left_recursion() const {
  const auto& instructions = program_.instructions;
  std::vector<bool> nullable(rules_.size(), false);
  std::vector<std::vector<int32_t>> begins_with(rules_.size());
  std::vector<int32_t> seen(instructions.size(), 0);  // by which walk last
  int32_t walk_count = 0;
  // Walks what rule `rule` reaches without a byte; tells whether that is its end.
  const auto walk = [&](size_t rule) {
    std::vector<int32_t> open{program_.rule_entries[rule]};
    ++walk_count;
    bool ends = false;
    begins_with[rule].clear();
    while (!open.empty()) {
      const auto at = static_cast<size_t>(open.back());
      open.pop_back();
      budget_.charge(1);
      if (seen[at] == walk_count) continue;
      seen[at] = walk_count;
      const Instruction& instruction = instructions[at];
      if (instruction.kind == Instruction::Kind::Return) ends = true;
      if (instruction.kind == Instruction::Kind::Split) {
        open.insert(open.end(), program_.targets.begin() + instruction.argument,
                    program_.targets.begin() + instruction.next);
      }
      if (instruction.kind == Instruction::Kind::Call) {
        begins_with[rule].push_back(instruction.argument);
        if (nullable[static_cast<size_t>(instruction.argument)]) open.push_back(instruction.next);
      }
    }
    return ends;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
      const bool ends = walk(rule);
      if (ends && !nullable[rule]) changed = true;
      nullable[rule] = nullable[rule] || ends;
    }
  }
  std::vector<int> state(rules_.size(), 0);  // 1: being looked at, 2: done
  for (size_t first = 0; first < rules_.size(); ++first) {
    std::vector<std::pair<size_t, size_t>> path;  // rule, next of begins_with
    if (state[first] == 0) path.emplace_back(first, 0);
    state[first] = state[first] == 0 ? 1 : state[first];
    while (!path.empty()) {
      auto& [rule, index] = path.back();
      if (index == begins_with[rule].size()) {
        state[rule] = 2;
        path.pop_back();
        continue;
      }
      const auto next = static_cast<size_t>(begins_with[rule][index++]);
      if (state[next] == 1) fail(ErrorCode::InvalidArgument, "rule '{}' begins with itself", rules_[next].name);
      if (state[next] == 0) {
        state[next] = 1;
        path.emplace_back(next, 0);
      }
    }
  }
}

// Takes out of all choices what can never come to an end, so that a matcher is never led there; false where nothing
// can.
bool Builder::remove_dead_ends() {
  auto& instructions = program_.instructions;
  std::vector<bool> alive(instructions.size(), false);
  const auto is_alive = [&](int32_t at) { return alive[static_cast<size_t>(at)]; };
  for (bool changed = true; changed;) {
    changed = false;
    budget_.charge(instructions.size() / 16);  // a look at one is cheap
    for (size_t at = 0; at < instructions.size(); ++at) {
      if (alive[at]) continue;
      const Instruction& instruction = instructions[at];
      bool ends = instruction.kind == Instruction::Kind::Return;
      if (instruction.kind == Instruction::Kind::Bytes) {
        ends = is_alive(instruction.next) && program_.sets[static_cast<size_t>(instruction.argument)].any();
      } else if (instruction.kind == Instruction::Kind::Call) {
        ends = is_alive(instruction.next) && is_alive(program_.rule_entries[static_cast<size_t>(instruction.argument)]);
      } else if (instruction.kind == Instruction::Kind::Split) {
        ends = std::any_of(program_.targets.begin() + instruction.argument, program_.targets.begin() + instruction.next,
                           is_alive);
      }
      alive[at] = ends;
      changed = changed || ends;
    }
  }
  if (!is_alive(program_.rule_entries[static_cast<size_t>(program_.root)])) return false;
  for (Instruction& instruction : instructions) {
    if (instruction.kind != Instruction::Kind::Split) continue;
    const auto begin = program_.targets.begin() + instruction.argument;
    const auto end = program_.targets.begin() + instruction.next;
    const auto kept = std::stable_partition(begin, end, is_alive);
    instruction.next = static_cast<int32_t>(kept - program_.targets.begin());
  }
  return true;
}

void Builder::find_byte_classes() {
  std::unordered_map<std::string, uint8_t> classes;  // by which sets a byte is in
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string members;
    for (const ByteSet& set : program_.sets) members += set.test(byte) ? '1' : '0';
    program_.byte_class[byte] =
        classes.try_emplace(std::move(members), static_cast<uint8_t>(classes.size())).first->second;
  }
  program_.class_count = static_cast<int32_t>(classes.size());
}

std::optional<int64_t> take_count(std::string_view text, size_t& at) {
  if (at >= text.size() || text[at] < '0' || text[at] > '9') return {};
  int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), count);
  at = static_cast<size_t>(end - text.data());
  return error == std::errc::result_out_of_range ? INT64_MAX : count;
}

Dfa texts_of(Budget& budget, const std::function<NodeId(Builder&)>& write) {
  Builder builder(budget);
  const int32_t root = builder.new_rule("texts");
  builder.define(root, write(builder));
  const std::optional<Program> program = builder.try_compile(root);
  return program ? determinised(*program, budget) : Dfa();
}

}  // namespace inflight::grammar
