// SPDX-License-Identifier: Apache-2.0
#include "text/grammar.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "text/grammar_gbnf.h"
#include "text/grammar_json.h"
#include "text/grammar_regex.h"
#include "text/grammar_tools.h"

namespace inflight {

using grammar::Automaton;
using grammar::Budget;
using grammar::Position;

namespace {

grammar::Program compile(GrammarKind kind, std::string_view text, Budget& budget) {
  switch (kind) {
    case GrammarKind::JsonObject:
      return grammar::compile_json_schema(R"({"type": "object"})", true, budget);
    case GrammarKind::JsonSchema:
      return grammar::compile_json_schema(text, true, budget);
    case GrammarKind::LenientJsonSchema:
      return grammar::compile_json_schema(text, false, budget);
    case GrammarKind::Regex:
      return grammar::compile_regex(text, budget);
    case GrammarKind::Gbnf:
      return grammar::compile_gbnf(text, budget);
    case GrammarKind::ToolCalls:
      return grammar::compile_tool_calls(text, budget);
  }
  fail(ErrorCode::InvalidArgument, "unknown kind of grammar");
}

}  // namespace

grammar::Program compile_grammar(GrammarKind kind, std::string_view text, const std::stop_token& stop) {
  if (text.size() > limits::kGrammarBytesMax) {
    fail(ErrorCode::InvalidArgument, "the grammar has {} bytes, allowed: {}", text.size(), limits::kGrammarBytesMax);
  }
  try {
    Budget budget(stop);
    return compile(kind, text, budget);
  } catch (const Error& error) {
    std::string message = to_valid_utf8(error.what());  // it may quote the text
    std::ranges::replace_if(message, [](char character) { return static_cast<uint8_t>(character) < 0x20; }, ' ');
    throw Error(error.code(), message);
  }
}

GrammarMatcher::GrammarMatcher(CompiledGrammar& compiled, const Vocabulary& vocabulary, const TokenTrie& trie,
                               std::span<const TokenId> end_tokens)
    : compiled_(compiled),
      vocabulary_(vocabulary),
      trie_(trie),
      end_tokens_(end_tokens.begin(), end_tokens.end()),
      stacks_(own_stacks_),
      stacks_size_(stacks_.size()) {
  ++compiled_.user_count;
  const grammar::Program& program = compiled_.program;
  const Position begin{program.rule_entries[static_cast<size_t>(program.root)], 0};
  grammar::Closure closure = close(program, stacks_, std::span(&begin, 1));
  state_ = {std::move(closure.positions), closure.escaped, false};
}

GrammarMatcher::GrammarMatcher(const GrammarMatcher& other)
    : TokenFilter(other),
      compiled_(other.compiled_),
      vocabulary_(other.vocabulary_),
      trie_(other.trie_),
      end_tokens_(other.end_tokens_),
      own_stacks_(other.stacks_),
      stacks_(own_stacks_),
      stacks_size_(stacks_.size()),
      state_(other.state_) {
  ++compiled_.user_count;
}

GrammarMatcher::GrammarMatcher(GrammarMatcher& other, Ahead)
    : TokenFilter(other),
      compiled_(other.compiled_),
      vocabulary_(other.vocabulary_),
      trie_(other.trie_),
      end_tokens_(other.end_tokens_),
      stacks_(other.stacks_),
      stacks_size_(stacks_.size()),
      state_(other.state_) {
  ++compiled_.user_count;
}

GrammarMatcher::~GrammarMatcher() {
  if (&stacks_ != &own_stacks_) stacks_.truncate(stacks_size_);
  --compiled_.user_count;
}

std::unique_ptr<GrammarMatcher> GrammarMatcher::matcher_ahead() {
  return std::unique_ptr<GrammarMatcher>(new GrammarMatcher(*this, Ahead()));
}

std::unique_ptr<TokenFilter> GrammarMatcher::clone() const { return std::make_unique<GrammarMatcher>(*this); }

bool GrammarMatcher::is_end_token(TokenId token) const {
  return std::ranges::find(end_tokens_, token) != end_tokens_.end();
}

namespace {

void set_bit(std::span<uint32_t> mask, TokenId token) {
  const auto index = static_cast<size_t>(token);
  if (index / 32 < mask.size()) mask[index / 32] |= 1U << (index % 32U);
}

}  // namespace

void GrammarMatcher::allow(std::span<uint32_t> allowed) {
  std::ranges::fill(allowed, 0U);
  const std::lock_guard lock(compiled_.mutex);
  Automaton& automaton = compiled_.automaton;
  automaton.trim();
  auto positions = state_.positions;
  std::ranges::sort(positions, {}, [](const Position& position) { return std::pair(position.stack, position.at); });
  for (size_t begin = 0; begin < positions.size() && !state_.ended;) {
    const int32_t stack = positions[begin].stack;
    std::vector<int32_t> instructions;
    for (; begin < positions.size() && positions[begin].stack == stack; ++begin)
      instructions.push_back(positions[begin].at);
    const Automaton::Verdict& verdict = automaton.verdict(automaton.state_of(std::move(instructions)));
    const size_t words = std::min(allowed.size(), verdict.mask.size());
    automaton.charge(1 + words / 16);
    for (size_t word = 0; word < words; ++word) allowed[word] |= verdict.mask[word];
    for (const TokenId token : verdict.few) set_bit(allowed, token);
    for (const int32_t node : verdict.escapes) add_below(node, stack, allowed);
  }
  const bool nothing = std::ranges::all_of(allowed, [](uint32_t word) { return word == 0; });
  if (state_.complete || nothing) {
    for (const TokenId token : end_tokens_) set_bit(allowed, token);
  }
}

// Tokens below trie node `node`, at which the frame above `stack` returns.
void GrammarMatcher::add_below(int32_t node, int32_t stack, std::span<uint32_t> allowed) {
  Automaton& automaton = compiled_.automaton;
  while (stack != 0) {
    automaton.charge(1);
    const grammar::Stacks::Frame frame = stacks_.top(stack);
    const int32_t state = automaton.state_at(frame.return_to);
    if (state == Automaton::kDead) return;
    add_subtree(node, state, frame.below, allowed);
    if (!automaton.escaped(state)) return;
    stack = frame.below;
  }
}

void GrammarMatcher::add_subtree(int32_t node, int32_t automaton_state, int32_t stack, std::span<uint32_t> allowed) {
  Automaton& automaton = compiled_.automaton;
  const auto& nodes = trie_.nodes();
  const TokenTrie::Node& root = nodes[static_cast<size_t>(node)];
  std::vector<int32_t> path{automaton_state};  // by depth below the root
  for (int32_t at = node + 1; at < root.end;) {
    automaton.charge(1);
    const TokenTrie::Node& here = nodes[static_cast<size_t>(at)];
    path.resize(static_cast<size_t>(here.depth - root.depth));
    const int32_t found = automaton.next(path.back(), here.byte);
    if (found == Automaton::kDead) {
      at = here.end;
      continue;
    }
    path.push_back(found);
    for (int32_t i = here.tokens_begin; i < here.tokens_end; ++i)
      set_bit(allowed, trie_.tokens()[static_cast<size_t>(i)]);
    if (automaton.escaped(found) && here.end > at + 1) add_below(at, stack, allowed);
    ++at;
  }
}

std::optional<size_t> GrammarMatcher::try_step(State& state, std::string_view bytes) {
  size_t work = 0;
  for (const char byte : bytes) {
    grammar::Closure closure = step(compiled_.program, stacks_, state.positions, static_cast<uint8_t>(byte));
    work += closure.work;
    if (work > static_cast<size_t>(limits::kGrammarWorkMax)) {
      fail(ErrorCode::InvalidArgument, "following the grammar through one token takes more than {} steps",
           limits::kGrammarWorkMax);
    }
    state.positions = std::move(closure.positions);
    state.complete = closure.escaped;
    if (state.positions.empty() && !state.complete) return std::nullopt;
  }
  return work;
}

void GrammarMatcher::learn_ahead(Budget& budget) {
  constexpr size_t kTextsMax = 500;
  constexpr size_t kNodesMax = 1'000'000;  // looked at, about 10 ns each
  struct Text {
    State state;
    bool ends_blank = false;
  };
  std::deque<Text> open{{state_}};
  std::set<std::vector<Position>> seen;
  std::vector<uint32_t> mask((static_cast<size_t>(vocabulary_.size()) + 31) / 32);
  try {
    for (size_t count = 0; count < kTextsMax && !open.empty(); ++count) {
      const Text text = std::move(open.front());
      open.pop_front();
      state_ = text.state;
      allow(mask);
      budget.charge(compiled_.automaton.work());
      if (compiled_.automaton.nodes_seen() > kNodesMax) return;
      std::set<uint8_t> classes;
      // Not beyond ASCII, within characters, nor behind a backslash, for each character of a string: their masks are
      // small.
      for (uint8_t byte = 0; byte < 0x80; ++byte) {
        const bool is_blank = byte == ' ' || byte == '\t' || byte == '\n';
        if (byte == '\\' || (is_blank && text.ends_blank) || !classes.insert(compiled_.program.byte_class[byte]).second)
          continue;
        const char character = static_cast<char>(byte);
        budget.charge(state_.positions.size());
        State next = state_;
        const std::optional<size_t> work = try_step(next, std::string_view(&character, 1));
        budget.charge(work.value_or(0));
        if (!work || !seen.insert(next.positions).second) continue;
        open.push_back({std::move(next), is_blank});
      }
    }
  } catch (const Error&) {  // too much work: the step that needs it says so; or nobody waits
  }
}

bool GrammarMatcher::try_accept_text(std::string_view bytes) {
  if (state_.ended) return false;
  State next = state_;
  if (!try_step(next, bytes)) return false;
  state_ = std::move(next);
  return true;
}

bool GrammarMatcher::try_accept(TokenId token) {
  if (is_end_token(token)) {
    if (!state_.complete || state_.ended) return false;
    state_.ended = true;
    return true;
  }
  if (!vocabulary_.contains(token)) return false;
  const std::string bytes = grammar_bytes(vocabulary_, token);
  return !bytes.empty() && try_accept_text(bytes);
}

void GrammarMatcher::accept(TokenId token) {
  if (try_accept(token)) return;
  if (!is_end_token(token)) fail(ErrorCode::InvalidArgument, "token {} is not allowed by the grammar here", token);
  state_.ended = true;  // allowed where nothing else can come
}

std::string GrammarMatcher::forced_text() {
  State ahead = state_;
  std::string text;
  constexpr size_t kPositionsMax = 64;  // where more are possible, looking ahead costs more than drawing
  constexpr size_t kWorkMax = 400'000;  // some 20 ms, in which nobody else is served
  size_t work = 0;
  while (!ahead.complete && text.size() < limits::kForcedBytesMax && ahead.positions.size() <= kPositionsMax) {
    grammar::ByteSet possible;
    for (const Position& position : ahead.positions) {
      const auto& instruction = compiled_.program.instructions[static_cast<size_t>(position.at)];
      possible |= compiled_.program.sets[static_cast<size_t>(instruction.argument)];
    }
    if (possible.count() != 1) break;
    const char byte = static_cast<char>(possible._Find_first());
    const std::optional<size_t> done = try_step(ahead, std::string_view(&byte, 1));
    if (!done) break;
    text += byte;
    if ((work += *done) > kWorkMax) break;
  }
  text.resize(valid_utf8_length(text));
  return text;
}

GrammarStore::GrammarStore(const Vocabulary& vocabulary, std::vector<TokenId> end_tokens)
    : vocabulary_(vocabulary), end_tokens_(std::move(end_tokens)), trie_(vocabulary, end_tokens_) {}

CompiledGrammar* GrammarStore::find(GrammarKind kind, std::string_view text) {
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.kind == kind && entry.text == text; });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  return found->compiled.get();
}

std::unique_ptr<GrammarMatcher> GrammarStore::matcher(GrammarKind kind, std::string_view text,
                                                      const std::stop_token& stop) {
  if (kind == GrammarKind::JsonObject) text = "";
  {
    const std::lock_guard lock(mutex_);
    if (CompiledGrammar* const known = find(kind, text)) {
      return std::make_unique<GrammarMatcher>(*known, vocabulary_, trie_, end_tokens_);
    }
  }
  // Others need not wait for it.
  auto compiled = std::make_unique<CompiledGrammar>(compile_grammar(kind, text, stop), trie_);
  Budget budget(stop);
  GrammarMatcher(*compiled, vocabulary_, trie_, end_tokens_).learn_ahead(budget);
  const std::lock_guard lock(mutex_);
  if (CompiledGrammar* const known = find(kind, text)) {
    return std::make_unique<GrammarMatcher>(*known, vocabulary_, trie_, end_tokens_);
  }
  entries_.push_front({kind, std::string(text), std::move(compiled)});
  auto matcher = std::make_unique<GrammarMatcher>(*entries_.front().compiled, vocabulary_, trie_, end_tokens_);
  size_t kept = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const bool drop = ++kept > limits::kGrammarsKept && entry->compiled->user_count == 0;
    entry = drop ? entries_.erase(entry) : std::next(entry);
  }
  return matcher;
}

}  // namespace inflight
