/* SPDX-License-Identifier: Apache-2.0 */
/* Goal: the public C headers compile in every language version users have, with all warnings as errors. Method: this
 * file is compiled as C11, C++11, C++17 and C++20; the asserts pin what a program compiled against 0.1 relies on. */
#include "inflight/inflight.h"
#include "inflight/plugin.h"

#ifdef __cplusplus
#define CHECK(condition) static_assert(condition, #condition)
#else
#define CHECK(condition) _Static_assert(condition, #condition)
#endif

CHECK(offsetof(inflight_engine_params_t, struct_size) == 0);
CHECK(offsetof(inflight_engine_params_t, model) == 8);
CHECK(offsetof(inflight_engine_params_t, device) == 16);
CHECK(offsetof(inflight_engine_params_t, max_num_seqs) == 24);
CHECK(offsetof(inflight_request_params_t, max_tokens) == 4);
CHECK(offsetof(inflight_request_params_t, prompt) == 8);
CHECK(offsetof(inflight_request_params_t, prompt_length) == 16);
CHECK(offsetof(inflight_stream_event_t, finish_reason) == 4);
CHECK(offsetof(inflight_stream_event_t, token_ids) == 8);
CHECK(offsetof(inflight_stream_event_t, text) == 32);
CHECK(offsetof(inflight_stream_event_t, preemption_count) == 68);

int inflight_header_test(void);
int inflight_header_test(void) {
  inflight_engine_params_t engine = INFLIGHT_ENGINE_PARAMS_INIT;
  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  inflight_stats_t stats = INFLIGHT_STATS_INIT;
  return (int)(engine.struct_size + request.struct_size + event.struct_size + stats.struct_size);
}
