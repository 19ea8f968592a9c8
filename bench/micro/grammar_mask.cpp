// SPDX-License-Identifier: Apache-2.0
// What structured output costs a step: the mask of allowed tokens, for a vocabulary of 131,072 tokens made of a real
// one
// ($INFLIGHT_BENCH_VOCABULARY, a GGUF file) and pairs of its tokens. Each benchmark walks a text of its schema again
// and again: the first walk, in which the masks are learnt, is a benchmark of its own.
//   BM_GrammarMask/CASE        one allow() + accept(), the grammar known
//   BM_GrammarFirstMask/CASE   the same while everything is learnt, compiling included
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "model/model_loader.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

namespace {

using inflight::GrammarKind;
using inflight::TokenId;

struct Case {
  const char* name;
  GrammarKind kind;
  const char* grammar;
  const char* text;
};
constexpr Case kCases[] = {
    {"person", GrammarKind::JsonSchema,
     R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
         "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}}}, "required": ["name", "age", "tags"]})",
     R"({"name": "Ada Lovelace, Countess", "age": 36, "tags": ["mathematics", "engines", "notes on Babbage"]})"},
    {"json_object", GrammarKind::JsonObject, "",
     R"({"a": [1, 2.5, {"deep": "a longer text with \n and \u00e9"}], "b": null, "c": true})"},
    {"regex", GrammarKind::Regex, R"([A-Z][a-z]+( [A-Z][a-z]+)*, \d{4}-\d{2}-\d{2})",
     "Grace Brewster Hopper, 1906-12-09"},
};

inflight::VocabularyData large_vocabulary() {
  const char* const path = std::getenv("INFLIGHT_BENCH_VOCABULARY");
  inflight::VocabularyData data = inflight::load_vocabulary(path == nullptr ? "" : path);
  const size_t own = data.tokens.size();
  for (size_t i = 0; data.tokens.size() < 131'072; ++i) {
    const std::string pair = data.tokens[i * 7919 % own] + data.tokens[i * 104'729 % own];
    data.tokens.push_back(pair + std::to_string(i % 3));
    if (!data.types.empty()) data.types.push_back(inflight::TokenType::Normal);
    if (!data.scores.empty()) data.scores.push_back(-1e6F);
  }
  return data;
}

struct World {
  World() : tokenizer(inflight::Tokenizer::create(large_vocabulary())), store(tokenizer->vocabulary(), {0}) {}
  std::unique_ptr<inflight::Tokenizer> tokenizer;
  inflight::GrammarStore store;
};

// The steps of one text: masks made.
int64_t walk(inflight::GrammarMatcher& matcher, const std::vector<TokenId>& tokens, std::vector<uint32_t>& mask) {
  for (const TokenId token : tokens) {
    matcher.allow(mask);
    benchmark::DoNotOptimize(mask.data());
    matcher.accept(token);
  }
  return static_cast<int64_t>(tokens.size());
}

void mask_benchmark(benchmark::State& state, const Case& it, bool first) {
  static World world;
  const auto tokens = world.tokenizer->encode(it.text, {.add_special = false, .parse_special = false});
  std::vector<uint32_t> mask((static_cast<size_t>(world.tokenizer->vocabulary().size()) + 31) / 32);
  const auto warm = world.store.matcher(it.kind, it.grammar);
  walk(*warm, tokens, mask);
  int64_t steps = 0;
  for (auto _ : state) {
    if (first) {
      inflight::GrammarStore store(world.tokenizer->vocabulary(), {0});
      steps += walk(*store.matcher(it.kind, it.grammar), tokens, mask);
    } else {
      steps += walk(*world.store.matcher(it.kind, it.grammar), tokens, mask);
    }
  }
  state.counters["us_per_mask"] =
      benchmark::Counter(static_cast<double>(steps) * 1e-6, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

const bool kRegistered = [] {
  for (const Case& it : kCases) {
    for (const bool first : {false, true}) {
      const std::string name = std::string(first ? "BM_GrammarFirstMask/" : "BM_GrammarMask/") + it.name;
      benchmark::RegisterBenchmark(name.c_str(),
                                   [&it, first](benchmark::State& state) { mask_benchmark(state, it, first); });
    }
  }
  return true;
}();

}  // namespace
