/* SPDX-License-Identifier: Apache-2.0
 *
 * Eight prompts in one continuous batch, answers read as they come.
 *   cc eight_streams.c $(pkg-config --cflags --libs inflight) -o eight_streams && ./eight_streams MODEL.gguf
 */
#include <inflight/inflight.h>
#include <stdio.h>
#include <string.h>

#define STREAMS 8

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, inflight_last_error());
  return 1;
}

int main(int argc, char** argv) {
  static const char* const prompts[STREAMS] = {"Once upon a time",        "One day, a little fox",
                                               "There was a kind queen",  "Lily and Ben went to the park",
                                               "The old bear was hungry", "In a small house near the sea",
                                               "A bird sat in the tree",  "Tom had a red ball"};
  inflight_engine_params_t engine_params = INFLIGHT_ENGINE_PARAMS_INIT;
  inflight_engine_t* engine = NULL;
  inflight_stream_t* streams[STREAMS] = {NULL};
  char answers[STREAMS][4096];
  int open = STREAMS;
  int status = 0;

  if (argc != 2) {
    fprintf(stderr, "usage: eight_streams MODEL.gguf\n");
    return 2;
  }
  engine_params.model = argv[1];
  if (inflight_engine_create(&engine_params, &engine) != INFLIGHT_OK) return failed("cannot create the engine");

  for (int i = 0; i < STREAMS; ++i) {
    inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
    request.prompt = prompts[i];
    request.max_tokens = 48;
    answers[i][0] = '\0';
    if (inflight_engine_submit(engine, &request, &streams[i]) != INFLIGHT_OK) status = failed("cannot submit");
  }
  while (open > 0 && status == 0) {
    for (int i = 0; i < STREAMS; ++i) {
      inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
      inflight_status_t next = inflight_stream_next(streams[i], 5, &event);
      if (next >= INFLIGHT_ERROR_INVALID_ARGUMENT) status = failed("cannot read");
      if (next != INFLIGHT_OK) continue; /* nothing new, or complete */
      if (event.error != NULL) {
        fprintf(stderr, "answer %d failed: %s\n", i + 1, event.error);
        status = 1;
        break;
      }
      strncat(answers[i], event.text, sizeof answers[i] - strlen(answers[i]) - 1);
      if (event.finish_reason != INFLIGHT_FINISH_NONE) {
        printf("[%d] %s%s\n    %d prompt tokens, %d output tokens\n", i + 1, prompts[i], answers[i],
               (int)event.prompt_token_count, (int)event.output_token_count);
        --open;
      }
    }
  }
  for (int i = 0; i < STREAMS; ++i) inflight_stream_destroy(streams[i]);
  inflight_engine_destroy(engine);
  return status;
}
