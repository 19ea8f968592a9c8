// SPDX-License-Identifier: Apache-2.0
// Goal: each trace format gives the requests that its text says, prefixes included; damage is named by line and field;
// a recorded run is the workload that it served. Texts are made here after the publishers' descriptions.
// Covers: sim/trace_reader.cpp, sim/trace_lines.cpp, sim/recording.cpp
#include "sim/trace_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "sim/recording.h"
#include "sim/replay.h"
#include "sim/sim_spec.h"
#include "sim/text_file.h"
#include "sim/trace_lines.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight {
namespace {

constexpr TimeNs kMs = 1'000'000;

TEST(TraceReader, Times) {
  EXPECT_EQ(parse_time("1970-01-02 00:00:01.5"), 86'401'500 * kMs);
  EXPECT_EQ(parse_time("2023-11-16T18:17:03Z"), 1'700'158'623LL * 1000 * kMs);
  for (const char* same : {"2023-11-16T20:17:03+02:00", "2023-11-16 12:47:03.000-0530", "2023-11-16T20:17:03+02"}) {
    EXPECT_EQ(parse_time(same), parse_time("2023-11-16T18:17:03Z")) << same;
  }
  for (const char* wrong : {"+", "+2", "+2:00", "+02:", "+02:60", "+24:00", "+0200 ", "+-1:00", "+02:000", "UTC"}) {
    EXPECT_FALSE(parse_time(std::string("2023-11-16T20:17:03") + wrong)) << wrong;
  }
  EXPECT_FALSE(parse_time("1970-01-01T00:00:00+00:01"));
  EXPECT_EQ(parse_time("1970-01-01T00:00:00-00:01"), 60'000 * kMs);
  EXPECT_EQ(parse_time("2.5"), 2500 * kMs);
  for (const char* no_day : {"2023-13-16", "2023-02-30", "2023-02-29", "2023-04-31", "2023-00-10", "2023-01-00"}) {
    EXPECT_FALSE(parse_time(std::string(no_day) + " 18:17:03")) << no_day;
  }
  EXPECT_EQ(parse_time("2024-02-29 00:00:00"), 1'709'164'800LL * 1000 * kMs);
  for (const char* no_time : {"24:00:00", "24:59:60", "23:60:00", "23:59:61"}) {
    EXPECT_FALSE(parse_time(std::string("2023-11-16 ") + no_time)) << no_time;
  }
  EXPECT_TRUE(parse_time("2023-11-16 23:59:60"));  // a leap second
  EXPECT_FALSE(parse_time("yesterday"));
  EXPECT_FALSE(parse_time("0001-01-01 00:00:00"));
  EXPECT_FALSE(parse_time("9999-12-31 23:59:59"));
  EXPECT_EQ(parse_time("2254-01-01 00:00:00"), 8'962'185'600LL * 1000 * kMs);
  EXPECT_FALSE(parse_time("-1"));
}

TEST(TraceReader, AzureCsv) {
  const test::TempFolder folder;
  write_text_file(folder.file("azure.csv"),
                  "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n"
                  "2023-11-16 18:17:04.9799600,3180,8\n2023-11-16 18:17:05.0000000,10,0\n");
  INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, "s after the first one, allowed: up to 4000000000 s",
                        [&] { static_cast<void>(read_trace_workload(folder.file("azure.csv"), {.speed = 1e-12})); });
  const Workload workload = read_trace_workload(folder.file("azure.csv"), {.speed = 2.0});
  ASSERT_EQ(workload.requests.size(), 2U);  // the one without output is no request
  EXPECT_EQ(workload.left_out_request_count, 1);
  EXPECT_EQ(workload.requests[0].prompt_tokens, 4808);
  EXPECT_EQ(workload.requests[1].output_tokens, 8);
  EXPECT_NEAR(static_cast<double>(workload.requests[1].arrival), 500.0 * kMs, 10.0);
}

// As some editors and spreadsheets begin a file.
TEST(TraceReader, AByteOrderMarkIsSkipped) {
  const test::TempFolder folder;
  for (const char* text :
       {"TIMESTAMP,ContextTokens,GeneratedTokens\n1,4808,10\n", "Timestamp,Request tokens,Response tokens\n1,4808,10\n",
        R"({"timestamp": 1, "prompt": "a", "max_tokens": 10})"}) {
    write_text_file(folder.file("trace"), std::string("\xEF\xBB\xBF") + text);
    const Workload workload = read_trace_workload(folder.file("trace"), {});
    ASSERT_EQ(workload.requests.size(), 1U);
    EXPECT_EQ(workload.requests[0].output_tokens, 10);
  }
}

TEST(TraceReader, BurstGptCsv) {
  const Workload workload = parse_burstgpt_trace(
      "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
      "45,GPT-4,\"1087\",230,1317,Conversation log\n118,GPT-4,417,0,417,API log\n",
      "burst.csv");
  ASSERT_EQ(workload.requests.size(), 2U);
  EXPECT_EQ(workload.requests[1].prompt_tokens, 1087);
  EXPECT_EQ(workload.requests[1].arrival, 45'000 * kMs);
}

TEST(TraceReader, MooncakeHashesAreContents) {
  const Workload workload = parse_mooncake_trace(
      R"({"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [7, 8]}
{"timestamp": 3000, "input_length": 600, "output_length": 6, "hash_ids": [7, 9]})",
      "mooncake.jsonl");
  ASSERT_EQ(workload.requests.size(), 2U);
  const auto first = workload.prompt(workload.requests[0]), second = workload.prompt(workload.requests[1]);
  EXPECT_EQ(first[0].stream, second[0].stream);
  EXPECT_NE(first[1].stream, second[1].stream);
  EXPECT_EQ(second[1].count, 600 - 512);
  EXPECT_EQ(workload.requests[1].arrival, 3000 * kMs);
}

TEST(TraceReader, OpenAiLogsShareConversations) {
  const std::string system = R"({"role": "system", "content": "You are brief."})";
  const std::string text = R"({"timestamp": "2024-01-01T00:00:00Z", "body": {"messages": [)" + system +
                           R"(, {"role": "user", "content": "Hi"}], "max_tokens": 50, "user": "anna"},)"
                           R"("response": {"body": {"usage": {"prompt_tokens": 30, "completion_tokens": 7}}}})"
                           "\n"
                           R"({"timestamp": "2024-01-01T00:00:02Z", "body": {"messages": [)" +
                           system +
                           R"(, {"role": "user", "content": "Bye"}], "user": "ben"}})"
                           "\n"
                           R"({"created": 1704067203, "prompt": "Once upon a time", "max_tokens": 9})";
  const Workload workload = parse_openai_log(text, "log.jsonl");
  ASSERT_EQ(workload.requests.size(), 3U);
  EXPECT_EQ(workload.requests[0].prompt_tokens, 30);
  EXPECT_EQ(workload.requests[0].output_tokens, 7);
  EXPECT_EQ(workload.requests[0].max_tokens, 50);
  EXPECT_EQ(workload.prompt(workload.requests[0])[0].stream, workload.prompt(workload.requests[1])[0].stream);
  EXPECT_NE(workload.requests[0].tenant, workload.requests[1].tenant);
  EXPECT_EQ(workload.requests[2].output_tokens, 9);
  EXPECT_EQ(workload.requests[2].arrival - workload.requests[0].arrival, 3000 * kMs);
}

// A token for four bytes of text and one, four more a message: who speaks and how JSON puts it is no text.
TEST(TraceReader, OpenAiMessagesCountTheirText) {
  const Workload workload = parse_openai_log(
      R"({"messages": [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Hi\n\"you\""}]}
{"messages": [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": "text", "text": "Say."}]}]}
{"input": [{"role": "user", "content": "Once upon a time"}]})",
      "log.jsonl");
  ASSERT_EQ(workload.requests.size(), 3U);
  EXPECT_EQ(workload.prompt(workload.requests[0])[0].count, 14 / 4 + 1 + 4);
  EXPECT_EQ(workload.prompt(workload.requests[0])[1].count, 8 / 4 + 1 + 4);
  EXPECT_EQ(workload.requests[1].prompt_tokens, 15 / 4 + 1 + 4);
  EXPECT_EQ(workload.requests[2].prompt_tokens, 16 / 4 + 1 + 4);
}

// Counts alone, a prompt as a list, and no time anywhere: all at once.
TEST(TraceReader, OpenAiLogsInOtherForms) {
  const Workload workload = parse_openai_log(
      R"({"model": "m", "usage": {"prompt_tokens": 30, "completion_tokens": 7}}
{"prompt": ["Once upon a time"], "max_tokens": 9}
{"prompt": [5, 6, 7, 8, 9]}
{"prompt": [5, 6, 7, 8, 9], "usage": {"prompt_tokens": 6, "completion_tokens": 0}})",
      "log.jsonl");
  ASSERT_EQ(workload.requests.size(), 4U);
  EXPECT_EQ(workload.requests[0].prompt_tokens, 30);
  EXPECT_EQ(workload.requests[0].output_tokens, 7);
  EXPECT_EQ(workload.requests[1].prompt_tokens, 16 / 4 + 1);
  EXPECT_EQ(workload.requests[2].prompt_tokens, 5);
  EXPECT_EQ(workload.requests[2].output_tokens, 128);
  EXPECT_EQ(workload.requests[3].prompt_tokens, 6);
  EXPECT_EQ(workload.prompt(workload.requests[2])[0].stream, workload.prompt(workload.requests[3])[0].stream);
  for (const SimRequest& request : workload.requests) EXPECT_EQ(request.arrival, 0);
}

// What users talk of says nothing of the format.
TEST(TraceReader, ALogsTextIsNoHeader) {
  const test::TempFolder folder;
  for (const char* said :
       {"how many ContextTokens did I use?", "Request tokens", R"({\"hash_ids\": [7]})", R"(\"input_length\": 5)"}) {
    write_text_file(folder.file("log.jsonl"),
                    fmt::format(R"({{"messages":[{{"role":"user","content":"{}"}}],"max_tokens":9}})", said));
    const Workload workload = read_trace_workload(folder.file("log.jsonl"), {});
    ASSERT_EQ(workload.requests.size(), 1U) << said;
    EXPECT_EQ(workload.requests[0].output_tokens, 9) << said;
  }
  write_text_file(folder.file("nested.jsonl"), R"({"prompt": "a", "max_tokens": 9, "tags": {"hash_ids": [7]}})");
  EXPECT_EQ(read_trace_workload(folder.file("nested.jsonl"), {}).requests[0].output_tokens, 9);
}

TEST(TraceReader, TheFirstByArrivalNotByLine) {
  const test::TempFolder folder;
  write_text_file(folder.file("t.csv"), "TIMESTAMP,ContextTokens,GeneratedTokens\n9,900,1\n2,200,1\n1,100,1\n");
  const Workload workload = read_trace_workload(folder.file("t.csv"), {.requests_max = 2});
  ASSERT_EQ(workload.requests.size(), 2U);
  EXPECT_EQ(workload.requests[0].prompt_tokens, 100);
  EXPECT_EQ(workload.requests[1].prompt_tokens, 200);
  EXPECT_EQ(workload.requests[1].arrival, 1000 * kMs);
}

TEST(TraceReader, DamageIsNamed) {
  const auto expect = [](const char* text, auto&& parse) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::CorruptFile, text, parse);
  };
  expect("t.csv:3: field ContextTokens is 'many', allowed: a number of tokens, 0 to", [] {
    static_cast<void>(parse_azure_trace(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,1,1\n2023-11-16 18:17:03,many,1\n", "t.csv"));
  });
  expect("t.csv:2: field TIMESTAMP is 'now', allowed: YYYY-MM-DD hh:mm:ss or seconds",
         [] { static_cast<void>(parse_azure_trace("TIMESTAMP,ContextTokens,GeneratedTokens\nnow,1,1\n", "t.csv")); });
  expect("t.csv:2: has 2 fields, allowed: 3 as in the header",
         [] { static_cast<void>(parse_azure_trace("TIMESTAMP,ContextTokens,GeneratedTokens\n1,2\n", "t.csv")); });
  expect("t.csv:1: the header has no column 'GeneratedTokens'",
         [] { static_cast<void>(parse_azure_trace("TIMESTAMP,ContextTokens\n", "t.csv")); });
  expect("t.csv:1: the header has two columns 'ContextTokens'", [] {
    static_cast<void>(parse_azure_trace("TIMESTAMP,ContextTokens,ContextTokens,GeneratedTokens\n", "t.csv"));
  });
  expect("t.csv:2: field GeneratedTokens is '1.5', allowed: a whole number",
         [] { static_cast<void>(parse_azure_trace("TIMESTAMP,ContextTokens,GeneratedTokens\n1,1,1.5\n", "t.csv")); });
  expect("t.csv:3: field TIMESTAMP is '1.5', allowed: YYYY-MM-DD hh:mm:ss, as before", [] {
    static_cast<void>(
        parse_azure_trace("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,48,1\n1.5,3,8\n", "t.csv"));
  });
  expect("l:2: field time is '2023-11-16T18:17:03Z', allowed: seconds, as before", [] {
    static_cast<void>(parse_openai_log(
        "{\"time\": 5, \"prompt\": \"a\"}\n{\"time\": \"2023-11-16T18:17:03Z\", \"prompt\": \"a\"}\n", "l"));
  });
  expect("m:1: field hash_ids is '3 ids', allowed: one for each 512 of 1024 tokens", [] {
    static_cast<void>(parse_mooncake_trace(
        R"({"timestamp": 0, "input_length": 1024, "output_length": 5, "hash_ids": [1, 2, 3]})", "m"));
  });
  expect("m:1: field hash_ids is '1 ids', allowed: one for each 512 of 1000 tokens", [] {
    static_cast<void>(
        parse_mooncake_trace(R"({"timestamp": 0, "input_length": 1000, "output_length": 5, "hash_ids": [1]})", "m"));
  });
  expect("m:1: field output_length is '0', allowed: 1 to", [] {
    static_cast<void>(
        parse_mooncake_trace(R"({"timestamp": 0, "input_length": 1, "output_length": 0, "hash_ids": [1]})", "m"));
  });
  expect("m:1: field input_length is missing", [] {
    static_cast<void>(parse_mooncake_trace(R"({"timestamp": 0, "output_length": 1, "hash_ids": []})", "m"));
  });
  expect("l:2: its JSON: parse error at line 1, column 12",
         [] { static_cast<void>(parse_openai_log("{\"prompt\": \"a\"}\n{\"prompt\": ", "l")); });
  expect("l:1: is no JSON object", [] { static_cast<void>(parse_openai_log("[1]", "l")); });
  expect("l:1: its JSON: nested deeper than 200 levels", [] {
    const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
    static_cast<void>(parse_openai_log(R"({"messages": [)" + deep + "]}", "l"));
  });
  expect("l:1: has none of: messages, prompt, input, usage with prompt_tokens",
         [] { static_cast<void>(parse_openai_log("{}", "l")); });
  expect("l:1: field prompt is '[\"a\",\"b\"]', allowed: a text, a list of one text or of token ids",
         [] { static_cast<void>(parse_openai_log(R"({"prompt": ["a", "b"]})", "l")); });
  expect("l:2: has no time, allowed: one, as before", [] {
    static_cast<void>(parse_openai_log("{\"prompt\": \"a\", \"created\": 1704067203}\n{\"prompt\": \"b\"}", "l"));
  });
  expect("l:2: has a time, allowed: none, as before",
         [] { static_cast<void>(parse_openai_log("{\"prompt\": \"a\"}\n{\"prompt\": \"b\", \"time\": 5}", "l")); });
  const test::TempFolder folder;
  for (const auto& [text, message] :
       {std::pair{R"({"timestamp": 0, "input_length": 9, "output_length": 5})",
                  ":1: field hash_ids is missing or no list"},
        {R"({"timestamp": 0, "input_length": 9, "hash_ids": [1]})", ":1: field output_length is missing"}}) {
    write_text_file(folder.file("m"), text);
    expect(message, [&] { static_cast<void>(read_trace_workload(folder.file("m"), {})); });
  }
  write_text_file(folder.file("x"), "hello\n");
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "begins with 'hello', allowed: an Azure or BurstGPT CSV header",
                        [&] { static_cast<void>(read_trace_workload(folder.file("x"), {})); });
  for (const auto& [text, message] :
       {std::pair{"", ": is empty, allowed: an Azure"},
        {"\x7f\x45LF\n", ": begins with bytes that are no ASCII text, allowed: an Azure"}}) {
    write_text_file(folder.file("x"), text);
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, message,
                          [&] { static_cast<void>(read_trace_workload(folder.file("x"), {})); });
  }
}

TEST(TraceReader, ARecordingIsAWorkloadAndReplays) {
  for (const char* overlap : {"on", "off"}) {
    const test::TempFolder folder;
    const SimSpec spec = parse_sim_spec(fmt::format(
        R"({{"workload": "multiturn,requests=60,turns=3,rate=30,max_tokens=200,output=5-40", "max_num_seqs": 4,
                        "device": "pocl-135m", "kv_blocks": 60, "overlap": "{}",
                        "schedule_conservativeness": 0}})",
        overlap));
    const Workload workload = load_workload(spec);
    RecordingWriter recording(folder.file("run.rec"), resolved_setup(spec.options, workload));
    const SimResult result =
        run_simulation(spec.options, workload, SteadyClock(), {.trace = &recording.trace(), .progress = {}});
    recording.close();
    EXPECT_GT(result.scheduler.preemptions, 0);
    const ReplayResult replay = replay_trace(read_recording(folder.file("run.rec")), {});
    EXPECT_FALSE(replay.difference);
    EXPECT_EQ(replay.requests, 60);

    const Workload again = read_trace_workload(folder.file("run.rec"), {});
    EXPECT_EQ(again.requests.size(), workload.requests.size());
    EXPECT_EQ(again.output_tokens(), workload.output_tokens());
    const auto prompt_tokens = [](const Workload& w) {
      int64_t sum = 0;
      for (const SimRequest& request : w.requests) sum += request.prompt_tokens;
      return sum;
    };
    EXPECT_EQ(prompt_tokens(again), prompt_tokens(workload));
  }
}

// The next prompt of a conversation begins with the answer before: what was stored of it is found again. Blocks of 24
// hold neither 16 tokens nor 32 whole.
TEST(TraceReader, ARecordingHitsThePrefixesThatItsRunHit) {
  for (const int block_size : {4, 16, 24, 32}) {
    const test::TempFolder folder;
    const std::string base = fmt::format(R"({{"block_size": {}, "kv_blocks": 4000, )", block_size);
    const SimSpec spec = parse_sim_spec(
        base + R"("workload": "multiturn,requests=20,turns=4,rate=0.05,prompt=20-90,output=5-70,max_tokens=100"})");
    const Workload workload = load_workload(spec);
    RecordingWriter recording(folder.file("run.rec"), resolved_setup(spec.options, workload));
    const SimResult result =
        run_simulation(spec.options, workload, SteadyClock(), {.trace = &recording.trace(), .progress = {}});
    recording.close();
    const SimSpec again = parse_sim_spec(base + fmt::format(R"("trace": "{}"}})", folder.file("run.rec")));
    // Of the recording's requests, which are in the order of their arrival.
    const SimResult traced = run_simulation(again.options, load_workload(again), SteadyClock(), {});
    const auto hits = [](std::vector<RequestRecord> requests) {
      std::ranges::sort(requests, {}, &RequestRecord::arrival);
      std::vector<int32_t> tokens;
      for (const RequestRecord& request : requests) tokens.push_back(request.cached_tokens);
      return tokens;
    };
    EXPECT_EQ(hits(traced.requests), hits(result.requests)) << "blocks of " << block_size;
    EXPECT_GT(result.prefix_hit_rate(), 0.5);
  }
}

// A run that fails leaves no half of a recording, and the one that was there.
TEST(TraceReader, ARecordingIsWholeOrNotThere) {
  const test::TempFolder folder;
  const SimSpec spec = parse_sim_spec(R"({"workload": "closed,requests=2"})");
  const SchedulerSetup setup = resolved_setup(spec.options, load_workload(spec));
  const std::string path = folder.write("run.rec", std::string("keep"));
  for (const std::string& name : {path, folder.file("new.rec")}) const RecordingWriter unclosed(name, setup);
  EXPECT_EQ(test::read_file(path), "keep");
  using Entries = std::filesystem::directory_iterator;
  EXPECT_EQ(std::distance(Entries(folder.path()), Entries()), 1);
  RecordingWriter closed(path, setup);
  EXPECT_EQ(test::read_file(path), "keep");
  closed.close();
  EXPECT_FALSE(read_recording(path).empty());
  EXPECT_EQ(std::distance(Entries(folder.path()), Entries()), 1);
}

TEST(TraceReader, PublishedTraces) {
  const std::string folder = test::shared_path("traces/");
  INFLIGHT_REQUIRE_FILE(folder);
  const Workload mooncake = read_trace_workload(folder + "mooncake_conversation.jsonl", {});
  EXPECT_EQ(mooncake.requests.size(), 12'031U);
  EXPECT_EQ(mooncake.output_tokens(), 4'122'048);
  EXPECT_EQ(mooncake.requests.back().arrival, 3'536'999 * kMs);
  EXPECT_EQ(read_trace_workload(folder + "azure_llm_2023_code.csv", {}).requests.size(), 8819U);
  EXPECT_EQ(read_trace_workload(folder + "azure_llm_2023_conv.csv", {.requests_max = 100}).requests.size(), 100U);
}

}  // namespace
}  // namespace inflight
