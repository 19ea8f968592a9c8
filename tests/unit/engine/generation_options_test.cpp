// SPDX-License-Identifier: Apache-2.0
// Goal: tokens that the host draws are those of the options, alone or in a full engine under memory pressure, with
// logprobs of every position told once. Method: an executor whose logits are a function of the prefix; the expected
// output is made token by token from the same logits with no engine at all.
// Covers: sample/host_sampler.cpp
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "sample/host_sampler.h"
#include "sample/logits_processor.h"
#include "sample/sampler.h"
#include "support/engine_world.h"

namespace inflight::test {
namespace {

// The n-th output token is even or odd as n is.
class Alternating final : public TokenFilter {
 public:
  void allow(std::span<uint32_t> allowed) override {
    for (uint32_t& word : allowed) word = count_ % 2 == 0 ? 0x55555555U : 0xAAAAAAAAU;
  }
  void accept(TokenId token) override {
    EXPECT_EQ(token % 2, count_ % 2);
    ++count_;
  }
  std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<Alternating>(*this); }

 private:
  int32_t count_ = 0;
};

std::vector<TokenId> drawn_alone(const SubmitOptions& request, int32_t choice, bool alternating) {
  std::vector<TokenId> tokens = request.prompt;
  SamplingParams sampling = request.sampling;
  sampling.seed = choice_seed(sampling.seed, choice);
  const auto prompt_count = static_cast<int32_t>(tokens.size());
  for (int32_t i = 0; i < sampling.max_tokens; ++i) {
    if (!alternating && !sampling.needs_logits() && !sampling.changes_logits(i)) {
      tokens.push_back(oracle_next_token(tokens, TokenExecutor::kVocabulary, sampling.seed));
      continue;
    }
    std::vector<float> logits = oracle_logits(tokens, TokenExecutor::kVocabulary);
    const std::vector<uint32_t> allowed(alternating ? 2 : 0, i % 2 == 0 ? 0x55555555U : 0xAAAAAAAAU);
    TokenCounts counts(static_cast<size_t>(prompt_count), sampling.repetition_penalty != 1.0F);
    counts.advance(tokens);
    const TokenHistory history{.known_tokens = tokens, .end_tokens = {}, .counts = &counts, .allowed = allowed};
    process_logits({.sampling = sampling, .history = history, .prompt_token_count = prompt_count}, logits);
    tokens.push_back(draw_token(logits, sampling, static_cast<int32_t>(tokens.size())).token);
  }
  return {tokens.begin() + prompt_count, tokens.end()};
}

SubmitOptions random_request(Rng& rng) {
  SubmitOptions request;
  const int32_t length = rng.between(1, 40), shared = rng.between(0, length);
  for (int32_t i = 0; i < length; ++i) request.prompt.push_back(i < shared ? i % 5 : rng.between(0, 63));
  SamplingParams& sampling = request.sampling;
  sampling.max_tokens = rng.between(1, 30);
  sampling.seed = rng.next();
  sampling.temperature = rng.chance(0.5) ? 1.0F : 0.0F;
  if (rng.chance(0.2)) sampling.n = rng.between(2, 4);
  if (rng.chance(0.3)) sampling.repetition_penalty = 1.3F;
  if (rng.chance(0.3)) sampling.frequency_penalty = 0.7F;
  if (rng.chance(0.2)) sampling.dry_multiplier = 2.0F;
  if (rng.chance(0.2)) sampling.typical_p = 0.5F;
  if (rng.chance(0.2)) sampling.logit_bias = {{rng.between(0, 63), 3.0F}};
  if (rng.chance(0.2)) sampling.min_tokens = rng.between(1, sampling.max_tokens);
  if (rng.chance(0.2)) sampling.top_k = 7;
  return request;
}

TEST(GenerationOptions, GiveTheSameTokensUnderPressureAsAlone) {
  for (const bool overlap : {true, false}) {
    EngineOptions options = EngineWorld::host_driven(engine_options(45));
    options.overlap = overlap;
    EngineWorld world(options);
    Rng rng(overlap ? 1 : 2);
    struct Sent {
      SubmitOptions request;
      OutputStream* stream;
      bool alternating;
    };
    std::vector<Sent> sent;
    for (int i = 0; i < 80; ++i) {
      Sent one{.request = random_request(rng), .stream = nullptr, .alternating = rng.chance(0.2)};
      one.stream = world.engine->submit(one.request, one.alternating ? FilterSource([](const std::stop_token&) {
                                          return std::make_unique<Alternating>();
                                        })
                                                                     : nullptr);
      sent.push_back(one);
      world.engine->step();
    }
    world.run();
    EXPECT_GT(world.engine->stats().scheduler.preemptions, 0);
    for (const Sent& one : sent) {
      const auto answers = read_answers(one.stream, one.request.sampling.n);
      for (int32_t k = 0; k < one.request.sampling.n; ++k) {
        EXPECT_EQ(answers[static_cast<size_t>(k)].tokens, drawn_alone(one.request, k, one.alternating));
      }
    }
  }
}

// A grammar that cannot be followed any further ends its own request only.
TEST(GenerationOptions, AFilterThatThrowsEndsItsRequest) {
  class Failing final : public TokenFilter {
   public:
    void allow(std::span<uint32_t> allowed) override { std::ranges::fill(allowed, ~0U); }
    void accept(TokenId) override {
      if (++count_ == 4) fail(ErrorCode::InvalidArgument, "enough");
    }
    std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<Failing>(*this); }

   private:
    int count_ = 0;
  };
  EngineWorld world(EngineWorld::host_driven());
  SubmitOptions request{.prompt = {1, 2, 3}};
  request.sampling.max_tokens = 20;
  OutputStream* const failing =
      world.engine->submit(request, [](const std::stop_token&) { return std::make_unique<Failing>(); });
  OutputStream* const other = world.engine->submit(request);
  world.run();
  const Answer answer = read_answer(failing);
  EXPECT_EQ(answer.tokens.size(), 3U);
  EXPECT_EQ(answer.last.finish, FinishReason::Error);
  EXPECT_EQ(answer.last.error_code, ErrorCode::InvalidArgument);
  EXPECT_NE(answer.last.error.find("too ambiguous"), std::string::npos);
  EXPECT_EQ(read_answer(other).tokens, output_alone({1, 2, 3}, 20));
  EXPECT_TRUE(world.engine->healthy());
}

// Probabilities in double, straight from the definition.
double log_probability(const std::vector<float>& logits, TokenId token) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit});
  return double{logits[static_cast<size_t>(token)]} - std::log(sum);
}

TEST(GenerationOptions, TellLogprobsOfOutputAndPrompt) {
  EngineWorld world(EngineWorld::host_driven());
  SubmitOptions request;
  for (TokenId i = 0; i < 100; ++i) request.prompt.push_back(i % 9);
  request.sampling.max_tokens = 6;
  request.sampling.logprobs = 3;
  request.sampling.prompt_logprobs = 2;
  request.sampling.logit_bias = {{11, 100.0F}};  // forces, but logprobs are of the model's own logits
  OutputStream* const stream = world.engine->submit(request);
  world.run();
  StreamBatch batch;
  ASSERT_EQ(stream->next(std::nullopt, batch), OutputStream::Next::Ready);
  stream->release();
  ASSERT_EQ(batch.prompt_logprobs.size(), 99U);
  std::vector<TokenId> tokens = {request.prompt[0]};
  for (const PositionLogprobs& told : batch.prompt_logprobs) {
    const auto logits = oracle_logits(tokens, TokenExecutor::kVocabulary);
    tokens.push_back(request.prompt[tokens.size()]);
    EXPECT_NEAR(double{told.logprob}, log_probability(logits, tokens.back()), 1e-5);
    EXPECT_EQ(told.top.size(), 2U);
  }
  ASSERT_EQ(batch.tokens.size(), 6U);
  ASSERT_EQ(batch.top_logprobs.size(), 6U);
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    const auto logits = oracle_logits(tokens, TokenExecutor::kVocabulary);
    tokens.push_back(batch.tokens[i]);
    EXPECT_EQ(batch.tokens[i], 11);
    EXPECT_NEAR(double{batch.logprobs[i]}, log_probability(logits, 11), 1e-5);
    const auto& top = batch.top_logprobs[i].top;
    ASSERT_EQ(top.size(), 3U);
    const auto most = static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
    EXPECT_EQ(top[0].token, most);
    EXPECT_NEAR(double{top[0].logprob}, log_probability(logits, most), 1e-5);
    EXPECT_GE(top[0].logprob, top[1].logprob);
    EXPECT_GE(top[1].logprob, top[2].logprob);
  }
}

// A request under which nothing is allowed ends with an error, the others go on.
TEST(GenerationOptions, EndTheRequestWhenEverythingIsBanned) {
  EngineWorld world(EngineWorld::host_driven());
  SubmitOptions banned{.prompt = {1, 2}}, other{.prompt = {3}};
  for (TokenId token = 0; token < TokenExecutor::kVocabulary; ++token) banned.sampling.bad_words.push_back({token});
  other.sampling.max_tokens = 5;
  OutputStream* const first = world.engine->submit(banned);
  OutputStream* const second = world.engine->submit(other);
  world.run();
  EXPECT_EQ(read_answer(first).last.finish, FinishReason::Error);
  EXPECT_EQ(read_answer(second).tokens, output_alone({3}, 5));
}

}  // namespace
}  // namespace inflight::test
