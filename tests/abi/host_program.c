/* SPDX-License-Identifier: Apache-2.0 */
/* A program around the library, for abi_test.py:   host_program MODEL threads|signals|locale
 * threads: four threads create the first engines of the process at once; prints what each answers.
 * signals: SIGUSR1 before an engine is made, while it lives and after; prints how often the handler ran.
 * locale: prints the locale's decimal point, an answer, and a number rounded by a chat template. */
#define _XOPEN_SOURCE 700
#include <inflight/inflight.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* model;
static volatile sig_atomic_t handled;

static void check(inflight_status_t status) {
  if (status == INFLIGHT_OK) return;
  fprintf(stderr, "%s\n", inflight_last_error());
  exit(1);
}

static inflight_engine_t* create(const char* chat_template) {
  inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
  inflight_engine_t* engine;
  params.model = model;
  params.chat_template = chat_template;
  check(inflight_engine_create(&params, &engine));
  return engine;
}

static void* answer(void* text) {
  inflight_request_params_t request = INFLIGHT_REQUEST_PARAMS_INIT;
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  inflight_stream_t* stream;
  inflight_engine_t* engine = create(NULL);
  request.prompt = "Once upon a time";
  request.max_tokens = 8;
  check(inflight_engine_submit(engine, &request, &stream));
  while (inflight_stream_next(stream, -1, &event) == INFLIGHT_OK) strncat(text, event.text, event.text_length);
  inflight_stream_destroy(stream);
  inflight_engine_destroy(engine);
  return NULL;
}

static void threads(void) {
  pthread_t thread[4];
  char text[4][256] = {{0}};
  for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, answer, text[i]);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 4; i++) puts(text[i]);
}

static void count(int number) { (void)number, handled++; }

static void signals(void) {
  static char memory[1 << 16];
  const stack_t own = {.ss_sp = memory, .ss_size = sizeof memory};
  stack_t now;
  struct sigaction action = {0};
  inflight_engine_t* engine;
  sigaltstack(&own, NULL);
  action.sa_handler = count;
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  engine = create(NULL);
  raise(SIGUSR1);
  inflight_engine_destroy(engine);
  raise(SIGUSR1);
  sigaltstack(NULL, &now);
  printf("%d\n%s\n", (int)handled, now.ss_sp == memory ? "own stack" : "another stack");
}

static void in_locale(void) {
  char text[256] = {0}, rendered[64];
  const char* request = "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}]}";
  size_t length;
  inflight_engine_t* engine;
  setlocale(LC_ALL, "");
  answer(text);
  engine = create("{{ 2.567|round(2) }}");
  check(inflight_chat_render(engine, request, INFLIGHT_NUL_TERMINATED, rendered, sizeof rendered, &length));
  printf("%s\n%s\n%s\n", localeconv()->decimal_point, text, rendered);
  inflight_engine_destroy(engine);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  model = argv[1];
  if (strcmp(argv[2], "threads") == 0) threads();
  if (strcmp(argv[2], "signals") == 0) signals();
  if (strcmp(argv[2], "locale") == 0) in_locale();
  return 0;
}
