// SPDX-License-Identifier: Apache-2.0
// attention_ints.cl: attention over K and V that are kept as int16 (i16; storage: rows.cl), a float scale for each token's K
//   and V in a KV head. Queries and weights become int16 with a scale each, too; two products of int16 and their sum in 32
//   bits are one instruction of x86 processors, where one product of floats is. What it provides: attention_floats.cl.
//   |K|, |V| <= KV_INT_MAX (8191). The int16 of a query and those of a partition's weights are at most 32767 each. Of a part
//   of a query (64 numbers, or the whole head) and of a partition's weights the magnitudes add up to no more than 261,600 + 0.5
//   for each of at most 1,024 roundings: so sums of products stay below 2^31, are exact, and have no order. Parts are added as
//   floats.
//   Of a query: number = scale * int16. Of a partition: p_j * (scale of V_j) = unit * int16_j, unit = the sum of the left sides
//   over the sum of the int16, so that rounding does not change their sum. What is not seen has weight 0.
//   NaN and infinity in a query, in K or V make the scale NaN.
//   Half of a step is, relative to the largest, 2^-14 for K and V; of a query 64 * (mean magnitude) / 523,200, about the same;
//   of a partition's weights (their sum) / 523,200.
// Test: tests/kernel/attention_test.cpp.

#define INTS_SUM_MAX 261600.0f
#define INT_MAX_16 32767.0f
#define HEAD_PAIRS (HEAD_SIZE / 2)
#define PART_NUMBERS (HEAD_SIZE % 64 == 0 ? 64 : HEAD_SIZE)  // whose products with a query's make one integer

// sum + pair[0] * v.low + pair[1] * v.high, v having two int16 in each int.
#define DEFINE_ADD_PRODUCTS(INTS)                                                                          \
  static INTS __attribute__((overloadable)) add_products(INTS sum, INTS v, const short* pair)              \
  {                                                                                                        \
    return sum + ((v << 16) >> 16) * pair[0] + (v >> 16) * pair[1];                                        \
  }
DEFINE_ADD_PRODUCTS(int2)
DEFINE_ADD_PRODUCTS(int4)
// Inline assembly, since drivers may compile for a processor model without VNNI. The linear layers' file says whether: it was
// tried on the device.
#define DEFINE_ADD_PRODUCTS_VNNI(INTS, PREFIX)                                                             \
  static INTS __attribute__((overloadable)) add_products(INTS sum, INTS v, const short* pair)              \
  {                                                                                                        \
    __asm__(PREFIX "vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(v), "v"((INTS)(as_int(vload2(0, pair)))));      \
    return sum;                                                                                            \
  }
#define DEFINE_ADD_PRODUCTS_AVX(INTS)                                                                      \
  static INTS __attribute__((overloadable)) add_products(INTS sum, INTS v, const short* pair)              \
  {                                                                                                        \
    INTS both;                                                                                             \
    __asm__("vpmaddwd %2, %1, %0" : "=v"(both) : "v"(v), "v"((INTS)(as_int(vload2(0, pair)))));            \
    return sum + both;                                                                                     \
  }
#if AVX512_VNNI
DEFINE_ADD_PRODUCTS_VNNI(int8, "")
DEFINE_ADD_PRODUCTS_VNNI(int16, "")
#elif INFLIGHT_X86_LINUX && defined(__AVX512BW__) && defined(__AVX512VL__)
DEFINE_ADD_PRODUCTS_AVX(int8)
DEFINE_ADD_PRODUCTS_AVX(int16)
#elif AVX_VNNI
DEFINE_ADD_PRODUCTS_VNNI(int8, "%{vex%} ")
DEFINE_ADD_PRODUCTS(int16)
#elif INFLIGHT_X86_LINUX && defined(__AVX2__)
DEFINE_ADD_PRODUCTS_AVX(int8)
DEFINE_ADD_PRODUCTS(int16)
#else
DEFINE_ADD_PRODUCTS(int8)
DEFINE_ADD_PRODUCTS(int16)
#endif

typedef short QUERY_NUMBER;
typedef struct {
  QUERY_NUMBER numbers[QUERIES_MAX * HEAD_SIZE];
  float scale[QUERIES_MAX];
  int window;  // of the layer, where that differs
} Queries;

static void take_query(Queries* to, int q, __global const float* from)
{
  float part_sum = 0.0f, largest = 0.0f;  // the largest part's sum
  for (int begin = 0; begin < HEAD_SIZE; begin += PART_NUMBERS) {
    float sum = 0.0f;
    int i = begin;
#if PART_NUMBERS >= 8
    float8 sums = 0.0f, most = 0.0f;
    for (; i + 8 <= begin + PART_NUMBERS; i += 8) {
      const float8 magnitudes = fabs(vload8(0, from + i));
      sums += magnitudes;
      most = fmax(most, magnitudes);
    }
    sum = sum_8(sums);
    largest = fmax(largest, max_8(most));
#endif
    for (; i < begin + PART_NUMBERS; i++) {
      sum += fabs(from[i]);
      largest = fmax(largest, fabs(from[i]));
    }
    part_sum = fmax(part_sum, sum) + (sum - sum);  // NaN stays
  }
  const float scale = fmax(part_sum * (1.0f / INTS_SUM_MAX), largest * (1.0f / INT_MAX_16));
  quantise_numbers(from, scale > TINY ? 1.0f / scale : 0.0f, to->numbers + q * HEAD_SIZE);
  to->scale[q] = scale * QUERY_SCALE + (part_sum - part_sum);
}

// K and V are met faster than memory gives them: they are asked for into the same cache as weights (linear_vnni.cl).
#ifdef ASK_FOR
#define ASK_FOR_KV(from) __asm__ volatile(ASK_FOR " %0" : : "m"(*(from)))
#else
#define ASK_FOR_KV prefetch_line
#endif
#define ASK_FOR_SCALES(keys, ahead)     \
  {                                     \
    ASK_FOR_KV(ahead);                  \
    ASK_FOR_KV((keys) + KV_HALF_BYTES); \
  }
#define KEY_STEPS HEAD_PAIRS
#define KEY_PART (PART_NUMBERS / 2)
#define PART_BYTES (PART_NUMBERS * 2 * KV_GROUP)
#define KEY_SUMS TOKEN_INTS
#define ADD_KEY(sum, k, query, i) add_products(sum, k, (query) + 2 * (i))
#define STEPS_A_LINE 1
#define KEYS_AT KV_SCALE_BYTES
#define LOAD_K(i, from, p) CONCAT(vload, TOKEN_VECTOR)(0, (__global const int*)((p) + KV_SCALE_BYTES) + (i) * KV_GROUP + (from))
#define LOAD_SCALES(from, p) CONCAT(vload, TOKEN_VECTOR)(0, (__global const float*)(p) + (from))
#define END_PART(sum, score, from, p) ((score) + CONCAT(convert_, TOKEN_FLOATS)(sum))
#define END_SCORE(score, queries, q, from, p) ((score) * (LOAD_SCALES(from, p) * (queries)->scale[q]))

typedef CONCAT(short, TOKEN_VECTOR) __attribute__((aligned(2))) TOKEN_SHORTS;  // one store (PoCL's vstore16 takes sixteen)

// Scores over `largest` of groups [first, end) to weights p_j * (scale of V_j). Returns the sum of p.
static float weigh(TOKEN_FLOATS* scores, __global const uchar* const* at, int first, int end, float largest, float* weight_sum,
                   float* largest_weight)
{
  TOKEN_FLOATS total[GROUP_VECTORS], sums[GROUP_VECTORS];
  TOKEN_INTS most = 0;  // bits of floats: those of none below 0 have their order
  EACH(u, GROUP_VECTORS) total[u] = sums[u] = 0.0f;
  for (int t = first * GROUP_VECTORS; t < end * GROUP_VECTORS; t += GROUP_VECTORS) {
    EACH(u, GROUP_VECTORS) {
      const TOKEN_FLOATS p = exponential(scores[t + u], largest);
      const TOKEN_FLOATS scaled = p * LOAD_SCALES(FIRST_LANE(t + u), at[t / GROUP_VECTORS] + KV_HALF_BYTES);
      const TOKEN_FLOATS w = select(scaled, (TOKEN_FLOATS)(0.0f), scores[t + u] == (TOKEN_FLOATS)(-INFINITY));
      total[u] += p;
      sums[u] += w;
      most = max(most, CONCAT(as_, TOKEN_INTS)(w));
      scores[t + u] = w;
    }
  }
  *weight_sum = SUM_GROUP(sums);
  *largest_weight = as_float(CONCAT(max_int_, TOKEN_VECTOR)(most));
  return SUM_GROUP(total);
}

// Weights to int16; returns their unit.
static float quantise_weights(const TOKEN_FLOATS* scores, int first, int end, float weight_sum, float largest_weight, short* to)
{
  const float scale = fmax(weight_sum * (1.0f / INTS_SUM_MAX), largest_weight * (1.0f / INT_MAX_16));
  const float inverse = scale > TINY ? 1.0f / scale : 0.0f;
  TOKEN_INTS sum = 0;
  for (int t = first * GROUP_VECTORS; t < end * GROUP_VECTORS; t++) {
    const TOKEN_INTS w = CONCAT(nearest_int_, TOKEN_VECTOR)(scores[t], inverse);
    sum += w;
    *(TOKEN_SHORTS*)(to + t * TOKEN_VECTOR) = CONCAT(convert_short, TOKEN_VECTOR)(w);
  }
  const int int_sum = CONCAT(sum_int_, TOKEN_VECTOR)(sum);
  return int_sum > 0 ? weight_sum / (float)int_sum : weight_sum;
}
#define WEIGH(N)                                                                                                       \
  short weights[N][PARTITION];                                                                                         \
  float weight_sums[N], largest_weights[N], unit[N];                                                                   \
  for (int q = 0; q < N; q++) {                                                                                        \
    totals[q] = weigh(scores[q], at, first_group, groups, largests[q], weight_sums + q, largest_weights + q);          \
  }                                                                                                                    \
  for (int q = 0; q < N; q++) {                                                                                        \
    unit[q] = quantise_weights(scores[q], first_group, groups, weight_sums[q], largest_weights[q], weights[q]);        \
  }

#define VALUE_SUMS CONCAT(int, HEAD_VECTOR)
#define VALUE(sum, q) (CONCAT(convert_, HEAD_FLOATS)(sum) * unit[q])
#define PART_LINES(PARTS) (((PARTS) * HEAD_VECTOR * 4 + 63) / 64)  // cache lines of a pair of tokens' V
// A pair of tokens at a time. What nobody sees of them has weight 0.
#define ADD_VALUES(N, PARTS)                                                                                           \
  for (int group = first_group; group < groups; group++) {                                                             \
    __global const int* values = (__global const int*)(at[group] + KV_HALF_BYTES + KV_SCALE_BYTES);                    \
    __global const uchar* ahead = after_values(at, group, groups) + KV_SCALE_BYTES + part * HEAD_VECTOR * 4;           \
    for (int pair = 0; pair < KV_GROUP / 2; pair++) {                                                                  \
      EACH(line, PART_LINES(PARTS)) ASK_FOR_KV(ahead + pair * HEAD_SIZE * 4 + 64 * line);                              \
      VALUE_SUMS v[PARTS];                                                                                             \
      EACH(p, PARTS) {                                                                                                 \
        v[p] = CONCAT(vload, HEAD_VECTOR)(0, values + pair * HEAD_SIZE + min(part + p, HEAD_PARTS - 1) * HEAD_VECTOR); \
      }                                                                                                                \
      EACH(q, N) {                                                                                                     \
        EACH(p, PARTS) sum[p][q] = add_products(sum[p][q], v[p], weights[q] + group * KV_GROUP + 2 * pair);            \
      }                                                                                                                \
    }                                                                                                                  \
  }
