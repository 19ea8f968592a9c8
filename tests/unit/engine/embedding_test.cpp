// SPDX-License-Identifier: Apache-2.0
// Goal: embeddings are the model's final hidden states, whatever else runs. Method: the demo model against the float64
// reference; bitwise equality alone, in chunks, in company, after preemptions, with stored prefixes and none.
// Covers: sample/host_sampler.cpp, exec/cl_executor.cpp
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "engine/runtime.h"
#include "model/model_loader.h"
#include "support/expect_error.h"
#include "support/reference_model.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

std::vector<TokenId> prompt_of(int32_t length) {
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < length; ++i) prompt.push_back(20 + (i * i * 31 + i * 7 + length) % 900);
  return prompt;
}

OutputStream* submit_pooled(Engine& engine, const std::vector<TokenId>& prompt, Pooling pooling) {
  SubmitOptions options;
  options.prompt = prompt;
  options.pooling = pooling;
  return engine.submit(std::move(options));
}

std::vector<float> read(OutputStream* stream) {
  StreamBatch batch;
  EXPECT_EQ(stream->next(std::nullopt, batch), OutputStream::Next::Ready);
  EXPECT_EQ(batch.finish, FinishReason::Stop);
  EXPECT_TRUE(batch.tokens.empty());
  const std::vector<float> embedding = batch.embedding;
  EXPECT_EQ(stream->next(std::nullopt, batch), OutputStream::Next::Ended);
  stream->release();
  return embedding;
}

RuntimeOptions embedding_options() {
  RuntimeOptions options;
  options.model = kDemoModel;
  return options;
}

TEST(Embedding, OfWhichTokensIsWhatTheModelsFileStates) {
  const auto with_type = [](uint32_t type, auto&& use) {
    const TempFolder folder;
    RuntimeOptions options;
    options.model = folder.write("m.gguf", build_model({}).key_u32("llama.pooling_type", type).bytes());
    use(Runtime(options));
  };
  with_type(3, [](const Runtime& runtime) {
    EXPECT_EQ(runtime.model_pooling(), Pooling::Last);
    EXPECT_NE(runtime.info_json().find(R"("pooling":"last")"), std::string::npos);
  });
  with_type(1, [](const Runtime& runtime) { EXPECT_EQ(runtime.model_pooling(), Pooling::Mean); });
  with_type(2, [](const Runtime& runtime) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "'llama.pooling_type' asks for 'cls', supported: mean, last",
                          [&] { (void)runtime.model_pooling(); });
  });
}

// Of the demo model, and of one whose last norm takes the mean out and adds a bias.
class Embeddings : public testing::TestWithParam<bool> {};

TEST_P(Embeddings, AreWhatTheReferenceComputes) {
  RuntimeOptions options = embedding_options();
  const TempFolder folder;
  if (GetParam()) {
    SyntheticModel biased;
    biased.make_gpt_neox(true);
    biased.spec.vocabulary_size = 920;
    biased.with_vocabulary = true;
    options.model = folder.write("m.gguf", build_model(biased).bytes());
  }
  const LoadedModel model = load_model(options.model);
  ReferenceModel reference(model);
  Runtime runtime(options);
  for (const int32_t length : {1, 2, 16, 17, 63, 200}) {
    SCOPED_TRACE(length);
    const std::vector<TokenId> prompt = prompt_of(length);
    reference.reset();
    const std::vector<std::vector<double>> hidden = reference.feed_hidden(prompt);
    for (const Pooling pooling : {Pooling::Last, Pooling::Mean}) {
      std::vector<double> expected = hidden.back();
      if (pooling == Pooling::Mean) {
        std::ranges::fill(expected, 0.0);
        for (const auto& row : hidden) {
          for (size_t i = 0; i < row.size(); ++i) expected[i] += row[i] / length;
        }
      }
      const std::vector<float> embedding = read(submit_pooled(runtime.engine(), prompt, pooling));
      ASSERT_EQ(embedding.size(), expected.size());
      double squares = 0.0, error = 0.0;
      for (size_t i = 0; i < expected.size(); ++i) {
        squares += expected[i] * expected[i];
        error += std::pow(expected[i] - double{embedding[i]}, 2);
      }
      EXPECT_LT(std::sqrt(error / squares), 2e-3);  // K and V are half floats
    }
  }
}

// Of a model whose last layers compute the rows alone that somebody wants: here all.
TEST(Embedding, NeedsAllRowsOfLayersThatShareKAndV) {
  SyntheticModel synthetic;
  synthetic.make_gemma4();
  synthetic.spec.vocabulary_size = 1024;
  const TempFolder folder;
  RuntimeOptions options;
  options.model = folder.write("gemma4.gguf", build_model(synthetic).bytes());
  options.scheduler.max_num_batched_tokens = 64;
  const LoadedModel model = load_model(options.model);
  ReferenceModel reference(model);
  Runtime runtime(options);
  const std::vector<TokenId> prompt = prompt_of(150);
  const std::vector<std::vector<double>> hidden = reference.feed_hidden(prompt);
  const std::vector<float> embedding = read(submit_pooled(runtime.engine(), prompt, Pooling::Mean));
  ASSERT_EQ(embedding.size(), hidden[0].size());
  for (size_t i = 0; i < embedding.size(); ++i) {
    double mean = 0.0;
    for (const auto& row : hidden) mean += row[i] / static_cast<double>(hidden.size());
    EXPECT_NEAR(embedding[i], mean, 4e-3) << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Models, Embeddings, testing::Bool(),
                         [](const auto& test) { return test.param ? "MeanNorms" : "Demo"; });

TEST(Embedding, TellsWhatOfThePromptWasStored) {
  Runtime runtime(embedding_options());
  const auto cached = [&](Pooling pooling) {
    OutputStream* const stream = submit_pooled(runtime.engine(), prompt_of(40), pooling);
    StreamBatch batch;
    EXPECT_EQ(stream->next(std::nullopt, batch), OutputStream::Next::Ready);
    stream->release();
    return batch.cached_token_count;
  };
  EXPECT_EQ(cached(Pooling::Last), 0);
  EXPECT_EQ(cached(Pooling::Last), 32);
  EXPECT_EQ(runtime.engine().stats().scheduler.cached_tokens, 32);
  EXPECT_EQ(cached(Pooling::Mean), 0);  // all of it is computed
}

TEST(Embedding, APromptMayFillTheContext) {
  constexpr int32_t kContext = 145;  // chunks of 24 leave one token over
  const std::vector<TokenId> prompt = prompt_of(kContext);
  const std::vector<float> wanted = [&] {
    Runtime runtime(embedding_options());
    return read(submit_pooled(runtime.engine(), prompt, Pooling::Mean));
  }();
  RuntimeOptions options = embedding_options();
  options.scheduler.max_model_len = kContext;
  options.scheduler.max_num_seqs = 4;
  options.scheduler.max_num_batched_tokens = 24;
  options.kv_blocks = 10;  // it fits once
  Runtime runtime(options);
  Engine& engine = runtime.engine();
  engine.pause(PauseMode::New);
  OutputStream* const first = submit_pooled(engine, prompt, Pooling::Mean);
  OutputStream* const second = submit_pooled(engine, prompt, Pooling::Mean);
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // an engine at rest looks itself over after a second
  engine.resume();
  EXPECT_EQ(read(first), wanted);
  EXPECT_EQ(read(second), wanted);
  SubmitOptions generating;
  generating.prompt = prompt;
  EXPECT_THROW(static_cast<void>(engine.submit(generating)), Error);
  EXPECT_THROW(static_cast<void>(submit_pooled(engine, prompt_of(kContext + 1), Pooling::Mean)), Error);
}

TEST(Embedding, IsTheSameBitsInEveryCompany) {
  const std::vector<int32_t> lengths = {1, 15, 16, 40, 100, 150};
  std::vector<std::vector<float>> alone;
  {
    Runtime runtime(embedding_options());
    for (const int32_t length : lengths) {
      for (const Pooling pooling : {Pooling::Last, Pooling::Mean}) {
        alone.push_back(read(submit_pooled(runtime.engine(), prompt_of(length), pooling)));
      }
    }
    size_t next = 0;  // again: now their blocks are stored
    for (const int32_t length : lengths) {
      for (const Pooling pooling : {Pooling::Last, Pooling::Mean}) {
        EXPECT_EQ(read(submit_pooled(runtime.engine(), prompt_of(length), pooling)), alone[next++]);
      }
    }
    runtime.engine().pause(PauseMode::All);
    EXPECT_GT(runtime.engine().stats().scheduler.cached_tokens, 0);
    EXPECT_EQ(runtime.engine().stats().scheduler.output_tokens, 0);
  }
  RuntimeOptions options = embedding_options();
  options.scheduler.max_num_seqs = 8;
  options.scheduler.max_num_batched_tokens = 24;
  options.kv_blocks = 16;  // too few: somebody is preempted
  options.scheduler.max_model_len = 200;
  Runtime runtime(options);
  std::vector<OutputStream*> streams, generating;
  for (const int32_t length : lengths) {
    SubmitOptions answer;
    answer.prompt = prompt_of(length % 50 + 3);
    answer.sampling.max_tokens = 60;
    answer.sampling.ignore_eos = true;
    generating.push_back(runtime.engine().submit(answer));
    for (const Pooling pooling : {Pooling::Last, Pooling::Mean}) {
      streams.push_back(submit_pooled(runtime.engine(), prompt_of(length), pooling));
    }
  }
  for (size_t i = 0; i < streams.size(); ++i) EXPECT_EQ(read(streams[i]), alone[i]) << i;
  StreamBatch batch;
  for (OutputStream* stream : generating) {
    while (stream->next(std::nullopt, batch) == OutputStream::Next::Ready) {
    }
    EXPECT_EQ(batch.finish, FinishReason::Length);
    stream->release();
  }
  runtime.engine().pause(PauseMode::All);  // the figures are those of the last step then
  EXPECT_GT(runtime.engine().stats().scheduler.preemptions, 0);
  EXPECT_EQ(runtime.engine().stats().blocks_referenced, 0);
}

}  // namespace
}  // namespace inflight::test
