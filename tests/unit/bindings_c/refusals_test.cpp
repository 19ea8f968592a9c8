// SPDX-License-Identifier: Apache-2.0
// Goal: what a careless program hands over is refused before it is used, with one line that says what is allowed.
// Method: the demo model through the C functions; memory that nobody initialised, counts beyond the arrays, values
// beyond the machine.
// Covers: bindings_c/src/guard.cpp bindings_c/src/params.cpp bindings_c/src/inflight_engine_c.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/log.h"
#include "inflight/inflight.h"
#include "support/abi_engine.h"

namespace {

using inflight::test::kDemoModel;

class Refusals : public inflight::test::AbiEngine {
 protected:
  // The error of creating an engine with changed parameters; "" when there is none.
  template <typename Change>
  std::string create(Change&& change, inflight_status_t wanted = INFLIGHT_ERROR_INVALID_ARGUMENT) {
    inflight_engine_destroy(engine_);
    engine_ = nullptr;
    inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
    params.model = kDemoModel;
    change(params);
    EXPECT_EQ(inflight_engine_create(&params, &engine_), wanted) << inflight_last_error();
    return inflight_last_error();
  }
  template <typename Change>
  std::string submit(Change&& change) {
    inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
    request.prompt = "x";
    change(request);
    inflight_stream_t* stream = nullptr;
    EXPECT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_ERROR_INVALID_ARGUMENT);
    return inflight_last_error();
  }
};

// One line of valid UTF-8: what JSON can carry and has no need to escape.
void expect_one_line(const std::string& text) {
  EXPECT_EQ(std::count_if(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }), 0);
  EXPECT_NO_THROW(static_cast<void>(nlohmann::json(text).dump())) << text;
}

TEST_F(Refusals, MemoryThatNobodyInitialisedIsNoStruct) {
  open(1);
  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  request.prompt = "x";
  inflight_stream_t* stream = nullptr;
  ASSERT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_OK);
  while (inflight_engine_step(engine_) == INFLIGHT_OK) {
  }
  const auto garbage = [](auto* target) { std::memset(static_cast<void*>(target), 0xCC, sizeof *target); };
  const auto refused = [](inflight_status_t status, const std::string& name, size_t size) {
    EXPECT_EQ(status, INFLIGHT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(inflight_last_error())
                  .find(name + ".struct_size is 3435973836, allowed: " + std::to_string(size) + " to 4096"),
              0U)
        << inflight_last_error();
  };
  inflight_stream_event_t event;
  garbage(&event);
  refused(inflight_stream_next(stream, 0, &event), "event", sizeof event);
  EXPECT_EQ(event.index, static_cast<int32_t>(0xCCCCCCCC));
  event = INFLIGHT_STREAM_EVENT_INIT;
  EXPECT_EQ(inflight_stream_next(stream, 0, &event), INFLIGHT_OK);  // it is still there
  inflight_stream_destroy(stream);
  inflight_stats_t stats;
  garbage(&stats);
  refused(inflight_engine_stats(engine_, &stats), "stats", sizeof stats);
  garbage(&request);
  refused(inflight_engine_submit(engine_, &request, &stream), "params", sizeof request);
  inflight_engine_params_t params;
  garbage(&params);
  inflight_engine_t* other = nullptr;
  refused(inflight_engine_create(&params, &other), "params", sizeof params);
}

TEST_F(Refusals, StructsHaveUpTo4096Bytes) {
  std::array<unsigned char, 4097> bytes{};
  bytes.fill(0xCC);
  for (const size_t size : {SIZE_MAX, size_t{1} << 32U, size_t{4097}, sizeof(inflight_engine_params_t) - 1}) {
    EXPECT_EQ(inflight_params_init(INFLIGHT_PARAMS_ENGINE, bytes.data(), size), INFLIGHT_ERROR_INVALID_ARGUMENT);
  }
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), 0xCC), 4097);
  ASSERT_EQ(inflight_params_init(INFLIGHT_PARAMS_ENGINE, bytes.data(), 4096), INFLIGHT_OK);
  EXPECT_EQ(bytes[4095], 0);
  EXPECT_EQ(bytes[4096], 0xCC);
  open();
  bytes.fill(0xCC);
  inflight_stats_t stats = INFLIGHT_STATS_INIT;
  stats.struct_size = 4096;
  std::memcpy(bytes.data(), &stats, sizeof stats);
  ASSERT_EQ(inflight_engine_stats(engine_, reinterpret_cast<inflight_stats_t*>(bytes.data())), INFLIGHT_OK);
  EXPECT_EQ(std::count(bytes.begin() + sizeof stats, bytes.end(), 0), ptrdiff_t{4096 - sizeof stats});
  EXPECT_EQ(bytes[4096], 0xCC);
}

TEST_F(Refusals, CountsAreComparedBeforeAnythingIsRead) {
  open();
  const int32_t id = 5;
  const float bias = 1.0F;
  const char* const text = "x";
  for (const size_t count : {SIZE_MAX, size_t{1'000'000'000'000}, size_t{1} << 28U, size_t{512}}) {
    EXPECT_EQ(submit([&](auto& r) { r.prompt = nullptr, r.prompt_ids = &id, r.prompt_id_count = count; }),
              "the prompt is too long: " + std::to_string(count) +
                  " tokens; this model's maximum context length is 512 tokens (max_model_len), one left to answer");
    const std::string has = " has " + std::to_string(count) + " entries, allowed: 0 to ";
    if (count < 4097) continue;
    EXPECT_EQ(submit([&](auto& r) { r.stop_token_ids = &id, r.stop_token_id_count = count; }),
              "stop_token_ids" + has + "64");
    EXPECT_EQ(submit([&](auto& r) { r.stop = &text, r.stop_count = count; }), "stop" + has + "16");
    EXPECT_EQ(submit([&](auto& r) { r.bad_words = &text, r.bad_word_count = count; }), "bad_words" + has + "1024");
    EXPECT_EQ(submit([&](auto& r) { r.logit_bias_ids = &id, r.logit_biases = &bias, r.logit_bias_count = count; }),
              "logit_bias_ids" + has + "4096");
    EXPECT_EQ(submit([&](auto& r) { r.structured_choice = &text, r.structured_choice_count = count; }),
              "structured_choice" + has + "1024");
    EXPECT_EQ(create([&](auto& p) { p.lora_modules = &text, p.lora_module_count = count; }),
              "lora_modules" + has + "1024");
    open();
  }
  size_t length = 0;
  EXPECT_EQ(inflight_detokenize(engine_, &id, SIZE_MAX, nullptr, 0, &length), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(inflight_last_error(), "count is 18446744073709551615, allowed: 0 to 268435456");
}

TEST_F(Refusals, AnErrorIsOneLineOfUtf8) {
  for (const char* const path : {"/nowhere/a\nb", "/nowhere/\xFF\xFE", "/nowhere/\x1B[31m", "/nowhere/h\xC3\xA9"}) {
    const std::string text = create([&](auto& params) { params.model = path; }, INFLIGHT_ERROR_NOT_FOUND);
    expect_one_line(text);
    EXPECT_NE(text.find("/nowhere/"), std::string::npos) << text;
  }
  expect_one_line(create([](auto& params) { params.preempt_victim = "\xFF\n"; }));
  open();
  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  request.prompt = "x";
  request.structured_grammar = "root ::= \"a\" nosuch\xFF\n";
  inflight_stream_t* stream = nullptr;
  ASSERT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_OK);
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  ASSERT_EQ(inflight_stream_next(stream, -1, &event), INFLIGHT_OK);
  ASSERT_NE(event.error, nullptr);
  expect_one_line(event.error);
  inflight_stream_destroy(stream);
}

TEST_F(Refusals, FewRequestsMeanFewSequences) {
  ASSERT_EQ(create([](auto& params) { params.max_requests = 8; }, INFLIGHT_OK), "");
  std::array<char, 16384> info{};
  size_t length = 0;
  ASSERT_EQ(inflight_engine_info_json(engine_, info.data(), info.size(), &length), INFLIGHT_OK);
  const auto limits = nlohmann::json::parse(info.data()).at("limits");
  EXPECT_EQ(limits.at("max_requests"), 8);
  EXPECT_EQ(limits.at("max_num_seqs"), 8);
  EXPECT_EQ(create([](auto& params) { params.max_requests = 8, params.max_num_seqs = 9; }),
            "max_requests is 8, allowed: max_num_seqs (9) to 4194304");
}

TEST_F(Refusals, ASequenceIsAsLongAsTheModelAllows) {
  EXPECT_EQ(create([](auto& params) { params.max_model_len = 1; }), "max_model_len is 1, allowed: 2 to 512");
}

TEST_F(Refusals, TimesFitAClock) {
  EXPECT_EQ(create([](auto& params) { params.watchdog_timeout_s = 1e12; }),
            "watchdog_timeout_s is 1000000000000, allowed: 0 (none) to 1000000000");
  EXPECT_EQ(create([](auto& params) { params.request_timeout_ms = 1e13; }),
            "request_timeout_ms is 10000000000000, allowed: 0 (none) to 1000000000000");
  ASSERT_EQ(
      create([](auto& params) { params.watchdog_timeout_s = 1e9, params.request_timeout_ms = 1e12; }, INFLIGHT_OK), "");
  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  request.prompt = "Once upon a time";
  request.max_tokens = 4;
  inflight_stream_t* stream = nullptr;
  ASSERT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_OK);
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  while (event.finish_reason == INFLIGHT_FINISH_NONE) ASSERT_EQ(inflight_stream_next(stream, -1, &event), INFLIGHT_OK);
  EXPECT_EQ(event.finish_reason, INFLIGHT_FINISH_LENGTH);
  inflight_stream_destroy(stream);
}

// No machine has 256 M blocks of the demo model (12 TiB and more) or 64 TiB.
TEST_F(Refusals, HostMemoryIsComparedWithTheMachines) {
  std::string text =
      create([](auto& p) { p.preempt = "swap", p.host_kv_blocks = 1 << 28; }, INFLIGHT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(text.find("host_kv_blocks 268435456 and kv_offloading_size 0 take"), 0U) << text;
  EXPECT_NE(text.find("this process may use"), std::string::npos) << text;
  text = create([](auto& p) { p.kv_offloading_size = 65536; }, INFLIGHT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(text.find("host_kv_blocks 0 and kv_offloading_size 65536 take 65536.0 GiB"), 0U) << text;
}

TEST_F(Refusals, SwappingToNowhereIsToldInTheLog) {
  std::vector<std::string> lines;
  inflight_set_log(
      [](void* context, inflight_log_level_t, const char* message, size_t length) {
        static_cast<std::vector<std::string>*>(context)->emplace_back(message, length);
      },
      &lines, INFLIGHT_LOG_WARNING);
  for (const char* const mode : {"recompute", "swap", "auto"}) {
    for (const int32_t blocks : {0, 4}) {
      lines.clear();
      create([&](auto& params) { params.preempt = mode, params.host_kv_blocks = blocks; }, INFLIGHT_OK);
      const bool told = std::count(lines.begin(), lines.end(),
                                   "preempt is " + std::string(mode) +
                                       ", but host_kv_blocks is 0: preempted sequences are computed again") == 1;
      EXPECT_EQ(told, blocks == 0 && mode != std::string("recompute")) << mode << blocks;
    }
  }
  inflight_set_log(nullptr, nullptr, INFLIGHT_LOG_ERROR);
}

TEST_F(Refusals, ALineOfTheLogIsOneLineOfUtf8) {
  std::string line;
  inflight_set_log([](void* context, inflight_log_level_t, const char* message,
                      size_t length) { static_cast<std::string*>(context)->assign(message, length); },
                   &line, INFLIGHT_LOG_WARNING);
  inflight::log(inflight::LogLevel::Warning, "a\nb\xFF\x1B");
  inflight_set_log(nullptr, nullptr, INFLIGHT_LOG_ERROR);
  EXPECT_EQ(line.front(), 'a');
  expect_one_line(line);
}

TEST_F(Refusals, APausedEngineIsIdleThoughRequestsWait) {
  open(1);
  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  request.prompt = "x";
  inflight_stream_t* stream = nullptr;
  ASSERT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_OK);
  for (const inflight_pause_mode_t mode : {INFLIGHT_PAUSE_NEW, INFLIGHT_PAUSE_ALL}) {
    EXPECT_EQ(inflight_engine_pause(engine_, mode), INFLIGHT_OK);
    EXPECT_EQ(inflight_engine_step(engine_), INFLIGHT_IDLE);
    EXPECT_EQ(stats().requests_waiting, 1);
  }
  EXPECT_EQ(inflight_engine_resume(engine_), INFLIGHT_OK);
  EXPECT_EQ(inflight_engine_step(engine_), INFLIGHT_OK);
  inflight_stream_destroy(stream);
}

}  // namespace
