/* SPDX-License-Identifier: Apache-2.0
 *
 * inflight: interface of scheduling policies and KV-eviction strategies, major 1. Everything a policy needs is in this
 * file; it uses nothing but stdint.h and stddef.h and compiles as C11 and C++17.
 *
 * What the rest follows from:
 *  1. The host owns every request and every block. A policy ranks and advises; it never holds the only reference to
 *     anything, so taking it away in the middle of a run loses nothing.
 *  2. What a policy sees is a read-only snapshot in plain columns, valid until the call returns. It cannot tell a live
 *     engine from the simulator.
 *  3. Time and randomness come from the host table and from nowhere else. So runs can be repeated and recorded.
 *  4. Every op is optional: a NULL op, or INFLIGHT_PASS as its result, means "do what the built-in policy does".
 *  5. The host checks every answer. A wrong one costs the policy a strike and the engine one built-in decision.
 *
 * Thread tags: [S] = called on the thread that runs the scheduler, never two calls at once for one instance, never
 * re-entered (the thread itself may change). Instances of one module may run at the same time on several threads, so a
 * module has no mutable globals. [A] = may be called from any thread.
 *
 * Not allowed inside an op: files, sockets, sleeping, starting threads, exceptions or longjmp across the boundary,
 * changing the floating-point environment. Policies of files run guarded: one that crashes, throws or does not return is
 * taken out without exit() and destroy(); what it overwrote before stays overwritten.
 */
#ifndef INFLIGHT_PLUGIN_H
#define INFLIGHT_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ versions
 * The major number is part of the exported symbol, so another major is simply not found and one file may serve several.
 * A minor version only appends: fields at the end of structs, columns, event types, flags, ops at the end of a table.
 * A module loads when its min_host_minor <= the host's minor. */
#define INFLIGHT_PLUGIN_ABI_MAJOR 1u
#define INFLIGHT_PLUGIN_ABI_MINOR 0u
#define INFLIGHT_PLUGIN_ENTRY_SYMBOL "inflight_plugin_query_v1"

/* Structs that may grow begin with struct_size, set to its own sizeof by the side that allocated it; the others
 * (inflight_param_t, inflight_writer_t, inflight_reader_t, column elements) stay as they are within a major number. The
 * reader asks before it touches a field that is newer than minor 0: */
#define INFLIGHT_HAS(pointer, field) \
  ((pointer)->struct_size >= offsetof(__typeof__(*(pointer)), field) + sizeof((pointer)->field))

#ifndef INFLIGHT_PLUGIN_EXPORT
#define INFLIGHT_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

typedef int32_t inflight_plugin_status_t;
#define INFLIGHT_PLUGIN_OK 0
#define INFLIGHT_PASS 1                  /* no opinion: the built-in decides this call; not an error             */
#define INFLIGHT_PLUGIN_E_ARGUMENT (-1)  /* bad parameter (create, set_param)                                    */
#define INFLIGHT_PLUGIN_E_MEMORY (-2)
#define INFLIGHT_PLUGIN_E_STATE (-3)     /* load(): unknown or damaged state                                     */
#define INFLIGHT_PLUGIN_E_UNSUPPORTED (-4)
#define INFLIGHT_PLUGIN_E_INTERNAL (-5)  /* counts as a strike                                                   */

/* ------------------------------------------------------------------------------------------------ parameters */
#define INFLIGHT_TYPE_STRING 0u
#define INFLIGHT_TYPE_INT64 1u
#define INFLIGHT_TYPE_FLOAT64 2u
#define INFLIGHT_TYPE_BOOL 3u

typedef struct inflight_key_value {
  const char* key; /* NUL-terminated, lower_snake_case */
  uint32_t type, reserved;
  union {
    const char* string;
    int64_t int64; /* also BOOL: 0 or 1 */
    double float64;
  } value;
} inflight_key_value_t;

/* The parameters a policy was created with. Step from one pair to the next by `stride` bytes. */
typedef struct inflight_config {
  uint32_t struct_size, count, stride, reserved;
  const inflight_key_value_t* pairs;
} inflight_config_t;

/* A declared parameter. The host checks type and range before create(), fills in defaults, and prints `help`. */
typedef struct inflight_param {
  const char* key;
  uint32_t type, flags;                            /* INFLIGHT_PARAM_*                    */
  const char *default_value, *minimum, *maximum;   /* as text; NULL = none                */
  const char* help;
} inflight_param_t;
#define INFLIGHT_PARAM_RUNTIME 1u /* set_param() may change it while running */

/* State of an instance as bytes. A call may move fewer bytes than asked: loop. 0 = end, negative = error. */
typedef struct inflight_writer {
  void* context;
  int64_t (*write)(void* context, const void* bytes, uint64_t count);
} inflight_writer_t;
typedef struct inflight_reader {
  void* context;
  int64_t (*read)(void* context, void* bytes, uint64_t count);
} inflight_reader_t;

/* ------------------------------------------------------------------------------------------------ host table
 * Valid from create() until destroy() has returned. */
#define INFLIGHT_PLUGIN_LOG_DEBUG 0u
#define INFLIGHT_PLUGIN_LOG_INFO 1u
#define INFLIGHT_PLUGIN_LOG_WARNING 2u
#define INFLIGHT_PLUGIN_LOG_ERROR 3u

/* What a step does, see estimate_step_ns(). */
typedef struct inflight_step_work {
  uint32_t prefill_tokens, decode_sequences;
  uint64_t prefill_pairs;  /* of a prefill token and one that it sees: n(n+1)/2 for a prompt of n, n more for each token before */
  uint64_t decode_context; /* tokens that the decodes see: the sum of their contexts                             */
} inflight_step_work_t;

typedef struct inflight_host {
  uint32_t struct_size, abi_minor;
  const char *name, *version; /* for log lines, never for decisions                                              */
  uint32_t flags, reserved;   /* INFLIGHT_HOST_SIMULATED: for reports only                                       */
  void* context;
  int64_t (*now_ns)(void* context);    /* [S] virtual or monotonic; the same value all through one op            */
  uint64_t (*rand_u64)(void* context); /* [S] counter-based, seeded per instance                                 */
  void (*log)(void* context, uint32_t level, const char* text, uint64_t length);  /* [A] rate-limited            */
  void (*set_error)(void* context, const char* text, uint64_t length); /* [S] the reason of a negative status    */
  void (*metric)(void* context, const char* name, double value); /* [S] static strings [a-zA-Z_:][a-zA-Z0-9_:]*, 64 at most */
  void* (*alloc)(void* context, uint64_t bytes, uint64_t alignment); /* [A] NULL when there is none              */
  void (*free)(void* context, void* memory);                         /* [A]                                      */
  /* Stored prompt tokens of some of step->waiting, now, at most what an admission skips (the last token is always computed).
   * Costs a look-up for each stored block, so it is asked for, not pushed. Does not count as a use. `slots` names requests as
   * inflight_requests_t.slot does; in on_events() those that have just arrived are not known yet.  [S] */
  inflight_plugin_status_t (*match_prefix)(void* context, const uint32_t* slots, uint32_t count, uint32_t* tokens);
  /* How long a step that does this work should take, by the engine's own fitted model; 0 = no model yet.  [S] */
  int64_t (*estimate_step_ns)(void* context, const inflight_step_work_t* work);
  /* The unit before each unit in the prefix tree (see inflight_units_t); INFLIGHT_UNIT_ROOT = it is a first one.  [S] */
  inflight_plugin_status_t (*unit_parents)(void* context, const uint32_t* units, uint32_t count, uint32_t* parents);
  /* Ask to be taken out after this op, e.g. because a model file is stale.  [S] */
  void (*request_exit)(void* context, int32_t code, const char* why);
} inflight_host_t;
#define INFLIGHT_HOST_SIMULATED 1u

/* ------------------------------------------------------------------------------------------------ requests
 * Entry i of every column is the same request. A policy names the columns that it reads (inflight_policy_t.request_columns);
 * the host fills only those, others may be NULL. `slot` is dense in [0, environment.max_requests), for a policy's own
 * arrays; it is reused when a request has left. `id` is never reused and increases in the order in which the scheduler came to
 * know the requests: that of arrival, but for one whose grammar took time to compile. */
#define INFLIGHT_COLUMN_STATE (1u << 0)
#define INFLIGHT_COLUMN_PRIORITY (1u << 1)
#define INFLIGHT_COLUMN_TENANT (1u << 2)
#define INFLIGHT_COLUMN_TIMES (1u << 3)
#define INFLIGHT_COLUMN_DEADLINES (1u << 4)
#define INFLIGHT_COLUMN_LENGTHS (1u << 5)
#define INFLIGHT_COLUMN_CACHED (1u << 6)
#define INFLIGHT_COLUMN_BLOCKS (1u << 7)
#define INFLIGHT_COLUMN_PREDICTED (1u << 8)
#define INFLIGHT_COLUMN_PREEMPTIONS (1u << 9)
#define INFLIGHT_COLUMN_GROUPS (1u << 10)

#define INFLIGHT_UNIT_ROOT UINT32_MAX /* "no unit": the beginning of every prefix */

#define INFLIGHT_REQUEST_WAITING 0u
#define INFLIGHT_REQUEST_PREFILL 1u
#define INFLIGHT_REQUEST_DECODE 2u
#define INFLIGHT_REQUEST_PREEMPTED 3u /* waiting to go on */
#define INFLIGHT_REQUEST_BLOCKED 4u   /* waiting for something else than capacity */

typedef struct inflight_requests {
  uint32_t struct_size, count;
  uint64_t columns;
  const uint64_t* id;   /* always there */
  const uint32_t* slot; /* always there */
  const uint32_t* state;                                                     /* STATE                            */
  const int32_t* priority;                                                   /* PRIORITY  lower = sooner         */
  const uint32_t* tenant;                                                    /* TENANT    in [0, max_tenants)    */
  const int64_t *arrival_ns, *queued_ns, *first_token_ns, *last_token_ns;    /* TIMES     -1 = not yet; queued: since
                                                            when it last began to wait, anew at a preemption */
  const int64_t *ttft_deadline_ns, *next_token_deadline_ns, *e2e_deadline_ns; /* DEADLINES INT64_MAX = none; next_token:
                                                            last_token_ns + the request's goal between tokens */
  const uint32_t *prompt_tokens, *output_tokens, *max_output_tokens, *computed_tokens; /* LENGTHS                */
  const uint32_t* cached_tokens;                 /* CACHED    waiting: stored now; running: found at admission    */
  const uint32_t* cached_unit;                   /* CACHED    waiting: last stored unit of it, or INFLIGHT_UNIT_ROOT */
  const uint32_t *blocks_held, *blocks_freeable;         /* BLOCKS    freeable = would come back if it left      */
  const uint32_t* predicted_output_tokens;                                   /* PREDICTED 0 = no estimate        */
  const uint32_t *preemptions, *recomputed_tokens;                           /* PREEMPTIONS                      */
  const uint64_t* prefix_group;                          /* GROUPS    hash of the first block and the salt; of the
                                                            salt alone where the prompt is shorter       */
  const uint32_t* adapter;                               /* GROUPS    0 = none                                   */
} inflight_requests_t;

typedef struct inflight_step {
  uint32_t struct_size, flags;
  uint64_t step;
  int64_t now_ns;
  uint32_t max_step_tokens, max_step_sequences, max_running, block_tokens;
  uint32_t free_blocks, evictable_blocks, total_blocks, watermark_blocks; /* watermark_blocks: reserved, 0 */
  uint32_t tokens_left, sequences_left; /* not yet spent when this op is called */
  uint32_t prefilling, decoding;        /* running sequences of each kind       */
  int64_t last_step_ns;
  uint32_t last_prefill_tokens, last_decode_sequences;
  double reserve_ratio; /* the new-token ratio in force */
  const inflight_requests_t *waiting, *running;
  void* scratch; /* host memory, 64-byte aligned, garbage on entry */
  uint64_t scratch_bytes;
} inflight_step_t;

/* ------------------------------------------------------------------------------------------------ events
 * Everything that happened since the step before, in one call. A policy names the types it wants
 * (inflight_policy_t.events, bit 1 << type). Ignore unknown types; step by `stride` bytes. */
#define INFLIGHT_EVENT_ATTACH 1u /* was there before this instance: as ARRIVE; c = output tokens so far, -1 when it has
                                    never been admitted                                                            */
#define INFLIGHT_EVENT_ARRIVE 2u /* a = tenant, b = prompt tokens                                                  */
#define INFLIGHT_EVENT_ADMIT 3u  /* a = prompt tokens to compute, b = prompt tokens found stored */
#define INFLIGHT_EVENT_FIRST_TOKEN 4u
#define INFLIGHT_EVENT_PREEMPT 5u /* a = computed tokens that were lost                         */
#define INFLIGHT_EVENT_RESUME 6u  /* as ADMIT, after a preemption                               */
#define INFLIGHT_EVENT_FINISH 7u  /* a = prompt tokens, b = output tokens                       */
#define INFLIGHT_EVENT_ABORT 8u
#define INFLIGHT_EVENT_REJECT 9u
/* A prompt's last chunk counts among the decoding sequences, and not among prefill tokens, where it is one token. */
#define INFLIGHT_EVENT_STEP 10u   /* a = prefill tokens, b = decoding sequences, c = duration ns; no request */
#define INFLIGHT_EVENT_TOKENS 11u /* a request was served: a = tokens prefilled, b = tokens produced          */
#define INFLIGHT_EVENT_CACHE_RESET 12u /* all stored prefixes that nobody used were forgotten; no request */
#define INFLIGHT_EVENT_PARAM 13u       /* reserved: this host does not send it                            */

typedef struct inflight_event {
  uint32_t type, slot;
  uint64_t request;
  int64_t time_ns, a, b, c;
} inflight_event_t;
typedef struct inflight_events {
  uint32_t struct_size, count, stride, reserved;
  const inflight_event_t* events;
} inflight_events_t;

/* ------------------------------------------------------------------------------------------------ decisions */

/* In: the host's defaults. Out: the policy's wishes, which the host cuts to what is possible. */
typedef struct inflight_plan {
  uint32_t struct_size, flags; /* INFLIGHT_PLAN_*                                              */
  uint32_t step_tokens;        /* <= max_step_tokens                                           */
  uint32_t prefill_tokens;     /* most prompt tokens in this step                              */
  uint32_t max_chunk;          /* most tokens of one prompt in this step, >= 1                 */
  uint32_t max_admit;          /* new admissions in this step                                  */
  double reserve_ratio; /* 0..1: share of what running requests may still produce to keep free */
} inflight_plan_t;
#define INFLIGHT_PLAN_DECODE_FIRST 0u /* decodes, then prefill into the rest                            */
#define INFLIGHT_PLAN_PREFILL_ONLY 1u /* if anything can be prefilled, this step carries nothing else   */
#define INFLIGHT_PLAN_NO_ADMIT 2u

typedef uint32_t inflight_decision_t;
#define INFLIGHT_ADMIT 0u         /* take it now, at most max_tokens of it in this step              */
#define INFLIGHT_ADMIT_SKIP 1u    /* leave it waiting, look at the next                              */
#define INFLIGHT_ADMIT_STOP 2u    /* no more admissions in this step                                 */
#define INFLIGHT_ADMIT_REJECT 3u  /* fail it back to the client; needs INFLIGHT_CAP_REJECT           */
#define INFLIGHT_ADMIT_PREEMPT 4u /* take it, making room through victims; needs INFLIGHT_CAP_PREEMPTS */

typedef struct inflight_candidate {
  uint32_t struct_size, index; /* into step->waiting */
  uint32_t uncached_tokens, cached_tokens;
  uint32_t blocks_now, blocks_full; /* blocks for this step's share / for all its known tokens */
} inflight_candidate_t;
typedef struct inflight_admission { /* in: ADMIT, all uncached tokens that fit, nothing reserved */
  uint32_t struct_size;
  inflight_decision_t decision;
  uint32_t max_tokens;
  uint32_t reserve_blocks; /* reserved: ignored by this host */
  int32_t reason;          /* of the policy's own; ignored by this host */
  uint32_t reserved;
} inflight_admission_t;

#define INFLIGHT_NEED_DECODE 0u   /* a running sequence needs its next block     */
#define INFLIGHT_NEED_PREFILL 1u  /* a running prompt needs blocks for its chunk */
#define INFLIGHT_NEED_PRIORITY 2u /* a waiting request is to replace others      */
typedef struct inflight_need {
  uint32_t struct_size, why, blocks, for_slot;
  uint64_t for_request;
} inflight_need_t;

/* ------------------------------------------------------------------------------------------------ exit */
#define INFLIGHT_EXIT_UNLOAD 0u
#define INFLIGHT_EXIT_SWAP 1u
#define INFLIGHT_EXIT_SELF 2u
#define INFLIGHT_EXIT_BAD_OUTPUT 64u
#define INFLIGHT_EXIT_ERROR 65u
#define INFLIGHT_EXIT_OVERRUN 66u
#define INFLIGHT_EXIT_STUCK 67u
#define INFLIGHT_EXIT_STARVATION 68u
#define INFLIGHT_EXIT_NO_PROGRESS 69u
#define INFLIGHT_EXIT_NONDETERMINISTIC 70u
#define INFLIGHT_EXIT_ABI 71u   /* e.g. an exception came out of an op                     */
#define INFLIGHT_EXIT_CRASH 72u /* in reports only: exit() is not called after it          */
typedef struct inflight_exit {
  uint32_t struct_size, reason;
  int32_t code;
  uint32_t strikes;
  uint64_t step;
  int64_t now_ns;
  const char *op, *message;
} inflight_exit_t;

/* ------------------------------------------------------------------------------------------------ scheduling policy */
typedef struct inflight_sched_environment {
  uint32_t struct_size, max_requests, max_tenants, block_tokens, total_blocks, max_step_tokens, max_running, reserved;
  uint64_t seed;
} inflight_sched_environment_t;

/* All ops [S]. Order within a step: on_events, score of those that began to wait (with INFLIGHT_CAP_STABLE_KEYS), plan,
 * score or order of all that wait (without), admit for candidate after candidate, pick_victims when blocks run out. */
typedef struct inflight_sched_ops {
  uint32_t struct_size, flags;
  inflight_plugin_status_t (*create)(const inflight_host_t* host, const inflight_sched_environment_t* environment,
                                     const inflight_config_t* config, void** self);
  void (*destroy)(void* self);
  void (*exit)(void* self, const inflight_exit_t* info); /* before destroy; neither after a crash or a cut call */
  inflight_plugin_status_t (*on_events)(void* self, const inflight_events_t* events);
  inflight_plugin_status_t (*plan)(void* self, const inflight_step_t* step, inflight_plan_t* plan);
  /* A key for each of step->waiting; smallest (key0, key1) goes first, among equals who arrived first. Integers, so that
   * there is no NaN and every compiler finds the same order. The host sorts, and only as far as it must. key1 is 0 unless
   * written. With INFLIGHT_CAP_STABLE_KEYS step->waiting holds only those that began to wait since the step before; after a
   * call without an answer, which makes that step one in order of arrival, it holds all of them again. */
  inflight_plugin_status_t (*score)(void* self, const inflight_step_t* step, int64_t* key0, int64_t* key1);
  /* Or a whole order: indices into step->waiting, first to go first. *count: in = room, out = how many are given; the
   * others follow in order of arrival. */
  inflight_plugin_status_t (*order)(void* self, const inflight_step_t* step, uint32_t* index, uint32_t* count);
  /* Of what `step` says only tokens_left, sequences_left, free_blocks and evictable_blocks are as of now; waiting and
   * running are those of when the pass began, whoever has been admitted since. */
  inflight_plugin_status_t (*admit)(void* self, const inflight_step_t* step, const inflight_candidate_t* candidate,
                                    inflight_admission_t* admission);
  /* Indices into step->running, first to go first. *count: in = room for all of them, out = how many are given. The host
   * takes as many as it needs, but never the oldest running one, running->id[0]: so name more than one. step->waiting is
   * empty here. */
  inflight_plugin_status_t (*pick_victims)(void* self, const inflight_step_t* step, const inflight_need_t* need,
                                           uint32_t* index, uint32_t* count);
  inflight_plugin_status_t (*set_param)(void* self, const inflight_key_value_t* pair);
  inflight_plugin_status_t (*save)(void* self, const inflight_writer_t* writer);
  inflight_plugin_status_t (*load)(void* self, const inflight_reader_t* reader, uint32_t state_version);
} inflight_sched_ops_t;

/* ------------------------------------------------------------------------------------------------ eviction strategy
 * A unit is one stored KV block of the prefix tree, dense in [0, environment.units). `key` is 64 bits of the hash of its
 * content and everything before it: the same content has the same key after it was evicted and computed again. */
#define INFLIGHT_UNIT_CHAIN (1u << 0)
#define INFLIGHT_UNIT_SIZE (1u << 1)
#define INFLIGHT_UNIT_TIMES (1u << 2)
#define INFLIGHT_UNIT_USE (1u << 3)
#define INFLIGHT_UNIT_COST (1u << 4)
#define INFLIGHT_UNIT_OWNER (1u << 5)

typedef struct inflight_units {
  uint32_t struct_size, count;
  uint64_t columns;
  const uint32_t* unit; /* always there */
  const uint64_t* key;  /* always there */
  const uint32_t *parent, *depth, *children; /* CHAIN  parent INFLIGHT_UNIT_ROOT = none; depth 0 = first block   */
  const uint32_t* tokens;                    /* SIZE                                                             */
  const uint64_t* bytes;                     /* SIZE                                                             */
  const int64_t *created_ns, *last_use_ns;   /* TIMES                                                            */
  const uint32_t *hits, *references;         /* USE    hits = requests that found it, each counted once          */
  const int64_t* recompute_ns;               /* COST   of computing it again at its depth                        */
  const uint32_t* tenant;                    /* OWNER  of the request that computed it                           */
  const int32_t* priority;                   /* OWNER  of the most important request that computed or found it   */
} inflight_units_t;

typedef struct inflight_evict_environment {
  uint32_t struct_size, units, unit_tokens, tiers;
  uint64_t seed;
} inflight_evict_environment_t;

/* All ops [S]. */
typedef struct inflight_evict_ops {
  uint32_t struct_size, flags;
  inflight_plugin_status_t (*create)(const inflight_host_t* host, const inflight_evict_environment_t* environment,
                                     const inflight_config_t* config, void** self);
  void (*destroy)(void* self);
  void (*exit)(void* self, const inflight_exit_t* info);
  inflight_plugin_status_t (*on_insert)(void* self, const inflight_units_t* units);  /* can be found from now on    */
  inflight_plugin_status_t (*on_hit)(void* self, const inflight_units_t* units);     /* a request found it          */
  inflight_plugin_status_t (*on_pin)(void* self, const inflight_units_t* units);     /* references 0 -> 1           */
  inflight_plugin_status_t (*on_release)(void* self, const inflight_units_t* units); /* references 1 -> 0           */
  inflight_plugin_status_t (*on_evict)(void* self, const inflight_units_t* units);   /* gone, whoever decided it    */
  /* Either: keys for each unit; the smallest (key0, key1) goes first, among equals the one released first. Asked when a
   * unit becomes evictable: unreferenced and without stored children. key1 is 0 unless written. Without an answer the
   * unit goes with the one that was ranked before it. */
  inflight_plugin_status_t (*rank)(void* self, const inflight_units_t* units, int64_t* key0, int64_t* key1);
  /* Or: name up to *count units, first to go first; *count = 0 when none is known. Units that are referenced or have
   * stored children are passed over by the host. */
  inflight_plugin_status_t (*pick)(void* self, uint32_t need, uint32_t* unit, uint32_t* count);
  /* Store it at all? Reserved: this host does not call it. */
  inflight_plugin_status_t (*admit_unit)(void* self, const inflight_units_t* unit, uint32_t* yes);
  inflight_plugin_status_t (*set_param)(void* self, const inflight_key_value_t* pair);
  inflight_plugin_status_t (*save)(void* self, const inflight_writer_t* writer);
  inflight_plugin_status_t (*load)(void* self, const inflight_reader_t* reader, uint32_t state_version);
} inflight_evict_ops_t;

/* ------------------------------------------------------------------------------------------------ what a file offers */
#define INFLIGHT_KIND_SCHED 1u
#define INFLIGHT_KIND_EVICT 2u

#define INFLIGHT_CAP_DETERMINISTIC (1ull << 0) /* equal calls give equal answers; verified by replay             */
#define INFLIGHT_CAP_STATE (1ull << 1)         /* save and load                                                  */
#define INFLIGHT_CAP_REJECT (1ull << 2)        /* may fail requests                                              */
#define INFLIGHT_CAP_PREEMPTS (1ull << 3)      /* may ask for priority preemption                                */
#define INFLIGHT_CAP_NONLEAF (1ull << 4)       /* eviction may name inner units; reserved: ignored by this host  */
#define INFLIGHT_CAP_UNLOADABLE (1ull << 5)    /* no threads, no atexit, no unique symbols: dlclose is safe      */
#define INFLIGHT_CAP_NO_ALLOC (1ull << 6)      /* allocates in create and load only                              */
#define INFLIGHT_CAP_STABLE_KEYS (1ull << 7)   /* a request's score never changes while it waits                 */

typedef struct inflight_policy {
  uint32_t struct_size, kind;
  const char* id; /* reverse DNS, [a-z0-9.-]: "org.example.vtc"; its last part is the short name */
  const char *name, *version, *vendor, *license, *summary;
  uint64_t capabilities;                           /* INFLIGHT_CAP_*                             */
  uint32_t request_columns, unit_columns, events;  /* what it wants to see                       */
  uint32_t state_version, state_oldest;            /* load() takes this range                    */
  uint32_t soft_step_us;                           /* its own promise of time a step; 0 = none   */
  uint32_t param_count, reserved;
  const inflight_param_t* params;
  const inflight_sched_ops_t* sched; /* the one that `kind` names */
  const inflight_evict_ops_t* evict;
} inflight_policy_t;

typedef struct inflight_module {
  uint32_t struct_size, abi_minor, min_host_minor, count;
  const inflight_policy_t* const* policies;
} inflight_module_t;

typedef struct inflight_query {
  uint32_t struct_size, abi_minor;
  const char *host_name, *host_version;
} inflight_query_t;

/* An ELF note for each policy of a file, so that files can be listed without running them. In C, once a policy:
 *   INFLIGHT_PLUGIN_NOTE(fcfs, "sched org.inflight.fcfs")      text: kind, blank, id; at most 119 characters
 * plugin.hpp's INFLIGHT_EXPORT_POLICY does it by itself. A note must agree with the descriptor. */
typedef struct inflight_plugin_note {
  uint32_t name_bytes, text_bytes, type;
  char name[12]; /* "inflight" */
  char text[120];
} inflight_plugin_note_t;
#ifndef INFLIGHT_PLUGIN_NOTE_SECTION
#define INFLIGHT_PLUGIN_NOTE_SECTION __attribute__((section(".note.inflight"), used, aligned(4)))
#endif
#define INFLIGHT_PLUGIN_NOTE(variable, text)                                       \
  INFLIGHT_PLUGIN_NOTE_SECTION static const inflight_plugin_note_t                 \
      inflight_note_##variable = {9, 120, INFLIGHT_PLUGIN_ABI_MAJOR, "inflight", text}

/* The one exported symbol. Returns static data: no side effects, no allocation, any thread, any number of times, within
 * a millisecond. NULL = "nothing for this host". */
INFLIGHT_PLUGIN_EXPORT const inflight_module_t* inflight_plugin_query_v1(const inflight_query_t* query);
typedef const inflight_module_t* (*inflight_plugin_query_fn)(const inflight_query_t* query);

#ifdef __cplusplus
}
#endif
#endif
