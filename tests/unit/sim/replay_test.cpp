// SPDX-License-Identifier: Apache-2.0
// Goal: a recording replays step for step under every policy and mode, and a different decision is found where it is
// made. Method: random runs of the scheduler above the oracle are recorded and replayed; then with another policy.
#include "sim/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/rng.h"
#include "sim/recording.h"
#include "sim/text_file.h"
#include "sim/trace_reader.h"
#include "support/expect_error.h"
#include "support/loaded_policies.h"
#include "support/temp_folder.h"

namespace inflight::test {
namespace {

struct Recording {
  std::vector<std::byte> bytes;
  int64_t plans = 0;
  int64_t preemptions = 0;
};

// A pressed random run, recorded from its first request on.
Recording record(uint64_t seed, const std::string& schedule, const std::string& eviction) {
  Rng rng(seed);
  WorldOptions options;
  options.config = {.max_num_seqs = 5, .max_num_batched_tokens = 48, .max_model_len = 100, .max_requests = 500};
  options.config.batching = static_cast<BatchingMode>(rng.below(4));
  options.config.preempt = static_cast<PreemptMode>(rng.below(3));
  options.config.host_blocks = 50;
  options.config.priority_preemption_threshold = 2;
  options.config.max_loras = 2;
  options.config.sliding_window = rng.chance(0.3) ? rng.between(5, 40) : 0;
  options.blocks = {.block_count = 30, .block_token_count = 4};
  options.overlap = rng.chance(0.5);
  Recording recording;
  TraceEncoder encoder(
      [&](std::span<const std::byte> bytes) {
        recording.bytes.insert(recording.bytes.end(), bytes.begin(), bytes.end());
      },
      true);
  LoadedWorld world(options, schedule, eviction);
  SchedulerSetup setup = setup_of(options);
  setup.schedule_policy = schedule;
  setup.eviction_policy = eviction;
  encoder.begin(to_json(setup));
  world->scheduler().set_trace(&encoder);
  for (int i = 0; i < 400; ++i) {
    if (rng.chance(0.3)) {
      RequestOptions request;
      const int32_t count = rng.between(1, 50), shared = rng.between(0, count);
      for (int32_t k = 0; k < count; ++k) request.prompt.push_back(k < shared ? k % 60 : rng.between(0, 63));
      request.max_tokens = rng.between(1, 30);
      request.end_tokens = {rng.between(0, 63)};
      request.priority = rng.between(-3, 3);
      request.tenant = static_cast<uint32_t>(rng.below(3));
      request.adapter = static_cast<uint32_t>(rng.below(4));
      if (rng.chance(0.15)) request.n = rng.between(2, 5);
      request.prompt_logprobs = rng.chance(0.05);
      world->add(request);
    }
    if (rng.chance(0.03)) world->cancel(1 + rng.below(100));
    world->step();
    recording.plans = world->now_step();
  }
  world->run();
  recording.plans = world->now_step();
  recording.preemptions = world->scheduler().stats().preemptions;
  return recording;
}

TEST(Replay, TakesTheRecordedDecisionsStepByStep) {
  uint64_t seed = 1;
  int64_t preemptions = 0;
  for (const char* schedule : {"fcfs", "lpm", "dfs-weight", "vtc", "dlpm", "hrrn", "priority:aging_s=0.001", "slack",
                               "itl-target:target_ms=0.003", "random", "srtf"}) {
    for (const char* eviction : {"lru", "s3fifo", "sieve", "gdsf", "tlru"}) {
      const Recording recording = record(++seed, schedule, eviction);
      const ReplayResult result = replay_trace(decode_trace(recording.bytes), {});
      EXPECT_FALSE(result.difference) << schedule << " " << eviction << " step " << result.difference->step
                                      << "\nrecorded " << result.difference->recorded << "\nreplayed "
                                      << result.difference->replayed;
      EXPECT_GE(result.plans, recording.plans);
      EXPECT_GT(result.requests, 50);
      EXPECT_EQ(result.unfinished, 0);
      preemptions += recording.preemptions;
    }
  }
  EXPECT_GT(preemptions, 100);
}

TEST(Replay, FindsWhereAnotherPolicyDecidesDifferently) {
  const Recording recording = record(3, "fcfs", "lru");
  const auto records = decode_trace(recording.bytes);
  const ReplayResult other = replay_trace(records, {.schedule_policy = "lof"});
  ASSERT_TRUE(other.difference);
  EXPECT_NE(other.difference->recorded, other.difference->replayed);
  EXPECT_GT(other.difference->step, 0U);
  EXPECT_FALSE(replay_trace(records, {.schedule_policy = "fcfs"}).difference);
}

TEST(Replay, RequestsThatCannotBeAreTold) {
  const auto records = decode_trace(record(3, "fcfs", "lru").bytes);
  const auto is_add = [](const TraceRecord& record) { return std::holds_alternative<TraceAdd>(record.content); };
  const auto place = std::ranges::find_if(records, is_add) - records.begin();
  auto twice = records;
  twice.insert(twice.begin() + place, records[static_cast<size_t>(place)]);
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "request 1 comes twice",
                        [&] { static_cast<void>(replay_trace(twice, {})); });
  auto longer = records;
  auto& add = std::get<TraceAdd>(longer[static_cast<size_t>(place)].content);
  add.request.prompt.resize(101);
  add.prompt_token_count = 101;
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "request 1 has 101 prompt tokens, allowed: 1 to 99",
                        [&] { static_cast<void>(replay_trace(longer, {})); });
}

// A file that was cut off says so: equal plans are no proof of what is not there.
TEST(Replay, TellsWhatTheRecordingEndsBefore) {
  const Recording recording = record(5, "fcfs", "lru");
  const auto half = decode_trace(std::span(recording.bytes).first(recording.bytes.size() / 2));
  const ReplayResult result = replay_trace(half, {});
  EXPECT_FALSE(result.difference);
  std::set<uint64_t> open;
  std::map<uint64_t, uint64_t> request_of;
  for (const TraceRecord& entry : half) {
    if (const auto* add = std::get_if<TraceAdd>(&entry.content)) {
      for (int32_t i = 0; i < add->request.sampling.choice_count(); ++i) {
        open.insert(to_integer(add->sequence) + static_cast<uint64_t>(i));
        request_of[to_integer(add->sequence) + static_cast<uint64_t>(i)] = to_integer(add->request.id);
      }
    } else if (const auto* finish = std::get_if<TraceFinish>(&entry.content)) {
      open.erase(to_integer(finish->sequence));
    }
  }
  std::set<uint64_t> requests;
  for (const uint64_t sequence : open) requests.insert(request_of.at(sequence));
  EXPECT_GT(result.unfinished, 0);
  EXPECT_EQ(result.unfinished, static_cast<int64_t>(requests.size()));

  auto arrivals = decode_trace(recording.bytes);
  std::erase_if(arrivals, [](const TraceRecord& entry) {
    return std::holds_alternative<TracePlan>(entry.content) || std::holds_alternative<TraceCommit>(entry.content);
  });
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "ends before its first plan",
                        [&] { static_cast<void>(replay_trace(arrivals, {})); });
}

// Of the record at this place: a type, the length of its fields as a number of 7 bits a byte, the fields.
size_t end_of_record(const std::vector<std::byte>& bytes, int place) {
  size_t end = 0;
  for (int i = 0; i <= place; ++i) {
    size_t length = 0;
    for (unsigned shift = 0; ++end < bytes.size(); shift += 7) {
      const auto byte = std::to_integer<size_t>(bytes[end]);
      length |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    end += 1 + length;
  }
  return end;
}

TEST(Replay, RefusesWhatIsNoRecording) {
  EXPECT_THROW(static_cast<void>(replay_trace({}, {})), Error);
  auto records = decode_trace(record(4, "fcfs", "lru").bytes);
  std::erase_if(records, [](const TraceRecord& r) { return std::holds_alternative<TracePlan>(r.content); });
  EXPECT_THROW(static_cast<void>(replay_trace(records, {})), Error);  // results without plans
  // The file is named, whatever is wrong with it.
  const TempFolder folder;
  std::string text;
  for (int line = 0; line < 100; ++line) text += fmt::format("{},{},0,{}.5,length\n", line, line * 7, line * 31);
  write_text_file(folder.file("text.csv"), text);
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "text.csv is no recording: it does not begin with a configuration",
                        [&] { static_cast<void>(read_recording(folder.file("text.csv"))); });
  std::vector<std::byte> bytes = record(4, "fcfs", "lru").bytes;
  bytes[end_of_record(bytes, 1) - 1] = std::byte{0xff};  // a number that goes on behind its record
  write_text_file(folder.file("bad.rec"), {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "bad.rec: trace record",
                        [&] { static_cast<void>(read_recording(folder.file("bad.rec"))); });
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "bad.rec: trace record",
                        [&] { static_cast<void>(read_trace_workload(folder.file("bad.rec"), {})); });
}

}  // namespace
}  // namespace inflight::test
