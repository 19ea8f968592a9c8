// SPDX-License-Identifier: Apache-2.0
// Covers: sched/trace_format.cpp, sched/setup_json.cpp
// Goal: what is written is read back, a cut-off trace gives its whole records, damage gives an error and nothing worse.
// Method: round trips of random records; every prefix of a trace; thousands of flipped bytes.
#include "sched/trace_format.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/rng.h"
#include "sched/setup_json.h"
#include "support/expect_error.h"

namespace inflight {
namespace {

struct Written {
  std::vector<std::byte> bytes;
  TraceEncoder encoder{
      [this](std::span<const std::byte> record) { bytes.insert(bytes.end(), record.begin(), record.end()); }, true};
};

Request random_request(Rng& rng) {
  Request request;
  request.id = static_cast<RequestId>(rng.below(1000));
  for (int32_t i = rng.between(1, 30); i > 0; --i) request.prompt.push_back(rng.between(0, 200000));
  request.sampling.max_tokens = rng.between(1, 5000);
  request.sampling.ignore_eos = rng.chance(0.5);
  request.sampling.stop_token_ids = {3, 99999};
  request.end_tokens = {2};
  request.arrival = static_cast<TimeNs>(rng.below(1U << 30));
  request.priority = rng.between(-5, 5);
  request.tenant = static_cast<uint32_t>(rng.below(100));
  request.cache_salt = rng.next();
  if (rng.chance(0.5)) request.ttft_deadline = static_cast<TimeNs>(rng.below(1U << 30));
  if (rng.chance(0.5)) request.itl_target = 1000;
  request.predicted_output_tokens = rng.between(0, 100);
  request.adapter = static_cast<uint32_t>(rng.below(3));
  return request;
}

TEST(TraceFormat, ReadsBackWhatWasWritten) {
  Rng rng(1);
  Written written;
  written.encoder.begin("{\"max_num_seqs\": 4}");
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 50; ++i) {
    requests.push_back(random_request(rng));
    written.encoder.on_add(static_cast<SequenceId>(i + 1), requests.back(), requests.back().prompt,
                           static_cast<TimeNs>(rng.below(1U << 30)));
  }
  BatchPlan plan;
  plan.step = 7;
  plan.entries = {{.sequence = SequenceId{3}, .computed_token_count = 5, .scheduled_token_count = 2}};
  const Refusal refusals[] = {{SequenceId{9}, AdmissionResult::OutOfMemory, 12, 3}};
  const Preemption preemptions[] = {{SequenceId{2}, 40, 3}};
  written.encoder.on_plan({plan, refusals, AdmissionResult::NoSpace, preemptions}, 77);
  written.encoder.on_commit({7, {{SequenceId{3}, 123456, 0.0F, true}, {SequenceId{4}, 0, 0.0F, false}}, 999}, 88);
  written.encoder.on_finish(SequenceId{3}, FinishReason::Stop, 90);
  written.encoder.on_cancel(SequenceId{4}, false, FinishReason::Abort, 91);
  written.encoder.policy("vtc:weight_output=3", 92);

  const auto records = decode_trace(written.bytes);
  ASSERT_EQ(records.size(), 56U);
  EXPECT_EQ(std::get<TraceBegin>(records[0].content).configuration_json, "{\"max_num_seqs\": 4}");
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto& add = std::get<TraceAdd>(records[i + 1].content);
    EXPECT_EQ(to_integer(add.sequence), i + 1);
    EXPECT_EQ(add.request.id, requests[i].id);
    EXPECT_EQ(add.request.prompt, requests[i].prompt);
    EXPECT_EQ(add.request.arrival, requests[i].arrival);
    EXPECT_EQ(add.request.sampling.max_tokens, requests[i].sampling.max_tokens);
    EXPECT_EQ(add.request.sampling.ignore_eos, requests[i].sampling.ignore_eos);
    EXPECT_EQ(add.request.sampling.stop_token_ids, requests[i].sampling.stop_token_ids);
    EXPECT_EQ(add.request.end_tokens, requests[i].end_tokens);
    EXPECT_EQ(add.request.priority, requests[i].priority);
    EXPECT_EQ(add.request.tenant, requests[i].tenant);
    EXPECT_EQ(add.request.cache_salt, requests[i].cache_salt);
    EXPECT_EQ(add.request.ttft_deadline, requests[i].ttft_deadline);
    EXPECT_EQ(add.request.e2e_deadline, requests[i].e2e_deadline);
    EXPECT_EQ(add.request.itl_target, requests[i].itl_target);
    EXPECT_EQ(add.request.predicted_output_tokens, requests[i].predicted_output_tokens);
    EXPECT_EQ(add.request.adapter, requests[i].adapter);
  }
  const auto& read = std::get<TracePlan>(records[51].content);
  EXPECT_EQ(records[51].time, 77);
  EXPECT_EQ(read.step, 7U);
  EXPECT_EQ(read.entries, (std::vector<TracePlan::Entry>{{SequenceId{3}, 5, 2}}));
  EXPECT_EQ(read.refusals.at(0).wanted_blocks, 12);
  EXPECT_EQ(read.refusals.at(0).sequence, SequenceId{9});
  EXPECT_EQ(read.pass_end, AdmissionResult::NoSpace);
  EXPECT_EQ(read.preemptions.at(0).lost_tokens, 40);
  EXPECT_EQ(std::get<TraceCommit>(records[52].content).tokens, (std::vector<TokenId>{123456, -1}));
  EXPECT_EQ(std::get<TraceCommit>(records[52].content).duration, 999);
  EXPECT_EQ(std::get<TraceFinish>(records[53].content).reason, FinishReason::Stop);
  EXPECT_EQ(std::get<TraceCancel>(records[54].content).sequence, SequenceId{4});
  EXPECT_FALSE(std::get<TraceCancel>(records[54].content).whole_request);
  EXPECT_EQ(std::get<TracePolicy>(records[55].content).spec, "vtc:weight_output=3");
}

TraceAdd read_back(const Request& request, size_t cut_off = 0) {
  Written written;
  written.encoder.on_add(SequenceId{1}, request, request.prompt, 5);
  EXPECT_LT(written.bytes.size(), 128U);  // type, length in one byte, fields
  written.bytes[1] = static_cast<std::byte>(std::to_integer<size_t>(written.bytes[1]) - cut_off);
  written.bytes.resize(written.bytes.size() - cut_off);
  return std::get<TraceAdd>(decode_trace(written.bytes).at(0).content);
}

TEST(TraceFormat, TellsInWhoseTokensTheHostHasAPart) {
  Request plain;
  plain.prompt = {1, 2, 3};
  EXPECT_FALSE(read_back(plain).request.has_token_filter);
  Request changed = plain;
  changed.sampling.min_tokens = 7;
  changed.sampling.frequency_penalty = 0.5F;
  EXPECT_FALSE(read_back(changed).request.has_token_filter);
  Request dry = plain, filtered = plain, sleeping = plain, both = plain, words = plain;
  dry.sampling.dry_multiplier = 0.5F;
  filtered.has_token_filter = sleeping.has_token_filter = both.has_token_filter = true;
  sleeping.filter_sleeps = both.filter_sleeps = true;
  both.sampling.typical_p = 0.5F;
  words.sampling.bad_words = {{5}};
  Request sleeping_words = sleeping;
  sleeping_words.sampling.bad_words = {{5}};
  for (const Request& request : {filtered, words, sleeping_words}) {
    EXPECT_TRUE(read_back(request).request.has_token_filter);
    EXPECT_FALSE(read_back(request).request.filter_sleeps);
    EXPECT_FALSE(read_back(request).request.sampling.needs_logits());
  }
  for (const Request& request : {dry, both}) EXPECT_TRUE(read_back(request).request.sampling.needs_logits());
  EXPECT_TRUE(read_back(sleeping).request.has_token_filter);
  EXPECT_TRUE(read_back(sleeping).request.filter_sleeps);
}

TEST(TraceFormat, RefusesRecordsWithTooLittleOrImpossibleTimes) {
  Request request;
  request.prompt = {1, 2, 3};
  for (size_t cut_off = 1; cut_off < 6; ++cut_off) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "trace record 1: ends in the middle of a field",
                          [&] { static_cast<void>(read_back(request, cut_off)); });
  }
  Written written;
  written.encoder.hold(true, TimeNs{1} << 61);
  const auto once = written.bytes;
  written.bytes.insert(written.bytes.end(), once.begin(), once.end());  // so long after that again
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "trace record 2: a time is out of range",
                        [&] { static_cast<void>(decode_trace(written.bytes)); });
}

TEST(TraceFormat, RefusesNumbersWhoseSumsHaveNoRoom) {
  const auto expect_refused = [](const char* what, auto&& write) {
    Written written;
    write(written.encoder);
    INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, std::string("trace record 1: ") + what,
                          [&] { static_cast<void>(decode_trace(written.bytes)); });
  };
  const char* const time = "a time is out of range";
  for (const TimeNs at : {TimeNs{1} << 62, -(TimeNs{1} << 62)}) {
    expect_refused(time, [&](TraceEncoder& encoder) { encoder.hold(true, at); });
    Request request;
    request.arrival = at;
    expect_refused(time, [&](TraceEncoder& encoder) { encoder.on_add(SequenceId{1}, request, {}, 0); });
  }
  Request request;
  request.itl_target = TimeNs{1} << 62;
  expect_refused(time, [&](TraceEncoder& encoder) { encoder.on_add(SequenceId{1}, request, {}, 0); });
  expect_refused("a duration is out of range",
                 [](TraceEncoder& encoder) { encoder.on_commit({.duration = TimeNs{1} << 62}, 0); });
  const auto step_of = [](size_t entries, int32_t computed, int32_t scheduled) {
    return [=](TraceEncoder& encoder) {
      BatchPlan plan;
      for (size_t i = 0; i < entries; ++i) {
        plan.entries.push_back(
            {.sequence = SequenceId{1}, .computed_token_count = computed, .scheduled_token_count = scheduled});
      }
      encoder.on_plan({plan, {}, AdmissionResult::Accepted, {}}, 0);
    };
  };
  constexpr int32_t kMost = limits::kContextTokensMax;
  expect_refused("a token count is out of range", step_of(1, kMost + 1, 1));
  expect_refused("a token count is out of range", step_of(1, 1, kMost + 1));
  expect_refused("a step computes too many tokens", step_of(128, 0, kMost));
  Written written;
  step_of(127, kMost, kMost)(written.encoder);
  EXPECT_EQ(std::get<TracePlan>(decode_trace(written.bytes).at(0).content).entries.size(), 127U);
}

TEST(TraceFormat, TellsWhatFollowsAndWhoseFiltersWake) {
  Written written;
  const TokenId forced[] = {9, 8};
  const TokenLogprob further[] = {{3, -1.0F}, {2, -2.0F}};
  StepResult result{.step = 3, .sampled = {{.sequence = SequenceId{1}, .token = 4}}};
  result.sampled.push_back({.sequence = SequenceId{2}, .token = 5, .filter_wakes = true});
  result.sampled.push_back({.sequence = SequenceId{3}, .token = 6, .filter_wakes = true, .forced = forced});
  result.sampled.push_back({.sequence = SequenceId{4}, .token = 6, .further = further});
  result.sampled.push_back({.sequence = SequenceId{5}, .token = 6, .further = further, .forced = forced});
  written.encoder.on_commit(result, 5);
  const auto commit = std::get<TraceCommit>(decode_trace(written.bytes).at(0).content);
  EXPECT_EQ(commit.waking, (std::vector<size_t>{1, 2}));
  const std::vector<TokenId> tokens[] = {{9, 8}, {3, 2}, {3, 2, 9, 8}};
  const size_t guessed[] = {0, 2, 2};
  ASSERT_EQ(commit.following.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(commit.following[i].row, i + 2);
    EXPECT_EQ(commit.following[i].tokens, tokens[i]);
    EXPECT_EQ(commit.following[i].further_count, guessed[i]);
  }
}

TEST(TraceFormat, KeepsChangesOfPoliciesParametersLimitsAndAdmission) {
  Written written;
  written.encoder.begin("{}");
  written.encoder.trial("vtc:weight_output=3", 2);
  written.encoder.parameters("lpm:max_waiting=3", 5);
  written.encoder.limits(R"({"max_num_seqs": 2})", 9);
  written.encoder.hold(true, 12);
  written.encoder.hold(false, 20);
  written.encoder.reset_prefix_cache(22);
  auto records = decode_trace(written.bytes);
  ASSERT_EQ(records.size(), 7U);
  EXPECT_EQ(records[1].time, 2);
  EXPECT_EQ(std::get<TraceTrial>(records[1].content).spec, "vtc:weight_output=3");
  records.erase(records.begin() + 1);
  EXPECT_EQ(records[1].time, 5);
  EXPECT_EQ(std::get<TraceParameters>(records[1].content).spec, "lpm:max_waiting=3");
  EXPECT_EQ(records[2].time, 9);
  EXPECT_EQ(std::get<TraceLimits>(records[2].content).json, R"({"max_num_seqs": 2})");
  EXPECT_EQ(records[3].time, 12);
  EXPECT_TRUE(std::get<TraceHold>(records[3].content).holds);
  EXPECT_EQ(records[4].time, 20);
  EXPECT_FALSE(std::get<TraceHold>(records[4].content).holds);
  EXPECT_EQ(records[5].time, 22);
  EXPECT_TRUE(std::holds_alternative<TraceResetPrefixCache>(records[5].content));
}

TEST(SetupJson, ChangesOnlyLimitsThatMayChange) {
  SchedulerConfig config;
  config.max_num_seqs = 7;
  const SchedulerConfig changed = with_limits(
      config,
      R"({"max_num_batched_tokens": 99, "kv_headroom": 0, "preempt_victim": "cheapest", "enable_mixed_chunk": true,
                  "priority_preemption_threshold": 4})");
  EXPECT_EQ(changed.max_num_seqs, 7);
  EXPECT_EQ(changed.max_num_batched_tokens, 99);
  EXPECT_EQ(changed.preempt_victim, VictimRule::Cheapest);
  EXPECT_TRUE(changed.enable_mixed_chunk);
  EXPECT_EQ(changed.priority_preemption_threshold, 4);
  const auto refusal = [](const char* json) {
    try {
      check_limits_json(json);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_NE(refusal(R"({"batching": "static"})").find("'batching' cannot change"), std::string::npos);
  EXPECT_EQ(refusal(R"({"max_num_seqs": 1.5})"), "max_num_seqs is 1.5, allowed: a whole number of 32 bits");
  EXPECT_EQ(refusal(R"({"max_num_seqs": 99999999999})"),
            "max_num_seqs is 99999999999, allowed: a whole number of 32 bits");
  EXPECT_EQ(
      refusal(R"({"preempt_victim": "nobody"})"),
      "preempt_victim is \"nobody\", allowed: last_admitted, lowest_priority, fewest_output, most_freeable, cheapest");
  EXPECT_EQ(refusal(R"({"enable_mixed_chunk": 1})"), "enable_mixed_chunk is 1, allowed: true, false");
  EXPECT_EQ(refusal(R"({"kv_headroom": "much"})"), "kv_headroom is \"much\", allowed: a number");
  EXPECT_EQ(refusal("[1]"), "the limits are '[1]', allowed: a JSON object");
  EXPECT_EQ(refusal("{"), "the limits are '{', allowed: a JSON object");
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_EQ(refusal((R"({"kv_headroom": )" + deep + "}").c_str()), "the limits: nested deeper than 200 levels");
}

// Truth: inflight.h, INFLIGHT_NO_PREEMPTION.
TEST(SetupJson, PriorityPreemptionCanBeTakenAwayAgain) {
  const SchedulerConfig given = with_limits({}, R"({"priority_preemption_threshold": 3})");
  EXPECT_EQ(given.priority_preemption_threshold, 3);
  for (const char* none : {"null", "2147483647"}) {
    const std::string json = fmt::format(R"({{"priority_preemption_threshold": {}, "max_num_seqs": 7}})", none);
    EXPECT_EQ(with_limits(given, json).priority_preemption_threshold, std::nullopt) << none;
    EXPECT_EQ(with_limits(given, json).max_num_seqs, 7);
  }
}

TEST(SetupJson, APolicyMayHaveAPathOfAnyBytes) {
  SchedulerSetup setup;
  setup.schedule_policy = "./pol\xe9.ifp.so";
  EXPECT_EQ(parse_setup_json(to_json(setup)).schedule_policy, "./pol\xef\xbf\xbd.ifp.so");
}

TEST(TraceFormat, AfterAResetTheBeginningIsNotNeeded) {
  Written written;
  written.encoder.on_finish(SequenceId{1000}, FinishReason::Stop, 5'000'000);
  const size_t dropped = written.bytes.size();
  written.encoder.reset();
  written.encoder.on_finish(SequenceId{1001}, FinishReason::Length, 6'000'000);
  const auto records = decode_trace(std::span(written.bytes).subspan(dropped));
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].time, 6'000'000);
  EXPECT_EQ(std::get<TraceFinish>(records[0].content).sequence, SequenceId{1001});
}

TEST(TraceFormat, RefusesTextsOneByteLongerThanTheRecord) {
  Written written;
  written.encoder.begin("{}");
  const auto length = written.bytes.end() - 3;  // of the text
  ASSERT_EQ(std::to_integer<int>(*length), 2);
  *length = std::byte{3};
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "trace record 1: a count is larger than the record",
                        [&] { static_cast<void>(decode_trace(written.bytes)); });
}

TEST(TraceFormat, TakesAnyDamageWithAnErrorAtMost) {
  Rng rng(2);
  Written written;
  written.encoder.begin("{}");
  for (uint64_t i = 0; i < 20; ++i) {
    const Request request = random_request(rng);
    written.encoder.on_add(static_cast<SequenceId>(i + 1), request, request.prompt, 5);
    written.encoder.on_finish(static_cast<SequenceId>(i + 1), FinishReason::Stop, 6);
  }
  size_t last = 0;
  for (size_t length = 0; length <= written.bytes.size(); ++length) {
    const auto records = decode_trace(std::span(written.bytes).first(length));
    EXPECT_GE(records.size(), last);
    last = records.size();
  }
  EXPECT_EQ(last, 41U);
  int errors = 0;
  for (int i = 0; i < 20000; ++i) {
    auto damaged = written.bytes;
    for (int32_t k = rng.between(1, 4); k > 0; --k) {
      damaged[rng.below(damaged.size())] = static_cast<std::byte>(rng.below(256));
    }
    try {
      static_cast<void>(decode_trace(damaged));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::CorruptFile);
      ++errors;
    }
  }
  EXPECT_GT(errors, 100);
}

TEST(SetupJson, RoundTripsEveryKnob) {
  SchedulerSetup setup;
  setup.config = {.max_num_seqs = 3,
                  .max_num_batched_tokens = 40,
                  .max_prefill_tokens = 20,
                  .long_prefill_token_threshold = 10,
                  .max_model_len = 99,
                  .max_requests = 50,
                  .batching = BatchingMode::Dynamic,
                  .enable_mixed_chunk = true,
                  .max_batch_delay_ms = 1.5,
                  .schedule_conservativeness = 0.25,
                  .kv_headroom = 0.125,
                  .preempt = PreemptMode::Auto,
                  .preempt_victim = VictimRule::Cheapest,
                  .host_blocks = 17,
                  .priority_preemption_threshold = -3};
  setup.blocks = {.block_count = 55, .block_token_count = 8, .prefix_caching = false, .shuffle_seed = 77};
  setup.schedule_policy = "vtc:weight_output=3";
  setup.eviction_policy = "s3fifo";
  setup.seed = 0xffffffffffffffffULL;
  setup.block_bytes = 4096;
  EXPECT_EQ(to_json(parse_setup_json(to_json(setup))), to_json(setup));
  EXPECT_NE(to_json(setup), to_json({}));
  EXPECT_THROW(static_cast<void>(parse_setup_json("{\"batching\": \"orca\"}")), Error);
  EXPECT_THROW(static_cast<void>(parse_setup_json("{\"max_num_seqs\": \"many\"}")), Error);
  EXPECT_THROW(static_cast<void>(parse_setup_json("no json")), Error);
}

}  // namespace
}  // namespace inflight
