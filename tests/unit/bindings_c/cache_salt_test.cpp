// SPDX-License-Identifier: Apache-2.0
// Goal: who may choose cache_salt cannot choose where prefixes are stored. Method: texts made for a salt of XXH3, for
// which the prefixes of the first and the second adapter were stored where those without salt and adapter are.
// Covers: bindings_c/src/params.cpp
#include <gtest/gtest.h>

#include <string>

#include "inflight/inflight.h"
#include "model/model_loader.h"
#include "support/abi_engine.h"
#include "support/synthetic_adapter.h"
#include "support/temp_folder.h"

namespace inflight::test {
namespace {

class CacheSalt : public AbiEngine {};

TEST_F(CacheSalt, NoSaltBringsAnAdaptersPrefixesToOthers) {
  TempFolder folder;
  const ModelSpec spec = load_model(kDemoModel).spec;
  const std::string file =
      folder.write("adapter", build_adapter(SyntheticAdapter{.rank = 4, .strength = 0.3F, .seed = 1}, spec).bytes());
  const std::string module = "warm=" + file;
  const char* const modules[] = {module.c_str()};
  inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
  params.model = kDemoModel;
  params.lora_modules = modules;
  params.lora_module_count = 1;
  ASSERT_EQ(inflight_engine_create(&params, &engine_), INFLIGHT_OK) << inflight_last_error();
  const std::string prompt = "Once upon a time there was a little fox who lived in the wood and spoke to the birds.";
  const auto cached_tokens = [&](const char* adapter, const char* salt) {
    inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
    request.prompt = prompt.c_str();
    request.max_tokens = 4;
    request.lora_name = adapter;
    request.cache_salt = salt;
    inflight_stream_t* stream = nullptr;
    EXPECT_EQ(inflight_engine_submit(engine_, &request, &stream), INFLIGHT_OK) << inflight_last_error();
    inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
    int32_t cached = -1;
    while (inflight_stream_next(stream, -1, &event) == INFLIGHT_OK) cached = event.cached_token_count;
    inflight_stream_destroy(stream);
    return cached;
  };
  const char* const made[] = {"\x2c\x20\x25\x07\x9a\x87\xb1\xa3", "\x93\x4b\xa3\xd9\xce\x76\x26\x0d"};
  for (const char* const salt : made) EXPECT_EQ(cached_tokens("warm", salt), 0);
  EXPECT_EQ(cached_tokens(nullptr, nullptr), 0);
  EXPECT_EQ(cached_tokens("warm", nullptr), 0);
  EXPECT_GT(cached_tokens(nullptr, nullptr), 0);
  EXPECT_GT(cached_tokens("warm", made[0]), 0);
}

}  // namespace
}  // namespace inflight::test
