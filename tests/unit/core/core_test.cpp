// SPDX-License-Identifier: Apache-2.0
// Goal: the shared types refuse what nobody can execute, and name what is wrong.
// Covers: core/kv_layout.cpp, core/model_spec.cpp, core/request.cpp, core/sampling_params.cpp
// Method: one value out of range at a time; the message must hold the field's name and the value.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "core/attended_tokens.h"
#include "core/kv_layout.h"
#include "core/model_spec.h"
#include "core/request.h"
#include "core/sampling_params.h"

namespace inflight {
namespace {

template <typename Function>
std::string message_of(Function&& function, ErrorCode expected) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected);
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

ModelSpec small_model() {
  ModelSpec spec;
  spec.architecture = "llama";
  spec.layer_count = 2;
  spec.hidden_size = 64;
  spec.feed_forward_size = 128;
  spec.head_count = 8;
  spec.kv_head_count = 2;
  spec.head_size = 8;
  spec.vocabulary_size = 100;
  spec.context_length = 256;
  spec.rope_dimension_count = 8;
  return spec;
}

TEST(SamplingParams, DefaultsAreValidAndEachRangeIsChecked) {
  SamplingParams params;
  EXPECT_NO_THROW(params.validate());
  params.temperature = -1.0F;
  EXPECT_NE(message_of([&] { params.validate(); }, ErrorCode::InvalidArgument).find("temperature is -1"),
            std::string::npos);
  params = {};
  params.top_p = 0.0F;
  EXPECT_NE(message_of([&] { params.validate(); }, ErrorCode::InvalidArgument).find("top_p is 0"), std::string::npos);
  params = {};
  params.max_tokens = -1;
  EXPECT_NE(message_of([&] { params.validate(); }, ErrorCode::InvalidArgument).find("max_tokens is -1"),
            std::string::npos);
  params = {};
  params.stop_token_ids.resize(65);
  EXPECT_THROW(params.validate(), Error);
}

TEST(SamplingParams, ChecksWhatTheHostDoesToLogits) {
  const auto mistake = [](auto&& change) {
    SamplingParams params;
    change(params);
    return message_of([&] { params.validate(); }, ErrorCode::InvalidArgument);
  };
  using P = SamplingParams&;
  EXPECT_EQ(mistake([](P p) { p.n = 129; }), "n is 129, allowed: 1 to 128");
  EXPECT_EQ(mistake([](P p) { p.n = 3, p.best_of = 2; }), "best_of is 2, allowed: 0 (as n), or n to 128");
  EXPECT_EQ(mistake([](P p) { p.typical_p = 0.0F; }), "typical_p is 0, allowed: more than 0, at most 1");
  EXPECT_EQ(mistake([](P p) { p.repetition_penalty = 0.0F; }),
            "repetition_penalty is 0, allowed: more than 0, at most 10");
  EXPECT_EQ(mistake([](P p) { p.presence_penalty = 2.5F; }), "presence_penalty is 2.5, allowed: -2 to 2");
  EXPECT_EQ(mistake([](P p) { p.frequency_penalty = -3.0F; }), "frequency_penalty is -3, allowed: -2 to 2");
  EXPECT_EQ(mistake([](P p) { p.dry_base = 0.5F; }), "dry_base is 0.5, allowed: 1 to 100");
  EXPECT_EQ(mistake([](P p) { p.logit_bias = {{3, INFINITY}}; }), "a logit_bias is inf, allowed: finite");
  EXPECT_EQ(mistake([](P p) { p.min_tokens = 17; }), "min_tokens is 17, allowed: 0 to max_tokens");
  EXPECT_EQ(mistake([](P p) { p.bad_words = {{}}; }), "the number of tokens of a bad word is 0, allowed: 1 to 64");
  EXPECT_EQ(mistake([](P p) { p.logprobs = 21; }), "logprobs is 21, allowed: -1 (none) to 20");
  EXPECT_EQ(mistake([](P p) { p.temperature = NAN; }), "temperature is nan, allowed: 0 to 100");
}

TEST(SamplingParams, NeedsLogitsOnlyWhereTheDeviceCannotDraw) {
  SamplingParams params{.temperature = 1.0F, .top_k = 5, .top_p = 0.5F, .min_p = 0.1F};
  EXPECT_FALSE(params.needs_logits());
  EXPECT_FALSE(params.changes_logits(0));
  params.min_tokens = 2;
  EXPECT_TRUE(params.changes_logits(1));
  EXPECT_FALSE(params.changes_logits(2));
  params.presence_penalty = 0.5F;
  EXPECT_TRUE(params.changes_logits(2));
  EXPECT_FALSE(params.needs_logits());
  params.logprobs = 5;
  EXPECT_FALSE(params.needs_logits());
  params.dry_multiplier = 1.0F;
  EXPECT_TRUE(params.needs_logits());
  EXPECT_EQ(choice_seed(7, 0), 7U);
  EXPECT_NE(choice_seed(7, 1), choice_seed(7, 2));
}

TEST(ModelSpec, RefusesWhatNoKernelCanRun) {
  EXPECT_NO_THROW(small_model().validate());
  ModelSpec spec = small_model();
  spec.kv_head_count = 3;
  EXPECT_NE(message_of([&] { spec.validate(); }, ErrorCode::CorruptFile).find("3 KV heads"), std::string::npos);
  spec = small_model();
  spec.head_size = 7;
  spec.rope_dimension_count = 6;
  EXPECT_THROW(spec.validate(), Error);
  spec = small_model();
  spec.layer_count = 0;
  EXPECT_THROW(spec.validate(), Error);
  spec = small_model();
  spec.norm_epsilon = 0.0F / 1.0F;
  EXPECT_THROW(spec.validate(), Error);
}

// checklist 74, 86: bytes a token = 2 * L * G * D * bytes of a number, G the heads of K and V.
TEST(KvLayout, CountsBytes) {
  const KvLayout layout = KvLayout::of(small_model(), 16, KvType::F16);
  EXPECT_EQ(layout.bytes_per_token(), 2U * 2 * 2 * 8 * 2);
  EXPECT_EQ(layout.bytes_per_block(), 16 * layout.bytes_per_token());
  ModelSpec one_head = small_model();
  one_head.kv_head_count = 1;  // multi-query attention
  EXPECT_EQ(KvLayout::of(one_head, 16, KvType::F16).bytes_per_token(), layout.bytes_per_token() / 2);
  EXPECT_EQ(KvLayout::of(small_model(), 16, KvType::F32).bytes_per_token(), 2U * 2 * 2 * 8 * 4);
  EXPECT_EQ(KvLayout::of(small_model(), 16, KvType::I16).bytes_per_token(), 2U * 2 * 2 * (8 * 2 + 4));  // and a scale
  for (const int32_t bad : {0, 4, 7, 24, 256}) {
    EXPECT_THROW((void)KvLayout::of(small_model(), bad, KvType::F16), Error) << bad;
  }
}

// checklist 89: q8_0 holds at least 1.85 times the tokens of f16; a head must be whole blocks of 32.
TEST(KvLayout, EightBitsTakeLittleMoreThanHalf) {
  ModelSpec spec = small_model();
  for (const int32_t head_size : {32, 64, 128}) {
    spec.head_size = head_size;
    const auto f16 = static_cast<double>(KvLayout::of(spec, 16, KvType::F16).bytes_per_token());
    const auto q8 = static_cast<double>(KvLayout::of(spec, 16, KvType::Q8_0).bytes_per_token());
    EXPECT_GE(f16 / q8, 1.85);
    EXPECT_EQ(q8, 2.0 * 2 * 2 * head_size * 34 / 32);
  }
  spec.head_size = 48;
  EXPECT_NE(message_of([&] { (void)KvLayout::of(spec, 16, KvType::Q8_0); }, ErrorCode::InvalidArgument)
                .find("kv_cache_dtype is q8_0"),
            std::string::npos);
}

// Layer by layer and token by token, as a model with local layers sees them.
TEST(AttendedTokens, AreTheMeanOfWhatLayersSee) {
  ModelSpec spec = small_model();
  for (const int32_t layers : {2, 7, 26}) {
    for (const int32_t every : {2, 6}) {
      spec.layer_count = layers;
      spec.local_window = 20;
      spec.global_every = every;
      for (const int32_t computed : {0, 5, 19, 20, 300}) {
        for (const int32_t count : {0, 1, 14, 15, 16, 90}) {
          int64_t seen = 0;
          for (int32_t layer = 0; layer < layers; ++layer) {
            for (int32_t position = computed; position < computed + count; ++position)
              seen += spec.is_local(layer) ? std::min(position + 1, 20) : position + 1;
          }
          const int64_t mean =
              attended_tokens(computed, count, {.local_window = 20, .local_share = spec.local_share()});
          EXPECT_LE(std::abs(2 * (mean * layers - seen)), layers)
              << layers << ' ' << every << ' ' << computed << ' ' << count;
        }
      }
    }
  }
  spec.local_window = 0;
  EXPECT_EQ(spec.local_share(), 0.0);
  EXPECT_EQ(attended_tokens(300, 7, {.sliding_window = 20}), 7 * 20);
}

TEST(FinishReason, HasTheWordsOfTheApi) {
  EXPECT_STREQ(to_string(FinishReason::Stop), "stop");
  EXPECT_STREQ(to_string(FinishReason::Length), "length");
  EXPECT_STREQ(to_string(FinishReason::Abort), "abort");
  EXPECT_STREQ(to_string(FinishReason::Error), "error");
}

}  // namespace
}  // namespace inflight
