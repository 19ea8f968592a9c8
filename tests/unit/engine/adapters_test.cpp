// SPDX-License-Identifier: Apache-2.0
// Goal: requests with different LoRA adapters and without share batches, stored prefixes and preemptions, and each gets
// the tokens that it gets alone; adapters come and go while requests run. Method: the demo model with adapters of
// random numbers, strong enough to change its answers, served alone and together.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "engine/runtime.h"
#include "model/model_loader.h"
#include "support/expect_error.h"
#include "support/synthetic_adapter.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

constexpr const char* kNames[] = {"", "warm", "cold", "odd"};  // "": without an adapter

class Adapters : public testing::Test {
 protected:
  // The file of an adapter of its own numbers.
  std::string file(uint64_t seed, int32_t rank) {
    const SyntheticAdapter adapter{.rank = rank, .strength = 0.3F, .seed = seed};
    return folder_.write("adapter" + std::to_string(seed), build_adapter(adapter, spec_).bytes());
  }

  RuntimeOptions options(int32_t max_loras) {
    RuntimeOptions options;
    options.model = kDemoModel;
    options.scheduler.max_num_seqs = 6;
    options.host_driven = true;
    options.max_loras = max_loras;
    options.lora_modules = {{"warm", file(1, 4)}, {"cold", file(2, 16)}, {"odd", file(3, 7)}};
    return options;
  }

  static SubmitOptions request(int32_t length, int32_t max_tokens = 12) {
    SubmitOptions request;
    Rng rng(5);  // longer prompts begin as shorter ones do
    for (int32_t i = 0; i < length; ++i) request.prompt.push_back(rng.between(10, 1000));
    request.sampling.max_tokens = max_tokens;
    request.sampling.ignore_eos = true;
    return request;
  }

  static OutputStream* submit(Runtime& runtime, SubmitOptions request, const std::string& adapter) {
    return runtime.engine().submit(std::move(request), {},
                                   adapter.empty() ? AdapterLease() : runtime.lease_lora_adapter(adapter));
  }

  static std::vector<TokenId> read(OutputStream* stream) {
    std::vector<TokenId> tokens;
    StreamBatch batch;
    while (stream->next(std::nullopt, batch) == OutputStream::Next::Ready) {
      EXPECT_NE(batch.finish, FinishReason::Error) << batch.error;
      tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
    }
    stream->release();
    return tokens;
  }

  static std::vector<TokenId> answer(Runtime& runtime, SubmitOptions given, const std::string& adapter) {
    OutputStream* const stream = submit(runtime, std::move(given), adapter);
    while (runtime.engine().step()) {
    }
    return read(stream);
  }

  TempFolder folder_;
  ModelSpec spec_ = load_model(kDemoModel).spec;
};

constexpr int32_t kLengths[] = {50, 20, 90, 33};

// checklist 26
TEST_F(Adapters, EachRequestGetsItsTokensOfWhenItIsAlone) {
  std::vector<std::vector<TokenId>> alone;
  {
    RuntimeOptions single = options(3);
    single.prefix_caching = false;
    Runtime runtime(single);
    for (const char* name : kNames) {
      for (const int32_t length : kLengths) alone.push_back(answer(runtime, request(length), name));
    }
  }
  EXPECT_NE(alone[0], alone[4]);  // the same prompt
  EXPECT_NE(alone[4], alone[8]);
  struct Setting {
    const char* name;
    int32_t max_loras = 3, chunk = 0, kv_blocks = 0;
    bool overlap = true;
    PreemptMode preempt = PreemptMode::Recompute;
  };
  const Setting settings[] = {{.name = "together"},
                              {.name = "one adapter at a time", .max_loras = 1},
                              {.name = "chunks, no overlap", .max_loras = 2, .chunk = 16, .overlap = false},
                              {.name = "recomputed", .chunk = 32, .kv_blocks = 14},
                              {.name = "swapped", .kv_blocks = 14, .preempt = PreemptMode::Swap}};
  for (const Setting& setting : settings) {
    SCOPED_TRACE(setting.name);
    RuntimeOptions shared = options(setting.max_loras);
    shared.overlap = setting.overlap;
    shared.kv_blocks = setting.kv_blocks;
    shared.scheduler.max_model_len = 160;
    shared.scheduler.long_prefill_token_threshold = setting.chunk;
    shared.scheduler.preempt = setting.preempt;
    shared.scheduler.host_blocks = 64;
    shared.scheduler.schedule_conservativeness = 0.0;
    Runtime runtime(shared);
    std::vector<OutputStream*> streams;
    for (size_t i = 0; i < alone.size(); ++i) {  // neighbours differ in adapter
      streams.push_back(submit(runtime, request(kLengths[i / 4]), kNames[i % 4]));
    }
    while (runtime.engine().step()) {
    }
    for (size_t i = 0; i < streams.size(); ++i) {
      EXPECT_EQ(read(streams[i]), alone[i % 4 * 4 + i / 4]) << "request " << i;
    }
    const EngineStats stats = runtime.engine().stats();
    EXPECT_GT(stats.scheduler.cached_tokens, 0);
    EXPECT_EQ(stats.scheduler.preemptions > 0, setting.kv_blocks > 0);
    const auto waited = stats.scheduler.admissions[static_cast<size_t>(AdmissionResult::NoAdapter)];
    EXPECT_EQ(waited > 0, setting.max_loras < 3);
  }
}

// Stored prefixes are an adapter's own; who asks again with the same one finds them.
TEST_F(Adapters, StoredPrefixesAreTheirOwn) {
  Runtime runtime(options(3));
  int64_t cached = 0;
  for (const char* name : kNames) {
    const auto first = answer(runtime, request(90), name);
    EXPECT_EQ(runtime.engine().stats().scheduler.cached_tokens, cached);
    EXPECT_EQ(answer(runtime, request(90), name), first);
    cached += 80;  // whole blocks
    EXPECT_EQ(runtime.engine().stats().scheduler.cached_tokens, cached);
  }
}

// checklist 126
TEST_F(Adapters, ComeAndGoWhileRequestsRun) {
  Runtime runtime(options(1));
  const auto info = [&] { return nlohmann::json::parse(runtime.info_json()); };
  EXPECT_EQ(info().at("loras").size(), 3U);
  EXPECT_EQ(info().at("loras").at(0).at("name"), "cold");
  EXPECT_EQ(info().at("loras").at(0).at("rank"), 16);
  EXPECT_EQ(info().at("limits").at("max_lora_rank"), 16);
  const auto warm = answer(runtime, request(40, 30), "warm");
  OutputStream* const running = submit(runtime, request(40, 30), "warm");
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(runtime.engine().step());
  runtime.unload_lora_adapter("warm");
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "there is no adapter 'warm', loaded: cold, odd",
                        [&] { (void)runtime.lease_lora_adapter("warm"); });
  EXPECT_EQ(info().at("loras").size(), 2U);
  // Another file under the name: what is stored of the old one is not its own.
  runtime.load_lora_adapter("warm", file(9, 8));
  const auto other = answer(runtime, request(40, 30), "warm");
  EXPECT_EQ(read(running), warm);
  EXPECT_NE(other, warm);
  Runtime fresh(options(1));
  fresh.load_lora_adapter("other", file(9, 8));
  EXPECT_EQ(answer(fresh, request(40, 30), "other"), other);
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "'warm' is loaded already",
                        [&] { runtime.load_lora_adapter("warm", file(1, 4)); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "rank 17, allowed: 1 to 16 (max_lora_rank)",
                        [&] { runtime.load_lora_adapter("big", file(10, 17)); });
}

// Several answers to one prompt, cancelled one by one: the adapter stays until the last one has ended.
TEST_F(Adapters, ChoicesKeepTheirAdapter) {
  Runtime runtime(options(2));
  SubmitOptions several = request(20, 25);
  several.sampling.n = 3;
  several.sampling.temperature = 1.0F;
  OutputStream* const stream = submit(runtime, several, "cold");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(runtime.engine().step());
  runtime.unload_lora_adapter("cold");
  runtime.engine().stop(stream->request(), 0);
  while (runtime.engine().step()) {
  }
  EXPECT_GE(read(stream).size(), 50U);
}

TEST_F(Adapters, AnEngineWithoutThemSaysSo) {
  RuntimeOptions plain = options(0);
  plain.lora_modules.clear();
  Runtime runtime(plain);
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "made without LoRA adapters: set max_loras or lora_modules",
                        [&] { runtime.load_lora_adapter("warm", file(1, 4)); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "made without LoRA adapters",
                        [&] { (void)runtime.lease_lora_adapter("warm"); });
  for (const auto& [loras, rank, text] : {std::tuple(-1, 0, "max_loras is -1, allowed: 0 (default) to 1024"),
                                          std::tuple(1, 513, "max_lora_rank is 513, allowed: 0 (default) to 512")}) {
    RuntimeOptions wrong = options(loras);
    wrong.max_lora_rank = rank;
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, text, [&] { const Runtime refused(wrong); });
  }
  RuntimeOptions narrow = options(1);
  narrow.max_lora_rank = 8;
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "has rank 16, allowed: 1 to 8 (max_lora_rank)",
                        [&] { const Runtime refused(narrow); });
}

}  // namespace
}  // namespace inflight::test
