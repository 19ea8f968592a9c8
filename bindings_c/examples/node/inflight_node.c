/* SPDX-License-Identifier: Apache-2.0
 *
 * inflight for Node.js: a small Node-API addon, no packages needed. eight_streams.js wraps it. Build:
 *   cc -shared -fPIC -I/usr/include/node inflight_node.c $(pkg-config --cflags --libs inflight) -o inflight.node
 * A stream wakes Node's event loop through inflight_stream_set_notify(); no thread waits for it.
 */
#include <inflight/inflight.h>
#include <node_api.h>
#include <stdlib.h>

typedef struct {
  inflight_stream_t* handle;
  napi_threadsafe_function wake;
} stream_t;

static napi_value throw_last(napi_env env) {
  napi_throw_error(env, NULL, inflight_last_error());
  return NULL;
}

static void* external_of(napi_env env, napi_value value) {
  void* data = NULL;
  if (napi_get_value_external(env, value, &data) != napi_ok) napi_throw_type_error(env, NULL, "a handle is expected");
  return data;
}

/* The UTF-8 text of a string, to be freed; NULL with an exception for other values. */
static char* text_of(napi_env env, napi_value value, size_t* length) {
  char* text = NULL;
  if (napi_get_value_string_utf8(env, value, NULL, 0, length) != napi_ok) {
    napi_throw_type_error(env, NULL, "a string is expected");
    return NULL;
  }
  text = malloc(*length + 1);
  if (text != NULL) napi_get_value_string_utf8(env, value, text, *length + 1, length);
  return text;
}

/* createEngine(model): handle */
static napi_value create_engine(napi_env env, napi_callback_info info) {
  napi_value arguments[1], result;
  size_t count = 1, length = 0;
  inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
  inflight_engine_t* engine = NULL;
  inflight_status_t status;
  char* model;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  if ((model = text_of(env, arguments[0], &length)) == NULL) return NULL;
  params.model = model;
  status = inflight_engine_create(&params, &engine);
  free(model);
  if (status != INFLIGHT_OK) return throw_last(env);
  napi_create_external(env, engine, NULL, NULL, &result);
  return result;
}

/* destroyEngine(handle) */
static napi_value destroy_engine(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  size_t count = 1;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  inflight_engine_destroy(external_of(env, arguments[0]));
  return NULL;
}

/* From the engine's thread: has Node call the function that submit() was given. */
static void notify(void* context) {
  napi_call_threadsafe_function(((stream_t*)context)->wake, NULL, napi_tsfn_nonblocking);
}

/* submit(engine, prompt, maxTokens, temperature, wake): handle */
static napi_value submit(napi_env env, napi_callback_info info) {
  napi_value arguments[5], result, name;
  size_t count = 5, length = 0;
  inflight_request_params_t params = INFLIGHT_REQUEST_PARAMS_INIT;
  inflight_status_t status;
  double temperature = 0.0;
  char* prompt;
  stream_t* stream;
  void* engine;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  if ((engine = external_of(env, arguments[0])) == NULL) return NULL;
  if ((prompt = text_of(env, arguments[1], &length)) == NULL) return NULL;
  stream = calloc(1, sizeof *stream);
  napi_get_value_int32(env, arguments[2], &params.max_tokens);
  napi_get_value_double(env, arguments[3], &temperature);
  params.temperature = (float)temperature;
  params.prompt = prompt;
  params.prompt_length = length;
  status = inflight_engine_submit(engine, &params, &stream->handle);
  free(prompt);
  if (status != INFLIGHT_OK) {
    free(stream);
    return throw_last(env);
  }
  napi_create_string_utf8(env, "inflight", NAPI_AUTO_LENGTH, &name);
  napi_create_threadsafe_function(env, arguments[4], NULL, name, 0, 1, NULL, NULL, NULL, NULL, &stream->wake);
  inflight_stream_set_notify(stream->handle, notify, stream);
  napi_create_external(env, stream, NULL, NULL, &result);
  return result;
}

/* next(stream): {text, finishReason, outputTokens}; null: nothing yet; undefined: complete */
static napi_value next(napi_env env, napi_callback_info info) {
  napi_value arguments[1], result, value;
  size_t count = 1;
  inflight_stream_event_t event = INFLIGHT_STREAM_EVENT_INIT;
  inflight_status_t status;
  stream_t* stream;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  if ((stream = external_of(env, arguments[0])) == NULL) return NULL;
  status = inflight_stream_next(stream->handle, 0, &event);
  if (status >= INFLIGHT_ERROR_INVALID_ARGUMENT) return throw_last(env);
  if (status == INFLIGHT_END_OF_STREAM) return NULL;
  if (status == INFLIGHT_WOULD_BLOCK) {
    napi_get_null(env, &result);
    return result;
  }
  if (event.finish_reason == INFLIGHT_FINISH_ERROR) {
    napi_throw_error(env, NULL, event.error);
    return NULL;
  }
  napi_create_object(env, &result);
  napi_create_string_utf8(env, event.text, event.text_length, &value);
  napi_set_named_property(env, result, "text", value);
  napi_create_int32(env, event.finish_reason, &value);
  napi_set_named_property(env, result, "finishReason", value);
  napi_create_int32(env, event.output_token_count, &value);
  napi_set_named_property(env, result, "outputTokens", value);
  return result;
}

/* closeStream(stream): once; cancels what is not finished */
static napi_value close_stream(napi_env env, napi_callback_info info) {
  napi_value arguments[1];
  size_t count = 1;
  stream_t* stream;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  if ((stream = external_of(env, arguments[0])) == NULL) return NULL;
  inflight_stream_destroy(stream->handle); /* from here on nobody calls notify() */
  napi_release_threadsafe_function(stream->wake, napi_tsfn_release);
  free(stream);
  return NULL;
}

static napi_value init(napi_env env, napi_value exports) {
  const napi_property_descriptor functions[] = {
      {"createEngine", NULL, create_engine, NULL, NULL, NULL, napi_enumerable, NULL},
      {"destroyEngine", NULL, destroy_engine, NULL, NULL, NULL, napi_enumerable, NULL},
      {"submit", NULL, submit, NULL, NULL, NULL, napi_enumerable, NULL},
      {"next", NULL, next, NULL, NULL, NULL, napi_enumerable, NULL},
      {"closeStream", NULL, close_stream, NULL, NULL, NULL, napi_enumerable, NULL},
  };
  napi_define_properties(env, exports, sizeof functions / sizeof functions[0], functions);
  return exports;
}

NAPI_MODULE(NODE_GYP_MODULE_NAME, init)
