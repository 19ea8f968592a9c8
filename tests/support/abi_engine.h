// SPDX-License-Identifier: Apache-2.0
// An engine of the demo model behind the C functions.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "inflight/inflight.h"
#include "support/test_data.h"

namespace inflight::test {

class AbiEngine : public testing::Test {
 protected:
  void open(uint8_t host_driven = 0) {
    inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
    params.model = kDemoModel;
    params.host_driven = host_driven;
    ASSERT_EQ(inflight_engine_create(&params, &engine_), INFLIGHT_OK) << inflight_last_error();
  }
  ~AbiEngine() override { inflight_engine_destroy(engine_); }

  inflight_stats_t stats() {
    inflight_stats_t result = INFLIGHT_STATS_INIT;
    EXPECT_EQ(inflight_engine_stats(engine_, &result), INFLIGHT_OK);
    return result;
  }

  inflight_engine_t* engine_ = nullptr;
};

}  // namespace inflight::test
