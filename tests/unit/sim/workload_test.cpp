// SPDX-License-Identifier: Apache-2.0
// Goal: workloads hold what their specification says: lengths within their bounds and shares, arrival processes with
// the asked mean and variance, prefixes that are really equal, one-line errors.
// Covers: sim/workload.cpp, sim/workload_spec.cpp, sim/length_distribution.cpp, sim/text_file.cpp
#include "sim/workload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/length_distribution.h"
#include "sim/text_file.h"
#include "sim/workload_spec.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace inflight {
namespace {

std::vector<TokenId> prompt_of(const Workload& workload, size_t index) {
  std::vector<TokenId> tokens;
  for (const ContentSegment& segment : workload.prompt(workload.requests[index])) {
    append_stream(segment.stream, segment.offset, segment.count, tokens);
  }
  return tokens;
}

size_t common_prefix(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

TEST(Workload, StreamsAreFunctionsOfPosition) {
  std::vector<TokenId> whole, parts;
  append_stream(42, 0, 100, whole);
  append_stream(42, 0, 33, parts);
  append_stream(42, 33, 67, parts);
  EXPECT_EQ(whole, parts);
  for (int32_t i = 0; i < 100; ++i) EXPECT_EQ(whole[static_cast<size_t>(i)], stream_token(42, i));
  std::set<TokenId> first;
  for (uint64_t stream = 0; stream < 1000; ++stream) first.insert(stream_token(stream, 0));
  EXPECT_EQ(first.size(), 1000U);
  EXPECT_EQ(std::ranges::count(whole, kSimEndToken), 0);
}

TEST(Workload, FollowersComeInOrder) {
  Workload workload;
  for (const int32_t after : {kNoRequest, 0, kNoRequest, 0, 2, 0}) {
    const ContentSegment prompt[] = {{1, 0, 4}};
    workload.add({.after = after}, prompt);
  }
  Followers followers(workload);
  EXPECT_TRUE(followers.any());
  const auto of = [&](int32_t request) {
    std::vector<int32_t> found;
    followers.each(request, [&found](int32_t follower) { found.push_back(follower); });
    EXPECT_EQ(followers.any_of(request), !found.empty());
    return found;
  };
  EXPECT_EQ(of(0), (std::vector<int32_t>{1, 3, 5}));
  EXPECT_EQ(of(2), (std::vector<int32_t>{4}));
  EXPECT_TRUE(of(5).empty());
  workload.requests.resize(1);
  EXPECT_FALSE(Followers(workload).any());
}

// Who follows several waits for all of them, in whatever order they end.
TEST(Workload, FollowersWaitForAllBranches) {
  const Workload workload = make_workload("branches,requests=7,branches=3,concurrency=1");
  Followers followers(workload);
  std::vector<int32_t> found;
  const auto end = [&](int32_t request) {
    followers.each(request, [&found](int32_t follower) { found.push_back(follower); });
  };
  for (const int32_t request : {0, 1, 2, 3, 4, 5}) EXPECT_TRUE(followers.any_of(request)) << request;
  EXPECT_FALSE(followers.any_of(6));
  for (const int32_t request : {2, 0}) end(request);
  EXPECT_TRUE(found.empty());
  end(1);
  EXPECT_EQ(found, (std::vector<int32_t>{3, 4, 5}));
  for (const int32_t request : {5, 3, 4}) end(request);
  EXPECT_EQ(found, (std::vector<int32_t>{3, 4, 5, 6}));
}

// checklist 124: before each output token but the first stands a wrong one, as often as guesses are wrong.
TEST(Workload, PredictionsAreRightAsOftenAsAsked) {
  const Workload workload = make_workload("closed,requests=100,prompt=30,output=200,acceptance=0.7,seed=5");
  int64_t wrong = 0;
  for (int32_t i = 0; i < 100; ++i) {
    const SimRequest& request = workload.requests[static_cast<size_t>(i)];
    std::vector<TokenId> output, prediction = workload.prediction(i);
    append_stream(request.output_stream, 30, 200, output);
    EXPECT_EQ(prediction, workload.prediction(i));
    EXPECT_EQ(prediction.front(), output.front());
    EXPECT_NE(prediction.back(), kSimWrongToken);
    for (size_t k = 1; k < prediction.size(); ++k) {
      EXPECT_FALSE(prediction[k] == kSimWrongToken && prediction[k - 1] == kSimWrongToken);
    }
    wrong += static_cast<int64_t>(std::erase(prediction, kSimWrongToken));
    EXPECT_EQ(prediction, output);
  }
  EXPECT_NEAR(static_cast<double>(wrong), 0.3 * 100 * 199, 4.5 * std::sqrt(0.21 * 100 * 199));
  EXPECT_NE(workload.prediction(0),
            make_workload("closed,requests=100,prompt=30,output=200,acceptance=0.7,seed=6").prediction(0));
  // Whoever guesses does not know of the end.
  const Workload early = make_workload("closed,requests=1,prompt=30,output=5,max_tokens=8,acceptance=1");
  std::vector<TokenId> tokens;
  append_stream(early.requests[0].output_stream, 30, 8, tokens);
  tokens[4] = kSimEndToken;
  EXPECT_EQ(early.prediction(0), tokens);
  EXPECT_FALSE(make_workload("closed").acceptance.has_value());
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "workload key acceptance is '1.5', allowed: none, 0 to 1",
                        [] { static_cast<void>(make_workload("closed,acceptance=1.5")); });
}

TEST(Workload, NamedLengthsComeInTurn) {
  const Workload workload = make_workload("lengths=50,60,400,80,prompt=4");
  ASSERT_EQ(workload.requests.size(), 4U);
  EXPECT_EQ(workload.requests[2].output_tokens, 400);
  EXPECT_EQ(workload.requests[2].prompt_tokens, 4);
  const StaticBatching batching = static_batching(workload, 4);
  EXPECT_EQ(batching.cycles, 400);
  EXPECT_DOUBLE_EQ(batching.efficiency, 0.36875);
  EXPECT_EQ(static_batching(workload, 2).cycles, 60 + 400);
  EXPECT_DOUBLE_EQ(static_batching(workload, 2).efficiency, 590.0 / (2 * 460));
}

TEST(Workload, BimodalHasBothModes) {
  const Workload workload = make_workload("bimodal,requests=5000,seed=2");
  int64_t is_short = 0;
  for (const SimRequest& request : workload.requests) {
    const int32_t length = request.output_tokens;
    ASSERT_TRUE((length >= 10 && length <= 50) || (length >= 200 && length <= 500)) << length;
    is_short += length <= 50;
  }
  EXPECT_NEAR(static_cast<double>(is_short) / 5000.0, 0.8, 0.02);
}

// Mean and coefficient of variation of the gaps between arrivals.
std::pair<double, double> gaps(const Workload& workload) {
  double sum = 0.0, squares = 0.0;
  for (size_t i = 1; i < workload.requests.size(); ++i) {
    const double gap = static_cast<double>(workload.requests[i].arrival - workload.requests[i - 1].arrival) * 1e-9;
    sum += gap;
    squares += gap * gap;
  }
  const auto count = static_cast<double>(workload.requests.size() - 1);
  const double mean = sum / count;
  return {mean, std::sqrt(squares / count - mean * mean) / mean};
}

TEST(Workload, ArrivalProcessesHaveTheirMoments) {
  const auto [poisson_mean, poisson_cv] = gaps(make_workload("poisson,rate=20,requests=20000"));
  EXPECT_NEAR(poisson_mean, 0.05, 0.002);
  EXPECT_NEAR(poisson_cv, 1.0, 0.05);
  const auto [gamma_mean, gamma_cv] = gaps(make_workload("gamma,rate=20,cv=2,requests=20000"));
  EXPECT_NEAR(gamma_mean, 0.05, 0.003);
  EXPECT_NEAR(gamma_cv, 2.0, 0.2);
  const Workload ramp = make_workload("ramp,rate=1,rate_end=100,requests=2000");
  const TimeNs half = ramp.requests[1000].arrival;
  EXPECT_GT(half, 3 * (ramp.requests.back().arrival - half));
}

TEST(Workload, LengthsFollowTheirDistribution) {
  Rng rng(5);
  LengthDistribution lognormal("prompt", "lognormal:200:0.5");
  std::vector<int32_t> lengths;
  for (int i = 0; i < 10001; ++i) lengths.push_back(lognormal.draw(rng));
  std::ranges::nth_element(lengths, lengths.begin() + 5000);
  EXPECT_NEAR(lengths[5000], 200, 6);
  LengthDistribution exponential("prompt", "exp:100");
  double sum = 0.0;
  for (int i = 0; i < 10000; ++i) sum += exponential.draw(rng);
  EXPECT_NEAR(sum / 10000, 100.0, 4.0);
  const test::TempFolder folder;
  write_text_file(folder.file("lengths.txt"), "3\n5\r\n\n7\n");
  LengthDistribution list("prompt", "file:" + folder.file("lengths.txt"));
  EXPECT_EQ(list.draw(rng), 3);
  EXPECT_EQ(list.draw(rng), 5);
  EXPECT_EQ(list.draw(rng), 7);
  EXPECT_EQ(list.draw(rng), 3);
}

TEST(Workload, GroupsShareTheirPrefix) {
  const Workload workload = make_workload("prefix,requests=64,prefix=100,prefix_groups=2,prompt=50");
  for (size_t i = 1; i < 64; ++i) {
    const size_t common = common_prefix(prompt_of(workload, 0), prompt_of(workload, i));
    EXPECT_TRUE(common == 0 || common == 100) << common;
  }
}

TEST(Workload, TurnsHoldTheAnswersBefore) {
  const Workload workload = make_workload("multiturn,requests=3,turns=3,prefix=10,prompt=20,output=30");
  EXPECT_EQ(workload.requests[1].after, 0);
  EXPECT_EQ(workload.requests[2].prompt_tokens, 10 + 3 * 20 + 2 * 30);
  const auto first = prompt_of(workload, 0), second = prompt_of(workload, 1);
  EXPECT_EQ(common_prefix(first, second), first.size());
  for (size_t p = first.size(); p < first.size() + 30; ++p) {
    EXPECT_EQ(second[p], stream_token(workload.requests[0].output_stream, static_cast<int32_t>(p)));
  }
}

TEST(Workload, BranchesShareTheirPromptNotTheirAnswers) {
  const Workload workload = make_workload("branches,requests=8,branches=4,prompt=32");
  EXPECT_EQ(prompt_of(workload, 0), prompt_of(workload, 3));
  EXPECT_NE(prompt_of(workload, 0), prompt_of(workload, 4));
  EXPECT_NE(workload.requests[0].output_stream, workload.requests[1].output_stream);
}

// One key more changes what it says, and no other attribute: arms of a comparison have the same requests.
TEST(Workload, AttributesAreDrawnApart) {
  const std::string base = "gamma,requests=300,turns=3,think_ms=100,prompt=exp:100,output=lognormal:100:1";
  const Workload plain = make_workload(base);
  for (const char* more :
       {"predict=oracle", "predict=0.5", "max_tokens=exp:300", "prefix=1,prefix_groups=4", "prefix=64,prefix_groups=4",
        "tenants=4", "tenants=4,tenant_skew=2", "priorities=5", "ttft_ms=100", "e2e_ms=100,tight_share=0.5", "itl_ms=9",
        "adapters=2", "acceptance=0.5",
        "prefix=8,prefix_groups=4,predict=1,tenants=3,priorities=2,tight_share=0.3,e2e_ms=5,max_tokens=1-900"}) {
    const Workload other = make_workload(base + "," + more);
    ASSERT_EQ(other.requests.size(), plain.requests.size());
    for (size_t i = 0; i < plain.requests.size(); ++i) {
      ASSERT_EQ(other.requests[i].arrival, plain.requests[i].arrival) << more << ", request " << i;
      ASSERT_EQ(other.requests[i].output_tokens, plain.requests[i].output_tokens) << more << ", request " << i;
      const auto own = [](const Workload& workload, size_t index) {
        return workload.prompt(workload.requests[index]).back().count;
      };
      ASSERT_EQ(own(other, i), own(plain, i)) << more << ", request " << i;
    }
  }
  // Lengths and arrivals stay apart, too.
  const Workload longer = make_workload("gamma,requests=300,prompt=mix:0.5:10:exp:900,output=7");
  const Workload shorter = make_workload("gamma,requests=300,prompt=9,output=7");
  for (size_t i = 0; i < 300; ++i) ASSERT_EQ(longer.requests[i].arrival, shorter.requests[i].arrival);
  const Workload reseeded = make_workload(base + ",seed=4");
  int64_t changed = 0;
  for (size_t i = 0; i < 300; ++i) changed += reseeded.requests[i].output_tokens != plain.requests[i].output_tokens;
  EXPECT_GT(changed, 250);
}

TEST(Workload, MistakesAreNamed) {
  const auto expect = [](const char* text, const char* spec) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, text, [&] { static_cast<void>(make_workload(spec)); });
  };
  expect("workload 'unimodal' is unknown, allowed: lengths, bimodal", "unimodal");
  expect("workload 'poisson=3' is unknown, allowed: lengths, bimodal", "poisson=3");
  expect("workload 'lengths' names no length, allowed: lengths=N,N", "lengths");
  expect("workload key predict is 'who', allowed: none, oracle, 0 to 10", "poisson,predict=who");
  expect("workload 'lengths=' names no length, allowed: lengths=N,N", "lengths=");
  expect("part of output 'mix:0.8:10-50' is '', allowed: N, LOW-HIGH", "bimodal,output=mix:0.8:10-50");
  expect("workload length '0' in 'lengths=50,0', allowed: 1 to", "lengths=50,0");
  expect("workload key 'rat' in 'poisson,rat=3' is unknown, allowed: requests, seed", "poisson,rat=3");
  expect("workload key rate is '-3', allowed: 1e-06 to", "poisson,rate=-3");
  expect("workload key requests is '1.5', allowed: whole numbers", "closed,requests=1.5");
  expect("workload key seed is '18446744073709551616', allowed: 0 to 1000000000000000",
         "closed,seed=18446744073709551616");
  expect(
      "output is '99999999', allowed: N, LOW-HIGH, exp:MEAN, lognormal:MEDIAN:SIGMA, mix:SHARE:FIRST:SECOND or "
      "file:PATH, lengths 1 to 16777216",
      "closed,output=99999999");
  expect("prompt is '9-3', allowed: N, LOW-HIGH", "closed,prompt=9-3");
  expect("prompt is '9-', allowed: N, LOW-HIGH", "closed,prompt=9-");
  expect("prompt is '9.5', allowed: N, LOW-HIGH", "closed,prompt=9.5");
  expect("output is '2-9.5', allowed: N, LOW-HIGH", "closed,output=2-9.5");
  expect("arrivals is 'never', allowed: all, poisson", "closed,arrivals=never");
}

// A rate of arrivals that all come at the begin would be ignored.
TEST(Workload, AnArrivalKeyNeedsItsArrivals) {
  const auto expect = [](const char* text, const char* spec) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, text, [&] { static_cast<void>(make_workload(spec)); });
  };
  expect("workload key rate in 'bimodal,rate=5' has no effect, allowed: with arrivals=poisson, gamma, ramp",
         "bimodal,rate=5");
  expect("workload key cv in 'poisson,cv=5' has no effect, allowed: with arrivals=gamma", "poisson,cv=5");
  expect("workload key rate_end in 'gamma,rate_end=5' has no effect, allowed: with arrivals=ramp", "gamma,rate_end=5");
  EXPECT_EQ(make_workload("closed,rate=5,arrivals=poisson").requests.size(), 256U);
  EXPECT_EQ(make_workload("poisson,rate=5,arrivals=all").requests.back().arrival, 0);  // an arm of a comparison
}

// What a key needs to say anything: in effect by the kind, or given, whatever its value.
TEST(Workload, AKeyNeedsWhatItSaysSomethingOf) {
  const auto expect = [](const char* text, const char* spec) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, text, [&] { static_cast<void>(make_workload(spec)); });
  };
  expect("workload key think_ms in 'closed,think_ms=100' has no effect, allowed: with concurrency or turns",
         "closed,think_ms=100");
  expect("workload key prefix_groups in 'closed,prefix_groups=7' has no effect, allowed: with prefix",
         "closed,prefix_groups=7");
  expect("prefix_skew in 'closed,prefix=9,prefix_skew=1' has no effect, allowed: with prefix_groups",
         "closed,prefix=9,prefix_skew=1");
  expect("tenant_skew in 'closed,tenant_skew=2' has no effect, allowed: with tenants", "closed,tenant_skew=2");
  expect("tight_share in 'closed,tight_share=1' has no effect, allowed: with ttft_ms or e2e_ms or itl_ms",
         "closed,tight_share=1");
  expect("output in 'lengths=50,60,output=5' has no effect: the lengths are listed", "lengths=50,60,output=5");
  for (const char* spec :
       {"closed,think_ms=9,concurrency=2", "closed,think_ms=9,turns=2", "multiturn,think_ms=9", "prefix,prefix_skew=1",
        "closed,prefix=0,prefix_groups=7,prefix_skew=1", "tenants,tenant_skew=2", "closed,tight_share=1,itl_ms=9"}) {
    EXPECT_EQ(make_workload(spec).requests.size(), 256U) << spec;
  }
}

TEST(Workload, ArrivalsEndWithVirtualTime) {
  for (const char* spec : {"poisson,rate=1e-6,requests=20000", "gamma,rate=1e-6,requests=20000"}) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "s after the begin, allowed: up to 4000000000 s",
                          [&] { static_cast<void>(make_workload(spec)); });
  }
  EXPECT_GT(make_workload("poisson,rate=1e-6,requests=3000").requests.back().arrival, 2'000'000'000'000'000'000);
}

TEST(Workload, AKeyIsGivenOnce) {
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument,
                        "workload key 'rate' is given twice in 'poisson,rate=2,seed=1,rate=2'",
                        [] { static_cast<void>(make_workload("poisson,rate=2,seed=1,rate=2")); });
  EXPECT_EQ(make_workload("closed,requests=7").requests.size(), 7U);  // a kind's own default is no second time
}

TEST(Workload, ALengthFileNamesTheLine) {
  const test::TempFolder folder;
  write_text_file(folder.file("part.txt"), "3\n5.5\n");
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "part.txt:2: prompt is '5.5', allowed: 1 to 16777216, a whole number",
                        [&] { const LengthDistribution list("prompt", "file:" + folder.file("part.txt")); });
  write_text_file(folder.file("bad.txt"), "3\nfive\n");
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "bad.txt:2: prompt is 'five', allowed: 1 to",
                        [&] { const LengthDistribution list("prompt", "file:" + folder.file("bad.txt")); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::NotFound, "missing.txt",
                        [&] { static_cast<void>(read_text_file(folder.file("missing.txt"))); });
}

// What others may ask for: the value counts, however it is written.
TEST(Workload, KeepsWithinLimits) {
  const WorkloadLimits limits{.requests = 100, .tokens = 1000};
  EXPECT_EQ(make_workload("closed,requests=1e2,prompt=5,output=5", limits).requests.size(), 100U);
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "requests is '5e7', allowed: 1 to 100",
                        [&] { static_cast<void>(make_workload("closed,requests=5e7", limits)); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "prefix_groups is '101', allowed: 1 to 100",
                        [&] { static_cast<void>(make_workload("prefix,requests=1,prefix_groups=101", limits)); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "too many tokens in prompts and outputs, allowed: 1000",
                        [&] { static_cast<void>(make_workload("closed,requests=100,prompt=5,output=6", limits)); });
  // A conversation's prompts hold what was said before: 9 turns of 2 + 20 have 2 * 45 + 20 * 36 + 9 * 20 = 990 tokens.
  EXPECT_EQ(make_workload("closed,requests=9,turns=9,prompt=2,output=20", limits).requests.size(), 9U);
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "too many tokens", [&] {
    static_cast<void>(make_workload("closed,requests=10,turns=10,prompt=2,output=20", limits));
  });
}

}  // namespace
}  // namespace inflight
