// SPDX-License-Identifier: Apache-2.0
// attention_floats.cl: attention over K and V that are read as floats (f32, f16, q8_0; storage: rows.cl).
//   Provides for attention_item.cl:
//   Queries, take_query()        up to QUERIES_MAX queries, times 1 / sqrt(D)
//   KEY_STEPS, KEY_PART          steps along a head; of a part of these, whose sums END_PART adds to the scores, which END_SCORE
//                                ends
//   LOAD_K, ADD_KEY              of step i: its numbers of a vector of tokens; their products with a query's, added to a sum
//   WEIGH(N)                     makes scores[q] weights; totals[q] is their sum
//   ADD_VALUES(N, PARTS), VALUE  adds weighted V to sum[p][q], part `part` + p of the head; what a sum stands for
//   ASK_FOR_KV, ASK_FOR_SCALES   asks for a cache line of K or V; for scales that lie apart, of a group's V and of K ahead
//   A sum has its products in the order of tokens, or of a head's numbers.
// Test: tests/kernel/attention_test.cpp.

typedef float QUERY_NUMBER;
typedef struct {
  QUERY_NUMBER numbers[QUERIES_MAX * HEAD_SIZE];
  int window;  // of the layer, where that differs
} Queries;

static void take_query(Queries* to, int q, __global const float* from)
{
  for (int i = 0; i < HEAD_SIZE; i++) to->numbers[q * HEAD_SIZE + i] = from[i] * QUERY_SCALE;
}

#define ASK_FOR_KV prefetch_line
#define ASK_FOR_SCALES(keys, ahead)
#define KEY_STEPS HEAD_SIZE
#define KEY_SUMS TOKEN_FLOATS
#define ADD_KEY(sum, k, query, i) fma(k, (KEY_SUMS)((query)[i]), sum)
// So many steps of a vector of tokens to each line that is asked for.
#define STEPS_A_LINE (FEW_REGISTERS && HEAD_SIZE % 4 == 0 ? 4 : 1)
#define KEYS_AT 0  // of a K group, where the first step is
// LOAD_K: of a K group, step i of its tokens from lane `from` on, within a part at `p` that is PART_BYTES long.
// LOAD_V: of a V group, HEAD_VECTOR numbers i of token j.
#if KV_TYPE == TYPE_Q8_0
#define KEY_PART 32
#define PART_BYTES (34 * KV_GROUP)
#define LOAD_K(i, from, p) CONCAT(load_bytes_, TOKEN_VECTOR)((__global const char*)(p) + KV_SCALE_BYTES + (i) * KV_GROUP + (from))
#define END_PART(sum, score, from, p) fma(sum, LOAD_SCALES(0, from, p), score)
#define LOAD_SCALES(i, from, p) CONCAT(load_halves_, TOKEN_VECTOR)((__global const half*)(p) + (i) * KV_GROUP + (from))
#define VALUES(p) ((__global const char*)(p) + HEAD_SIZE / 32 * KV_SCALE_BYTES)
#define LOAD_V(i, j, p) CONCAT(load_bytes_, HEAD_VECTOR)(VALUES(p) + (j) * HEAD_SIZE + (i) * HEAD_VECTOR)
#else
#define KEY_PART HEAD_SIZE
#define PART_BYTES KV_GROUP_BYTES
#define END_PART(sum, score, from, p) (sum)
#if KV_TYPE == TYPE_F16
#define LOAD_K(i, from, p) CONCAT(load_halves_, TOKEN_VECTOR)((__global const half*)(p) + (i) * KV_GROUP + (from))
#define LOAD_V(i, j, p) CONCAT(load_halves_, HEAD_VECTOR)((__global const half*)(p) + (j) * HEAD_SIZE + (i) * HEAD_VECTOR)
#else
#define LOAD_K(i, from, p) CONCAT(vload, TOKEN_VECTOR)(0, (__global const float*)(p) + (i) * KV_GROUP + (from))
#define LOAD_V(i, j, p) CONCAT(vload, HEAD_VECTOR)(i, (__global const float*)(p) + (j) * HEAD_SIZE)
#endif
#endif
#define END_SCORE(score, queries, q, from, p) (score)
#define load_halves_2(p) vload_half2(0, p)
#define load_halves_4(p) vload_half4(0, p)
#define load_halves_8(p) vload_half8(0, p)
#define load_bytes_2(p) convert_float2(vload2(0, p))
#define load_bytes_4(p) convert_float4(vload4(0, p))
#define load_bytes_8(p) convert_float8(vload8(0, p))
// One load at any address (PoCL's vload16 of bytes takes eight).
typedef char16 __attribute__((aligned(1))) char16_anywhere;
#define load_bytes_16(p) convert_float16(*(__global const char16_anywhere*)(p))

// The scores' exponentials over `largest`, their sum; vectors of groups [first, end).
static float exponentials(TOKEN_FLOATS* scores, int first, int end, float largest)
{
  TOKEN_FLOATS total[GROUP_VECTORS];
  EACH(u, GROUP_VECTORS) total[u] = 0.0f;
  for (int t = first * GROUP_VECTORS; t < end * GROUP_VECTORS; t += GROUP_VECTORS) {
    EACH(u, GROUP_VECTORS) {
      scores[t + u] = exponential(scores[t + u], largest);
      total[u] += scores[t + u];
    }
  }
  return SUM_GROUP(total);
}
#define WEIGH(N) \
  for (int q = 0; q < N; q++) totals[q] = exponentials(scores[q], first_group, groups, largests[q]);

// The weights of vector t's tokens; for q8_0 as the 32 numbers with number HEAD_VECTOR * i of V are multiplied by them.
#if KV_TYPE == TYPE_Q8_0
#define SCALE_BLOCKS(PARTS) (((PARTS) * HEAD_VECTOR + 31) / 32)
#define SCALE_BLOCK(p) ((p) * HEAD_VECTOR / 32)
#define DEFINE_SCALED(N, PARTS)                                                                                        \
  TOKEN_FLOATS scaled[SCALE_BLOCKS(PARTS)][N];                                                                         \
  EACH(p, PARTS) {                                                                                                     \
    const int block = min(part + p, HEAD_PARTS - 1) * HEAD_VECTOR / 32;                                                \
    EACH(q, N) scaled[SCALE_BLOCK(p)][q] = scores[q][t] * LOAD_SCALES(block, lane, values);                            \
  }
#define WEIGHT(q, p, j) ((const float*)&scaled[SCALE_BLOCK(p)][q])[j]
#else
#define DEFINE_SCALED(N, PARTS)
#define WEIGHT(q, p, j) ((const float*)&scores[q][t])[j]
#endif

#define VALUE_SUMS HEAD_FLOATS
#define VALUE(sum, q) (sum)
#define PART_LINES(PARTS) (((PARTS) * HEAD_VECTOR * (KV_HEAD_BYTES / HEAD_SIZE) + 63) / 64)  // cache lines of a token's V
// Of vector t: its tokens j that anybody sees, times their weights, to those queries q that the condition IF holds for.
#define ADD_TOKENS(N, PARTS, IF)                                                                                       \
  for (int j = max(first - t * TOKEN_VECTOR, 0); j < end; j++) {                                                       \
    EACH(line, PART_LINES(PARTS)) ASK_FOR_KV(ahead + (lane + j) * KV_HEAD_BYTES + 64 * line);                          \
    HEAD_FLOATS v[PARTS];                                                                                              \
    EACH(p, PARTS) v[p] = LOAD_V(min(part + p, HEAD_PARTS - 1), lane + j, values);                                     \
    EACH(q, N) {                                                                                                       \
      IF EACH(p, PARTS) {                                                                                              \
        sum[p][q] = fma(v[p], (HEAD_FLOATS)(WEIGHT(q, p, j)), sum[p][q]);                                              \
      }                                                                                                                \
    }                                                                                                                  \
  }
#define ADD_VALUES(N, PARTS)                                                                                           \
  /* of the partition's tokens those that all see */                                                                   \
  const int all_first = max(FIRST_SEEN(last) - begin, 0), all_count = min(position[0] + 1 - begin, PARTITION);         \
  for (int t = first_group * GROUP_VECTORS; t < vectors; t++) {                                                        \
    const int group = t / GROUP_VECTORS, lane = FIRST_LANE(t);                                                         \
    __global const uchar* values = at[group] + KV_HALF_BYTES;                                                          \
    __global const uchar* ahead = after_values(at, group, groups) + part * HEAD_VECTOR * (KV_HEAD_BYTES / HEAD_SIZE);  \
    DEFINE_SCALED(N, PARTS)                                                                                            \
    const int end = min(count - t * TOKEN_VECTOR, TOKEN_VECTOR);                                                       \
    if (N > 1 && (max(first, t * TOKEN_VECTOR) < all_first || t * TOKEN_VECTOR + end > all_count)) {                   \
      ADD_TOKENS(N, PARTS, if (SEES(position[q], begin + t * TOKEN_VECTOR + j)))                                       \
    } else {                                                                                                           \
      ADD_TOKENS(N, PARTS, )                                                                                           \
    }                                                                                                                  \
  }
