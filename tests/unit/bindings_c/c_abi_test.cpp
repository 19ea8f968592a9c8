// SPDX-License-Identifier: Apache-2.0
// Goal: the C interface keeps its contract: statuses, outputs written on success only, struct sizes, texts, lifetimes.
// Method: the demo model through the C functions; expected texts from models/tinyworld/samples.md.
// Covers: bindings_c/src/guard.cpp bindings_c/src/params.cpp bindings_c/src/inflight_engine_c.cpp
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "inflight/inflight.h"
#include "sim/recording.h"
#include "support/abi_engine.h"
#include "support/temp_folder.h"

namespace {

using inflight::test::kDemoModel;

class CAbi : public inflight::test::AbiEngine {
 protected:
  inflight_stream_t* submit(const char* prompt, int32_t max_tokens) {
    inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
    request.prompt = prompt;
    request.max_tokens = max_tokens;
    inflight_stream_t* stream = nullptr;
    EXPECT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_OK) << inflight_last_error();
    return stream;
  }
  static std::string read_all(inflight_stream_t* stream, inflight_finish_reason_t* reason = nullptr) {
    std::string text;
    inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
    while (inflight_stream_next(stream, -1, &event) == INFLIGHT_OK) {
      text.append(event.text, event.text_length);
      if (reason != nullptr) *reason = event.finish_reason;
    }
    return text;
  }
};

TEST_F(CAbi, AnswersThroughAStream) {
  open();
  inflight_stream_t* const stream = submit("Once upon a time", 12);
  inflight_finish_reason_t reason = INFLIGHT_FINISH_NONE;
  EXPECT_EQ(read_all(stream, &reason), ", there was a clever girl named Emma. She");
  EXPECT_EQ(reason, INFLIGHT_FINISH_LENGTH);
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  EXPECT_EQ(inflight_stream_next(stream, 0, &event), INFLIGHT_END_OF_STREAM);
  inflight_stream_destroy(stream);
  while (stats().requests_finished == 0) std::this_thread::yield();  // they are as of the last step
  EXPECT_EQ(stats().output_tokens, 12U);
}

TEST_F(CAbi, ManyThreadsShareAnEngine) {
  open();
  std::vector<std::string> texts(8);
  {
    std::vector<std::jthread> threads;
    for (std::string& text : texts) {
      threads.emplace_back([this, &text] {
        inflight_stream_t* const stream = submit("Once upon a time", 30);
        text = read_all(stream);
        inflight_stream_destroy(stream);
      });
    }
  }
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
}

TEST_F(CAbi, ACancelledRequestEndsAndFreesItsBlocks) {
  open(1);
  inflight_stream_t* const stream = submit("Once upon a time", 400);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(inflight_engine_step(engine_), INFLIGHT_OK);
  inflight_stream_cancel(stream);
  for (int i = 0; i < 3; ++i) static_cast<void>(inflight_engine_step(engine_));
  EXPECT_EQ(inflight_engine_step(engine_), INFLIGHT_IDLE);
  inflight_finish_reason_t reason = INFLIGHT_FINISH_NONE;
  EXPECT_NE(read_all(stream, &reason), "");
  EXPECT_EQ(reason, INFLIGHT_FINISH_ABORT);
  EXPECT_EQ(stats().kv_blocks_used, 0);
  EXPECT_EQ(stats().requests_aborted, 1U);
  inflight_stream_destroy(stream);
}

TEST_F(CAbi, DestroyingAStreamEarlyCancelsItsRequest) {
  open(1);
  inflight_stream_t* const stream = submit("Once upon a time", 400);
  EXPECT_EQ(inflight_engine_step(engine_), INFLIGHT_OK);
  inflight_stream_destroy(stream);
  for (int i = 0; i < 4; ++i) static_cast<void>(inflight_engine_step(engine_));
  EXPECT_EQ(stats().requests_running, 0);
  EXPECT_EQ(stats().kv_blocks_used, 0);
  inflight_stream_destroy(nullptr);
  inflight_stream_cancel(nullptr);
  inflight_engine_destroy(nullptr);
}

TEST_F(CAbi, TextGoesBothWays) {
  open();
  const std::string text = "Once upon a time<|im_end|> \xC3\xA9";
  size_t count = 0;
  ASSERT_EQ(inflight_tokenize(engine_, text.data(), text.size(), 0, 1, nullptr, 0, &count), INFLIGHT_WOULD_BLOCK);
  std::vector<int32_t> ids(count);
  ASSERT_EQ(inflight_tokenize(engine_, text.data(), text.size(), 0, 1, ids.data(), count, &count), INFLIGHT_OK);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 2), 1);
  size_t length = 0;
  std::array<char, 256> buffer{};
  ASSERT_EQ(inflight_detokenize(engine_, ids.data(), ids.size(), buffer.data(), buffer.size(), &length), INFLIGHT_OK);
  EXPECT_EQ(std::string(buffer.data(), length), "Once upon a time \xC3\xA9");
  ids.push_back(99999);
  EXPECT_EQ(inflight_detokenize(engine_, ids.data(), ids.size(), buffer.data(), buffer.size(), &length),
            INFLIGHT_ERROR_INVALID_ARGUMENT);
}

TEST_F(CAbi, ReportsAreJsonAndPrometheusText) {
  open();
  const auto text_of = [this](auto&& function) {
    size_t length = 0;
    EXPECT_EQ(function(engine_, nullptr, 0, &length), INFLIGHT_WOULD_BLOCK);
    std::string text;
    inflight_status_t status = INFLIGHT_WOULD_BLOCK;
    for (int attempt = 0; attempt < 10 && status == INFLIGHT_WOULD_BLOCK;
         ++attempt) {  // figures grow between two calls
      text.resize(length + 1);
      status = function(engine_, text.data(), text.size(), &length);
    }
    EXPECT_EQ(status, INFLIGHT_OK);
    text.resize(length);
    return text;
  };
  EXPECT_EQ(nlohmann::json::parse(text_of(inflight_engine_info_json)).at("model").at("name"), "tinyworld");
  EXPECT_TRUE(nlohmann::json::parse(text_of(inflight_engine_trace_json)).at("traceEvents").empty());
  EXPECT_NE(text_of(inflight_engine_metrics_text).find("inflight_num_requests_running"), std::string::npos);
  std::vector<char> steps(1 << 16);  // with room: the text may grow between two calls
  size_t length = 0;
  EXPECT_EQ(inflight_engine_steps_json(engine_, 0, nullptr, 0, &length), INFLIGHT_WOULD_BLOCK);
  EXPECT_EQ(inflight_engine_steps_json(engine_, 0, steps.data(), steps.size(), &length), INFLIGHT_OK);
  EXPECT_GT(nlohmann::json::parse(steps.data()).at("kv").at("blocks"), 0);
}

TEST_F(CAbi, SaysWhatEndedAnAnswer) {
  open();
  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  request.prompt = "Once upon a time";
  const char* const stops[] = {"never", "clever girl"};
  request.stop = stops;
  request.stop_count = 2;
  for (const uint8_t include : {uint8_t{0}, uint8_t{1}}) {
    request.include_stop_str_in_output = include;
    inflight_stream_t* stream = nullptr;
    ASSERT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_OK);
    std::string text;
    inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
    do {
      ASSERT_EQ(inflight_stream_next(stream, -1, &event), INFLIGHT_OK);
      text.append(event.text, event.text_length);
    } while (event.finish_reason == INFLIGHT_FINISH_NONE);
    EXPECT_EQ(text, include != 0 ? ", there was a clever girl" : ", there was a ");
    EXPECT_EQ(event.finish_reason, INFLIGHT_FINISH_STOP);
    EXPECT_STREQ(event.stop_text, "clever girl");
    EXPECT_EQ(event.stop_token_id, -1);
    inflight_stream_destroy(stream);
  }
}

// The header's third convention.
TEST_F(CAbi, AnEventIsWrittenWhenThereIsOne) {
  open(1);
  inflight_stream_t* const stream = submit("Once upon a time", 1);
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  event.index = 77;
  EXPECT_EQ(inflight_stream_next(stream, 0, &event), INFLIGHT_WOULD_BLOCK);
  EXPECT_EQ(event.index, 77);
  EXPECT_EQ(event.stop_token_id, -1);
  while (inflight_engine_step(engine_) == INFLIGHT_OK) {
  }
  EXPECT_EQ(inflight_stream_next(stream, 0, &event), INFLIGHT_OK);
  EXPECT_EQ(event.index, 0);
  event.index = 77;
  EXPECT_EQ(inflight_stream_next(stream, 0, &event), INFLIGHT_END_OF_STREAM);
  EXPECT_EQ(event.index, 77);
  event.struct_size = 8;
  EXPECT_EQ(inflight_stream_next(stream, 0, &event), INFLIGHT_ERROR_INVALID_ARGUMENT);
  inflight_stream_destroy(stream);
}

TEST_F(CAbi, LogLinesGoWhereTheProgramSays) {
  struct Log {
    std::vector<std::pair<inflight_log_level_t, std::string>> lines;
    bool has(inflight_log_level_t level, const char* text) const {
      return std::any_of(lines.begin(), lines.end(), [&](const auto& line) {
        return line.first == level && line.second.find(text) != std::string::npos;
      });
    }
  };
  inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
  params.model = kDemoModel;
  params.host_driven = 1;  // everything is told in this thread
  params.log_interval_steps = 1;
  ASSERT_EQ(inflight_engine_create(&params, &engine_), INFLIGHT_OK) << inflight_last_error();
  // A step tells its figures (info), and that it refuses the limit asked for before (warning).
  const auto told_at = [this](inflight_log_level_t level, bool silenced = false) {
    Log log;
    inflight_set_log(
        [](void* context, inflight_log_level_t line_level, const char* message, size_t length) {
          static_cast<Log*>(context)->lines.emplace_back(line_level, std::string(message, length));
        },
        &log, level);
    if (silenced) inflight_set_log(nullptr, nullptr, level);
    EXPECT_EQ(inflight_engine_configure(engine_, "{\"max_num_seqs\": 65}", INFLIGHT_NUL_TERMINATED), INFLIGHT_OK);
    inflight_stream_t* const stream = submit("Once", 1);
    while (inflight_engine_step(engine_) == INFLIGHT_OK) {
    }
    inflight_stream_destroy(stream);
    inflight_set_log(nullptr, nullptr, level);
    return log;
  };
  Log log = told_at(INFLIGHT_LOG_INFO);
  EXPECT_TRUE(log.has(INFLIGHT_LOG_INFO, "step="));
  EXPECT_TRUE(log.has(INFLIGHT_LOG_WARNING, "max_num_seqs is 65"));
  for (const auto& [level, line] : log.lines) EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  log = told_at(INFLIGHT_LOG_WARNING);
  EXPECT_FALSE(log.has(INFLIGHT_LOG_INFO, ""));
  EXPECT_TRUE(log.has(INFLIGHT_LOG_WARNING, "max_num_seqs is 65"));
  EXPECT_TRUE(told_at(INFLIGHT_LOG_ERROR).lines.empty());
  EXPECT_TRUE(told_at(INFLIGHT_LOG_DEBUG, true).lines.empty());
}

TEST_F(CAbi, TokensHaveTheirText) {
  open();
  std::array<int32_t, 16> ids{};
  size_t count = 0;
  ASSERT_EQ(inflight_tokenize(engine_, " dog é", INFLIGHT_NUL_TERMINATED, 0, 0, ids.data(), ids.size(), &count),
            INFLIGHT_OK);
  std::string bytes;
  for (size_t i = 0; i < count; ++i) {
    std::array<char, 32> text{};
    size_t length = 0;
    ASSERT_EQ(inflight_token_text(engine_, ids[i], text.data(), text.size(), &length), INFLIGHT_OK);
    bytes.append(text.data(), length);
  }
  EXPECT_EQ(bytes, " dog é");
  size_t length = 0;
  EXPECT_EQ(inflight_token_text(engine_, 1 << 30, nullptr, 0, &length), INFLIGHT_ERROR_INVALID_ARGUMENT);
}

TEST_F(CAbi, AnswersFollowAStructure) {
  open();
  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  request.prompt = "Once upon a time";
  const auto answer = [&](inflight_stream_event_t& event) {
    inflight_stream_t* stream = nullptr;
    EXPECT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_OK) << inflight_last_error();
    std::string text;
    inflight_stream_event_t last = INFLIGHT_STREAM_EVENT_INIT;
    while (inflight_stream_next(stream, -1, &last) == INFLIGHT_OK) {
      text.append(last.text, last.text_length);
      event = last;
    }
    if (event.finish_reason == INFLIGHT_FINISH_ERROR) text = event.error;
    inflight_stream_destroy(stream);
    return text;
  };
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  request.structured_json = R"({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 2})";
  EXPECT_EQ(nlohmann::json::parse(answer(event)).size(), 2U);
  EXPECT_GE(event.stop_token_id, 0);
  EXPECT_EQ(event.error_status, INFLIGHT_OK);
  request.structured_json = R"({"not": {}})";
  EXPECT_NE(answer(event).find("'not'"), std::string::npos);
  EXPECT_EQ(event.error_status, INFLIGHT_ERROR_UNSUPPORTED);
  request.structured_regex = "a";
  inflight_stream_t* stream = nullptr;
  EXPECT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(inflight_last_error(), "at most one"), nullptr);
}

TEST_F(CAbi, GivesEmbeddings) {
  open();
  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  request.prompt = "Once upon a time";
  request.pooling = INFLIGHT_POOLING_MEAN;
  inflight_stream_t* stream = nullptr;
  ASSERT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_OK) << inflight_last_error();
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  ASSERT_EQ(inflight_stream_next(stream, -1, &event), INFLIGHT_OK);
  EXPECT_EQ(event.finish_reason, INFLIGHT_FINISH_STOP);
  EXPECT_EQ(event.token_count, 0U);
  ASSERT_NE(event.embedding, nullptr);
  EXPECT_EQ(event.embedding_size, 256U);
  EXPECT_NE(event.embedding[0], event.embedding[1]);
  const std::vector<float> mean(event.embedding, event.embedding + event.embedding_size);
  EXPECT_EQ(inflight_stream_next(stream, -1, &event), INFLIGHT_END_OF_STREAM);
  inflight_stream_destroy(stream);
  request.pooling = INFLIGHT_POOLING_MODEL;  // the demo model's file states nothing: the mean
  request.temperature = -1.0F;               // nothing is drawn
  request.n = 0;
  request.stop_token_id_count = 3;
  ASSERT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_OK) << inflight_last_error();
  ASSERT_EQ(inflight_stream_next(stream, -1, &event), INFLIGHT_OK);
  EXPECT_EQ(std::vector<float>(event.embedding, event.embedding + event.embedding_size), mean);
  inflight_stream_destroy(stream);
  request.pooling = 5;
  EXPECT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_ERROR_INVALID_ARGUMENT);
  request.pooling = INFLIGHT_POOLING_CLASSIFY;
  EXPECT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_ERROR_UNSUPPORTED);
  EXPECT_NE(std::strstr(inflight_last_error(), "has no classifier"), nullptr);
  size_t count = 0;
  EXPECT_EQ(inflight_rerank_tokenize(engine_, "a", 1, "b", 1, nullptr, 0, &count), INFLIGHT_ERROR_UNSUPPORTED);
}

TEST_F(CAbi, PoliciesChangeBetweenSteps) {
  open();
  EXPECT_EQ(inflight_engine_set_policy(engine_, "sjf"), INFLIGHT_OK);
  EXPECT_EQ(inflight_engine_set_policy(engine_, "sieve"), INFLIGHT_OK);
  EXPECT_EQ(inflight_engine_set_policy(engine_, "nosuchpolicy"), INFLIGHT_ERROR_NOT_FOUND);
  EXPECT_NE(std::string(inflight_last_error()).find("nosuchpolicy"), std::string::npos);
  EXPECT_EQ(inflight_plugin_load("/nowhere/x.ifp.so"), INFLIGHT_ERROR_NOT_FOUND);
}

TEST_F(CAbi, RejectionsSayWhyAndWhenToComeBack) {
  inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
  params.model = kDemoModel;
  params.host_driven = 1;
  params.max_num_seqs = 1;
  params.max_num_queued_reqs = 1;
  params.max_num_queued_tokens = 100;
  ASSERT_EQ(inflight_engine_create(&params, &engine_), INFLIGHT_OK) << inflight_last_error();
  const auto status_of = [this](const char* prompt) {
    inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
    request.prompt = prompt;
    inflight_stream_t* stream = nullptr;
    const inflight_status_t status = inflight_engine_submit(engine_, &request, &stream);
    const std::string error = inflight_last_error();
    int32_t retry = -1;
    const inflight_reject_reason_t reason = inflight_last_rejection(&retry);
    inflight_stream_destroy(stream);  // only after asking: it is a call too
    return std::tuple(status, reason, retry, error);
  };
  std::vector<inflight_stream_t*> streams = {submit("one", 4), submit("two", 4)};
  auto [status, reason, retry, error] = status_of("three");
  EXPECT_EQ(status, INFLIGHT_ERROR_REJECTED);
  EXPECT_EQ(reason, INFLIGHT_REJECT_QUEUED_REQUESTS);
  EXPECT_GE(retry, 1);
  EXPECT_NE(error.find("max_num_queued_reqs"), std::string::npos) << error;
  EXPECT_NE(error.find("retry after " + std::to_string(retry) + " s"), std::string::npos) << error;
  EXPECT_EQ(inflight_engine_stats(engine_, nullptr), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_last_rejection(nullptr), INFLIGHT_REJECT_NONE);  // another error is no rejection
  while (inflight_engine_step(engine_) == INFLIGHT_OK) {
  }
  EXPECT_EQ(inflight_engine_drain(engine_, 0), INFLIGHT_OK);
  std::tie(status, reason, retry, error) = status_of("three");
  EXPECT_EQ(reason, INFLIGHT_REJECT_DRAINING);
  EXPECT_EQ(retry, 0);
  EXPECT_EQ(stats().draining, 1);
  EXPECT_EQ(inflight_engine_resume(engine_), INFLIGHT_OK);
  EXPECT_EQ(std::get<0>(status_of("three")), INFLIGHT_OK);
  EXPECT_EQ(stats().requests_rejected, 2U);
  for (inflight_stream_t* stream : streams) inflight_stream_destroy(stream);
}

TEST_F(CAbi, PausesDrainsAndTimesOut) {
  open();
  EXPECT_EQ(inflight_engine_pause(engine_, 3), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_engine_pause(engine_, INFLIGHT_PAUSE_ALL), INFLIGHT_OK);
  EXPECT_EQ(stats().paused, 1);
  inflight_stream_t* const stream = submit("Once upon a time", 12);
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  EXPECT_EQ(inflight_stream_next(stream, 20, &event), INFLIGHT_WOULD_BLOCK);
  EXPECT_EQ(inflight_engine_drain(engine_, 0), INFLIGHT_WOULD_BLOCK);
  EXPECT_EQ(inflight_engine_resume(engine_), INFLIGHT_OK);
  EXPECT_EQ(read_all(stream), ", there was a clever girl named Emma. She");
  EXPECT_EQ(inflight_engine_drain(engine_, -1), INFLIGHT_OK);
  EXPECT_EQ(inflight_engine_resume(engine_), INFLIGHT_OK);
  inflight_stream_destroy(stream);

  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  request.prompt = "Once upon a time";
  request.max_tokens = 400;
  request.ignore_eos = 1;
  request.timeout_ms = 1e-3;
  inflight_stream_t* late = nullptr;
  ASSERT_EQ(inflight_engine_submit(engine_, &request, &late), INFLIGHT_OK);
  do {
    ASSERT_EQ(inflight_stream_next(late, -1, &event), INFLIGHT_OK);
  } while (event.finish_reason == INFLIGHT_FINISH_NONE);
  EXPECT_EQ(event.finish_reason, INFLIGHT_FINISH_ABORT);
  EXPECT_STREQ(event.error, "the request's time has run out");
  EXPECT_EQ(event.error_status, INFLIGHT_OK);
  inflight_stream_destroy(late);
  while (stats().requests_expired == 0) std::this_thread::yield();
}

TEST_F(CAbi, LimitsAndParametersChangeWhileItRuns) {
  open();
  const auto refused = [this](const char* json, const char* text) {
    EXPECT_EQ(inflight_engine_configure(engine_, json, INFLIGHT_NUL_TERMINATED), INFLIGHT_ERROR_INVALID_ARGUMENT);
    EXPECT_NE(std::string(inflight_last_error()).find(text), std::string::npos) << inflight_last_error();
  };
  EXPECT_EQ(inflight_engine_configure(engine_, "{\"max_num_seqs\": 1}", INFLIGHT_NUL_TERMINATED), INFLIGHT_OK);
  refused("{\"max_num_seqs\": 65}", "max_num_seqs is 65, allowed: at most 64");
  refused("{\"model\": 1}", "'model' cannot change");
  EXPECT_EQ(inflight_engine_set_policy(engine_, "lpm"), INFLIGHT_OK);
  inflight_stream_t* const stream = submit("Once upon a time", 12);  // lpm takes over within these steps
  EXPECT_EQ(read_all(stream), ", there was a clever girl named Emma. She");
  inflight_stream_destroy(stream);
  EXPECT_EQ(inflight_engine_set_policy_params(engine_, "lpm:max_waiting=128"), INFLIGHT_OK) << inflight_last_error();
  EXPECT_EQ(inflight_engine_set_policy_params(engine_, "lpm:max_waiting=-1"), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_engine_set_policy_params(engine_, "itl-target:target_ms=9"), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(inflight_last_error()).find("itl-target is not in force"), std::string::npos);
}

// A scheduling policy and an eviction strategy are called "priority".
TEST_F(CAbi, ANameOfBothKindsOfPoliciesIsNotGuessed) {
  inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
  params.model = kDemoModel;
  params.schedule_policy = "priority:aging_s=10";
  ASSERT_EQ(inflight_engine_create(&params, &engine_), INFLIGHT_OK) << inflight_last_error();
  EXPECT_EQ(inflight_engine_set_policy(engine_, "priority"), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(inflight_last_error(),
               "'priority' names the eviction strategy org.inflight.evict.priority and the scheduling policy "
               "org.inflight.priority: give the id of one");
  // Parameters are of what is in force: here one of the two (which knows this one, though it is fixed), then both.
  const auto refused = [this](const char* parameters) {
    EXPECT_EQ(inflight_engine_set_policy_params(engine_, parameters), INFLIGHT_ERROR_INVALID_ARGUMENT);
    return std::string(inflight_last_error());
  };
  EXPECT_TRUE(refused("priority:aging_s=20").starts_with("policy org.inflight.priority: aging_s cannot change"));
  EXPECT_EQ(inflight_engine_set_policy(engine_, "org.inflight.evict.priority"), INFLIGHT_OK) << inflight_last_error();
  inflight_stream_t* const stream = submit("Once upon a time", 12);  // it takes over within these steps
  EXPECT_EQ(read_all(stream), ", there was a clever girl named Emma. She");
  inflight_stream_destroy(stream);
  EXPECT_TRUE(refused("priority:aging_s=20").starts_with("'priority' names"));
  EXPECT_TRUE(refused("org.inflight.priority:aging_s=20").starts_with("policy org.inflight.priority: aging_s cannot"));
}

// checklist 40: a profile sets policies and knobs; what the program sets itself goes before.
TEST_F(CAbi, ProfilesGiveWayToTheProgramsOwnValues) {
  const auto recorded = [this](auto&& change) {
    const inflight::test::TempFolder folder;
    const std::string path = folder.file("run.trace");
    inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
    params.model = kDemoModel;
    params.record_path = path.c_str();
    change(params);
    EXPECT_EQ(inflight_engine_create(&params, &engine_), INFLIGHT_OK) << inflight_last_error();
    inflight_engine_destroy(engine_);
    engine_ = nullptr;
    const auto records = inflight::read_recording(path);
    return nlohmann::json::parse(std::get<inflight::TraceBegin>(records.at(0).content).configuration_json);
  };
  const auto sla = recorded([](auto& p) { p.scheduling_profile = "sla"; });
  EXPECT_EQ(sla.at("schedule_policy"), "slack");
  EXPECT_EQ(sla.at("radix_eviction_policy"), "tlru");
  EXPECT_EQ(sla.at("kv_headroom"), 0.05);
  EXPECT_EQ(sla.at("schedule_conservativeness"), 1.3);
  const auto own = recorded([](auto& p) {
    p.scheduling_profile = "sla";
    p.schedule_policy = "edf";
    p.schedule_conservativeness = 0.5;
    p.max_num_seqs = 600;
  });
  EXPECT_EQ(own.at("schedule_policy"), "edf");
  EXPECT_EQ(own.at("radix_eviction_policy"), "tlru");
  EXPECT_EQ(own.at("schedule_conservativeness"), 0.5);
  EXPECT_EQ(own.at("max_num_batched_tokens"), 600);  // never less than the sequences
  inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
  params.model = kDemoModel;
  params.scheduling_profile = "none";
  EXPECT_EQ(inflight_engine_create(&params, &engine_), INFLIGHT_ERROR_NOT_FOUND);
  EXPECT_NE(std::string(inflight_last_error()).find("rag, batch, tenant, sla"), std::string::npos);
}

TEST_F(CAbi, RefusesBadRequestsByName) {
  open();
  const auto refused = [this](auto&& change, const char* text) {
    inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
    request.prompt = "x";
    change(request);
    inflight_stream_t* stream = nullptr;
    EXPECT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_ERROR_INVALID_ARGUMENT) << text;
    EXPECT_EQ(stream, nullptr);
    EXPECT_NE(std::string(inflight_last_error()).find(text), std::string::npos) << inflight_last_error();
  };
  const int32_t id = 5;
  refused([](auto& r) { r.prompt = nullptr; }, "either prompt or prompt_ids");
  refused([&](auto& r) { r.prompt_ids = &id; }, "both");
  refused([](auto& r) { r.prompt = ""; }, "empty");
  refused([](auto& r) { r.max_tokens = -1; }, "max_tokens");
  refused([](auto& r) { r.temperature = -1.0F; }, "temperature");
  refused([](auto& r) { r.top_p = 0.0F; }, "top_p");
  refused([](auto& r) { r.tenant = 100000; }, "tenant");
  refused([](auto& r) { r.ttft_deadline_ms = -1.0; }, "ttft_deadline_ms");
  refused([](auto& r) { r.timeout_ms = -1.0; }, "timeout_ms");
  refused([](auto& r) { r.stop_token_id_count = 1; }, "stop_token_ids is NULL");
  refused([](auto& r) { r.struct_size = 8; }, "struct_size");
  EXPECT_EQ(std::string(inflight_last_error_field()), "");
}

TEST_F(CAbi, NamesTheFieldOfARequestAtFault) {
  open();
  const auto field_of = [this](auto&& change) {
    inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
    request.prompt = "x";
    change(request);
    inflight_stream_t* stream = nullptr;
    EXPECT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_ERROR_INVALID_ARGUMENT);
    return std::string(inflight_last_error_field());
  };
  const std::vector<int32_t> many(512, 5);
  const int32_t none = 1 << 20;
  const float bias = 1.0F;
  EXPECT_EQ(field_of([](auto& r) { r.prompt = ""; }), "prompt");
  EXPECT_EQ(field_of([&](auto& r) {
              r.prompt = nullptr;
              r.prompt_ids = many.data();
              r.prompt_id_count = many.size();
            }),
            "prompt_length");
  EXPECT_EQ(field_of([&](auto& r) {
              r.stop_token_ids = &none;
              r.stop_token_id_count = 1;
            }),
            "stop_token_ids");
  EXPECT_EQ(field_of([&](auto& r) {
              r.logit_bias_ids = &none;
              r.logit_biases = &bias;
              r.logit_bias_count = 1;
            }),
            "logit_bias");
  EXPECT_EQ(field_of([](auto& r) { r.temperature = -1.0F; }), "");  // the message tells
  EXPECT_EQ(inflight_engine_stats(engine_, nullptr), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(inflight_last_error_field()), "");
}

TEST_F(CAbi, StructsMayGrow) {
  struct Larger {
    inflight_engine_params_t known;
    uint64_t later;
  };
  Larger params{};
  ASSERT_EQ(inflight_params_init(INFLIGHT_PARAMS_ENGINE, &params, sizeof params), INFLIGHT_OK);
  EXPECT_EQ(params.known.struct_size, sizeof params);
  EXPECT_EQ(params.known.overlap, 1);
  params.known.model = kDemoModel;
  params.later = 1;  // a field that this library does not know
  EXPECT_EQ(inflight_engine_create(&params.known, &engine_), INFLIGHT_ERROR_UNSUPPORTED);
  params.later = 0;
  params.known.reserved2[1] = 1;
  EXPECT_EQ(inflight_engine_create(&params.known, &engine_), INFLIGHT_ERROR_UNSUPPORTED);
  params.known.reserved2[1] = 0;
  EXPECT_EQ(inflight_engine_create(&params.known, &engine_), INFLIGHT_OK) << inflight_last_error();
  EXPECT_EQ(inflight_params_init(7, &params, sizeof params), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_params_init(INFLIGHT_PARAMS_ENGINE, &params, 4), INFLIGHT_ERROR_INVALID_ARGUMENT);
}

TEST_F(CAbi, NullArgumentsAreErrorsNotCrashes) {
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  EXPECT_EQ(inflight_engine_create(nullptr, &engine_), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_engine_submit(nullptr, nullptr, nullptr), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_engine_step(nullptr), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_stream_next(nullptr, 0, &event), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_plugin_load(nullptr), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_engine_stats(nullptr, nullptr), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_STRNE(inflight_last_error(), "");
  EXPECT_EQ(inflight_engine_pause(nullptr, INFLIGHT_PAUSE_ALL), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_engine_resume(nullptr), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_engine_drain(nullptr, 0), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_engine_configure(nullptr, "{}", 2), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_engine_reset_prefix_cache(nullptr), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(inflight_engine_set_policy_params(nullptr, "lpm:a=1"), INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ(inflight_status_name(INFLIGHT_ERROR_IO), "INFLIGHT_ERROR_IO");
  EXPECT_STREQ(inflight_status_name(999), "unknown status");
}

TEST(CAbiSim, RunsASimulation) {
  std::string result(1 << 16, '\0');
  size_t length = 0;
  const char* const spec = R"({"workload": "lengths=50,60,400,80", "batching": "static", "max_num_seqs": 4})";
  ASSERT_EQ(inflight_sim_run(spec, INFLIGHT_NUL_TERMINATED, result.data(), result.size(), &length), INFLIGHT_OK)
      << inflight_last_error();
  EXPECT_DOUBLE_EQ(nlohmann::json::parse(result.substr(0, length)).at("static_efficiency"), 0.36875);
  EXPECT_EQ(inflight_sim_run("{\"nosuchkey\": 1}", INFLIGHT_NUL_TERMINATED, result.data(), result.size(), &length),
            INFLIGHT_ERROR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(inflight_last_error()).find("nosuchkey"), std::string::npos);
}

}  // namespace
