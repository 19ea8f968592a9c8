/* SPDX-License-Identifier: Apache-2.0
 *
 * inflight: continuous batching for language models on any OpenCL device. The whole C interface.
 *
 * Conventions, true for every function here:
 *  1. Names: inflight_<noun>_<verb>, types end in _t, constants in capitals. C11 and C++11 or later.
 *  2. Handles are opaque. Who gets one destroys it; destroying NULL does nothing. Streams go before their engine.
 *  3. Functions that can fail return inflight_status_t. Below 10 are outcomes, from 10 on errors; the numbers never
 *     change. After an error the inflight_last_ functions tell more of it, in the calling thread: where a language moves
 *     code from thread to thread, the call and they belong on one. Output arguments are written on INFLIGHT_OK only,
 *     unless stated. Every such function may also give INFLIGHT_ERROR_INVALID_ARGUMENT for a NULL where none may be,
 *     INFLIGHT_ERROR_OUT_OF_MEMORY and INFLIGHT_ERROR_INTERNAL. Nothing throws, nothing prints; errno says nothing.
 *  4. Text is UTF-8 as pointer and length, at most 256 MiB; a length of INFLIGHT_NUL_TERMINATED means "up to the NUL", where
 *     text without a length always ends. Input pointers are read before return and not kept. An empty array that the
 *     library gives may be NULL. Times are at most 31 years: 1e12 ms, 1e9 s.
 *  5. Structs that may grow begin with struct_size. The _INIT macros set it and the defaults, inflight_params_init() does
 *     for languages without macros; of structs that the library fills (events, stats) struct_size alone has to be set.
 *     Fields are only ever appended. A larger struct than this library knows is accepted when the unknown tail is zero,
 *     else INFLIGHT_ERROR_UNSUPPORTED; a tail that the library fills becomes zero. A smaller struct than the first
 *     release's, and one above 4096 bytes, which none will be, is INFLIGHT_ERROR_INVALID_ARGUMENT.
 *  6. Thread tags: [any-thread] = any number of threads at once; [one-at-a-time] = any thread, but never two at once
 *     for one handle. While a handle is destroyed no other call may have it. A calling thread needs 1 MiB of stack.
 *  7. Callbacks must not throw, nor leave by longjmp(). Their `context` is the caller's to keep.
 *  8. Where a process has called inflight_engine_create(), inflight_plugin_load() or inflight_sim_run(), whatever came of
 *     it, a child of fork() may use nothing; it may end or call exec(). A process may end while engines live, but not
 *     while another thread makes one: drivers may crash then.
 */
#ifndef INFLIGHT_H
#define INFLIGHT_H

#include <stddef.h>
#include <stdint.h>

#include "inflight/version.h"

#if defined(INFLIGHT_BUILDING) && defined(__GNUC__)
#define INFLIGHT_API __attribute__((visibility("default")))
#else
#define INFLIGHT_API
#endif

#ifdef __cplusplus
#define INFLIGHT_SIZE_OF(type) static_cast<uint32_t>(sizeof(type))
extern "C" {
#else
#define INFLIGHT_SIZE_OF(type) ((uint32_t)sizeof(type))
#endif

/* ------------------------------------------------------------------------------------------------ status */

typedef int32_t inflight_status_t;
#define INFLIGHT_OK 0
#define INFLIGHT_WOULD_BLOCK 1      /* the time given ran out; nothing changed, call again                      */
#define INFLIGHT_END_OF_STREAM 2    /* the final event was delivered before                                     */
#define INFLIGHT_IDLE 3             /* inflight_engine_step(): nothing is to be done now                        */
#define INFLIGHT_ERROR_INVALID_ARGUMENT 10
#define INFLIGHT_ERROR_NOT_FOUND 11
#define INFLIGHT_ERROR_UNSUPPORTED 12
#define INFLIGHT_ERROR_IO 20
#define INFLIGHT_ERROR_CORRUPT_FILE 21
#define INFLIGHT_ERROR_DEVICE 30
#define INFLIGHT_ERROR_NO_DEVICE 31
#define INFLIGHT_ERROR_OUT_OF_MEMORY 32
#define INFLIGHT_ERROR_PLUGIN 40
#define INFLIGHT_ERROR_REJECTED 50      /* queue limits, deadlines, draining: submit later; progress said stop  */
#define INFLIGHT_ERROR_ENGINE_FAILED 60 /* the engine has stopped for good: destroy it                          */
#define INFLIGHT_ERROR_INTERNAL 61      /* a bug in this library                                                */

#define INFLIGHT_NUL_TERMINATED SIZE_MAX

/** @brief Library version, "major.minor.patch".  [any-thread]  Lifetime: static.  @since 0.1 */
INFLIGHT_API const char* inflight_version(void);

/** @brief One line about the error of the calling thread's last call; "" when that gave none.  [any-thread]
 *  Lifetime: until the thread's next call, not counting the inflight_last_ functions, inflight_status_name() and
 *  inflight_version().  @since 0.1 */
INFLIGHT_API const char* inflight_last_error(void);

/** @brief Short name of a status, "INFLIGHT_ERROR_IO"; "unknown status" for other numbers.  [any-thread]  @since 0.1 */
INFLIGHT_API const char* inflight_status_name(inflight_status_t status);

/* ------------------------------------------------------------------------------------------------ parameters */

typedef int32_t inflight_params_kind_t;
#define INFLIGHT_PARAMS_ENGINE 1  /* inflight_engine_params_t  */
#define INFLIGHT_PARAMS_REQUEST 2 /* inflight_request_params_t */

/** @brief Fills a parameter struct with the defaults and sets its struct_size. For languages without the macros.
 *  @param[in]  kind         INFLIGHT_PARAMS_*.
 *  @param[out] params       the struct; its first struct_size bytes are written.
 *  @param[in]  struct_size  sizeof the caller's struct.
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_INVALID_ARGUMENT (unknown kind, NULL, a size that the fifth convention refuses)
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_params_init(inflight_params_kind_t kind, void* params, size_t struct_size);

typedef int32_t inflight_log_level_t;
#define INFLIGHT_LOG_DEBUG 0
#define INFLIGHT_LOG_INFO 1
#define INFLIGHT_LOG_WARNING 2
#define INFLIGHT_LOG_ERROR 3
/** Receives log lines, each one line of UTF-8 (no newline; a NUL behind it). May be called from any thread, under locks: must
 *  not call into the library, nor wait for a thread that may be in it. */
typedef void (*inflight_log_fn)(void* context, inflight_log_level_t level, const char* message, size_t length);

/** @brief Sends the process's log lines of at least `level` to `log`; NULL silences them (the default). When it has returned,
 *  no call of the function before is running.
 *  @since 0.1  [any-thread] */
INFLIGHT_API void inflight_set_log(inflight_log_fn log, void* context, inflight_log_level_t level);

/** Progress of loading a model: `fraction` in [0, 1] of the weights, `what` a short phrase; 0 before what takes seconds by
 *  itself, such as compiling kernels. Return 0 to go on, else creation ends with INFLIGHT_ERROR_REJECTED. Called in the thread
 *  that creates the engine; `what` is valid until it returns. */
typedef int32_t (*inflight_progress_fn)(void* context, double fraction, const char* what);

typedef int32_t inflight_kv_type_t;
#define INFLIGHT_KV_AUTO 0 /* i16 where it is fast (PoCL on x86 processors with AVX2), else f16 */
#define INFLIGHT_KV_F16 1
#define INFLIGHT_KV_F32 2
#define INFLIGHT_KV_Q8_0 3 /* int8 and a scale for each 32 numbers; heads must be a multiple of 32 wide */
#define INFLIGHT_KV_I16 4 /* integers of 14 bits and a scale for each token's K, or V, of a head */

/** No priority preemption: the default of priority_preemption_threshold. */
#define INFLIGHT_NO_PREEMPTION INT32_MAX

/** What an engine is made of. Names as in vLLM and SGLang. 0 or NULL means the default, given in (); where the default is
 *  another one than 0, the initialiser sets it: [x]. */
typedef struct inflight_engine_params {
  uint32_t struct_size;
  uint32_t reserved;
  const char* model;                     /* path of a GGUF file, of several the first, or of a folder of safetensors;
                                            required                                                             */
  const char* device;                    /* index, cpu, gpu or part of a name ($INFLIGHT_DEVICE, else the best GPU, else CPU) */

  /* sizes */
  int32_t max_num_seqs;                  /* sequences running at once, 1..65536 (64, fewer by max_requests or states) */
  int32_t max_num_batched_tokens;        /* tokens of a step, max_num_seqs..1048576 (CPU: 256, no VNNI: 128; else 512) */
  int32_t max_prefill_tokens;            /* of these, prompt tokens (no limit of their own)                      */
  int32_t long_prefill_token_threshold;  /* of these, of one prompt (no limit of their own)                      */
  int32_t max_model_len;                 /* tokens of a sequence, prompt and output (the model's context length) */
  int32_t max_requests;                  /* waiting and running, max_num_seqs..4194304 (65536); one more is rejected */
  int32_t block_size;                    /* tokens a KV block, a power of two 8..128 (16)                        */
  int32_t kv_blocks;                     /* KV blocks (as many as are useful and fit)                            */
  int32_t host_kv_blocks;                /* KV blocks in host memory, for preempt "swap" and "auto", which without
                                            them do as "recompute" (0)                                           */
  inflight_kv_type_t kv_cache_dtype;     /* INFLIGHT_KV_* (auto)                                                 */
  double device_memory_fraction;         /* share of the device's memory that may be used, (0,1] [0.9]           */

  /* scheduling */
  const char* batching;                  /* "continuous" | "prefill_first" | "dynamic" | "static" ("continuous") */
  double max_batch_delay_ms;             /* dynamic: longest wait for a full batch, up to 3600000 [5]            */
  double schedule_conservativeness;      /* room kept for output to come: 0 none (vLLM) .. 1 SGLang's [1]        */
  double kv_headroom;                    /* share of the blocks left free at admission, 0..0.99 (0)              */
  const char* preempt;                   /* "recompute" | "swap" | "auto" ("recompute")                          */
  const char* preempt_victim;            /* "last_admitted" | "lowest_priority" | "fewest_output" |
                                            "most_freeable" | "cheapest" ("last_admitted")                       */
  int32_t priority_preemption_threshold; /* a waiting request replaces running ones whose priority is worse by
                                            more than this [INFLIGHT_NO_PREEMPTION]                              */
  const char* schedule_policy;           /* name, id or path, then optional ":key=value,..." ("fcfs")            */
  const char* radix_eviction_policy;     /* likewise ("lru")                                                     */
  uint8_t enable_mixed_chunk;            /* prefill_first: decodes ride along with prompts (0)                   */
  uint8_t enable_prefix_caching;         /* [1]                                                                  */
  uint8_t overlap;                       /* plan a step while the one before runs [1]                            */
  uint8_t host_driven;                   /* no own thread: the program calls inflight_engine_step() (0)          */
  uint8_t profile;                       /* time every kernel launch, see inflight_engine_trace_json() (0)       */
  uint8_t deterministic;                 /* the same tokens whatever else runs [1]; 0 makes nothing faster       */
  uint8_t reserved2[2];

  inflight_progress_fn progress;         /* NULL = none                                                          */
  void* progress_context;

  /* service */
  const char* scheduling_profile;        /* "rag" | "batch" | "tenant" | "sla": policies and knobs for that use; they
                                            stand for the fields that hold their initial value (none)            */
  int32_t max_num_queued_reqs;           /* waiting beyond free rows; one more is rejected (no limit of its own)  */
  int32_t log_interval_steps;            /* a line of figures to the log every so many steps (never)             */
  int64_t max_num_queued_tokens;         /* prompt tokens that wait; one more is rejected (no limit)             */
  double max_predicted_wait_ms;          /* a request that would wait longer is rejected (no limit)              */
  double request_timeout_ms;             /* a request ends with abort so long after submit, wherever it is (none) */
  double watchdog_timeout_s;             /* a step that takes longer is reported and makes stats.hung 1; 0 = off [300] */
  int32_t max_tokens_limit;              /* output tokens of any request at most (no limit)                      */
  int32_t max_num_partial_prefills;      /* prompts in progress at the end of a step (no limit of its own)       */
  uint8_t clip_max_tokens;               /* who asks for more gets the limit [1]; 0: is refused                  */
  uint8_t populate_kv;                   /* the system finds the memory of the first 512 MiB of KV blocks at creation, and
                                            not while the first requests wait for it; on CPUs only (0)           */
  uint8_t cache_weights;                 /* the packed weights are kept in the cache folder ($INFLIGHT_CACHE_DIR), a file
                                            about as large as the model's, and later starts compute from that file:
                                            faster starts, memory that processes share; one stream may be some % slower.
                                            What cannot be written is a warning; nobody may shorten the file while an
                                            engine has it (0)                                                    */
  uint8_t reserved3[5];
  const char* record_path;               /* every decision goes to this file, for `inflight replay` and
                                            `inflight explain` (none)                                            */
  const char* linear_backend;            /* who computes with weights of F32, F16, BF16: "panel" (own kernels) |
                                            "clblast" | "auto": what was measured to be faster ("auto")          */
  double kv_offloading_size;             /* GiB of host memory for stored KV that the device has no room for, 0..65536
                                            (0); copied back where that is faster than computing it again        */
  const char* chat_template;             /* the text of a Jinja template, in the place of the model file's (NULL) */
  const char* const* lora_modules;       /* "NAME=FILE" each: LoRA adapters (GGUF) there from the beginning (none) */
  size_t lora_module_count;
  int32_t max_loras;                     /* adapters in one batch, 1..1024 (as many as lora_modules; without these and 0
                                            there are no adapters); each takes device memory for max_lora_rank   */
  int32_t max_lora_rank;                 /* largest rank of an adapter, 1..512 (16, or what lora_modules need)   */
  const char* speculative_config;        /* JSON, vLLM's: {"method": "ngram", "num_speculative_tokens": 1..64,
                                            "prompt_lookup_min": 2, "prompt_lookup_max": 5, "disable_by_batch_size": 0,
                                            "adaptive": true}: tokens are guessed from what stands in the request's own
                                            text and verified several at a time; the answers stay the same (none). Or
                                            {"method": "draft_model", "model": FILE, "num_speculative_tokens":
                                            1..64}: a small model with the same vocabulary, a GGUF file, guesses */
  const char* served_model_name;         /* what metrics call the model, their label model_name (its own name)   */
  const char* classifier_from_token;     /* vLLM's: two texts of a token each, "no,yes", or one: how likely the model is to
                                            answer with them serves as INFLIGHT_POOLING_CLASSIFY, the last one being the
                                            first label (the classifier of the model's file)                     */
} inflight_engine_params_t;

#define INFLIGHT_ENGINE_PARAMS_INIT                                                                              \
  { INFLIGHT_SIZE_OF(inflight_engine_params_t), 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, INFLIGHT_KV_AUTO, 0.9, \
    NULL, 5.0, 1.0, 0.0, NULL, NULL, INFLIGHT_NO_PREEMPTION, NULL, NULL, 0, 1, 1, 0, 0, 1, {0, 0}, NULL, NULL,              \
    NULL, 0, 0, 0, 0.0, 0.0, 300.0, 0, 0, 1, 0, 0, {0, 0, 0, 0, 0}, NULL, NULL, 0.0, NULL, NULL, 0, 0, 0, NULL, NULL, NULL }

typedef int32_t inflight_pooling_t;
#define INFLIGHT_POOLING_NONE 0 /* no embedding                                      */
#define INFLIGHT_POOLING_LAST 1 /* the final hidden state of the prompt's last token */
#define INFLIGHT_POOLING_MEAN 2 /* the mean over all of its tokens                   */
#define INFLIGHT_POOLING_MODEL 3 /* what the model's file states; the mean where it states nothing.
                                    ERRORS: INFLIGHT_ERROR_UNSUPPORTED for another kind than these (cls, rank) */
#define INFLIGHT_POOLING_CLASSIFY 4 /* how likely each label of the model's classifier is; of rerankers the first one says
                                       that the document is relevant. Labels: inflight_engine_info_json(), model.labels.
                                       ERRORS: INFLIGHT_ERROR_UNSUPPORTED without a classifier */

/** One request. Either `prompt` or `prompt_ids`. */
typedef struct inflight_request_params {
  uint32_t struct_size;
  int32_t max_tokens;           /* output tokens at most [256]; 0 = the prompt is computed, its logprobs are told, and
                                   the answer ends with length; n and best_of are 1 then                         */
  const char* prompt;           /* text, tokenized with the model's vocabulary                                   */
  size_t prompt_length;         /* bytes, or INFLIGHT_NUL_TERMINATED [INFLIGHT_NUL_TERMINATED]                   */
  const int32_t* prompt_ids;    /* or token ids as they are                                                      */
  size_t prompt_id_count;
  float temperature;            /* 0 = greedy, up to 100 (0)                                                     */
  float top_p;                  /* (0,1] [1]                                                                     */
  float min_p;                  /* [0,1]; 0 = off                                                                */
  int32_t top_k;                /* 0 = all                                                                       */
  uint64_t seed;                /* 0 = one is drawn                                                              */
  const int32_t* stop_token_ids;
  size_t stop_token_id_count;   /* at most 64                                                                    */
  int32_t priority;             /* lower = sooner                                                                */
  uint32_t tenant;              /* 0..4095                                                                       */
  const char* cache_salt;       /* stored prefixes are shared within one salt only; NULL = the common one        */
  double ttft_deadline_ms;      /* wanted time to first token, from submit; 0 = none                             */
  double e2e_deadline_ms;       /* wanted time to last token, from submit; 0 = none                              */
  double itl_target_ms;         /* wanted time between tokens; 0 = none                                          */
  int32_t predicted_output_tokens; /* your guess, for policies that order by length; 0 = none                    */
  uint8_t ignore_eos;           /* go on through the model's end tokens (0)                                      */
  uint8_t add_special_tokens;   /* `prompt`: add the begin token where the vocabulary asks for one [1]; set 0 for
                                   text from inflight_chat_render()                                              */
  uint8_t parse_special_tokens; /* `prompt`: text like "<|im_end|>" is the token [1]; set 0 for strangers' text  */
  uint8_t reasoning_apart;      /* the answer's text has the control tokens that mark reasoning, and structured output
                                   holds behind the reasoning, at models that mark it (0)                        */

  int32_t n;                    /* answers to the prompt, which they share, 1..128 [1]                           */
  int32_t best_of;              /* >= n: so many are generated, the n of the highest mean logprob are given (0: n) */
  int32_t min_tokens;           /* no end before so many output tokens, max_tokens at most; a text of `stop` that ends
                                   in theirs does not count (0)                                                  */
  const char* const* stop;      /* the answer ends before any of these texts, which is not given                 */
  size_t stop_count;            /* at most 16 of 1 to 1024 bytes                                                 */
  const char* const* bad_words; /* runs of tokens that are never completed: those of each text, at the beginning of a
                                   word or not; other tokens may spell it                                        */
  size_t bad_word_count;        /* at most 1024 of at most 64 tokens                                             */
  const int32_t* logit_bias_ids;
  const float* logit_biases;    /* added to the logits of logit_bias_ids; -100 bans and 100 forces in practice   */
  size_t logit_bias_count;      /* at most 4096                                                                  */
  float typical_p;              /* (0,1]: locally typical sampling [1]                                           */
  float repetition_penalty;     /* (0,10]: of tokens in prompt or output [1]                                     */
  float presence_penalty;       /* [-2,2]: once for each token that was output (0)                               */
  float frequency_penalty;      /* [-2,2]: for each time it was output (0)                                       */
  float dry_multiplier;         /* DRY: penalty of tokens that continue a repetition, up to 100; 0 = off         */
  float dry_base;               /* its growth with the repetition's length, 1..100 [1.75]                        */
  int32_t dry_allowed_length;   /* repetitions up to this length are free, >= 1 [2]                              */
  int32_t dry_penalty_last_n;   /* tokens looked back on; -1 = all [-1]                                          */
  const char* const* dry_sequence_breakers; /* tokens with such a text end repetitions and are never penalised;
                                                NULL = newline : " *   Each must be in some token's text.      */
  size_t dry_sequence_breaker_count; /* at most 16                                                               */
  int32_t logprobs;             /* report so many most likely tokens of each position, 0..20; -1 = none [-1]     */
  int32_t prompt_logprobs;      /* the same of the prompt's tokens [-1]                                          */
  uint8_t include_stop_str_in_output; /* the text of the stop string or token that ended the answer, too (0)     */

  /* Structured output: the whole answer follows at most one of these. It is compiled while the request waits; what is
     wrong with it ends the stream with INFLIGHT_FINISH_ERROR. NULL or 0 = none. */
  uint8_t structured_json_object;       /* any JSON object                                                       */
  uint8_t show_special_tokens;          /* the answer's text has control tokens such as "<|im_start|>" too (0)   */
  uint8_t structured_json_lenient;      /* what is not supported of structured_json is left out, not refused (0) */
  inflight_pooling_t pooling;           /* not NONE: an embedding of the prompt instead of an answer; the stream gives one
                                           event, with INFLIGHT_FINISH_STOP, and what says how tokens are drawn is not
                                           looked at                                                             */
  const char* structured_json;          /* JSON Schema; like the other grammars at most 1 MiB                    */
  const char* structured_regex;         /* regular expression, of the whole answer                               */
  const char* structured_grammar;       /* GBNF, llama.cpp's notation                                            */
  const char* const* structured_choice; /* one of these texts                                                    */
  size_t structured_choice_count;       /* at most 1024                                                          */
  double timeout_ms;                    /* the request ends with abort so long after submit; 0 = the engine's
                                           request_timeout_ms                                                    */
  const char* structured_tools;         /* calls of functions, in the form that the chat template shows, as JSON:
                                           {"tools": [{"type": "function", "function": {"name", "parameters", "strict"}},
                                           ...], "tool_choice": "auto" | "required" | {"type": "function", "function":
                                           {"name"}}, "parallel_tool_calls": true}. "auto" (the default): any text, but what
                                           begins as a call goes on as one. What is not supported of "parameters" is left
                                           out, but refused where "strict" is true. The other structured_ fields go with
                                           "auto" only: the answer follows them, or is calls. The text has the control tokens
                                           that calls are marked with (NULL)                                     */
  const char* lora_name;                /* the LoRA adapter it runs with; NULL = none                            */
  const char* prediction;               /* a text that the answer is likely to repeat, for an engine with speculative_config
                                           to guess from; the answer stays the same (NULL)                       */
} inflight_request_params_t;

#define INFLIGHT_REQUEST_PARAMS_INIT                                                                              \
  { INFLIGHT_SIZE_OF(inflight_request_params_t), 256, NULL, INFLIGHT_NUL_TERMINATED, NULL, 0, 0.0f, 1.0f, 0.0f, 0, \
    0, NULL, 0, 0, 0, NULL, 0.0, 0.0, 0.0, 0, 0, 1, 1, 0,                                                         \
    1, 0, 0, NULL, 0, NULL, 0, NULL, NULL, 0, 1.0f, 1.0f, 0.0f, 0.0f, 0.0f, 1.75f, 2, -1, NULL, 0, -1, -1, 0, 0,       \
    0, 0, INFLIGHT_POOLING_NONE, NULL, NULL, NULL, NULL, 0, 0.0, NULL, NULL, NULL }

/* ------------------------------------------------------------------------------------------------ engine */

typedef struct inflight_engine inflight_engine_t;
typedef struct inflight_stream inflight_stream_t;

/** @brief Loads a model and starts an engine.
 *  Signals: handlers that the OpenCL driver installs meanwhile are taken out again, those of the program are as before
 *  (let no other thread change them during the call). Policies from files are guarded by handlers for SIGSEGV, SIGBUS,
 *  SIGFPE, SIGILL and SIGABRT, which pass on what is not theirs, and a free real-time signal. Threads that start meanwhile,
 *  the driver's too, have the calling thread's signal mask: block here what another thread is to get.
 *  PoCL compiles kernels with a child process, `ld`, and ends the program where no folder of PATH has that or SIGCHLD is
 *  ignored; it compiles each once in place of twice where the environment has POCL_WORK_GROUP_SPECIALIZATION=0.
 *  @param[in]  params  see inflight_engine_params_t.
 *  @param[out] engine  set on INFLIGHT_OK; release with inflight_engine_destroy().
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_* (any)
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_create(const inflight_engine_params_t* params, inflight_engine_t** engine);

/** @brief Stops the engine and frees it. All its streams must have been destroyed before, which ends their requests with
 *  finish reason abort. Waits for the step that runs.  @since 0.1  [one-at-a-time] */
INFLIGHT_API void inflight_engine_destroy(inflight_engine_t* engine);

/** @brief Submits one request and returns at once; the answer comes through the stream.
 *  @param[out] stream  set on INFLIGHT_OK; release with inflight_stream_destroy().
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_INVALID_ARGUMENT (names the field; also a prompt longer than max_model_len or than
 *          the KV storage) | INFLIGHT_ERROR_NOT_FOUND (lora_name) | INFLIGHT_ERROR_UNSUPPORTED (what this engine or model lacks:
 *          adapters, a vocabulary) | INFLIGHT_ERROR_REJECTED | INFLIGHT_ERROR_ENGINE_FAILED
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_submit(inflight_engine_t* engine, const inflight_request_params_t* params,
                                                      inflight_stream_t** stream);

/** @brief What of the request the calling thread's last INFLIGHT_ERROR_INVALID_ARGUMENT is about, where it is told: "prompt",
 *  "prompt_length" (the prompt has more tokens than max_model_len has room for), "stop_token_ids", "logit_bias", "n",
 *  "best_of"; else "".  Lifetime: static.  @since 0.1  [any-thread] */
INFLIGHT_API const char* inflight_last_error_field(void);

/** Why a request was rejected. */
typedef int32_t inflight_reject_reason_t;
#define INFLIGHT_REJECT_NONE 0
#define INFLIGHT_REJECT_MAX_REQUESTS 1    /* max_requests wait or run                                              */
#define INFLIGHT_REJECT_QUEUED_REQUESTS 2 /* max_num_queued_reqs                                                   */
#define INFLIGHT_REJECT_QUEUED_TOKENS 3   /* max_num_queued_tokens                                                 */
#define INFLIGHT_REJECT_PREDICTED_WAIT 4  /* max_predicted_wait_ms, or its ttft_deadline_ms could not be met       */
#define INFLIGHT_REJECT_DRAINING 5        /* inflight_engine_drain()                                               */

/** @brief Why the calling thread's last call gave INFLIGHT_ERROR_REJECTED; INFLIGHT_REJECT_NONE: it did not, or it was
 *  inflight_engine_create(), which inflight_progress_fn had stopped.
 *  @param[out] retry_after_s  seconds after which another attempt makes sense, from the rate at which requests end now;
 *                             0 = not known, or no point in trying here. May be NULL.
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_reject_reason_t inflight_last_rejection(int32_t* retry_after_s);

/** Which requests rest. */
typedef int32_t inflight_pause_mode_t;
#define INFLIGHT_PAUSE_NONE 0
#define INFLIGHT_PAUSE_NEW 1 /* no new request starts, running ones go on */
#define INFLIGHT_PAUSE_ALL 2 /* no step is made                             */

/** @brief Lets requests rest; they may still be submitted. Returns when it holds: with INFLIGHT_PAUSE_ALL no token leaves
 *  from then on (host_driven: from the next inflight_engine_step() on). The answers are the same as without the pause.
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_INVALID_ARGUMENT | INFLIGHT_ERROR_ENGINE_FAILED (also when a step hangs, see
 *          watchdog_timeout_s: the pause begins if it comes back)
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_pause(inflight_engine_t* engine, inflight_pause_mode_t mode);

/** @brief Ends a pause, and takes requests in again after inflight_engine_drain().
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_INVALID_ARGUMENT | INFLIGHT_ERROR_ENGINE_FAILED (as inflight_engine_pause())
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_resume(inflight_engine_t* engine);

/** @brief Takes no more requests (they are rejected) and waits until the last one has ended.
 *  @param[in] timeout_ms  how long to wait; 0 = not at all, negative = until a step hangs (see watchdog_timeout_s), or
 *                         without end. A host_driven engine never waits.
 *  @return INFLIGHT_OK (none is left) | INFLIGHT_WOULD_BLOCK | INFLIGHT_ERROR_INVALID_ARGUMENT
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_drain(inflight_engine_t* engine, int32_t timeout_ms);

/** @brief Changes limits of a running engine between two steps; running sequences stay.
 *  @param[in] json  an object with any of max_num_seqs, max_num_batched_tokens (both up to what the engine was made
 *                   with), max_prefill_tokens, long_prefill_token_threshold, max_num_partial_prefills,
 *                   enable_mixed_chunk, max_batch_delay_ms, schedule_conservativeness, kv_headroom,
 *                   priority_preemption_threshold (null or INFLIGHT_NO_PREEMPTION: none), preempt_victim.
 *  Returns when it is done; a host_driven engine does it in the next inflight_engine_step() and logs what it refuses.
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_INVALID_ARGUMENT (names the key) | INFLIGHT_ERROR_ENGINE_FAILED
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_configure(inflight_engine_t* engine, const char* json, size_t length);

/** @brief Forgets the stored prefixes that no running request uses, those in host memory too: what comes next is computed from
 *  its first token, as in a new engine. When it returns is as of inflight_engine_configure(). Source: vLLM's reset_prefix_cache.
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_ENGINE_FAILED
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_reset_prefix_cache(inflight_engine_t* engine);

/** @brief Loads a LoRA adapter for requests to name in lora_name; the engine needs max_loras or lora_modules. Running requests
 *  do not wait; the file is not needed afterwards.
 *  @param[in] lora_name  1..256 bytes; free at the time.
 *  @param[in] lora_path  a GGUF file as llama.cpp's convert_lora_to_gguf writes it, for this engine's model.
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_INVALID_ARGUMENT (the name is taken, the rank above max_lora_rank) |
 *          INFLIGHT_ERROR_NOT_FOUND | INFLIGHT_ERROR_CORRUPT_FILE | INFLIGHT_ERROR_IO |
 *          INFLIGHT_ERROR_UNSUPPORTED (made without adapters; another model's adapter)
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_load_lora_adapter(inflight_engine_t* engine, const char* lora_name,
                                                                 const char* lora_path);

/** @brief Frees an adapter's name at once, and its memory when the last request that uses it has ended; these go on. An adapter
 *  loaded under the name later is another one: it shares no stored KV with this.
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_NOT_FOUND | INFLIGHT_ERROR_INVALID_ARGUMENT | INFLIGHT_ERROR_UNSUPPORTED
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_unload_lora_adapter(inflight_engine_t* engine, const char* lora_name);

/** @brief Runs one step of a host_driven engine in the calling thread. Where a grammar that is being compiled is all there
 *  is to do, it waits for that, for another call or for the next deadline.
 *  @return INFLIGHT_OK | INFLIGHT_IDLE (no request is waiting or running, those that are rest in a pause, or batching
 *          "dynamic" waits for more) | INFLIGHT_ERROR_UNSUPPORTED (the engine has its own thread) |
 *          INFLIGHT_ERROR_ENGINE_FAILED
 *  @since 0.1  [one-at-a-time] */
INFLIGHT_API inflight_status_t inflight_engine_step(inflight_engine_t* engine);

/** Counters since the engine was created, and gauges of now. */
typedef struct inflight_stats {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t steps;
  uint64_t requests_submitted, requests_finished, requests_aborted, requests_failed; /* each answer of n or best_of */
  uint64_t prompt_tokens;          /* prompt tokens of admitted requests                                         */
  uint64_t cached_tokens;          /* of these, served from stored KV                                            */
  uint64_t output_tokens;
  uint64_t scheduled_tokens;       /* tokens computed, recomputed ones included                                  */
  uint64_t preemptions;
  uint64_t recomputed_tokens;      /* tokens computed again after a preemption                                   */
  int32_t requests_waiting, requests_running; /* likewise */
  int32_t kv_blocks, kv_blocks_free, kv_blocks_cached, kv_blocks_used;
  uint64_t device_bytes;           /* device memory held by the engine                                           */
  uint64_t policy_strikes;         /* wrong or late answers of the loaded policies                               */
  double schedule_seconds;         /* host time spent in planning and committing                                 */
  int32_t failed;                  /* 1: the engine has stopped for good (INFLIGHT_ERROR_ENGINE_FAILED)          */
  int32_t reserved2;
  uint64_t requests_rejected;      /* at submit, see inflight_last_rejection()                                   */
  uint64_t requests_expired;       /* ended by a timeout; they count as aborted too                              */
  int32_t paused;                  /* 1: after inflight_engine_pause()                                           */
  int32_t draining;                /* 1: after inflight_engine_drain()                                           */
  int32_t hung;                    /* 1: a step takes longer than watchdog_timeout_s                             */
  int32_t reserved3;
} inflight_stats_t;

#define INFLIGHT_STATS_INIT                                                                                         \
  { INFLIGHT_SIZE_OF(inflight_stats_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0, 0, 0, 0, \
    0, 0, 0, 0 }

/** @brief Copies the engine's counters.  @return INFLIGHT_OK | INFLIGHT_ERROR_INVALID_ARGUMENT  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_stats(inflight_engine_t* engine, inflight_stats_t* stats);

/** @brief The counters as Prometheus text, metric names as vLLM's with the prefix inflight_.
 *  @param[out] text     buffer for `capacity` bytes, may be NULL when capacity is 0; always ended by a NUL if it fits.
 *  @param[out] length   bytes of the whole text without the NUL; written also when it does not fit.
 *  @return INFLIGHT_OK | INFLIGHT_WOULD_BLOCK (capacity too small: call again with length + 1)
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_metrics_text(inflight_engine_t* engine, char* text, size_t capacity,
                                                            size_t* length);

/** @brief A window into the batch, as JSON: figures of now and the latest steps (512 are kept) with who was in them.
 *  @param[in]  since  only steps with a greater number; 0 = all that are kept. Give the answer's last_step next time.
 *  Keys: now_s (since the engine was made), last_step, oldest_step (kept), waiting, running, max_num_seqs,
 *  max_num_batched_tokens, requests {submitted, finished, aborted, failed}, tokens {prompt, cached, output, computed,
 *  recomputed}, preemptions; kv {blocks, block_size, free, cached, used, map}: map is "12u3.40c", run lengths of free (.),
 *  cached (c), used (u) and shared (s) blocks as of about the last call, null before that and above 65536 blocks;
 *  ttft and itl {count, p50_ms, p95_ms, p99_ms} of the last 2048, or null; steps [{step, begin_s, duration_ms, waiting,
 *  running, kv_blocks_used, kv_blocks_cached, kv_blocks_swapped (to and from host memory), swap_ms (of the device, for
 *  that), finished, sequence_count, token_count, sequences, preempted}], where sequences are [id, 1 decode | 0
 *  prefill, tokens, context tokens, tokens reused when it joined] (at most 512) and preempted are [id, tokens lost, blocks
 *  swapped out].
 *  Buffer rule of inflight_engine_metrics_text(); the text may grow between two calls.
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_steps_json(inflight_engine_t* engine, uint64_t since, char* text,
                                                          size_t capacity, size_t* length);

/** @brief What the engine runs on, as JSON: device, model, draft_model, tokenizer (special tokens, chat template),
 *  tool_calls (how the model's text has calls of functions), limits, memory, and the loras that can be named now, each
 *  {name, path, rank, alpha, bytes}. Same buffer rule as metrics_text.
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_info_json(inflight_engine_t* engine, char* text, size_t capacity,
                                                         size_t* length);

/** @brief The kernel launches since creation, with `profile`, as a Chrome trace; without it none. Of more than
 *  262,144 the earlier half is dropped. Same buffer rule.
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_trace_json(inflight_engine_t* engine, char* text, size_t capacity,
                                                          size_t* length);

/* ------------------------------------------------------------------------------------------------ stream */

typedef int32_t inflight_finish_reason_t;
#define INFLIGHT_FINISH_NONE 0   /* more is to come                                */
#define INFLIGHT_FINISH_STOP 1   /* an end or stop token                           */
#define INFLIGHT_FINISH_LENGTH 2 /* max_tokens or the model's context length       */
#define INFLIGHT_FINISH_ABORT 3  /* cancelled                                      */
#define INFLIGHT_FINISH_ERROR 4  /* see `error` and `error_status`                 */

/** A token that could have come at a position. */
typedef struct inflight_token_logprob {
  int32_t token_id; /* -1: the list is shorter */
  float logprob;
} inflight_token_logprob_t;

/** What arrived since the last event, of one answer. Pointers are valid until the stream's next inflight_stream_next() or its
 *  inflight_stream_destroy(). */
typedef struct inflight_stream_event {
  uint32_t struct_size;
  inflight_finish_reason_t finish_reason;
  const int32_t* token_ids; /* new output tokens, end tokens included                                            */
  const float* logprobs;    /* natural log of each one's probability before temperature and filters; 0 for tokens that
                               structured output forces without drawing them: only where `logprobs` is -1        */
  size_t token_count;
  const char* text;         /* new text: whole characters only, NUL after text_length bytes                      */
  size_t text_length;
  const char* error;        /* set with INFLIGHT_FINISH_ERROR, and with INFLIGHT_FINISH_ABORT where the engine ended the
                               request (its time ran out); else NULL                                             */
  int32_t prompt_token_count, cached_token_count, output_token_count; /* totals so far                           */
  int32_t preemption_count;     /* with a finish_reason; where one of `stop` ended the answer while it still ran, this,
                                   the guesses and the times are as of the last token that had come by then      */
  int32_t index;                                /* which answer, 0..n-1                                              */
  int32_t top_count;                            /* of the lists below: the larger of logprobs and prompt_logprobs, or 0 */
  const inflight_token_logprob_t* top_logprobs; /* [token_count][top_count], most likely first; NULL = not asked for */
  const float* prompt_logprobs;                 /* of the prompt's second, third, ... token; NULL = none             */
  const inflight_token_logprob_t* prompt_top_logprobs; /* [prompt_logprob_count][top_count]                          */
  size_t prompt_logprob_count;
  const char* stop_text; /* with INFLIGHT_FINISH_STOP: which of the request's `stop` ended the answer, else NULL */
  int32_t stop_token_id; /* with INFLIGHT_FINISH_STOP: the end or stop token that did, the last of token_ids; else -1 */
  inflight_status_t error_status; /* with INFLIGHT_FINISH_ERROR: INFLIGHT_ERROR_ENGINE_FAILED, INFLIGHT_ERROR_REJECTED
                                     (the scheduling policy refuses the answer), or what is wrong with the request's
                                     structured output; else 0 */
  const float* embedding; /* with `pooling`, in the event with the finish reason: as the output layer would read it, its
                             length not normalised, or the labels' probabilities; else NULL */
  size_t embedding_size;
  int32_t draft_token_count;    /* with a finish_reason: tokens that were guessed (speculative_config)           */
  int32_t accepted_token_count; /* likewise: of these, what was drawn                                            */
  double first_scheduled_s;     /* likewise: seconds from submit to the first step with a token of it; 0 = none  */
  double first_token_s;         /* likewise: to the first output token, by the engine's clock; 0 = none          */
  double last_token_s;          /* likewise: to the last one                                                     */
} inflight_stream_event_t;

#define INFLIGHT_STREAM_EVENT_INIT \
  { INFLIGHT_SIZE_OF(inflight_stream_event_t), INFLIGHT_FINISH_NONE, NULL, NULL, 0, NULL, 0, NULL, 0, 0, 0, 0, 0, 0, NULL, \
    NULL, NULL, 0, NULL, -1, 0, NULL, 0, 0, 0, 0.0, 0.0, 0.0 }

/** @brief Waits for more of the answer.
 *  @param[in]  timeout_ms  how long to wait; 0 = not at all, negative = without end. With a host_driven engine only 0 is useful.
 *  @param[out] event       struct_size set by the caller.
 *  @return INFLIGHT_OK (an event; the last one has a finish_reason) | INFLIGHT_WOULD_BLOCK | INFLIGHT_END_OF_STREAM |
 *          INFLIGHT_ERROR_INVALID_ARGUMENT
 *  @since 0.1  [one-at-a-time] */
INFLIGHT_API inflight_status_t inflight_stream_next(inflight_stream_t* stream, int32_t timeout_ms,
                                                    inflight_stream_event_t* event);

/** Says that something can be read. Called from the engine's thread, with a host_driven engine from inside
 *  inflight_engine_step(), or from inside inflight_stream_set_notify(), under locks: must return at once and must not call into
 *  the library, but wake an event loop that then calls inflight_stream_next(). A binding that hands callbacks to another thread
 *  and waits for that one (Node.js's koffi) hangs: it can wait in inflight_stream_next(), on a thread of its own. */
typedef void (*inflight_notify_fn)(void* context);

/** @brief For event loops: calls `notify` each time that inflight_stream_next() would give an event after it would have
 *  given none, and at once if it would now. Read until INFLIGHT_WOULD_BLOCK or the final event before the next call can
 *  come. NULL ends it; when that or inflight_stream_destroy() has returned, no call is running.
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_INVALID_ARGUMENT
 *  @since 0.1  [one-at-a-time] */
INFLIGHT_API inflight_status_t inflight_stream_set_notify(inflight_stream_t* stream, inflight_notify_fn notify,
                                                          void* context);

/** @brief Asks to end the request; the stream still delivers what was made, then finish reason abort (or another, if it
 *  ended by itself before). Does nothing on a finished stream or NULL.  @since 0.1  [any-thread] */
INFLIGHT_API void inflight_stream_cancel(inflight_stream_t* stream);

/** @brief Frees the stream; cancels its request if that is not finished.  @since 0.1  [one-at-a-time] */
INFLIGHT_API void inflight_stream_destroy(inflight_stream_t* stream);

/* ------------------------------------------------------------------------------------------------ text */

/** @brief Text to token ids with the engine's vocabulary.
 *  @param[in]  add_special_tokens    as in inflight_request_params_t.
 *  @param[in]  parse_special_tokens  likewise.
 *  @param[out] ids         room for `capacity` ids; may be NULL when capacity is 0.
 *  @param[out] count       ids of the whole text; written also with INFLIGHT_WOULD_BLOCK.
 *  @return INFLIGHT_OK | INFLIGHT_WOULD_BLOCK (capacity too small) | INFLIGHT_ERROR_INVALID_ARGUMENT |
 *          INFLIGHT_ERROR_UNSUPPORTED (the model file has no vocabulary)
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_tokenize(inflight_engine_t* engine, const char* text, size_t length,
                                                 uint8_t add_special_tokens, uint8_t parse_special_tokens,
                                                 int32_t* ids, size_t capacity, size_t* count);

/** @brief The prompt for what stands between two texts (fill in the middle), of models that were trained to insert: the
 *  marks of their vocabulary around both texts. What the model answers is the text between.
 *  @param[in] prefix, suffix  the texts before and behind; either may be empty.
 *  The other parameters and the results are inflight_tokenize()'s.
 *  @return INFLIGHT_OK | INFLIGHT_WOULD_BLOCK (capacity too small) | INFLIGHT_ERROR_INVALID_ARGUMENT |
 *          INFLIGHT_ERROR_UNSUPPORTED (no vocabulary, or none with such marks)
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_infill_tokenize(inflight_engine_t* engine, const char* prefix, size_t prefix_length,
                                                        const char* suffix, size_t suffix_length,
                                                        uint8_t add_special_tokens, uint8_t parse_special_tokens,
                                                        int32_t* ids, size_t capacity, size_t* count);

/** @brief What a reranker judges, for INFLIGHT_POOLING_CLASSIFY: a document and the query that it should answer, in the
 *  template that the model's file has for that (tokenizer.chat_template.rerank), else in its chat template with the words of
 *  Qwen3-Reranker. Control tokens in the two texts are plain text; either may be empty.
 *  The other parameters and the results are inflight_tokenize()'s.
 *  @return INFLIGHT_OK | INFLIGHT_WOULD_BLOCK (capacity too small) | INFLIGHT_ERROR_INVALID_ARGUMENT |
 *          INFLIGHT_ERROR_UNSUPPORTED (no vocabulary, classifier or template)
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_rerank_tokenize(inflight_engine_t* engine, const char* query, size_t query_length,
                                                        const char* document, size_t document_length, int32_t* ids,
                                                        size_t capacity, size_t* count);

/** @brief Token ids to text; bytes that are no UTF-8 become U+FFFD. Buffer rule of inflight_engine_metrics_text().
 *  @return INFLIGHT_OK | INFLIGHT_WOULD_BLOCK | INFLIGHT_ERROR_INVALID_ARGUMENT (an id outside the vocabulary, more than
 *          2^28 ids)
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_detokenize(inflight_engine_t* engine, const int32_t* ids, size_t count, char* text,
                                                   size_t capacity, size_t* length);

/** @brief What one token stands for: its bytes, which need not be whole characters, or a control token's name. Buffer rule
 *  of inflight_engine_metrics_text().
 *  @return INFLIGHT_OK | INFLIGHT_WOULD_BLOCK | INFLIGHT_ERROR_INVALID_ARGUMENT (an id outside the vocabulary) |
 *          INFLIGHT_ERROR_UNSUPPORTED (the model file has no vocabulary)
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_token_text(inflight_engine_t* engine, int32_t token_id, char* text, size_t capacity,
                                                   size_t* length);

/** @brief Renders a conversation with the model's chat template into prompt text.
 *  @param[in] request_json  {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...],
 *                           "add_generation_prompt": true, ...}; further keys become template variables.
 *  Buffer rule of inflight_engine_metrics_text().
 *  @return INFLIGHT_OK | INFLIGHT_WOULD_BLOCK | INFLIGHT_ERROR_INVALID_ARGUMENT | INFLIGHT_ERROR_UNSUPPORTED (no template)
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_chat_render(inflight_engine_t* engine, const char* request_json, size_t length,
                                                    char* text, size_t capacity, size_t* text_length);

/* ------------------------------------------------------------------------------------------------ policies */

/** @brief Loads a plugin file so that its policies can be named. The file stays loaded as long as the process.
 *  @param[in] path  a *.ifp.so file; must contain '/'.
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_PLUGIN (says what is wrong with it) | INFLIGHT_ERROR_NOT_FOUND
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_plugin_load(const char* path);

/** @brief Changes a policy of a running engine between two steps. On failure the old one stays. A loaded policy is first
 *  asked beside the old one for 64 steps and takes over if it makes no mistake; otherwise a line of the log says so.
 *  @param[in] spec  as inflight_engine_params_t.schedule_policy or .radix_eviction_policy; which of the two it is
 *                   follows from the policy; a name that both kinds have ("priority") is refused, the ids are not.
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_NOT_FOUND | INFLIGHT_ERROR_PLUGIN | INFLIGHT_ERROR_INVALID_ARGUMENT |
 *          INFLIGHT_ERROR_ENGINE_FAILED
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_set_policy(inflight_engine_t* engine, const char* spec);

/** @brief Changes parameters of a policy in force between two steps, without loading it anew.
 *  @param[in] spec  "name:key=value,..."; parameters that the policy declares as changeable while it runs.
 *  Returns when it is done; a host_driven engine does it in the next inflight_engine_step() and logs what it refuses.
 *  @return INFLIGHT_OK | INFLIGHT_ERROR_INVALID_ARGUMENT (not in force, no such parameter, not changeable, out of range)
 *          | INFLIGHT_ERROR_NOT_FOUND | INFLIGHT_ERROR_PLUGIN | INFLIGHT_ERROR_ENGINE_FAILED
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_engine_set_policy_params(inflight_engine_t* engine, const char* spec);

/* ------------------------------------------------------------------------------------------------ simulator */

/** @brief Runs the scheduler and its policies on a virtual clock over a simulated device, as `inflight sim` does.
 *  @param[in]  spec_json    one JSON object with the options of `inflight sim` as keys, e.g.
 *                           {"workload": "bimodal,requests=100,seed=1", "policy": "vtc", "max_num_seqs": 8}.
 *  @param[out] result_json  the object that `inflight sim --json` prints. Buffer rule of inflight_engine_metrics_text(), but
 *                           each call runs the simulation: give room (65536 bytes plus the workload's text are
 *                           enough; with "timeline" 1 MiB).
 *  @return INFLIGHT_OK | INFLIGHT_WOULD_BLOCK (capacity too small) | INFLIGHT_ERROR_INVALID_ARGUMENT (names the key) |
 *          INFLIGHT_ERROR_NOT_FOUND | INFLIGHT_ERROR_PLUGIN | INFLIGHT_ERROR_IO (a file cannot be read) |
 *          INFLIGHT_ERROR_CORRUPT_FILE (a trace, a profile or a list of lengths)
 *  @since 0.1  [any-thread] */
INFLIGHT_API inflight_status_t inflight_sim_run(const char* spec_json, size_t length, char* result_json, size_t capacity,
                                                size_t* result_length);

#ifdef __cplusplus
}
#endif
#endif
