// SPDX-License-Identifier: Apache-2.0
// Goal: a model file becomes a serving engine, with sizes chosen as documented and clear refusals. Method: the demo
// model on the default device; expected outputs from models/tinyworld/golden.json.
#include "engine/runtime.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/cache_folder.h"
#include "support/expect_error.h"
#include "support/reference_model.h"
#include "support/synthetic_model.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

RuntimeOptions demo_options() {
  RuntimeOptions options;
  options.model = kDemoModel;
  options.scheduler.max_num_seqs = 4;
  return options;
}

std::vector<TokenId> answer(Runtime& runtime, const SubmitOptions& request) {
  OutputStream* const stream = runtime.engine().submit(request);
  std::vector<TokenId> tokens;
  StreamBatch batch;
  while (stream->next(std::nullopt, batch) == OutputStream::Next::Ready) {
    tokens.insert(tokens.end(), batch.tokens.begin(), batch.tokens.end());
  }
  stream->release();
  return tokens;
}

std::vector<TokenId> answer(Runtime& runtime, const std::vector<TokenId>& prompt, int32_t max_tokens, bool ignore_eos) {
  SubmitOptions request;
  request.prompt = prompt;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = ignore_eos;
  return answer(runtime, request);
}

TEST(Runtime, AnswersAsTheDemoModelShould) {
  Runtime runtime(demo_options());
  std::ifstream file(INFLIGHT_SOURCE_DIR "/models/tinyworld/golden.json");
  int compared = 0, ended = 0;
  const auto all = nlohmann::json::parse(file);
  for (const auto& golden : all.at("cases")) {
    if (golden.at("min_margin").get<double>() < 0.003) continue;
    const auto expected = golden.at("greedy_ids").get<std::vector<TokenId>>();
    const auto prompt = golden.at("prompt_ids").get<std::vector<TokenId>>();
    EXPECT_EQ(answer(runtime, prompt, 32, true), expected) << golden.at("name");
    ++compared;
    if (golden.at("end_at").is_null()) continue;
    const auto end = golden.at("end_at").get<size_t>();  // the model's end tokens, 0 and 2, end it
    EXPECT_EQ(answer(runtime, prompt, 32, false),
              std::vector<TokenId>(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(end) + 1));
    ++ended;
  }
  EXPECT_GE(compared, 12);
  EXPECT_GE(ended, 5);
}

// tokenizer.ggml.suppress_tokens: the likeliest of the other tokens comes, whatever bias the request has.
TEST(Runtime, NeverDrawsWhatTheModelsFileSuppresses) {
  SyntheticModel synthetic;
  synthetic.with_vocabulary = true;
  const std::vector<TokenId> prompt = {1, 40, 7, 250, 99};
  const TempFolder folder;
  std::vector<int32_t> suppressed = {-1, synthetic.spec.vocabulary_size};  // passed over
  for (int round = 0; round < 4; ++round) {
    GgufWriter writer = build_model(synthetic);
    writer.key_i32s("tokenizer.ggml.suppress_tokens", suppressed);
    RuntimeOptions options;
    options.model = folder.write("m.gguf", writer.bytes());
    const LoadedModel model = load_model(options.model);
    std::vector<double> logits = ReferenceModel(model).feed(prompt);
    for (const TokenId token : model.vocabulary.suppressed) logits[static_cast<size_t>(token)] = -HUGE_VAL;
    const auto expected = static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
    Runtime runtime(options);
    SubmitOptions request;
    request.prompt = prompt;
    request.sampling.max_tokens = 1;
    for (const TokenId token : model.vocabulary.suppressed) request.sampling.logit_bias.emplace_back(token, 100.0F);
    EXPECT_EQ(answer(runtime, request), std::vector{expected}) << round;
    request.sampling.dry_multiplier = 0.5F;  // nothing repeats; drawn by the host
    EXPECT_EQ(answer(runtime, request), std::vector{expected}) << round;
    suppressed.push_back(expected);
  }
}

TEST(Runtime, ChoosesAsManyBlocksAsAllSequencesAtFullLengthNeed) {
  Runtime runtime(demo_options());
  const auto info = nlohmann::json::parse(runtime.info_json());
  EXPECT_EQ(info.at("limits").at("kv_blocks"), 4 * (512 / 16 + 1));
  EXPECT_EQ(info.at("limits").at("max_model_len"), 512);
  // 2 matrices of 4 layers ... as the file holds them: everything but the file's header and padding.
  const double weights = info.at("memory").at("weight_bytes_read_a_step");
  EXPECT_NEAR(weights / 5'019'840.0, 1.0, 0.01);
  // K and V of one token: 2 * 4 layers * 2 heads of 32 numbers of 2 bytes, as i16 with a scale.
  const int head_bytes = info.at("limits").at("kv_cache_dtype") == "i16" ? 68 : 64;
  EXPECT_EQ(info.at("memory").at("kv_bytes"), 4 * 33 * 16 * 2 * 4 * 2 * head_bytes);
  EXPECT_GE(runtime.device_bytes(), info.at("memory").at("weight_bytes").get<size_t>());
}

TEST(Runtime, FewBlocksShortenTheSequences) {
  RuntimeOptions options = demo_options();
  options.kv_blocks = 10;
  Runtime runtime(options);
  EXPECT_EQ(nlohmann::json::parse(runtime.info_json()).at("limits").at("max_model_len"), 160);
}

TEST(Runtime, RefusesWhatCannotBe) {
  const auto refused = [](auto&& change, ErrorCode code, const char* text) {
    RuntimeOptions options = demo_options();
    change(options);
    INFLIGHT_EXPECT_ERROR(code, text, [&] { Runtime runtime(options); });
  };
  refused([](RuntimeOptions& o) { o.model = "missing.gguf"; }, ErrorCode::NotFound, "missing.gguf");
  refused([](RuntimeOptions& o) { o.device = "nosuchdevice"; }, ErrorCode::NotFound, "nosuchdevice");
  refused([](RuntimeOptions& o) { o.block_size = 12; }, ErrorCode::InvalidArgument, "12");
  refused([](RuntimeOptions& o) { o.scheduler.max_num_seqs = 0; }, ErrorCode::InvalidArgument, "max_num_seqs is 0");
  refused([](RuntimeOptions& o) { o.scheduler.max_model_len = 513; }, ErrorCode::InvalidArgument,
          "max_model_len is 513");
  refused([](RuntimeOptions& o) { o.scheduler.max_num_batched_tokens = 2; }, ErrorCode::InvalidArgument,
          "max_num_batched_tokens is 2");
  refused([](RuntimeOptions& o) { o.device_memory_fraction = 1e-6; }, ErrorCode::OutOfMemory, "weights");
  refused([](RuntimeOptions& o) { o.schedule_policy = "nosuchpolicy"; }, ErrorCode::NotFound, "nosuchpolicy");
  refused([](RuntimeOptions& o) { o.progress = [](double, const char*) { return true; }; }, ErrorCode::Rejected, "");
}

// States of 268 MB: by default fewer sequences run at once; who asks for 64 is told how many may.
TEST(Runtime, LargeStatesAllowFewSequences) {
  const TempFolder folder;
  SyntheticModel synthetic;
  synthetic.make_qwen35(false);
  synthetic.spec.state = {.key_heads = 1, .value_heads = 64, .key_size = 512, .value_size = 512, .window = 2};
  RuntimeOptions options = demo_options();
  options.model = folder.write("states.gguf", build_model(synthetic).bytes());
  options.scheduler.max_num_seqs = 64;
  options.fewer_seqs = true;
  options.kv_blocks = 16;
  const size_t memory = Device::open({}).info().memory_bytes;
  if (memory / 8 / 268'697'600 >= 64) GTEST_SKIP() << "the device has room for 64";
  {
    Runtime runtime(options);
    const auto info = nlohmann::json::parse(runtime.info_json());
    const size_t sequences = info.at("limits").at("max_num_seqs");
    EXPECT_LT(sequences, 64U);
    EXPECT_LE(info.at("memory").at("state_bytes").get<size_t>(), memory / 8 + memory / 16);
  }
  options.fewer_seqs = false;
  options.scheduler.max_num_seqs = 4096;
  options.scheduler.max_num_batched_tokens = 4096;
  INFLIGHT_EXPECT_ERROR(ErrorCode::OutOfMemory, "max_num_seqs is 4096, allowed: at most",
                        [&] { Runtime runtime(options); });
}

TEST(Runtime, RefusesWhatStatesDoNotAllow) {
  const TempFolder folder;
  SyntheticModel synthetic;
  synthetic.make_qwen35(false);
  const std::string model = folder.write("states.gguf", build_model(synthetic).bytes());
  const auto refused = [&](auto&& change, const char* text) {
    RuntimeOptions options = demo_options();
    options.model = model;
    options.scheduler.max_model_len = 0;
    change(options);
    INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, text, [&] { Runtime runtime(options); });
  };
  refused([](RuntimeOptions& o) { o.scheduler.preempt = PreemptMode::Swap; }, "preempt is swap, allowed with a model");
  refused([](RuntimeOptions& o) { o.scheduler.preempt = PreemptMode::Auto; }, "recompute");
  refused([](RuntimeOptions& o) { o.scheduler.num_speculative_tokens = 3; }, "num_speculative_tokens is 3");
  refused([](RuntimeOptions& o) { o.max_loras = 1; }, "max_loras is 1");
  refused([](RuntimeOptions& o) { o.kv_offloading_gib = 0.5; }, "kv_offloading_size is 0.5");
  RuntimeOptions draft = demo_options();
  draft.draft_model = model;
  draft.scheduler.num_speculative_tokens = 2;
  INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "architecture qwen35", [&] { Runtime runtime(draft); });
}

TEST(Runtime, RefusesAdaptersOfSomeModels) {
  const TempFolder folder;
  const auto refused = [&](const SyntheticModel& synthetic, const std::string& why) {
    RuntimeOptions options = demo_options();
    options.model = folder.write(synthetic.spec.architecture, build_model(synthetic).bytes());
    options.scheduler.max_model_len = 0;
    options.max_loras = 1;
    INFLIGHT_EXPECT_ERROR(ErrorCode::Unsupported, "max_loras is 1, allowed with a model of architecture " + why,
                          [&] { Runtime runtime(options); });
  };
  SyntheticModel latent, gemma4;
  latent.make_deepseek2(false);
  gemma4.make_gemma4();
  refused(latent, "deepseek2, whose attention is latent: 0");
  refused(gemma4, "gemma4, whose layers differ in size: 0");
}

// The first start with a shape of model compiles for seconds: it says so before, and can be stopped.
TEST(Runtime, SaysThatItCompiles) {
  const CacheFolder cache;
  std::vector<std::string> told;
  RuntimeOptions options = demo_options();
  options.progress = [&told](double fraction, const char* what) {
    if (fraction == 0.0) told.emplace_back(what);
    return fraction == 0.0;
  };
  INFLIGHT_EXPECT_ERROR(ErrorCode::Rejected, "stopped", [&] { Runtime runtime(options); });
  ASSERT_FALSE(told.empty());
  EXPECT_NE(told.front().find("compiling"), std::string::npos);
  told.clear();
  Runtime runtime(options);
  EXPECT_TRUE(told.empty()) << told.front();
}

// checklist 58, 67, 69, 76: sizes come from the device's memory and the share of it that is given, which is never
// exceeded; what does not fit is refused with figures and hurts no other engine; a running engine allocates nothing.
TEST(Runtime, KeepsToItsShareOfTheMemory) {
  Runtime plenty(demo_options());
  const auto info = nlohmann::json::parse(plenty.info_json()).at("memory");
  const size_t before = plenty.device_bytes();
  const auto answer_before = answer(plenty, {5, 6, 7}, 20, true);
  EXPECT_EQ(plenty.device_bytes(), before);
  const double memory = static_cast<double>(Device::open({}).info().memory_bytes);
  double last = 0.0;
  for (const double mebibytes : {24.0, 32.0, 48.0}) {
    RuntimeOptions options = demo_options();
    options.device_memory_fraction = mebibytes * 1048576.0 / memory;
    options.scheduler.max_num_seqs = 64;  // wants more than there is
    options.scheduler.max_num_batched_tokens = 64;
    Runtime runtime(options);
    const auto limits = nlohmann::json::parse(runtime.info_json());
    const auto& used = limits.at("memory");
    const double planned = used.at("weight_bytes").get<double>() + used.at("kv_bytes").get<double>() +
                           used.at("activation_bytes").get<double>();
    EXPECT_LE(planned, mebibytes * 1048576.0);
    EXPECT_GE(used.at("kv_bytes").get<double>(), last);
    last = used.at("kv_bytes").get<double>();
  }
  RuntimeOptions tiny = demo_options();
  tiny.device_memory_fraction = 1048576.0 / memory;
  INFLIGHT_EXPECT_ERROR(ErrorCode::OutOfMemory, "device_memory_fraction", [&] { Runtime runtime(tiny); });
  EXPECT_EQ(answer(plenty, {5, 6, 7}, 20, true), answer_before);
}

// checklist 15: a step launches the same kernels, layer by layer, whether it decodes, prefills or does both.
TEST(Runtime, AMixedStepLaunchesNoMoreThanAnother) {
  RuntimeOptions options = demo_options();
  options.profile = true;
  options.host_driven = true;
  options.overlap = false;
  Runtime runtime(options);
  size_t seen = 0;
  const auto launches_of_step = [&] {
    EXPECT_TRUE(runtime.engine().step());
    const size_t all = nlohmann::json::parse(runtime.trace_json()).at("traceEvents").size();
    return all - std::exchange(seen, all);
  };
  SubmitOptions request{.prompt = std::vector<TokenId>(40, 7)};
  request.sampling.max_tokens = 6;
  OutputStream* const first = runtime.engine().submit(request);
  launches_of_step();  // also what is done once
  const size_t decode = launches_of_step();
  request.prompt.assign(30, 8);
  OutputStream* const second = runtime.engine().submit(request);
  const size_t mixed = launches_of_step();
  EXPECT_EQ(runtime.engine().stats().scheduler.scheduled_tokens, 40 + 1 + 31);
  EXPECT_EQ(mixed, decode);
  while (runtime.engine().step()) {
  }
  for (OutputStream* stream : {first, second}) stream->release();
}

// checklist 113
TEST(Runtime, ProfilesKernelsOnDemand) {
  RuntimeOptions options = demo_options();
  options.profile = true;
  Runtime runtime(options);
  static_cast<void>(answer(runtime, {1, 2, 3}, 2, true));
  const auto events = nlohmann::json::parse(runtime.trace_json()).at("traceEvents");
  EXPECT_GT(events.size(), 10U);  // more than one launch a step
}

}  // namespace
}  // namespace inflight::test
