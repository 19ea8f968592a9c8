// SPDX-License-Identifier: Apache-2.0
// Goal: what takes long to tell holds nobody else up.
// Method: the demo model's engine behind a library whose inflight_engine_steps_json() comes back when the test says so
// (the linker's --wrap).
// Covers: server/api_server.cpp
#include "server/api_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

#include "echo_server.h"

namespace {
std::atomic<int> asked = 0;
std::atomic<bool> may_answer = false;
}  // namespace

extern "C" {
inflight_status_t __real_inflight_engine_steps_json(inflight_engine_t* engine, uint64_t since, char* text,
                                                    size_t capacity, size_t* length);
inflight_status_t __wrap_inflight_engine_steps_json(inflight_engine_t* engine, uint64_t since, char* text,
                                                    size_t capacity, size_t* length);
inflight_status_t __wrap_inflight_engine_steps_json(inflight_engine_t* engine, uint64_t since, char* text,
                                                    size_t capacity, size_t* length) {
  ++asked;
  asked.notify_all();
  may_answer.wait(false);
  return __real_inflight_engine_steps_json(engine, since, text, capacity, length);
}
}

namespace inflight::server::test {
namespace {

TEST(ApiServer, AnswersWhileTheStepsAreBeingTold) {
  Engine engine({.model = INFLIGHT_SOURCE_DIR "/models/tinyworld/tinyworld-q8_0.gguf"});
  ApiServer server(engine, {.port = 0}, {});
  std::jthread network([&] { server.run(); });
  const std::string address = server.address();
  const auto port = static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  RawClient steps(port);
  steps.send(get("/inflight/stats"));
  asked.wait(0);
  std::string health;
  try {
    RawClient client(port);
    client.send(get("/health"));
    health = client.read_all();
  } catch (const std::exception& error) {
    health = error.what();
  }
  may_answer = true;
  may_answer.notify_all();
  EXPECT_EQ(health.substr(0, 15), "HTTP/1.1 200 OK");
  const std::string told = steps.read_all();
  EXPECT_EQ(told.substr(0, 15), "HTTP/1.1 200 OK");
  EXPECT_NE(told.find("Cache-Control: no-store\r\n"), std::string::npos) << told;
  EXPECT_NE(told.find("\"steps\":["), std::string::npos) << told;
  server.stop();
}

}  // namespace
}  // namespace inflight::server::test
