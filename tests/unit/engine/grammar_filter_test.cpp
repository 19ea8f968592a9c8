// SPDX-License-Identifier: Apache-2.0
// Goal: what a grammar forces is not drawn (checklist 125, jump-forward), and nothing else changes: the same tokens
// under pressure as alone, beside guesses, limits and ends kept, a recording that replays. Method: a filter whose
// forced tokens depend on the last one, over an executor whose logits are a function of the prefix; a real grammar with
// the demo model.
#include "engine/grammar_filter.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/runtime.h"
#include "sample/logits_processor.h"
#include "sample/sampler.h"
#include "sim/recording.h"
#include "sim/replay.h"
#include "support/engine_world.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "text/detokenizer.h"

namespace inflight::test {
namespace {

// After a multiple of 3 come token % 7 tokens, counting up from 40.
std::vector<TokenId> forced_after(TokenId token) {
  std::vector<TokenId> forced;
  for (TokenId i = 0; token % 3 == 0 && i < token % 7; ++i) forced.push_back(40 + i);
  return forced;
}

class Forcing final : public TokenFilter {
 public:
  void allow(std::span<uint32_t> allowed) override { std::ranges::fill(allowed, ~0U); }
  void accept(TokenId token) override { last_ = token; }
  std::vector<TokenId> take_forced() override { return forced_after(last_); }
  std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<Forcing>(*this); }

 private:
  TokenId last_ = 1;
};

std::vector<TokenId> output_of(const SubmitOptions& request, int32_t choice, bool forcing = true) {
  std::vector<TokenId> tokens = request.prompt;
  SamplingParams sampling = request.sampling;
  sampling.seed = choice_seed(sampling.seed, choice);
  const auto end = tokens.size() + static_cast<size_t>(sampling.max_tokens);
  while (tokens.size() < end) {
    const std::vector<float> logits = oracle_logits(tokens, TokenExecutor::kVocabulary);
    tokens.push_back(draw_token(logits, sampling, static_cast<int32_t>(tokens.size())).token);
    for (const TokenId token : forced_after(tokens.back())) {
      if (forcing && tokens.size() < end) tokens.push_back(token);
    }
  }
  return {tokens.begin() + static_cast<std::ptrdiff_t>(request.prompt.size()), tokens.end()};
}

TEST(GrammarFilter, ForcedTokensAreThoseOfTheFilterUnderPressureToo) {
  for (const auto& [overlap, guesses] : {std::pair(true, 0), std::pair(false, 0), std::pair(false, 4)}) {
    const TempFolder folder;
    EngineOptions options = EngineWorld::host_driven(engine_options(40));
    options.overlap = overlap;
    options.setup.config.num_speculative_tokens = guesses;
    options.service.record_path = folder.file("run.trace");
    {
      EngineWorld world(options);
      std::vector<std::pair<SubmitOptions, OutputStream*>> sent;
      world.engine->pause(PauseMode::New);  // until all are there, however long the making of their filters takes
      for (TokenId i = 0; i < 60; ++i) {
        SubmitOptions request = crowd_request(i);
        request.prediction = output_of(request, 0);
        request.prediction[request.prediction.size() / 2] = 7;  // wrong, mostly
        sent.emplace_back(
            request, world.engine->submit(request, [](const std::stop_token&) { return std::make_unique<Forcing>(); }));
      }
      do world.engine->step();
      while (world.engine->stats().compiling > 0);
      world.engine->resume();
      world.run();
      EXPECT_GT(world.engine->stats().scheduler.preemptions, 0);
      EXPECT_GT(world.engine->stats().scheduler.forced_tokens, 100);
      EXPECT_EQ(world.engine->stats().scheduler.accepted_tokens > 200, guesses > 0);
      for (auto& [request, stream] : sent) {
        const auto answers = read_answers(stream, request.sampling.n);
        for (int32_t k = 0; k < request.sampling.n; ++k) {
          EXPECT_EQ(answers[static_cast<size_t>(k)].tokens, output_of(request, k));
        }
      }
    }
    const ReplayResult replayed = replay_trace(read_recording(options.service.record_path), {});
    EXPECT_FALSE(replayed.difference.has_value());
    EXPECT_GT(replayed.plans, 50);
  }
}

TEST(GrammarFilter, NothingIsForcedWhereProbabilitiesAreTold) {
  EngineWorld world(EngineWorld::host_driven());
  SubmitOptions request{.prompt = {3}};
  request.sampling.max_tokens = 20;
  request.sampling.logprobs = 0;
  OutputStream* const stream =
      world.engine->submit(request, [](const std::stop_token&) { return std::make_unique<Forcing>(); });
  world.run();
  EXPECT_EQ(read_answer(stream).tokens, output_of(request, 0, false));
  EXPECT_EQ(world.engine->stats().scheduler.forced_tokens, 0);
}

TEST(GrammarFilter, ALongChoicelessTextTakesFewSteps) {
  RuntimeOptions options;
  options.model = kDemoModel;
  options.scheduler.max_num_seqs = 4;
  Runtime runtime(options);
  const Tokenizer& tokenizer = runtime.require_tokenizer();
  const std::string text = "The little dog ran home and there was nobody, so it went to sleep under the big old tree.";
  SubmitOptions request;
  request.prompt = tokenizer.encode("Once");
  request.sampling.max_tokens = 100;
  const int64_t steps = runtime.engine().stats().scheduler.steps;
  OutputStream* const stream =
      runtime.engine().submit(request, runtime.grammar_filter(GrammarKind::Gbnf, "root ::= \"" + text + "\""));
  Answer answer = read_answer(stream);
  EXPECT_EQ(answer.last.finish, FinishReason::Stop);
  answer.tokens.pop_back();  // the end token
  EXPECT_EQ(detokenize_bytes(tokenizer.vocabulary(), answer.tokens), text);
  runtime.engine().pause(PauseMode::All);
  EXPECT_LE(runtime.engine().stats().scheduler.steps - steps, 8);
  EXPECT_GE(answer.tokens.size(), 15U);
}

}  // namespace
}  // namespace inflight::test
