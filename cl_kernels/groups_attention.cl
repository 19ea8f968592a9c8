// SPDX-License-Identifier: Apache-2.0
// groups_attention.cl: attention by work-groups, over K and V that are read as floats; contract, work list and partials:
//   attention.cl.
//   Mapping: item = a work-list entry. A work-group of as many threads as a partition has tokens: for the scores a thread has a
//   token, for the weighted sums a number of a head, so that neighbours read neighbouring words of K and V alike. A tile of
//   queries (GROUP_QUERIES: the heads that share K and V, in a prompt of several rows) reads them together.
//   Sums in order: a score's along the head, a total's as attention_floats.cl adds it, a weighted sum's along the tokens.
// Test: tests/kernel/attention_test.cpp, tests/unit/exec/determinism_test.cpp.

#if PARTITION != WORK_GROUP
#error a thread has one token of a partition
#endif
#define ONE_ROW (SHARED_HEADS > 12 ? 12 : SHARED_HEADS)
#define GROUP_QUERIES (SHARED_HEADS > 12 ? 12 : 12 / SHARED_HEADS * SHARED_HEADS)
#define QUERY_STRIDE 12  // of the queries in local memory, [number][query]
#define QUERY_FLOATS (HEAD_SIZE * QUERY_STRIDE)
#define SCORE_FLOATS (GROUP_QUERIES * (PARTITION + 1))
#define SUM_FLOATS (GROUP_QUERIES * 17)

typedef struct {
  __local float* query;    // [HEAD_SIZE][QUERY_STRIDE]
  __local float* score;    // [query][PARTITION + 1], then weights
  __local float* part;     // [query][17]: partial maxima and sums, the whole one last
  __local int* position;   // [query]; -1: not there
  __local ulong* at;       // K of each group of the partition
  __local uint4* values;   // [VALUE_UNITS]
  int window;              // of the layer, where that differs
} AttentionLocal;

// Groups of V in local memory at a time, in units of 16 bytes.
#define VALUE_GROUPS (KV_GROUP_BYTES > 8192 ? 1 : 8192 / KV_GROUP_BYTES)
#define GROUP_UNITS (KV_GROUP_BYTES / 16)
#define VALUE_UNITS (VALUE_GROUPS * GROUP_UNITS)
#define VALUE_UNITS_EACH ((VALUE_UNITS + WORK_GROUP - 1) / WORK_GROUP)

// Numbers of K as floats, without their scale: number i of the token in place `lane` of the group at p; and of V.
#if KV_TYPE == TYPE_Q8_0
#define KEY_NUMBER(i, lane, p) \
  ((float)((__global const char*)(p))[(i) / 32 * (34 * KV_GROUP) + KV_SCALE_BYTES + (i) % 32 * KV_GROUP + (lane)])
#define KEY_SCALE(i, lane, p) vload_half(lane, (__global const half*)((p) + (i) / 32 * (34 * KV_GROUP)))
#define VALUE_NUMBER(i, lane, p) \
  ((float)((__local const char*)(p))[HEAD_SIZE / 32 * KV_SCALE_BYTES + (lane) * HEAD_SIZE + (i)])
#define VALUE_WEIGHT(weight, i, lane, p) ((weight) * vload_half((i) / 32 * KV_GROUP + (lane), (__local const half*)(p)))
#else
#if KV_TYPE == TYPE_F16
#define KEY_NUMBER(i, lane, p) vload_half((i) * KV_GROUP + (lane), (__global const half*)(p))
#define VALUE_NUMBER(i, lane, p) vload_half((lane) * HEAD_SIZE + (i), (__local const half*)(p))
#else
#define KEY_NUMBER(i, lane, p) ((__global const float*)(p))[(i) * KV_GROUP + (lane)]
#define VALUE_NUMBER(i, lane, p) ((__local const float*)(p))[(lane) * HEAD_SIZE + (i)]
#endif
#define VALUE_WEIGHT(weight, i, lane, p) (weight)
#endif

// What this thread brings of V of the groups [group, group + VALUE_GROUPS), of which `groups` are there, into local memory.
static void load_values(const AttentionLocal* l, int group, int groups, uint4* units)
{
#pragma unroll
  for (int n = 0; n < VALUE_UNITS_EACH; n++) {
    const int i = THREAD + WORK_GROUP * n, t = min(group + i / GROUP_UNITS, groups - 1);
    units[n] = ((__global const uint4*)(l->at[t] + KV_HALF_BYTES))[i % GROUP_UNITS];
  }
}

// The N queries of a tile over one partition; results as the partials' (a, m, l): sums of the numbers that this thread has,
// number THREAD + WORK_GROUP * u of [query][HEAD_SIZE], and m and l of their queries.
#define SUMS_EACH(N) (((N) * HEAD_SIZE + WORK_GROUP - 1) / WORK_GROUP)
#define DEFINE_GROUP_PARTITION(NAME, N)                                                                                 \
  static void NAME(AttentionLocal* l, int begin, int last, float* sum, float* largest, float* total)                    \
  {                                                                                                                     \
    const int token = begin + THREAD, group = THREAD / KV_GROUP, lane = THREAD % KV_GROUP;                              \
    TAKE_WINDOW(l)                                                                                                      \
    float score[N];                                                                                                     \
    _Pragma("unroll") for (int q = 0; q < N; q++) score[q] = -INFINITY;                                                 \
    if (token <= last && token >= FIRST_SEEN(l->position[0])) {                                                         \
      __global const uchar* keys = (__global const uchar*)l->at[group];                                                 \
      float dot[N];                                                                                                     \
      _Pragma("unroll") for (int q = 0; q < N; q++) score[q] = 0.0f;                                                    \
      for (int i0 = 0; i0 < HEAD_SIZE; i0 += KEY_PART) {                                                                \
        _Pragma("unroll") for (int q = 0; q < N; q++) dot[q] = 0.0f;                                                    \
        _Pragma("unroll 32") for (int i = i0; i < i0 + KEY_PART; i++) {                                                 \
          const float k = KEY_NUMBER(i, lane, keys);                                                                    \
          _Pragma("unroll") for (int q = 0; q < N; q++) dot[q] = fma(k, l->query[i * QUERY_STRIDE + q], dot[q]);        \
        }                                                                                                               \
        _Pragma("unroll") for (int q = 0; q < N; q++) score[q] = END_KEY_PART(dot[q], score[q], i0, lane, keys);        \
      }                                                                                                                 \
      _Pragma("unroll") for (int q = 0; q < N; q++) {                                                                   \
        score[q] = SEES(l->position[q], token) ? CAPPED_SCORE(score[q]) : -INFINITY;                                    \
      }                                                                                                                 \
    }                                                                                                                   \
    const int first_group = max(FIRST_SEEN(l->position[0]) - begin, 0) / KV_GROUP;                                      \
    const int groups = (min(last + 1 - begin, PARTITION) + KV_GROUP - 1) / KV_GROUP;                                    \
    uint4 units[VALUE_UNITS_EACH];                                                                                      \
    load_values(l, first_group, groups, units);                                                                         \
    _Pragma("unroll") for (int q = 0; q < N; q++) l->score[q * (PARTITION + 1) + THREAD] = score[q];                    \
    TOGETHER();                                                                                                         \
    EACH_THREAD(i, N * 16) {                                                                                            \
      float most = -INFINITY;                                                                                           \
      for (int j = 0; j < PARTITION; j += 16) most = fmax(most, l->score[i / 16 * (PARTITION + 1) + j + i % 16]);       \
      l->part[i / 16 * 17 + i % 16] = most;                                                                             \
    }                                                                                                                   \
    TOGETHER();                                                                                                         \
    EACH_THREAD(q, N) l->part[q * 17 + 16] = max_16(vload16(0, l->part + q * 17));                                      \
    TOGETHER();                                                                                                         \
    _Pragma("unroll") for (int q = 0; q < N; q++) {                                                                     \
      const float weight = exp_nonpositive_1(score[q] - l->part[q * 17 + 16]);                                          \
      l->score[q * (PARTITION + 1) + THREAD] = score[q] == -INFINITY ? 0.0f : weight;                                   \
    }                                                                                                                   \
    _Pragma("unroll") for (int u = 0; u < SUMS_EACH(N); u++) {                                                          \
      largest[u] = l->part[min((THREAD + WORK_GROUP * u) / HEAD_SIZE, N - 1) * 17 + 16];                                \
      sum[u] = 0.0f;                                                                                                    \
    }                                                                                                                   \
    TOGETHER();                                                                                                         \
    EACH_THREAD(i, N * KV_GROUP) {                                                                                      \
      float all = 0.0f;                                                                                                 \
      for (int j = 0; j < PARTITION; j += KV_GROUP) {                                                                   \
        all += l->score[i / KV_GROUP * (PARTITION + 1) + j + i % KV_GROUP];                                             \
      }                                                                                                                 \
      l->part[i / KV_GROUP * 17 + i % KV_GROUP] = all;                                                                  \
    }                                                                                                                   \
    for (int group0 = first_group; group0 < groups; group0 += VALUE_GROUPS) {                                           \
      TOGETHER();                                                                                                       \
      _Pragma("unroll") for (int n = 0; n < VALUE_UNITS_EACH; n++) {                                                    \
        if (THREAD + WORK_GROUP * n < VALUE_UNITS) l->values[THREAD + WORK_GROUP * n] = units[n];                       \
      }                                                                                                                 \
      TOGETHER();                                                                                                       \
      if (group0 + VALUE_GROUPS < groups) load_values(l, group0 + VALUE_GROUPS, groups, units);                         \
      for (int t = group0; t < min(group0 + VALUE_GROUPS, groups); t++) {                                               \
        __local const uint4* values = l->values + (t - group0) * GROUP_UNITS;                                           \
        _Pragma("unroll") for (int u = 0; u < SUMS_EACH(N); u++) {                                                      \
          const int place = THREAD + WORK_GROUP * u, q = min(place / HEAD_SIZE, N - 1), i = place % HEAD_SIZE;          \
          const int position = l->position[q];                                                                          \
          __local const float* weights = l->score + q * (PARTITION + 1) + t * KV_GROUP;                                 \
          _Pragma("unroll") for (int j = 0; j < KV_GROUP; j++) {                                                        \
            const float v = VALUE_NUMBER(i, j, values), weight = VALUE_WEIGHT(weights[j], i, j, values);                \
            if (SEES(position, begin + t * KV_GROUP + j)) sum[u] = fma(v, weight, sum[u]);                              \
          }                                                                                                             \
        }                                                                                                               \
      }                                                                                                                 \
    }                                                                                                                   \
    TOGETHER();                                                                                                         \
    EACH_THREAD(q, N) l->part[q * 17 + 16] = SUM_LANES(l->part + q * 17);                                               \
    TOGETHER();                                                                                                         \
    _Pragma("unroll") for (int u = 0; u < SUMS_EACH(N); u++) {                                                          \
      total[u] = l->part[min((THREAD + WORK_GROUP * u) / HEAD_SIZE, N - 1) * 17 + 16];                                  \
    }                                                                                                                   \
  }
#if KV_TYPE == TYPE_Q8_0
#define END_KEY_PART(dot, score, i0, lane, p) fma(dot, KEY_SCALE(i0, lane, p), score)
#else
#define END_KEY_PART(dot, score, i0, lane, p) (dot)
#endif
#if KV_GROUP == 16
#define SUM_LANES(v) sum_16(vload16(0, v))
#else
#define SUM_LANES(v) sum_8(vload8(0, v))
#endif

// The N queries from query q0 of an item on.
#define DEFINE_GROUP_TILE(NAME, N, DO_PARTITION)                                                                        \
  static void NAME(const Memory* memory, const AttentionArgs* args, __global const int* work, int q0,          \
                   AttentionLocal* l)                                                                                   \
  {                                                                                                                     \
    const int shared = SHARED_HEADS_OF(args);                                                                           \
    const int first_row = work[0], count = min(work[1] * shared - q0, N), group = work[2], partial = work[5];           \
    TAKE_WINDOW(l)                                                                                                      \
    __global const int* table = memory->step + memory->step[args->tables + first_row];                                  \
    TOGETHER();                                                                                                         \
    EACH_THREAD(i, N * HEAD_SIZE) {                                                                                     \
      const int q = i / HEAD_SIZE, row = first_row + (q0 + q) / shared;                                                 \
      const int head = group * shared + (q0 + q) % shared;                                                              \
      __global const float* from = memory->act + args->query + ((size_t)row * HEADS + head) * HEAD_SIZE;                \
      l->query[i % HEAD_SIZE * QUERY_STRIDE + q] = q < count ? from[i % HEAD_SIZE] * QUERY_SCALE : 0.0f;                \
    }                                                                                                                   \
    EACH_THREAD(q, N) {                                                                                                 \
      l->position[q] = q < count ? memory->step[args->positions + first_row + (q0 + q) / shared] : -1;                  \
    }                                                                                                                   \
    TOGETHER();                                                                                                         \
    const int last = l->position[count - 1]; /* positions rise with the rows */                                         \
    float sums[SUMS_EACH(N)], largests[SUMS_EACH(N)], totals[SUMS_EACH(N)];                                             \
    _Pragma("unroll") for (int u = 0; u < SUMS_EACH(N); u++) totals[u] = -1.0f;                                         \
    for (int partition = work[3]; partition < work[4]; partition++) {                                                   \
      const int begin = partition * PARTITION;                                                                          \
      if (begin > last || FIRST_SEEN(l->position[0]) >= begin + PARTITION) continue;                                    \
      EACH_THREAD(t, GROUPS_MAX) {                                                                                      \
        const int token = min(begin + t * KV_GROUP, last / KV_GROUP * KV_GROUP);                                        \
        l->at[t] = (ulong)(kv_unit(memory, table[token / BLOCK_TOKENS] + args->unit + group) +                          \
                           token % BLOCK_TOKENS * KV_HEAD_BYTES);                                                       \
      }                                                                                                                 \
      TOGETHER();                                                                                                       \
      float sum[SUMS_EACH(N)], largest[SUMS_EACH(N)], total[SUMS_EACH(N)];                                              \
      DO_PARTITION(l, begin, last, sum, largest, total);                                                                \
      _Pragma("unroll") for (int u = 0; u < SUMS_EACH(N); u++) {                                                        \
        const int place = THREAD + WORK_GROUP * u, q = min(place / HEAD_SIZE, N - 1), position = l->position[q];        \
        const int takes = place < N * HEAD_SIZE && position >= begin && FIRST_SEEN(position) < begin + PARTITION;       \
        if (takes && partial >= 0) {                                                                                    \
          const int slot = partial + (q0 + q) * work[6] + partition - work[7];                                          \
          __global float* to = memory->act + args->partials + (size_t)slot * PARTIAL_WORDS;                             \
          to[place % HEAD_SIZE] = sum[u];                                                                               \
          if (place % HEAD_SIZE == 0) {                                                                                 \
            to[HEAD_SIZE] = largest[u];                                                                                 \
            to[HEAD_SIZE + 1] = total[u];                                                                               \
          }                                                                                                             \
        } else if (takes && totals[u] < 0.0f) {                                                                         \
          sums[u] = sum[u];                                                                                             \
          largests[u] = largest[u];                                                                                     \
          totals[u] = total[u];                                                                                         \
        } else if (takes) {                                                                                             \
          const float2 factors = merge_factors(&largests[u], &totals[u], largest[u], total[u]);                         \
          sums[u] = sums[u] * factors.x + sum[u] * factors.y;                                                           \
        }                                                                                                               \
      }                                                                                                                 \
    }                                                                                                                   \
    if (partial >= 0) return;                                                                                           \
    _Pragma("unroll") for (int u = 0; u < SUMS_EACH(N); u++) {                                                          \
      const int place = THREAD + WORK_GROUP * u, q = place / HEAD_SIZE;                                                 \
      if (q >= count) continue;                                                                                         \
      const int row = first_row + (q0 + q) / shared, head = group * shared + (q0 + q) % shared;                         \
      const float scale = end_factor(memory, args->sinks, head, largests[u], totals[u]);                                \
      memory->act[args->out + ((size_t)row * HEADS + head) * HEAD_SIZE + place % HEAD_SIZE] = sums[u] * scale;          \
    }                                                                                                                   \
  }
DEFINE_GROUP_PARTITION(group_partition_row, ONE_ROW)
DEFINE_GROUP_TILE(group_tile_row, ONE_ROW, group_partition_row)
#if ONE_ROW < GROUP_QUERIES
DEFINE_GROUP_PARTITION(group_partition_most, GROUP_QUERIES)
DEFINE_GROUP_TILE(group_tile_most, GROUP_QUERIES, group_partition_most)
#endif

static void attention_group(const Memory* memory, const AttentionArgs* args, int item, AttentionLocal* l)
{
  __global const int* work = memory->step + args->list + item * 8;
  const int count = work[1] * SHARED_HEADS_OF(args);
  l->window = args->window;
  for (int q0 = 0; q0 < count;) {
#if ONE_ROW < GROUP_QUERIES
    if (count - q0 > ONE_ROW) {
      group_tile_most(memory, args, work, q0, l);
      q0 += GROUP_QUERIES;
      continue;
    }
#endif
    group_tile_row(memory, args, work, q0, l);
    q0 += ONE_ROW;
  }
}
