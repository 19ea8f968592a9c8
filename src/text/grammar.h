// SPDX-License-Identifier: Apache-2.0
// Structured output: text that must follow a JSON schema, a regular expression or a GBNF grammar, as masks over the
// tokens.
//
//   GrammarStore store(vocabulary, end_tokens);                              // one an engine
//   auto matcher = store.matcher(GrammarKind::JsonSchema, schema);           // off the engine thread: compiling takes
//   time matcher->allow(mask);  matcher->accept(token);                           // one a step
//
// A matcher is a TokenFilter. Compiled grammars and what they learn of the vocabulary are shared by all matchers of the
// same text.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "core/token_filter.h"
#include "text/grammar_automaton.h"
#include "text/grammar_program.h"
#include "text/token_trie.h"

namespace inflight {

enum class GrammarKind : uint8_t {
  JsonObject,  // any JSON object; the text is not looked at
  JsonSchema,
  LenientJsonSchema,  // what is not supported is left out of it
  Regex,              // the whole output matches
  Gbnf,               // llama.cpp's notation; begins with rule "root"
  ToolCalls,          // as tool_grammar_text() gives them
};

// Parses and compiles.   COST: milliseconds for usual schemas, at most grammar::Budget::kStepsMax steps.   THREAD: any.
// stop: gives up soon after it is requested.
// ERRORS: InvalidArgument for what is malformed, cannot be satisfied or exceeds limits.h; Unsupported for a keyword or
//         construct that is not known, naming it and where it stands (as a JSON pointer or a position); Rejected after
//         a stop.
[[nodiscard]] grammar::Program compile_grammar(GrammarKind kind, std::string_view text,
                                               const std::stop_token& stop = {});

// A compiled grammar with what it has learnt of one vocabulary.
struct CompiledGrammar {
  CompiledGrammar(grammar::Program compiled, const TokenTrie& token_trie)
      : program(std::move(compiled)), automaton(program, token_trie) {}

  grammar::Program program;
  std::mutex mutex;  // of the automaton
  grammar::Automaton automaton;
  std::atomic<int32_t> user_count = 0;  // matchers
};

class GrammarMatcher final : public TokenFilter {
 public:
  // LIFETIME: all are borrowed.
  GrammarMatcher(CompiledGrammar& compiled, const Vocabulary& vocabulary, const TokenTrie& trie,
                 std::span<const TokenId> end_tokens);
  GrammarMatcher(const GrammarMatcher& other);
  GrammarMatcher& operator=(const GrammarMatcher&) = delete;
  ~GrammarMatcher() override;

  // TokenFilter. ERRORS (all): InvalidArgument when following the grammar would take too much. Where nothing at all may
  // come next (a vocabulary without some byte), the end tokens are allowed.
  void allow(std::span<uint32_t> allowed) override;
  void accept(TokenId token) override;
  [[nodiscard]] std::unique_ptr<TokenFilter> clone() const override;
  [[nodiscard]] std::unique_ptr<TokenFilter> ahead() override { return matcher_ahead(); }
  [[nodiscard]] std::unique_ptr<GrammarMatcher> matcher_ahead();

  // accept() if the token may come next, else false and nothing changes.
  [[nodiscard]] bool try_accept(TokenId token);
  // The same for plain bytes.
  [[nodiscard]] bool try_accept_text(std::string_view bytes);
  // Makes the masks of texts that are likely to come, the shortest first, so that no step has to wait for them; then
  // the matcher stands somewhere.   COST: some ten milliseconds for usual grammars; the budget ends it in any case.
  void learn_ahead(grammar::Budget& budget);
  // Whether the text may end here.
  [[nodiscard]] bool is_complete() const { return state_.complete; }
  // Whether an end token was accepted.
  [[nodiscard]] bool is_ended() const { return state_.ended; }
  // The text that must come next, as far as there is no choice; whole characters. Empty where the text may end.
  [[nodiscard]] std::string forced_text();

 private:
  struct State {
    std::vector<grammar::Position> positions;
    bool complete = false;
    bool ended = false;
  };
  // Uses the stacks of `other`, whose copies take time in long texts of deep grammars, and leaves them as they are now.
  struct Ahead {};
  GrammarMatcher(GrammarMatcher& other, Ahead);
  [[nodiscard]] bool is_end_token(TokenId token) const;
  // How many positions were looked at; nothing where the bytes are not allowed.
  [[nodiscard]] std::optional<size_t> try_step(State& state, std::string_view bytes);
  void add_below(int32_t node, int32_t stack, std::span<uint32_t> allowed);
  void add_subtree(int32_t node, int32_t automaton_state, int32_t stack, std::span<uint32_t> allowed);

  CompiledGrammar& compiled_;
  const Vocabulary& vocabulary_;
  const TokenTrie& trie_;
  std::vector<TokenId> end_tokens_;
  grammar::Stacks own_stacks_;
  grammar::Stacks& stacks_;
  const size_t stacks_size_;  // at the beginning
  State state_;
};

// THREAD: any.   LIFETIME: outlives its matchers.
class GrammarStore {
 public:
  // Unused grammars beyond limits::kGrammarsKept are dropped, the longest unused first.
  GrammarStore(const Vocabulary& vocabulary, std::vector<TokenId> end_tokens);

  // A matcher at the beginning of the text.   stop, ERRORS: as compile_grammar().
  [[nodiscard]] std::unique_ptr<GrammarMatcher> matcher(GrammarKind kind, std::string_view text,
                                                        const std::stop_token& stop = {});

 private:
  struct Entry {
    GrammarKind kind;
    std::string text;
    std::unique_ptr<CompiledGrammar> compiled;
  };
  [[nodiscard]] CompiledGrammar* find(GrammarKind kind, std::string_view text);

  const Vocabulary& vocabulary_;
  std::vector<TokenId> end_tokens_;
  TokenTrie trie_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // the last used one first
};

}  // namespace inflight
