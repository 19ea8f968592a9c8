// SPDX-License-Identifier: Apache-2.0
// Goal: a step takes what the formula in the header says, computed here by hand; profiles survive JSON.
#include "sim/device_model.h"

#include <gtest/gtest.h>

#include "core/kv_layout.h"
#include "model/model_loader.h"
#include "sim/decision_hash.h"
#include "sim/latency_histogram.h"
#include "sim/simulated_executor.h"
#include "sim/text_file.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight {
namespace {

DeviceProfile simple() {
  return {.overhead_us = 100, .weights_us = 1000, .token_us = 10, .kv_read_ns = 50, .pair_ns = 2, .sequence_us = 5};
}

TEST(DeviceModel, RooflineOfTheLinearLayers) {
  const DeviceModel model(simple());
  EXPECT_EQ(model.device_time({.tokens = 1, .sequences = 1}), 1'105'000);
  EXPECT_EQ(model.device_time({.tokens = 100, .sequences = 1}), 1'105'000);  // reading weights hides it
  EXPECT_EQ(model.device_time({.tokens = 200, .sequences = 1}), 2'105'000);
  EXPECT_EQ(model.device_time({.tokens = 2, .sequences = 2, .decode_context = 1000, .prefill_pairs = 500}),
            1'110'000 + 50'000 + 1'000);
}

TEST(DeviceModel, AMeasuredCurveInsteadOfTheRoofline) {
  DeviceProfile profile = simple();
  profile.linear_us = {{4, 200.0}, {8, 240.0}, {9, 400.0}, {19, 500.0}};
  const DeviceModel model(profile);
  for (const auto& [tokens, us] : {std::pair{1, 200}, {4, 200}, {6, 220}, {8, 240}, {9, 400}, {14, 450}, {39, 700}}) {
    EXPECT_EQ(model.device_time({.tokens = tokens, .sequences = 1}), (us + 105) * 1000) << tokens;
  }
  const std::string text = to_json(profile);
  EXPECT_EQ(to_json(parse_device_profile(text, "p.json")), text);
  profile.linear_us = {{8, 240.0}, {8, 250.0}};
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "linear_us has the point [8, 250] after 8 tokens, allowed: rising",
                        [&] { profile.validate(); });
}

TEST(DeviceModel, JitterIsDrawnForEachStep) {
  DeviceProfile profile = simple();
  profile.decode_jitter = {{0.0, {1.0, 3.0}}};
  EXPECT_EQ(to_json(parse_device_profile(to_json(profile), "p.json")), to_json(profile));
  const DeviceModel model(profile);
  SimClock clock;
  SimulatedExecutor executor(model, clock, false, 0);
  BatchPlan plan;
  plan.entries.emplace_back();
  plan.entries[0].scheduled_token_count = plan.scheduled_token_count = 1;
  plan.entries[0].phase = Phase::Decode;
  const TimeNs once = model.device_time(DeviceWork::of(plan, {}));
  int64_t single = 0, triple = 0;
  for (int i = 0; i < 400; ++i) {
    executor.submit(plan);
    const TimeNs taken = executor.wait().duration;
    single += taken == once;
    triple += taken == 3 * once;
  }
  EXPECT_EQ(single + triple, 400);
  EXPECT_NEAR(static_cast<double>(single), 200.0, 50.0);
  profile.decode_jitter = {{0.0, {1.0}}, {static_cast<double>(once) * 1e-3, {2.0}}};  // of its length and longer
  const DeviceModel by_length(profile);
  SimulatedExecutor other(by_length, clock, false, 0);
  other.submit(plan);
  EXPECT_EQ(other.wait().duration, 2 * once);
  profile.decode_jitter.push_back({0.0, {1.0}});
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument,
                        "decode_jitter has 1 values from 0 us on, allowed: some, from rising",
                        [&] { profile.validate(); });
  profile.decode_jitter.clear();
  profile.prompt_jitter = {{0.0, {-1.0}}};
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "prompt_jitter holds -1, allowed: above 0, to",
                        [&] { profile.validate(); });
}

// checklist 47: a window of 100 tokens: a decode at 250 reads 100, a prompt's tokens 90 to 109 see 91 to 100, then 100
// each.
TEST(DeviceModel, ASlidingWindowBoundsWhatIsAttendedTo) {
  BatchPlan plan;
  plan.entries.resize(2);
  plan.entries[0].computed_token_count = 250;
  plan.entries[0].scheduled_token_count = 1;
  plan.entries[0].phase = Phase::Decode;
  plan.entries[1].computed_token_count = 90;
  plan.entries[1].scheduled_token_count = 20;
  plan.entries[1].phase = Phase::Prefill;
  int64_t all = 0, seen = 0;
  for (int position = 90; position < 110; ++position) {
    all += position + 1;
    seen += std::min(position + 1, 100);
  }
  EXPECT_EQ(DeviceWork::of(plan, {}).decode_context, 251);
  EXPECT_EQ(DeviceWork::of(plan, {}).prefill_pairs, all);
  EXPECT_EQ(DeviceWork::of(plan, {.sliding_window = 100}).decode_context, 100);
  EXPECT_EQ(DeviceWork::of(plan, {.sliding_window = 100}).prefill_pairs, seen);
  DeviceProfile profile = simple();
  profile.kv_bytes_per_token = 1000;
  const TimeNs whole = DeviceModel(profile).transfer_time(100);
  profile.sliding_window = 100;
  EXPECT_EQ(DeviceModel(profile).transfer_time(5000), whole);
  EXPECT_EQ(parse_device_profile(to_json(profile), "p.json").sliding_window, 100);
}

// The same in three of four layers: the others see all.
TEST(DeviceModel, WindowsOfSomeLayersBoundWhatTheseAttendTo) {
  BatchPlan plan;
  plan.entries.resize(2);
  plan.entries[0].computed_token_count = 499;
  plan.entries[0].scheduled_token_count = 4;
  plan.entries[0].draft_token_count = 3;
  plan.entries[0].phase = Phase::Decode;
  plan.entries[1].computed_token_count = 90;
  plan.entries[1].scheduled_token_count = 20;
  plan.entries[1].phase = Phase::Prefill;
  int64_t seen = 0;
  for (int position = 90; position < 110; ++position) seen += 3 * std::min(position + 1, 100) + position + 1;
  DeviceProfile profile = simple();
  profile.local_window = 100;
  profile.local_share = 0.75;
  const DeviceWork work = DeviceWork::of(plan, profile.windows());
  EXPECT_EQ(work.decode_context, (3 * 100 + 500) / 4);
  EXPECT_LE(std::abs(2 * (4 * work.prefill_pairs - seen)), 4);
  EXPECT_LE(std::abs(2 * (4 * work.draft_pairs - (9 * 100 + 501 + 502 + 503))), 4);
  profile.kv_bytes_per_token = 1000;
  const TimeNs windowed = DeviceModel(profile).transfer_time(5000);
  const DeviceProfile read = parse_device_profile(to_json(profile), "p.json");
  EXPECT_EQ(DeviceModel(read).transfer_time(5000), windowed);
  profile.local_window = 0;
  EXPECT_EQ(DeviceModel(profile).transfer_time((3 * 100 + 5000) / 4), windowed);
  profile.local_share = 1.5;
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "local_share is 1.5, allowed: 0 to 1", [&] { profile.validate(); });
}

// checklist 124: a sequence that carries three guesses: four rows of the linear layers and of sampling; K and V are
// read once, and each guess attends to one token more.
TEST(DeviceModel, GuessesAreRowsOfTheirSequence) {
  DeviceProfile profile = simple();
  profile.linear_us = {{1, 100.0}, {101, 1100.0}};
  profile.sequence_us = 7.0;
  const DeviceModel model(profile);
  BatchPlan plan;
  plan.entries.resize(1);
  plan.entries[0].computed_token_count = 250;
  plan.entries[0].scheduled_token_count = plan.scheduled_token_count = 1;
  plan.entries[0].phase = Phase::Decode;
  const TimeNs without = model.device_time(DeviceWork::of(plan, {}));
  plan.entries[0].scheduled_token_count = plan.scheduled_token_count = 4;
  plan.entries[0].draft_token_count = 3;
  const DeviceWork work = DeviceWork::of(plan, {});
  EXPECT_EQ(work.decode_context, 251);
  EXPECT_EQ(work.draft_pairs, 252 + 253 + 254);
  EXPECT_EQ(work.draft_tokens, 3);
  EXPECT_EQ(work.prompts, 0);
  const double guesses_us = 3 * (10.0 + 7.0) + (252 + 253 + 254) * profile.pair_ns * 1e-3;
  EXPECT_NEAR(static_cast<double>(model.device_time(work) - without), guesses_us * 1e3, 2.0);
  EXPECT_EQ(DeviceWork::of(plan, {.sliding_window = 100}).decode_context, 100);
  EXPECT_EQ(DeviceWork::of(plan, {.sliding_window = 100}).draft_pairs, 300);
}

TEST(DeviceModel, TensorParallelDividesWorkAndAddsExchange) {
  DeviceProfile profile = simple();
  profile.tensor_parallel = 4;
  profile.layers = 10;
  profile.hidden_bytes = 1000;
  profile.tensor_link_gb_per_second = 10;  // 100 ns for 1000 bytes
  profile.link_gb_per_second = 0.001;      // the network has no part in it
  profile.tensor_link_latency_us = 1;
  profile.link_latency_us = 1000;
  // 20 all-reduces: latency 20 us; 2 * 3/4 * 100 ns each a token.
  EXPECT_EQ(DeviceModel(profile).device_time({.tokens = 400, .sequences = 1}),
            105'000 + 1'000'000 + 20'000 + 400 * 3'000);
}

// checklist 120, in the simulator
TEST(DeviceModel, PipelineHasABubble) {
  DeviceProfile profile = simple();
  profile.pipeline_parallel = 4;
  profile.link_latency_us = 0;
  profile.hidden_bytes = 0;
  // One sequence: one part, no gain. Four: 7/16 of the time, with the weights read four times.
  EXPECT_EQ(DeviceModel(profile).device_time({.tokens = 1000, .sequences = 1}), 105'000 + 10'000'000);
  EXPECT_EQ(DeviceModel(profile).device_time({.tokens = 1000, .sequences = 4}), 120'000 + 10'000'000 * 7 / 16);
}

// What the scheduler decides by is what the device takes: attention of prompts and of decodes at their own prices.
TEST(DeviceModel, TheSchedulersEstimatesAreItsTimes) {
  for (const char* name : {"gpu-8b", "gpu-7b", "pocl-135m", "gpu-8b,tensor_parallel=8", "gpu-8b,pipeline_parallel=4",
                           "gpu-8b,tensor_parallel=2,pipeline_parallel=2"}) {
    const DeviceProfile profile = find_device_profile(name);
    const DeviceModel device(profile);
    const LatencyModel model = device.latency_model();
    const int64_t sequences = profile.pipeline_parallel;  // as many as fill the pipeline
    for (const int32_t tokens : {4096, 24576}) {
      const int64_t each = tokens / sequences, pairs = sequences * (each * (each + 1) / 2);
      const auto takes = static_cast<double>(
          device.device_time({.tokens = tokens, .sequences = sequences, .prefill_pairs = pairs, .prompts = sequences}));
      const auto estimate = static_cast<double>(model.estimate({.prefill_tokens = tokens, .prefill_pairs = pairs}));
      EXPECT_NEAR(estimate / takes, 1.0, 0.15) << name << ' ' << tokens;
    }
    const auto takes =
        static_cast<double>(device.device_time({.tokens = 64, .sequences = 64, .decode_context = int64_t{64} * 4000}));
    const auto estimate =
        static_cast<double>(model.estimate({.decode_sequences = 64, .decode_context = int64_t{64} * 4000}));
    EXPECT_NEAR(estimate / takes, 1.0, 0.25) << name;  // the roofline's knee
  }
}

TEST(DeviceModel, ProfilesSurviveJson) {
  for (const DeviceProfile& profile : shipped_device_profiles()) {
    const test::TempFolder folder;
    write_text_file(folder.file("profile.json"), to_json(profile));
    EXPECT_EQ(to_json(find_device_profile(folder.file("profile.json"))), to_json(profile));
    EXPECT_EQ(to_json(find_device_profile(profile.name)), to_json(profile));
  }
  EXPECT_DOUBLE_EQ(find_device_profile("unit,kv_tokens=320,token_us=1.5").token_us, 1.5);
}

// One token of 8 B parameters on eight GPUs: an eighth of the weights, and 64 all-reduces of 5 us each; a prompt of
// 2,000 tokens: an eighth of the arithmetic (2,000 * 32.3 us), and 64 times 2 * 7/8 of 16.4 MB at 450 GB/s, 4 ms.
TEST(DeviceModel, EightGpusAreSeveralTimesAsFast) {
  DeviceProfile profile = find_device_profile("gpu-8b");
  const DeviceModel one(profile), eight(find_device_profile("gpu-8b,tensor_parallel=8"));
  const auto us = [](TimeNs time) { return static_cast<double>(time) * 1e-3; };
  EXPECT_NEAR(us(one.device_time({.tokens = 1, .sequences = 1})), 300 + 4780 + 1, 1);
  EXPECT_NEAR(us(eight.device_time({.tokens = 1, .sequences = 1})), 300 + 4780.0 / 8 + 320 + 1, 3);
  EXPECT_NEAR(us(one.device_time({.tokens = 2000, .sequences = 1})), 300 + 64600 + 1, 1);
  EXPECT_NEAR(us(eight.device_time({.tokens = 2000, .sequences = 1})),
              300 + 64600.0 / 8 + 320 + 64 * 1.75 * 2000 * 8192 / 450e3 + 1, 1);
}

TEST(DeviceModel, AFileThatIsNoProfileIsRefused) {
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  for (const auto& [json, message] : {
           std::pair{R"({"weigths_us": 5000})",
                     "p.json: device field 'weigths_us' is unknown, allowed: name description"},
           {"{}", "p.json: is an empty object, allowed: a JSON object"},
           {deep.c_str(), "p.json: the device profile: nested deeper than 200 levels"},
           {"[1]", "p.json: is array, allowed: a JSON object"},
           {"{", "p.json: the device profile: parse error at line 1"},
           {R"({"overhead_us": 5, "decode_jitter": [[0, [0]]]})",
            "p.json: device field decode_jitter holds 0, allowed: above 0, to 1000"},
           {R"({"overhead_us": 5, "tensor_parallel": 1.5})",
            "p.json: device field tensor_parallel is 1.5, allowed: a whole number"},
           {R"({"overhead_us": -5})", "p.json: device field overhead_us is -5, allowed: 0 to 1000000000"},
           {R"({"overhead_us": "5"})", "p.json: device field overhead_us is \"5\", allowed: a number"},
           {R"({"overhead_us": 1e999})", "p.json: the device profile: number overflow"},
           {R"({"kv_tokens": 1e30})", "p.json: device field kv_tokens is 1e+30, allowed: 16 to 4000000000"},
           {R"({"linear_us": [[1.5, 3]]})", "p.json: device field linear_us is 1.5, allowed: a whole number"},
           {R"({"linear_us": 5})", "p.json: device field linear_us is 5, allowed: a list of [tokens, us]"},
           {R"({"linear_us": [7]})", "p.json: device field linear_us is [7], allowed: a list of [tokens, us]"},
           {R"({"linear_us": [[1, 5], [2]]})", "p.json: device field linear_us is [[1,5],[2]], allowed: a list of"},
           {R"({"linear_us": [[1, "5"]]})", "p.json: device field linear_us is [[1,\"5\"]], allowed: a list of"},
           {R"({"prompt_jitter": [[0, 5]]})",
            "p.json: device field prompt_jitter is [[0,5]], allowed: a list of [us, [factor, ...]]"},
           {R"({"decode_jitter": {"0": [1]}})",
            "p.json: device field decode_jitter is {\"0\":[1]}, allowed: a list of"},
           {R"({"name": 5})", "p.json: device field name is 5, allowed: a text"},
           {R"({"description": null})", "p.json: device field description is null, allowed: a text"},
           {R"({"kv_tokens": 1000})", "p.json: a step takes no time, allowed: overhead_us, weights_us"},
       }) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, message,
                          [&] { static_cast<void>(parse_device_profile(json, "p.json")); });
  }
}

// Some of them fit into a TimeNs, but not the sum of a few.
TEST(DeviceModel, TimesThatCannotBeCountedAreRefused) {
  DeviceProfile profile = simple();
  profile.kv_bytes_per_token = 1e9;
  profile.link_gb_per_second = 1e-3;
  profile.pair_ns = 1e9;
  const DeviceModel model(profile);
  const char* const message = "s for one step or transfer, allowed: up to 1000000000 s";
  for (const int32_t tokens : {2'000'000, 16'000'000}) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, message, [&] { static_cast<void>(model.transfer_time(tokens)); });
  }
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, message, [&] {
    static_cast<void>(model.device_time({.tokens = 1, .sequences = 1, .prefill_pairs = 2'000'000'000}));
  });
  SimClock clock;
  clock.advance(4'000'000'000'000'000'000);
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "goes beyond 4000000000 s of virtual time",
                        [&] { clock.advance(1); });
}

TEST(DeviceModel, TheDemoModelsProfileHasItsSizes) {
  const ModelSpec spec = load_model(test::kDemoModel).spec;
  const DeviceProfile profile = find_device_profile("pocl-tinyworld");
  EXPECT_EQ(profile.layers, spec.layer_count);
  EXPECT_EQ(profile.kv_bytes_per_token, static_cast<double>(KvLayout::of(spec, 16, KvType::F16).bytes_per_token()));
  EXPECT_EQ(profile.hidden_bytes, 4.0 * spec.hidden_size);
}

TEST(DeviceModel, MistakesAreNamed) {
  const auto expect = [](const char* text, const char* spec) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, text, [&] { static_cast<void>(find_device_profile(spec)); });
  };
  expect("device 'abacus' is unknown, allowed: unit, pocl-135m", "abacus");
  expect("device field 'speed' is unknown, allowed: overhead_us", "unit,speed=1");
  expect("device field token_us is 'fast', allowed: a number", "unit,token_us=fast");
  expect("device field tensor_parallel is 65, allowed: 1 to 64", "unit,tensor_parallel=65");
  expect("device field tensor_parallel is 1.5, allowed: a whole number", "unit,tensor_parallel=1.5");
  expect("device field token_us is 'nan', allowed: a number", "unit,token_us=nan");
  expect("a step takes no time, allowed: overhead_us, weights_us", "unit,overhead_us=0");
}

TEST(LatencyHistogram, QuantilesAreWithinAThousandth) {
  LatencyHistogram histogram;
  for (TimeNs i = 1; i <= 100'000; ++i) histogram.add(i * 1000);
  EXPECT_NEAR(histogram.quantile(0.5), 5e7, 5e4);
  EXPECT_NEAR(histogram.quantile(0.99), 9.9e7, 1e5);
  EXPECT_DOUBLE_EQ(histogram.mean(), 50'000.5 * 1000);
  LatencyHistogram small;
  small.add(3, 99);
  small.add(700);
  EXPECT_DOUBLE_EQ(small.quantile(0.99), 3.0);
  EXPECT_DOUBLE_EQ(small.quantile(1.0), 700.0);
}

// Buckets of these are 2 us wide: their middles lie above 68'000'001 and below 68'002'047.
TEST(LatencyHistogram, QuantilesAreWithinWhatWasAdded) {
  for (const TimeNs duration : {68'000'001, 68'000'123, 68'002'047}) {
    LatencyHistogram one, empty;
    one.add(duration, 3);
    one.add(empty);
    for (const double q : {0.0, 0.5, 1.0}) EXPECT_DOUBLE_EQ(one.quantile(q), static_cast<double>(duration));
    empty.add(one);
    EXPECT_DOUBLE_EQ(empty.quantile(0.5), static_cast<double>(duration));
  }
}

TEST(DeviceModel, AFieldIsGivenOnce) {
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "device field 'host_us' is given twice",
                        [] { static_cast<void>(find_device_profile("unit,host_us=1,sequence_us=2,host_us=1")); });
}

BatchPlan decode_plan(std::initializer_list<int32_t> computed) {
  BatchPlan plan;
  uint64_t id = 1;
  for (const int32_t count : computed) {
    BatchEntry entry;
    entry.sequence = static_cast<SequenceId>(id++);
    entry.computed_token_count = count;
    entry.scheduled_token_count = 1;
    plan.entries.push_back(entry);
  }
  return plan;
}

TEST(DecisionHash, CarriedOnStepsMayBeCounted) {
  DecisionHash one_by_one, counted, other;
  for (int32_t i = 0; i < 10; ++i) one_by_one.add(decode_plan({5 + i, 9 + i}));
  counted.add(decode_plan({5, 9}));
  counted.add_carried_on(9);
  EXPECT_EQ(one_by_one.value(), counted.value());
  for (int32_t i = 0; i < 9; ++i) other.add(decode_plan({5 + i, 9 + i}));
  other.add(decode_plan({14, 19}));
  EXPECT_NE(one_by_one.value(), other.value());
}

}  // namespace
}  // namespace inflight
