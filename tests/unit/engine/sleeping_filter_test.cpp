// SPDX-License-Identifier: Apache-2.0
// Goal: a grammar that holds only behind a certain text changes nothing before it, and rules from the second token
// behind it on, whatever the load: with overlap and without, behind guesses, after preemptions, for each of several
// answers. Method: a filter that wakes by the last token, over an executor whose logits are a function of the prefix,
// against a plain simulation; and the filter itself with the demo model's tokens.
#include "engine/sleeping_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "model/model_loader.h"
#include "sample/sampler.h"
#include "sim/recording.h"
#include "sim/replay.h"
#include "support/engine_world.h"
#include "support/oracle_executor.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

constexpr TokenId kAllowedMax = 11;  // under the filter

// Wakes behind a multiple of 5, if the next token is even.
class Sleeper final : public TokenFilter {
 public:
  bool is_awake() const override { return awake_; }
  bool see(TokenId token) override {
    if (waking_) {
      waking_ = false;
      awake_ = token % 2 == 0;
      return false;
    }
    waking_ = token % 5 == 0;
    return waking_;
  }
  void allow(std::span<uint32_t> allowed) override {
    std::ranges::fill(allowed, 0U);
    allowed[0] = (1U << (kAllowedMax + 1)) - 1;
  }
  void accept(TokenId token) override { EXPECT_LE(token, kAllowedMax); }
  std::unique_ptr<TokenFilter> clone() const override { return std::make_unique<Sleeper>(*this); }

 private:
  bool waking_ = false, awake_ = false;
};

struct Expected {
  std::vector<TokenId> tokens;
  bool filtered = false;
};

Expected expected_of(const SubmitOptions& request, int32_t choice) {
  std::vector<TokenId> tokens = request.prompt;
  SamplingParams sampling = request.sampling;
  sampling.seed = choice_seed(sampling.seed, choice);
  Expected expected;
  int32_t changed_from =
      std::numeric_limits<int32_t>::max();  // the test's device draws otherwise where it may change logits
  TokenId before = 1;
  for (int32_t i = 0; i < sampling.max_tokens; ++i) {
    TokenId token = oracle_next_token(tokens, TokenExecutor::kVocabulary, sampling.seed);
    if (i >= changed_from || i < sampling.min_tokens || !sampling.bad_words.empty()) {
      std::vector<float> logits = oracle_logits(tokens, TokenExecutor::kVocabulary);
      if (expected.filtered) {
        std::fill(logits.begin() + kAllowedMax + 1, logits.end(), -std::numeric_limits<float>::infinity());
      }
      for (const auto& word : sampling.bad_words) {
        logits[static_cast<size_t>(word[0])] = -std::numeric_limits<float>::infinity();
      }
      token = draw_token(logits, sampling, static_cast<int32_t>(tokens.size())).token;
    }
    const bool waking = before % 5 == 0;
    expected.filtered = expected.filtered || (waking && token % 2 == 0);
    before = waking ? 1 : token;  // one that did not fit does not count
    if (before % 5 == 0) changed_from = std::min(changed_from, i + 2);
    tokens.push_back(token);
    expected.tokens.push_back(token);
  }
  return expected;
}

TEST(SleepingFilter, RulesFromTheSecondTokenBehindTheTriggerOnWhateverTheLoad) {
  for (const auto& [overlap, guesses] : {std::pair(true, 0), std::pair(false, 0), std::pair(false, 4)}) {
    const TempFolder folder;
    EngineOptions options = EngineWorld::host_driven(engine_options(40));
    options.overlap = overlap;
    options.setup.config.num_speculative_tokens = guesses;
    options.service.record_path = folder.file("run.trace");
    int filtered = 0, free = 0;
    {
      EngineWorld world(options);
      std::vector<std::pair<SubmitOptions, OutputStream*>> sent;
      for (TokenId i = 0; i < 60; ++i) {
        SubmitOptions request = crowd_request(i);
        if (i % 6 == 0) request.sampling.min_tokens = i % 4;
        if (i % 5 == 0) request.sampling.bad_words = {{i % 3}};
        request.filter_sleeps = true;
        request.prediction = expected_of(request, 0).tokens;
        sent.emplace_back(
            request, world.engine->submit(request, [](const std::stop_token&) { return std::make_unique<Sleeper>(); }));
        world.engine->step();
      }
      world.run();
      EXPECT_GT(world.engine->stats().scheduler.preemptions, 0);
      EXPECT_EQ(world.engine->stats().scheduler.accepted_tokens > 200, guesses > 0);
      for (auto& [request, stream] : sent) {
        const auto answers = read_answers(stream, request.sampling.n);
        for (int32_t k = 0; k < request.sampling.n; ++k) {
          const Expected expected = expected_of(request, k);
          EXPECT_EQ(answers[static_cast<size_t>(k)].tokens, expected.tokens);
          ++(expected.filtered ? filtered : free);
        }
      }
    }
    EXPECT_GT(filtered, 10);
    EXPECT_GT(free, 10);
    const ReplayResult replayed = replay_trace(read_recording(options.service.record_path), {});
    EXPECT_FALSE(replayed.difference.has_value());
  }
}

class SleepingFilterText : public testing::Test {
 protected:
  // Tokens that spell `text`, seen one by one: whether the filter is awake after them.
  bool wakes(SleepingFilter& filter, const std::string& text) {
    for (const TokenId token : tokenizer_->encode(text, {.add_special = false, .parse_special = false})) {
      if (filter.is_awake()) {
        filter.accept(token);
      } else {
        static_cast<void>(filter.see(token));
      }
    }
    return filter.is_awake();
  }
  SleepingFilter filter(const std::string& trigger, bool at_begin, std::optional<ReasoningWatch> reasoning = {}) {
    return {
        std::make_unique<GrammarFilter>(store_.matcher(GrammarKind::Gbnf, R"(root ::= "{" [a-z ]+ "}")"), *tokenizer_),
        vocabulary_, trigger, at_begin, std::move(reasoning)};
  }

  const std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::create(load_vocabulary(kDemoModel));
  const Vocabulary& vocabulary_ = tokenizer_->vocabulary();
  GrammarStore store_{vocabulary_, {*vocabulary_.eos()}};
};

TEST_F(SleepingFilterText, WakesBehindItsText) {
  SleepingFilter anywhere = filter("<call>", false);
  EXPECT_FALSE(wakes(anywhere, "Some text, and a <call"));
  EXPECT_FALSE(wakes(anywhere, "> that is none, then <call>"));
  SleepingFilter other(anywhere);
  EXPECT_FALSE(wakes(anywhere, "no"));  // does not fit: no call was meant
  EXPECT_TRUE(wakes(anywhere, " <call>{a"));
  EXPECT_TRUE(wakes(other, "{ab c}"));
  std::vector<uint32_t> allowed(static_cast<size_t>(vocabulary_.size() + 31) / 32);
  other.allow(allowed);
  int count = 0;
  for (const uint32_t word : allowed) count += __builtin_popcount(word);
  EXPECT_EQ(count, 1);  // the end token
}

TEST_F(SleepingFilterText, OneThatIsTheAnswersBeginCountsThereOnly) {
  SleepingFilter good = filter("call", true), late = filter("call", true), other = filter("call", true);
  EXPECT_TRUE(wakes(good, " \ncall{a"));
  EXPECT_FALSE(wakes(late, "I call{a"));
  EXPECT_FALSE(wakes(other, "callx"));
  EXPECT_FALSE(wakes(other, "call{a"));
}

TEST_F(SleepingFilterText, SleepsOnThroughReasoning) {
  const ReasoningWatch watch("<r>", "</r>", AnswerBegin::Undecided);
  SleepingFilter anywhere = filter("<call>", false, watch), at_begin = filter("call", true, watch);
  EXPECT_FALSE(wakes(anywhere, "<r><call>{a"));
  EXPECT_FALSE(wakes(anywhere, "<call>{a</r>"));
  EXPECT_TRUE(wakes(anywhere, "Then <call>{a"));
  EXPECT_FALSE(wakes(at_begin, "<r>call{a</r>"));
  EXPECT_TRUE(wakes(at_begin, "\n\ncall{a"));
  SleepingFilter plain = filter("<call>", false, watch);
  EXPECT_TRUE(wakes(plain, "<call>{a"));
}

}  // namespace
}  // namespace inflight::test
