// SPDX-License-Identifier: Apache-2.0
// An engine above a TokenExecutor, and what its clients do all the time.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "sim/recording.h"
#include "sim/replay.h"
#include "support/oracle_executor.h"
#include "support/temp_folder.h"
#include "support/token_executor.h"

namespace inflight::test {

inline EngineOptions engine_options(int32_t blocks = 64) {
  EngineOptions options;
  options.setup.config = {.max_num_seqs = 8, .max_num_batched_tokens = 48, .max_model_len = 128, .max_requests = 200};
  options.setup.blocks = {.block_count = blocks, .block_token_count = 4};
  options.vocabulary_size = TokenExecutor::kVocabulary;
  return options;
}

// The same with a draft model that draws what the target draws, so that its guesses are right where it has computed the
// tokens before.
inline EngineOptions with_draft_model(EngineOptions options, int32_t guesses) {
  options.setup.config.num_speculative_tokens = guesses;
  options.setup.config.draft_model = true;
  options.draft_vocabulary_size = TokenExecutor::kVocabulary;
  return options;
}

// The same, stepped by the test, in virtual time: each step takes a millisecond.
struct EngineWorld {
  static constexpr TimeNs kStep = 1'000'000;

  explicit EngineWorld(EngineOptions options)
      : executor(new TokenExecutor(options.setup.blocks.block_count, options.setup.blocks.block_token_count,
                                   options.setup.config.max_num_seqs)) {
    if (options.host_driven && options.clock == nullptr) {
      options.clock = &clock;
      executor->clock = &clock;
      executor->step_time = kStep;
    }
    std::unique_ptr<Executor> draft;
    if (options.setup.config.draft_model) {
      draft = std::make_unique<TokenExecutor>(options.setup.blocks.block_count, options.setup.blocks.block_token_count,
                                              options.setup.config.max_num_seqs);
    }
    engine = std::make_unique<Engine>(options, std::unique_ptr<Executor>(executor), std::move(draft));
  }
  static EngineOptions host_driven(EngineOptions options = engine_options()) {
    options.host_driven = true;
    return options;
  }
  void run() {
    while (engine->step()) {
    }
  }

  ManualClock clock;
  TokenExecutor* executor;
  std::unique_ptr<Engine> engine;
};

// What a request gives alone, greedily.
inline std::vector<TokenId> output_alone(std::vector<TokenId> tokens, int32_t count, uint64_t seed = 0) {
  std::vector<TokenId> output;
  for (int32_t i = 0; i < count; ++i) {
    output.push_back(oracle_next_token(tokens, TokenExecutor::kVocabulary, seed));
    tokens.push_back(output.back());
  }
  return output;
}

// Number i of a crowd: prompts of 1 to 23 tokens, answers of up to 40, some of three choices, all drawn with a seed.
inline SubmitOptions crowd_request(TokenId i) {
  SubmitOptions request;
  for (TokenId k = 0; k < 1 + i % 23; ++k) request.prompt.push_back((k * 5 + i) % 64);
  request.sampling = {.temperature = 1.0F, .seed = static_cast<uint64_t>(i) + 1, .max_tokens = 1 + i % 40};
  request.sampling.n = i % 7 == 0 ? 3 : 1;
  return request;
}

struct Answer {
  std::vector<TokenId> tokens;
  std::vector<PositionLogprobs> top_logprobs;
  StreamBatch last;
};
// Reads a stream of n answers to its end and releases it.
inline std::vector<Answer> read_answers(OutputStream* stream, int32_t n) {
  std::vector<Answer> answers(static_cast<size_t>(n));
  StreamBatch batch;
  while (stream->next(std::nullopt, batch) == OutputStream::Next::Ready) {
    Answer& answer = answers.at(static_cast<size_t>(batch.index));
    answer.tokens.insert(answer.tokens.end(), batch.tokens.begin(), batch.tokens.end());
    answer.last = batch;
  }
  stream->release();
  return answers;
}
// Reads a stream to its end and releases it.
inline Answer read_answer(OutputStream* stream) {
  Answer answer;
  while (stream->next(std::nullopt, answer.last) == OutputStream::Next::Ready) {
    const StreamBatch& batch = answer.last;
    answer.tokens.insert(answer.tokens.end(), batch.tokens.begin(), batch.tokens.end());
    answer.top_logprobs.insert(answer.top_logprobs.end(), batch.top_logprobs.begin(), batch.top_logprobs.end());
  }
  stream->release();
  return answer;
}

// Serves a crowd that comes step by step: each answer is what its request gives alone, and the recording replays.
inline SchedulerStats serve_crowd(EngineOptions options) {
  const TempFolder folder;
  options.service.record_path = folder.file("run.trace");
  SchedulerStats stats;
  {
    EngineWorld world(options);
    std::vector<std::pair<SubmitOptions, OutputStream*>> sent;
    for (TokenId i = 0; i < 60; ++i) {
      SubmitOptions request = crowd_request(i);
      request.sampling.max_tokens += 30;
      sent.emplace_back(request, world.engine->submit(request));
      world.engine->step();
    }
    world.run();
    stats = world.engine->stats().scheduler;
    for (auto& [request, stream] : sent) {
      const auto answers = read_answers(stream, request.sampling.n);
      for (int32_t k = 0; k < request.sampling.n; ++k) {
        EXPECT_EQ(answers[static_cast<size_t>(k)].tokens,
                  output_alone(request.prompt, request.sampling.max_tokens, choice_seed(request.sampling.seed, k)));
      }
    }
  }
  const ReplayResult replayed = replay_trace(read_recording(options.service.record_path), {});
  EXPECT_FALSE(replayed.difference.has_value());
  EXPECT_GT(replayed.plans, 50);
  return stats;
}

}  // namespace inflight::test
