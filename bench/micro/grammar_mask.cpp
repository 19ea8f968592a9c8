// SPDX-License-Identifier: Apache-2.0
// What structured output costs a step: the mask of allowed tokens, for a vocabulary of 131,072 tokens made of a real
// one ($INFLIGHT_BENCH_VOCABULARY, a GGUF file whose tokenizer puts no space before a text) and pairs of its tokens.
// Each benchmark walks a text of its schema again and again.
//   BM_GrammarMask/CASE        one allow() + accept(), the grammar known
//   BM_GrammarFirstMask/CASE   the same in the first walk of a grammar; max_us the longest of one walk's steps, the
//   mean
//                              over walks
//   BM_GrammarCompile/CASE     what comes before that, off the engine thread
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>
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
    {"counted", GrammarKind::JsonSchema,
     R"({"type": "object", "properties": {"title": {"type": "string", "minLength": 3, "maxLength": 60},
         "kind": {"enum": ["note", "task", "event"]}, "score": {"type": "number", "minimum": 0, "maximum": 10},
         "when": {"type": "string", "format": "date"}}, "required": ["title", "kind", "score", "when"]})",
     R"({"title": "An account of the engine, with notes", "kind": "note", "score": 7.25, "when": "1843-09-01"})"},
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

using Clock = std::chrono::steady_clock;

// The steps of one text; the longest one's microseconds.
double walk(inflight::GrammarMatcher& matcher, const std::vector<TokenId>& tokens, std::vector<uint32_t>& mask) {
  double longest = 0;
  for (const TokenId token : tokens) {
    const auto begin = Clock::now();
    matcher.allow(mask);
    benchmark::DoNotOptimize(mask.data());
    matcher.accept(token);
    longest = std::max(longest, std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return longest;
}

struct Figures {
  double steps = 0, longest_us = 0;
};

// Seconds of one walk of a new matcher.
double walk_once(inflight::GrammarStore& store, const Case& it, const std::vector<TokenId>& tokens,
                 std::vector<uint32_t>& mask, Figures& figures) {
  const auto matcher = store.matcher(it.kind, it.grammar);
  const auto begin = Clock::now();
  figures.longest_us += walk(*matcher, tokens, mask);
  figures.steps += static_cast<double>(tokens.size());
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

enum class Part : uint8_t { Known, First, Compile };

void mask_benchmark(benchmark::State& state, const Case& it, Part part) {
  static World world;
  const auto& vocabulary = world.tokenizer->vocabulary();
  const auto tokens = world.tokenizer->encode(it.text, {.add_special = false, .parse_special = false});
  std::vector<uint32_t> mask((static_cast<size_t>(vocabulary.size()) + 31) / 32);
  Figures figures;
  walk_once(world.store, it, tokens, mask, figures);
  figures = {};
  double seconds = 0;
  for (auto _ : state) {
    double taken = 0;
    if (part == Part::Known) {
      taken = walk_once(world.store, it, tokens, mask, figures);
    } else {
      inflight::GrammarStore store(vocabulary, {0});  // knows nothing
      const auto begin = Clock::now();
      (void)store.matcher(it.kind, it.grammar);
      const double compiled = std::chrono::duration<double>(Clock::now() - begin).count();
      taken = part == Part::Compile ? compiled : walk_once(store, it, tokens, mask, figures);
    }
    seconds += taken;
    state.SetIterationTime(taken);
  }
  if (part == Part::Compile) return;
  state.counters["us_per_mask"] = seconds * 1e6 / figures.steps;
  state.counters["max_us"] = figures.longest_us / static_cast<double>(state.iterations());
}

const bool kRegistered = [] {
  for (const Case& it : kCases) {
    for (const auto& [name, part] :
         {std::pair("BM_GrammarMask/", Part::Known), std::pair("BM_GrammarFirstMask/", Part::First),
          std::pair("BM_GrammarCompile/", Part::Compile)}) {
      auto* const bench = benchmark::RegisterBenchmark(
          (name + std::string(it.name)).c_str(),
          [&it, part = part](benchmark::State& state) { mask_benchmark(state, it, part); });
      bench->UseManualTime();
      if (part != Part::Known) bench->Iterations(10);
    }
  }
  return true;
}();

}  // namespace
